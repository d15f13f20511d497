/* The VQ encoder on NVIDIA tensor cores (compute capability 8.0 and up), through inline PTX; the same indices as
 * training/search.cl.
 *
 * mma.sync multiplies 16 blocks by 8 codewords over 16 or 32 unsigned bytes, exactly, into 32-bit integers.
 *
 * Bytes: score and index become one key, (2 x.c - |c|^2) * SCALE + (SCALE - 1 - position), so that the largest key is
 * the largest score and then the lowest position in the tile of at most SCALE codewords. As |2 x.c - |c|^2| <= 65025 K
 * (training/scores.h), keys stay within 32 bits when (65025 K + 1) * SCALE < 2^31, which the host asserts; sums modulo
 * 2^32 on the way are harmless.
 *
 * DEEP: components are two bytes each, x = 256 h + l, so that x.c = 2^16 HIGH + 2^8 MIDDLE + LOW of three sums of byte
 * products, each at most 2 * 65025 K < 2^31. A score takes 64 bits; it is made only where its upper bits may win: with
 * a = HIGH + ((MIDDLE + (LOW >> 8)) >> 8) + (-|c|^2 >> 17), the score is below 2^17 (a + 2 + 1/256), so that one which
 * exceeds 2^17 f has a >= f - 2.
 *
 * Constants: P, Q, C, ALIGNED, DEEP, EXCLUDING (training/scores.h), INDEX, TILES (16-block tiles a warp), TILE
 * (codewords in local memory, a multiple of 8 and for bytes at most SCALE), LOG_SCALE (SCALE = 1 << LOG_SCALE), UNROLL
 * (steps of 8 codewords).
 */
#define TENSORS 1
#include "training/scores.h"

#define SCALE (1 << LOG_SCALE)
#define CHUNKS ((K + 15) / 16)
#if CHUNKS % 4 == 0
#define VECTOR 4 /* chunks of a codeword that a work-item reads at once */
typedef uint4 vector_t;
#elif CHUNKS % 2 == 0
#define VECTOR 2
typedef uint2 vector_t;
#else
#define VECTOR 1
typedef uint vector_t;
#endif
#define VECTORS (CHUNKS / VECTOR)
#if DEEP
#define LIMBS 2
typedef long2 biases_t;
#else
#define LIMBS 1
typedef int2 biases_t;
#endif

/* What a block has found so far. */
typedef struct {
    score_t score;
    uint index, passed;
    int bound;
} Best;

inline int4 multiply16(uint a0, uint a1, uint b, int4 c)
{
    int4 d;
    __asm__("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
            : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
            : "r"(a0), "r"(a1), "r"(b), "r"(c.x), "r"(c.y), "r"(c.z), "r"(c.w));
    return d;
}

inline int4 multiply32(uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, int4 c)
{
    int4 d;
    __asm__("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
            "%12, %13};"
            : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c.x), "r"(c.y), "r"(c.z), "r"(c.w));
    return d;
}

/* The product of VECTOR chunks of blocks, each of two rows, with those of codewords, added to a sum. */
inline int4 multiply(uint (*block)[2], vector_t words, int4 sum)
{
#if VECTOR == 4
    sum = multiply32(block[0][0], block[0][1], block[1][0], block[1][1], words.x, words.y, sum);
    return multiply32(block[2][0], block[2][1], block[3][0], block[3][1], words.z, words.w, sum);
#elif VECTOR == 2
    return multiply32(block[0][0], block[0][1], block[1][0], block[1][1], words.x, words.y, sum);
#else
    return multiply16(block[0][0], block[0][1], words, sum);
#endif
}

inline int exchange(int value, int mask)
{
    int out;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(out) : "r"(value), "r"(mask));
    return out;
}

inline score_t exchange_score(score_t value, int mask)
{
#if DEEP
    const int2 halves = as_int2(value);
    return as_long((int2)(exchange(halves.x, mask), exchange(halves.y, mask)));
#else
    return exchange(value, mask);
#endif
}

