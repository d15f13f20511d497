/* The search for CPUs: LANES blocks side by side in explicit vectors; the same indices as training/search.cl, by the
 * same score 2 x.c - |c|^2 and under the same bounds (see there).
 *
 * Bytes are taken from words in little-endian order; the host asks for that.
 *
 * Products and sums are written `a * b + c`, which compilers may fuse: every partial sum is exact either way.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h), INDEX, VECTORS (vectors of LANES blocks per work-item), SPAN
 * (codewords at once), EXCLUDING (as in training/search.cl), ARITHMETIC (FLOATS for K <= 258, LONGS with DEEP, else
 * INTEGERS).
 */
#define FLOATS 0
#define INTEGERS 1
#define LONGS 2

#include "training/block.h"

#define LANES 16

#if ARITHMETIC == FLOATS
typedef float score_t, number_t;
typedef float16 scores_t;
typedef float16 operands_t;
#define WIDENED(operands) (operands)
#define LOWEST (-3.0e7f)
typedef int16 better_t;
#define PLACES(places) (places)
#define CONVERT convert_float16
#elif ARITHMETIC == LONGS
typedef long score_t;
typedef int number_t;
typedef long16 scores_t;
typedef int16 operands_t;
#define WIDENED(operands) convert_long16(operands)
typedef long16 better_t;
#define PLACES(places) convert_long16(places)
#define LOWEST LONG_MIN
#define CONVERT convert_int16
#else
typedef int score_t, number_t;
typedef int16 scores_t;
typedef int16 operands_t;
#define WIDENED(operands) (operands)
typedef int16 better_t;
#define PLACES(places) (places)
#define LOWEST INT_MIN
#define CONVERT convert_int16
#endif

#if K <= 16
#define UNROLL_COMPONENTS _Pragma("unroll")
#else
#define UNROLL_COMPONENTS _Pragma("nounroll")
#endif

/* Nearest codewords of LANES * VECTORS blocks per work-item.
 *
 * NDRange: 1-D, ceil(count / (LANES * VECTORS)) work-items rounded up to whole groups of any size.
 * image, height, width, columns, count, indices, offset, own: as in vq_encode. codebook: padded x K float or int, and
 * bias: padded score_t, -|c|^2, both padded to a multiple of SPAN codewords with zeros and a bias below every score.
 */
__kernel void vq_encode_lanes(__global const value_t *image, const uint height, const uint width, const uint columns,
                              const uint count, __global const number_t *codebook, __global const score_t *bias,
                              const uint padded, __global INDEX *indices, const uint offset, __global const INDEX *own)
{
    const uint first = get_global_id(0) * LANES * VECTORS;
    if (first >= count)
        return;
    operands_t block[VECTORS][4 * WORDS];
    scores_t best[VECTORS];
    better_t index[VECTORS];
#if EXCLUDING
    better_t passed[VECTORS];
#endif
#pragma unroll
    for (uint v = 0; v < VECTORS; ++v) {
        best[v] = (scores_t)(LOWEST);
        index[v] = (better_t)(0);
        uint row[LANES], column[LANES];
        for (uint l = 0; l < LANES; ++l) {
            const uint which = min(first + v * LANES + l, count - 1);
            row[l] = which / columns;
            column[l] = which % columns;
        }
#if EXCLUDING
        int excluded[LANES];
        for (uint l = 0; l < LANES; ++l)
            excluded[l] = own[min(first + v * LANES + l, count - 1)];
        passed[v] = PLACES(vload16(0, excluded));
#endif
#pragma nounroll
        for (uint w = 0; w < WORDS; ++w) {
            packed_t words[LANES];
#pragma unroll
            for (uint l = 0; l < LANES; ++l)
                words[l] = block_word(image, height, width, row[l], column[l], w);
#if DEEP
            const ulong16 packed = vload16(0, words);
#pragma unroll
            for (uint k = 0; k < 4; ++k)
                block[v][4 * w + k] = 2 * CONVERT(packed >> (16 * k) & 0xffff);
#else
            const uint16 packed = vload16(0, words);
#pragma unroll
            for (uint k = 0; k < 4; ++k)
                block[v][4 * w + k] = 2 * CONVERT(packed >> (8 * k) & 255);
#endif
        }
    }
    for (uint start = 0; start < padded; start += SPAN) {
        scores_t sum[VECTORS][SPAN];
#pragma unroll
        for (uint s = 0; s < SPAN; ++s)
#pragma unroll
            for (uint v = 0; v < VECTORS; ++v)
                sum[v][s] = (scores_t)(bias[start + s]);
        UNROLL_COMPONENTS
        for (uint k = 0; k < K; ++k)
#pragma unroll
            for (uint s = 0; s < SPAN; ++s) {
                const score_t component = codebook[(size_t)(start + s) * K + k];
#pragma unroll
                for (uint v = 0; v < VECTORS; ++v)
                    sum[v][s] = WIDENED(block[v][k]) * component + sum[v][s];
            }
#pragma unroll
        for (uint s = 0; s < SPAN; ++s)
#pragma unroll
            for (uint v = 0; v < VECTORS; ++v) {
#if EXCLUDING
                const better_t better = (sum[v][s] > best[v]) & (passed[v] != (better_t)(start + s));
#else
                const better_t better = sum[v][s] > best[v];
#endif
                best[v] = better ? sum[v][s] : best[v];
                index[v] = better ? (better_t)(start + s) : index[v];
            }
    }
#pragma unroll
    for (uint v = 0; v < VECTORS; ++v) {
        int out[LANES];
        vstore16(convert_int16(index[v]), 0, out);
        for (uint l = 0; l < LANES; ++l)
            if (first + v * LANES + l < count)
                indices[offset + first + v * LANES + l] = (INDEX)out[l];
    }
}
