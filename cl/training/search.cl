/* The VQ encoder (Gray, "Vector Quantization", 1984; Manohar et al., "On GPU Acceleration of the Vector Quantization
 * Image Compression Algorithm", Algorithms 1, 3 and 4): the nearest codeword of every block, the lowest index on ties.
 *
 * Constants: P, Q, C, ALIGNED, DEEP, EXCLUDING (training/scores.h), INDEX (uchar or ushort), BLOCKS (blocks a work-item,
 * or in vq_encode_wide a group), TILE (codewords in local memory).
 */
#include "training/scores.h"

#define REGISTER_WORDS 16

#if FLOATS
typedef float4 word_t;
#define CONVERT convert_float4
#else
typedef int4 word_t;
#define CONVERT convert_int4
#endif
#define WORD_OF(packed) (2 * CONVERT(UNPACKED(packed)))

inline score_t add_word(score_t sum, word_t x, word_t c)
{
    sum = sum + (score_t)x.x * c.x;
    sum = sum + (score_t)x.y * c.y;
    sum = sum + (score_t)x.z * c.z;
    return sum + (score_t)x.w * c.w;
}

#if WORDS <= REGISTER_WORDS

/* Nearest codewords, blocks held in registers.
 *
 * NDRange: 1-D, ceil(count / BLOCKS) work-items rounded up to whole groups of any size.
 * image: height x width x C components. columns: blocks in a block row. count: blocks. codebook: padded x WORDS word_t
 * and bias: padded score_t, -|c|^2, the last ones perhaps zeros with the bias LOSES. indices: written from offset to
 * offset + count. own: count INDEX, the codewords that blocks pass over, read only with EXCLUDING.
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
        passed[b] = EXCLUDING ? own[which] : 0;
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
                const bool better = sum[b] > best[b] && IS_ALLOWED(start + j, passed[b]);
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
            const bool better = sum[b] > best[b] && IS_ALLOWED(j, own[min(first + b, count - 1)]);
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