#if DEEP
/* Keeps a score if it is the best so far, and the bound that upper bits of better ones exceed. */
inline void keep(int bits, int high, int middle, int low, int top, long bias, uint j, Best *best)
{
    if (bits <= best->bound)
        return;
    const long score = 2 * (((long)(high - top) << 16) + ((long)middle << 8) + low) + bias;
    if (score > best->score && IS_ALLOWED(j, best->passed)) {
        best->score = score;
        best->index = j;
        best->bound = (int)(score >> 17) - 3;
    }
}
#else
inline int key(int sum, int bias, uint j, uint passed)
{
    if (!IS_ALLOWED(j, passed))
        return INT_MIN;
    return as_int((uint)sum * (2u * SCALE) + (uint)bias);
}
#endif

/* Nearest codewords, 16 * TILES blocks a warp.
 *
 * NDRange: 1-D, whole groups of a multiple of 32 work-items; a group of L work-items takes L / 2 * TILES blocks at a
 * time and strides over the rest, so any number of groups will do.
 * image, height, width, columns, count, indices, own: as in vq_encode. codebook: padded / 8 tiles of LIMBS x VECTORS x
 * 8 codewords x 4 x VECTOR words of packed bytes, low bytes first, components past K zero. bias: padded score_t; of
 * bytes -|c|^2 * SCALE + SCALE - 1 - n % TILE, with DEEP -|c|^2; and LOSES for the codewords that pad the codebook to a
 * multiple of 8.
 * Local memory: tile TILE * LIMBS * CHUNKS uint4, tile_bias TILE score_t.
 */
