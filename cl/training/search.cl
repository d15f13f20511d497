/* The VQ encoder (Gray, "Vector Quantization", 1984; Manohar et al., "On GPU Acceleration of the Vector Quantization
 * Image Compression Algorithm", Algorithms 1, 3 and 4): the nearest codeword of every block, the lowest index on ties.
 *
 * |x - c|^2 = |x|^2 - (2 x.c - |c|^2), so the nearest codeword has the largest score 2 x.c - |c|^2. The sum starts at
 * -|c|^2 >= -65025 K, every term 2 x_k c_k is non-negative, and it ends at |x|^2 - |x - c|^2 <= 65025 K. All partial
 * sums are therefore integers of magnitude at most 65025 K: exact in fp32 for K <= 258 (below 2^24), and in 32-bit
 * integers for every K allowed here (K <= 2048). The host asserts both. Components of 16 bits stay below 2^45.
 *
 * Constants: P, Q, C (block rows, block columns, channels), ALIGNED (training/block.h), INDEX (uchar or ushort), BLOCKS
 * (blocks a work-item, or in vq_encode_wide a group), TILE (codewords in local memory), EXCLUDING (1: a codeword of the
 * block's own is passed over, so that the second nearest is found), ARITHMETIC (one of these):
 */
#define FLOATS 0   /* fp32, K <= 258 */
#define INTEGERS 1 /* 32-bit integers */
#define LONGS 2    /* 64-bit sums of 32-bit integers, for components of 16 bits */

#include "training/block.h"

#define REGISTER_WORDS 16

#if ARITHMETIC == FLOATS
typedef float4 word_t;
typedef float score_t;
#define LOWEST (-3.0e7f)
#define WORD_OF(packed) (2.0f * convert_float4(UNPACKED(packed)))
#define FACTOR(component) (component)
#else
typedef int4 word_t;
#define WORD_OF(packed) (2 * convert_int4(UNPACKED(packed)))
#if ARITHMETIC == LONGS
typedef long score_t;
#define LOWEST LONG_MIN
#define FACTOR(component) ((long)(component))
#else
typedef int score_t;
#define LOWEST INT_MIN
#define FACTOR(component) (component)
#endif
#endif

inline score_t add_word(score_t sum, word_t x, word_t c)
{
    sum = sum + FACTOR(x.x) * c.x;
    sum = sum + FACTOR(x.y) * c.y;
    sum = sum + FACTOR(x.z) * c.z;
    return sum + FACTOR(x.w) * c.w;
}

/* The codeword that a block is not to be given, and whether codeword j may be its. */
inline uint passed_by(__global const INDEX *own, uint which)
{
#if EXCLUDING
    return own[which];
#else
    return 0;
#endif
}

inline bool is_allowed(uint j, uint passed)
{
#if EXCLUDING
    return j != passed;
#else
    return true;
#endif
}

#if WORDS <= REGISTER_WORDS

/* Nearest codewords, blocks held in registers.
 *
 * NDRange: 1-D, ceil(count / BLOCKS) work-items rounded up to whole groups of any size.
 * image: height x width x C components. columns: blocks in a block row. count: blocks. codebook: padded x WORDS word_t
 * and bias: padded score_t, -|c|^2, the last ones perhaps zeros with a bias below every score (-2^24 in fp32, -2^30 in
 * integers, -2^62 in 64 bits). indices: written from offset to offset + count. own: count INDEX, read only with
 * EXCLUDING.
 * Local memory: tile TILE * WORDS word_t, tile_bias TILE score_t.
 */
__kernel void vq_encode(__global const value_t *image, const uint height, const uint width, const uint columns,
                        const uint count, __global const word_t *codebook, __global const score_t *bias,
                        const uint padded, __global INDEX *indices, const uint offset, __global const INDEX *own,
                        __local word_t *tile, __local score_t *tile_bias)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint first = get_group_id(0) * lanes * BLOCKS + lane;
    word_t block[BLOCKS][WORDS];
    score_t best[BLOCKS];
    uint index[BLOCKS];
    uint passed[BLOCKS];
