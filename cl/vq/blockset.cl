/* Training of VQ codebooks: blocks as rows, distances, integer sums of clusters (Linde, Buzo and Gray, "An Algorithm
 * for Vector Quantizer Design", 1980), and the distances of D^2 sampling (Arthur and Vassilvitskii, "k-means++", 2007).
 *
 * Constants: P, Q, C, ALIGNED (vq/block.h), INDEX (uchar or ushort), WEIGHTED (whether blocks carry weights of
 * 0..4095), RUN (blocks a work-item of vq_seed).
 * Squared distances are at most 65025 K < 2^26 for K <= 1024.
 */
#include "vq/block.h"

/* Blocks of a picture as rows.
 *
 * NDRange: 1-D, count * WORDS work-items rounded up to whole groups of any size. image: height x width x C bytes.
 * columns: blocks in a block row. blocks: count x K bytes, written.
 */
__kernel void vq_blocks(__global const uchar *image, const uint height, const uint width, const uint columns,
                        const uint count, __global uchar *blocks)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / WORDS);
    const uint w = (uint)(item % WORDS);
    if (which >= count)
        return;
    for (uint k = 4 * w; k < min(4 * w + 4, (uint)K); ++k)
        blocks[(size_t)which * K + k] = block_component(image, height, width, which / columns, which % columns, k);
}

/* Sums of the blocks of each codeword.
 *
 * NDRange: 1-D, count * K work-items rounded up to whole groups of any size; count at most 2^22, so that sums of bytes
 * stay below 2^30 (with WEIGHTED below 2^32: products below 2^20 are added as two halves of 10 bits).
 * blocks: count x K bytes. indices: count INDEX. weights: count ushort (unused without WEIGHTED). sums: N x (K + 1)
 * uint (with WEIGHTED twice as many: low halves, then high halves), the last column counts; added to.
 */
__kernel void vq_accumulate(__global const uchar *blocks, __global const INDEX *indices, const uint count,
                            __global const ushort *weights, const uint size, __global uint *sums)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / K);
    const uint k = (uint)(item % K);
    if (which >= count)
        return;
    const uint value = blocks[item];
    const size_t row = (size_t)indices[which] * (K + 1);
#if WEIGHTED
    const size_t high = (size_t)size * (K + 1);
    const uint weight = weights[which];
    atomic_add(&sums[row + k], value * weight & 1023);
    atomic_add(&sums[high + row + k], value * weight >> 10);
    if (k == 0) {
        atomic_add(&sums[row + K], weight & 1023);
        atomic_add(&sums[high + row + K], weight >> 10);
    }
#else
    atomic_add(&sums[row + k], value);
    if (k == 0)
        atomic_add(&sums[row + K], 1);
#endif
}

/* The same sums for CPUs: every work-item adds a stretch of the blocks to a table of its own, without atomics.
 *
 * NDRange: 1-D, one work-item per table, any group. share: blocks a work-item. Other buffers as in vq_accumulate, but
 * sums has one such table per work-item; they are added on the host.
 */
__kernel void vq_accumulate_parts(__global const uchar *blocks, __global const INDEX *indices, const uint count,
                                  __global const ushort *weights, const uint size, __global uint *sums,
                                  const uint share)
{
    const uint part = get_global_id(0);
    const size_t high = (size_t)size * (K + 1);
    __global uint *table = sums + part * high * (WEIGHTED ? 2 : 1);
    for (uint which = part * share; which < min((part + 1) * share, count); ++which) {
        __global const uchar *block = blocks + (size_t)which * K;
        __global uint *row = table + (size_t)indices[which] * (K + 1);
#if WEIGHTED
        const uint weight = weights[which];
        for (uint k = 0; k < K; ++k) {
            row[k] += block[k] * weight & 1023;
            row[high + k] += block[k] * weight >> 10;
        }
        row[K] += weight & 1023;
        row[high + K] += weight >> 10;
#else
        for (uint k = 0; k < K; ++k)
            row[k] += block[k];
        row[K] += 1;
#endif
    }
}

inline uint distance(__global const uchar *block, __global const uchar *codeword)
{
    uint sum = 0;
    for (uint k = 0; k < K; ++k) {
        const int difference = (int)block[k] - (int)codeword[k];
        sum += (uint)(difference * difference);
    }
    return sum;
}

/* Squared distance of every block to the codeword of its index.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. codebook: N x K bytes. distances: count uint.
 */
__kernel void vq_distances(__global const uchar *blocks, __global const INDEX *indices, const uint count,
                           __global const uchar *codebook, __global uint *distances)
{
    const uint which = get_global_id(0);
    if (which < count)
        distances[which] = distance(blocks + (size_t)which * K, codebook + (size_t)indices[which] * K);
}

/* Distances to the nearest of the codewords drawn so far, and their weighted sums over runs of RUN blocks.
 *
 * NDRange: 1-D, ceil(count / RUN) work-items rounded up to whole groups of any size. drawn: number x K bytes, the new
 * codewords. nearest: count uint, lowered where a new codeword is nearer. totals: ceil(count / RUN) ulong; at most
 * RUN * 2^12 * 2^26 < 2^64.
 */
__kernel void vq_seed(__global const uchar *blocks, const uint count, __global const ushort *weights,
                      __global const uchar *drawn, const uint number, __global uint *nearest, __global ulong *totals)
{
    const uint run = get_global_id(0);
    if (run * RUN >= count)
        return;
    ulong total = 0;
    for (uint which = run * RUN; which < min((run + 1) * RUN, count); ++which) {
        uint best = nearest[which];
        for (uint n = 0; n < number && best > 0; ++n)
            best = min(best, distance(blocks + (size_t)which * K, drawn + (size_t)n * K));
        nearest[which] = best;
#if WEIGHTED
        total += (ulong)best * weights[which];
#else
        total += best;
#endif
    }
    totals[run] = total;
}