__kernel void vq_encode_mma(__global const value_t *image, const uint height, const uint width, const uint columns,
                            const uint count, __global const uint4 *codebook, __global const score_t *bias,
                            const uint padded, __global INDEX *indices, const uint offset, __global const INDEX *own,
                            __local uint4 *tile, __local biases_t *tile_bias)
{
    const uint lanes = get_local_size(0);
    const uint lane = get_local_id(0) % 32;
    const uint group_blocks = lanes / 2 * TILES;
    __local const vector_t *words = (__local const vector_t *)tile;
    bool loaded = false;
    for (uint set = get_group_id(0) * group_blocks; set < count; set += get_num_groups(0) * group_blocks) {
        const uint first = set + get_local_id(0) / 32 * 16 * TILES + lane / 4;
        uint block[TILES][LIMBS][CHUNKS][2];
        Best best[TILES][2];
#pragma unroll
        for (uint t = 0; t < TILES; ++t)
#pragma unroll
            for (uint h = 0; h < 2; ++h) {
                const uint which = min(first + 16 * t + 8 * h, count - 1);
                best[t][h] = (Best){LOWEST, 0, EXCLUDING ? own[which] : 0, INT_MIN};
#pragma unroll
                for (uint c = 0; c < CHUNKS; ++c) {
                    const uint w = 4 * c + lane % 4;
                    const packed_t packed =
                        w < WORDS ? block_word(image, height, width, which / columns, which % columns, w) : 0;
#if DEEP
                    const uchar8 bytes = as_uchar8(packed);
                    block[t][0][c][h] = as_uint(bytes.s0246);
                    block[t][1][c][h] = as_uint(bytes.s1357);
#else
                    block[t][0][c][h] = packed;
#endif
                }
            }
        for (uint start = 0; start < padded; start += TILE) {
            const uint held = min((uint)TILE, padded - start);
            if (!loaded || padded > TILE) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint w = get_local_id(0); w < held * LIMBS * CHUNKS; w += lanes)
                    tile[w] = codebook[(size_t)start * LIMBS * CHUNKS + w];
                for (uint j = get_local_id(0); j < held; j += lanes)
                    ((__local score_t *)tile_bias)[j] = bias[start + j];
                barrier(CLK_LOCAL_MEM_FENCE);
                loaded = true;
            }
#if DEEP
#pragma unroll UNROLL
            for (uint n = 0; n < held; n += 8) {
                const uint j = start + n + 2 * (lane % 4);
                const long2 base = tile_bias[n / 2 + lane % 4];
                const int2 top = (int2)((int)(base.x >> 17), (int)(base.y >> 17));
                int4 high[TILES], middle[TILES], low[TILES];
#pragma unroll
                for (uint t = 0; t < TILES; ++t) {
                    high[t] = top.xyxy;
                    middle[t] = low[t] = (int4)(0);
                }
#pragma unroll
                for (uint v = 0; v < VECTORS; ++v) {
                    const vector_t below = words[(n / 8 * 2 * VECTORS + v) * 32 + lane];
                    const vector_t above = words[((n / 8 * 2 + 1) * VECTORS + v) * 32 + lane];
#pragma unroll
                    for (uint t = 0; t < TILES; ++t) {
                        high[t] = multiply(block[t][1] + v * VECTOR, above, high[t]);
                        low[t] = multiply(block[t][0] + v * VECTOR, below, low[t]);
                        middle[t] = multiply(block[t][1] + v * VECTOR, below, middle[t]);
                        middle[t] = multiply(block[t][0] + v * VECTOR, above, middle[t]);
                    }
                }
#pragma unroll
                for (uint t = 0; t < TILES; ++t) {
                    const int4 bits = high[t] + ((middle[t] + (low[t] >> 8)) >> 8); /* the upper ones of scores */
                    if (max(bits.x, bits.y) > best[t][0].bound) {
                        keep(bits.x, high[t].x, middle[t].x, low[t].x, top.x, base.x, j, &best[t][0]);
                        keep(bits.y, high[t].y, middle[t].y, low[t].y, top.y, base.y, j + 1, &best[t][0]);
                    }
                    if (max(bits.z, bits.w) > best[t][1].bound) {
                        keep(bits.z, high[t].z, middle[t].z, low[t].z, top.x, base.x, j, &best[t][1]);
                        keep(bits.w, high[t].w, middle[t].w, low[t].w, top.y, base.y, j + 1, &best[t][1]);
                    }
                }
            }
            /* The work-items of a row share the bound. */
#pragma unroll
            for (uint t = 0; t < TILES; ++t)
#pragma unroll
                for (uint h = 0; h < 2; ++h) {
                    best[t][h].bound = max(best[t][h].bound, exchange(best[t][h].bound, 1));
                    best[t][h].bound = max(best[t][h].bound, exchange(best[t][h].bound, 2));
                }
#else
            int top[TILES][2];
#pragma unroll
            for (uint t = 0; t < TILES; ++t)
                top[t][0] = top[t][1] = INT_MIN;
#pragma unroll UNROLL
            for (uint n = 0; n < held; n += 8) {
                const uint j = start + n + 2 * (lane % 4);
                const int2 base = tile_bias[n / 2 + lane % 4];
                int4 sum[TILES];
#pragma unroll
                for (uint t = 0; t < TILES; ++t)
                    sum[t] = (int4)(0);
#pragma unroll
                for (uint v = 0; v < VECTORS; ++v) {
                    const vector_t codewords = words[(n / 8 * VECTORS + v) * 32 + lane];
#pragma unroll
                    for (uint t = 0; t < TILES; ++t)
                        sum[t] = multiply(block[t][0] + v * VECTOR, codewords, sum[t]);
                }
#pragma unroll
                for (uint t = 0; t < TILES; ++t) {
                    const uint not0 = best[t][0].passed, not1 = best[t][1].passed;
                    top[t][0] = max(top[t][0], max(key(sum[t].x, base.x, j, not0), key(sum[t].y, base.y, j + 1, not0)));
                    top[t][1] = max(top[t][1], max(key(sum[t].z, base.x, j, not1), key(sum[t].w, base.y, j + 1, not1)));
                }
            }
#pragma unroll
            for (uint t = 0; t < TILES; ++t)
#pragma unroll
                for (uint h = 0; h < 2; ++h) {
                    const bool better = top[t][h] >> LOG_SCALE > best[t][h].score;
                    best[t][h].index = better ? start + SCALE - 1 - (top[t][h] & (SCALE - 1)) : best[t][h].index;
                    best[t][h].score = better ? top[t][h] >> LOG_SCALE : best[t][h].score;
                }
#endif
        }
#pragma unroll
        for (uint t = 0; t < TILES; ++t)
#pragma unroll
            for (uint h = 0; h < 2; ++h) {
#pragma unroll
                for (int mask = 1; mask < 4; mask *= 2) {
                    const score_t other = exchange_score(best[t][h].score, mask);
                    const uint where = exchange(best[t][h].index, mask);
                    const bool better =
                        other > best[t][h].score || (other == best[t][h].score && where < best[t][h].index);
                    best[t][h].score = better ? other : best[t][h].score;
                    best[t][h].index = better ? where : best[t][h].index;
                }
                const uint which = first + 16 * t + 8 * h;
                if (lane % 4 == 0 && which < count)
                    indices[offset + which] = (INDEX)best[t][h].index;
            }
    }
}