#pragma unroll
    for (uint b = 0; b < BLOCKS; ++b) {
        const uint which = min(first + b * lanes, count - 1);
        best[b] = LOWEST;
        index[b] = 0;
        passed[b] = passed_by(own, which);
#pragma unroll
        for (uint w = 0; w < WORDS; ++w)
            block[b][w] = WORD_OF(block_word(image, height, width, which / columns, which % columns, w));
    }
    for (uint start = 0; start < padded; start += TILE) {
        const uint held = min((uint)TILE, padded - start);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint w = lane; w < held * WORDS; w += lanes)
            tile[w] = codebook[(size_t)start * WORDS + w];
        for (uint j = lane; j < held; j += lanes)
            tile_bias[j] = bias[start + j];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < held; ++j) {
            const score_t start_score = tile_bias[j];
            score_t sum[BLOCKS];
#pragma unroll
            for (uint b = 0; b < BLOCKS; ++b)
                sum[b] = start_score;
#pragma unroll
            for (uint w = 0; w < WORDS; ++w) {
                const word_t codeword = tile[j * WORDS + w];
#pragma unroll
                for (uint b = 0; b < BLOCKS; ++b)
                    sum[b] = add_word(sum[b], block[b][w], codeword);
            }
#pragma unroll
            for (uint b = 0; b < BLOCKS; ++b) {
                const bool better = sum[b] > best[b] && is_allowed(start + j, passed[b]);
                best[b] = better ? sum[b] : best[b];
                index[b] = better ? start + j : index[b];
            }
        }
    }
#pragma unroll
    for (uint b = 0; b < BLOCKS; ++b)
        if (first + b * lanes < count)
            indices[offset + first + b * lanes] = (INDEX)index[b];
}

#else

/* Nearest codewords of blocks too large for registers: a group searches for BLOCKS blocks, held in local memory, and
 * its work-items share the codewords out among themselves.
 *
 * NDRange: 1-D, ceil(count / BLOCKS) whole groups of any size. Buffers as in vq_encode, but codebook is WORDS x padded
 * word_t.
 * Local memory: held BLOCKS * WORDS word_t; scores and places, one score_t and uint per work-item.
 */
__kernel void vq_encode_wide(__global const value_t *image, const uint height, const uint width, const uint columns,
                             const uint count, __global const word_t *codebook, __global const score_t *bias,
                             const uint padded, __global INDEX *indices, const uint offset, __global const INDEX *own,
                             __local word_t *held, __local score_t *scores, __local uint *places)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint first = get_group_id(0) * BLOCKS;
    for (uint item = lane; item < BLOCKS * WORDS; item += lanes) {
        const uint which = min(first + item / WORDS, count - 1);
        held[item] = WORD_OF(block_word(image, height, width, which / columns, which % columns, item % WORDS));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    score_t best[BLOCKS];
    uint index[BLOCKS];
#pragma unroll
    for (uint b = 0; b < BLOCKS; ++b) {
        best[b] = LOWEST;
        index[b] = 0;
    }
    for (uint j = lane; j < padded; j += lanes) {
        const score_t start_score = bias[j];
        score_t sum[BLOCKS];
#pragma unroll
        for (uint b = 0; b < BLOCKS; ++b)
            sum[b] = start_score;
#pragma unroll 2
        for (uint w = 0; w < WORDS; ++w) {
            const word_t codeword = codebook[(size_t)w * padded + j];
#pragma unroll
            for (uint b = 0; b < BLOCKS; ++b)
                sum[b] = add_word(sum[b], held[b * WORDS + w], codeword);
        }
#pragma unroll
        for (uint b = 0; b < BLOCKS; ++b) {
            const bool better = sum[b] > best[b] && is_allowed(j, passed_by(own, min(first + b, count - 1)));
            best[b] = better ? sum[b] : best[b];
            index[b] = better ? j : index[b];
        }
    }
#pragma unroll
    for (uint b = 0; b < BLOCKS; ++b) {
        scores[lane] = best[b];
        places[lane] = index[b];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0) {
            for (uint i = 1; i < lanes; ++i)
                if (scores[i] > best[b] || (scores[i] == best[b] && places[i] < index[b])) {
                    best[b] = scores[i];
                    index[b] = places[i];
                }
            if (first + b < count)
                indices[offset + first + b] = (INDEX)index[b];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
