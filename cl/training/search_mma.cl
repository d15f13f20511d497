/* The VQ encoder on NVIDIA tensor cores (compute capability 8.0 and up), through inline PTX; the same indices as
 * training/search.cl.
 *
 * mma.sync.m16n8k16 multiplies 16 blocks by 8 codewords over 16 unsigned bytes, exactly, into 32-bit integers. Score
 * and index become one key, (2 x.c - |c|^2) * SCALE + (SCALE - 1 - position), so that the largest key is the largest
 * score and then the lowest position in the tile of at most SCALE codewords. As |2 x.c - |c|^2| <= 65025 K
 * (training/search.cl), keys stay within 32 bits when (65025 K + 1) * SCALE < 2^31, which the host asserts; sums modulo 2^32
 * on the way are harmless.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h, 0), INDEX, TILES (16-block tiles a warp), TILE (codewords in local memory, a
 * multiple of 8 and at most SCALE), LOG_SCALE (SCALE = 1 << LOG_SCALE).
 */
#include "training/block.h"

#define SCALE (1 << LOG_SCALE)
#define CHUNKS ((K + 15) / 16)
#define CHUNK_WORDS 32 /* words of 8 codewords x 16 components */

inline int4 multiply(uint a0, uint a1, uint b, int4 c)
{
    int4 d;
    __asm__("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
            : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
            : "r"(a0), "r"(a1), "r"(b), "r"(c.x), "r"(c.y), "r"(c.z), "r"(c.w));
    return d;
}

inline int exchange(int value, int mask)
{
    int out;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(out) : "r"(value), "r"(mask));
    return out;
}

inline int key(int sum, int bias)
{
    return as_int((uint)sum * (2u * SCALE) + (uint)bias);
}

/* Nearest codewords, 16 * TILES blocks a warp.
 *
 * NDRange: 1-D, whole groups of a multiple of 32 work-items; a group of L work-items takes L / 2 * TILES blocks at a
 * time and strides over the rest, so any number of groups will do.
 * image, height, width, columns, count, indices: as in vq_encode. codebook: padded / 8 tiles of CHUNKS x 8 codewords x
 * 4 words of packed bytes, components past K zero. bias: padded ints, -|c|^2 * SCALE + SCALE - 1 - n % TILE, and
 * INT_MIN for the codewords that pad the codebook to a multiple of 8.
 * Local memory: tile TILE * CHUNKS * 4 uint, tile_bias TILE int.
 */
__kernel void vq_encode_mma(__global const uchar *image, const uint height, const uint width, const uint columns,
                            const uint count, __global const uint *codebook, __global const int *bias,
                            const uint padded, __global INDEX *indices, const uint offset, __local uint *tile,
                            __local int *tile_bias)
{
    const uint lanes = get_local_size(0);
    const uint lane = get_local_id(0) % 32;
    const uint group_blocks = lanes / 2 * TILES;
    bool loaded = false;
    for (uint set = get_group_id(0) * group_blocks; set < count; set += get_num_groups(0) * group_blocks) {
        const uint first = set + get_local_id(0) / 32 * 16 * TILES + lane / 4;
        uint block[TILES][CHUNKS][2];
        int best[TILES][2];
        uint index[TILES][2];
#pragma unroll
        for (uint t = 0; t < TILES; ++t)
#pragma unroll
            for (uint h = 0; h < 2; ++h) {
                const uint which = min(first + 16 * t + 8 * h, count - 1);
                best[t][h] = INT_MIN;
                index[t][h] = 0;
#pragma unroll
                for (uint c = 0; c < CHUNKS; ++c) {
                    const uint w = 4 * c + lane % 4;
                    block[t][c][h] =
                        w < WORDS ? block_word(image, height, width, which / columns, which % columns, w) : 0;
                }
            }
        for (uint start = 0; start < padded; start += TILE) {
            const uint held = min((uint)TILE, padded - start);
            if (!loaded || padded > TILE) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint w = get_local_id(0); w < held * CHUNKS; w += lanes)
                    vstore4(vload4((size_t)start * CHUNKS + w, codebook), w, tile);
                for (uint j = get_local_id(0); j < held; j += lanes)
                    tile_bias[j] = bias[start + j];
                barrier(CLK_LOCAL_MEM_FENCE);
                loaded = true;
            }
            int top[TILES][2];
#pragma unroll
            for (uint t = 0; t < TILES; ++t)
                top[t][0] = top[t][1] = INT_MIN;
#pragma unroll 4
            for (uint n = 0; n < held; n += 8) {
                const int2 base = vload2(n / 2 + lane % 4, tile_bias);
                int4 sum[TILES];
#pragma unroll
                for (uint t = 0; t < TILES; ++t)
                    sum[t] = (int4)(0);
#pragma unroll
                for (uint c = 0; c < CHUNKS; ++c) {
                    const uint codewords = tile[(n / 8 * CHUNKS + c) * CHUNK_WORDS + lane];
#pragma unroll
                    for (uint t = 0; t < TILES; ++t)
                        sum[t] = multiply(block[t][c][0], block[t][c][1], codewords, sum[t]);
                }
#pragma unroll
                for (uint t = 0; t < TILES; ++t) {
                    top[t][0] = max(top[t][0], max(key(sum[t].x, base.x), key(sum[t].y, base.y)));
                    top[t][1] = max(top[t][1], max(key(sum[t].z, base.x), key(sum[t].w, base.y)));
                }
            }
#pragma unroll
            for (uint t = 0; t < TILES; ++t)
#pragma unroll
                for (uint h = 0; h < 2; ++h) {
                    const bool better = top[t][h] >> LOG_SCALE > best[t][h];
                    index[t][h] = better ? start + SCALE - 1 - (top[t][h] & (SCALE - 1)) : index[t][h];
                    best[t][h] = better ? top[t][h] >> LOG_SCALE : best[t][h];
                }
        }
#pragma unroll
        for (uint t = 0; t < TILES; ++t)
#pragma unroll
            for (uint h = 0; h < 2; ++h) {
#pragma unroll
                for (int mask = 1; mask < 4; mask *= 2) {
                    const int other = exchange(best[t][h], mask);
                    const uint where = exchange(index[t][h], mask);
                    const bool better = other > best[t][h] || (other == best[t][h] && where < index[t][h]);
                    best[t][h] = better ? other : best[t][h];
                    index[t][h] = better ? where : index[t][h];
                }
                const uint which = first + 16 * t + 8 * h;
                if (lane % 4 == 0 && which < count)
                    indices[offset + which] = (INDEX)index[t][h];
            }
    }
}
