/* What the forms of the VQ encoder read of a codebook: its codewords as their numbers in their order, and their biases.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h); LAYOUT (below); WIDTH (components of a codeword with its padding);
 * KEEPS (whether the codewords are copied as well); and for FRAGMENTS, TILE and LOG_SCALE of training/search_mma.cl.
 */
#define ROWS 0 /* codewords one after the other: padded x WIDTH */
#define WORDWISE 1 /* WIDTH / 4 x padded x 4 */
#define FRAGMENTS 2 /* bytes as a warp reads them: padded / 8 x limbs x WIDTH / (16 VECTOR) x 8 x 4 x VECTOR x 4 */
#define TENSORS (LAYOUT == FRAGMENTS)
#include "training/scores.h"

#if TENSORS
typedef uchar operand_t;
#else
typedef number_t operand_t;
#endif
#define CHUNKS (WIDTH / 16)
#define VECTOR (CHUNKS % 4 == 0 ? 4 : CHUNKS % 2 == 0 ? 2 : 1)

inline size_t operand_place(uint n, uint k, uint padded)
{
#if LAYOUT == ROWS
    return (size_t)n * WIDTH + k;
#elif LAYOUT == WORDWISE
    return ((size_t)(k / 4) * padded + n) * 4 + k % 4;
#else
    const uint chunk = k / 16;
    const size_t vector = (size_t)(n / 8) * (1 + DEEP) * (CHUNKS / VECTOR) + chunk / VECTOR;
    return ((vector * 32 + n % 8 * 4 + k % 16 / 4) * VECTOR + chunk % VECTOR) * 4 + k % 4;
#endif
}

inline score_t bias_of(uint n, squares_t norm)
{
#if TENSORS && !DEEP
    const uint scale = 1u << LOG_SCALE;
    return as_int(scale - 1 - n % TILE - (uint)norm * scale);
#else
    return -(score_t)norm;
#endif
}

/* Operands and biases of codewords, padded with zeros that never win.
 *
 * NDRange: 1-D, padded * ceil(WIDTH / 4) work-items rounded up to whole groups of any size, each for four components.
 * codebook: K components a codeword, read from codeword `first` on. size: codewords; padded: with padding. operands:
 * padded * WIDTH operand_t. biases: padded score_t. kept (only with KEEPS): size x K, the codewords again.
 */
__kernel void vq_operands(__global const value_t *codebook, const uint first, const uint size, const uint padded,
                          __global operand_t *operands, __global score_t *biases, __global value_t *kept)
{
    const uint n = get_global_id(0) / ((WIDTH + 3) / 4);
    const uint w = get_global_id(0) % ((WIDTH + 3) / 4);
    if (n >= padded)
        return;
    for (uint k = 4 * w; k < min(4 * w + 4, (uint)WIDTH); ++k) {
        int value = 0;
        if (n < size && k < K) {
            value = codebook[(size_t)(first + n) * K + k];
#if KEEPS
            kept[(size_t)n * K + k] = (value_t)value;
#endif
        }
        operands[operand_place(n, k, padded)] = (operand_t)value;
#if TENSORS && DEEP
        operands[operand_place(n, k, padded) + 8 * WIDTH] = (operand_t)(value >> 8);
#endif
    }
    if (w == 0)
        biases[n] = n < size ? bias_of(n, squared_length(codebook, first + n)) : LOSES;
}
