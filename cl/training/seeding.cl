/* Starts of the LBG algorithm: D^2 sampling (Arthur and Vassilvitskii, "k-means++", 2007) and splitting (Linde, Buzo
 * and Gray, 1980).
 *
 * Constants: P, Q, C, ALIGNED, DEEP, WEIGHTED (training/block.h); RUN: blocks per total; LARGEST: of components. The host
 * bounds weighted sums of squared distances by 2^63.
 */
#include "training/block.h"
#include "common/kmeans_plus_plus.h"

#define COLUMNS (K + 1)
#define EQUAL 0 /* modes of vq_seed_distances */
#define ANEW 1
#define LOWER 2
#define DRAWING 1 /* purpose of random numbers */

/* Squared distances to the nearest codeword so far, and their weighted sums over runs of RUN blocks.
 *
 * NDRange: 1-D, ceil(count / RUN) work-items rounded up to whole groups of any size. codebook: K a codeword.
 * indices: count ushort, each block's nearest of the newest codewords, which are those from `first` on. mode: EQUAL
 * (all distances are 1), ANEW or LOWER. nearest: count squares_t. totals: ulong, written from `run0` on.
 */
__kernel void vq_seed_distances(__global const value_t *blocks, const uint count, __global const uint *weights,
                                __global const value_t *codebook, const uint first, __global const ushort *indices,
                                const uint mode, __global squares_t *nearest, __global ulong *totals, const uint run0)
{
    const uint run = get_global_id(0);
    if (run * RUN >= count)
        return;
    ulong total = 0;
    for (uint which = run * RUN; which < min((run + 1) * RUN, count); ++which) {
        squares_t best = 1;
        if (mode != EQUAL) {
            best = row_distance(blocks, which, codebook, first + indices[which]);
            if (mode == LOWER)
                best = min(best, nearest[which]);
        }
        nearest[which] = best;
        total += (ulong)best * block_weight(weights, which);
    }
    totals[run0 + run] = total;
}

/* Running sums in place.
 *
 * NDRange: one group of any size. totals: runs ulong. Local memory: one ulong per work-item.
 */
__kernel void vq_seed_scan(__global ulong *totals, const uint runs, __local ulong *sums)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint share = (runs + lanes - 1) / lanes;
    const uint end = min((lane + 1) * share, runs);
    ulong sum = 0;
    for (uint run = lane * share; run < end; ++run)
        sum += totals[run];
    sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong before = 0;
    for (uint i = 0; i < lane; ++i)
        before += sums[i];
    for (uint run = lane * share; run < end; ++run) {
        before += totals[run];
        totals[run] = before;
    }
}

/* Draws codewords among the blocks of a piece, each with a chance in proportion to its weighted distance.
 *
 * NDRange: 1-D, number work-items rounded up to whole groups of any size. totals: runs ulong, running sums, those of
 * the piece from run0 to run1. codebook: `made` codewords are there, `number` are drawn; where all distances are 0, the
 * first codeword again.
 */
__kernel void vq_seed_draw(__global const value_t *blocks, const uint count, __global const uint *weights,
                           __global const squares_t *nearest, __global const ulong *totals, const uint run0,
                           const uint run1, const uint runs, const uint2 key, const uint made, const uint number,
                           __global value_t *codebook)
{
    const uint draw = get_global_id(0);
    if (draw >= number)
        return;
    const ulong all = totals[runs - 1];
    ulong rest = drawn_below(all, (uint4)(made + draw, 0, 0, DRAWING), key);
    __global value_t *codeword = codebook + (size_t)(made + draw) * K;
    if (all == 0) {
        for (uint k = 0; k < K; ++k)
            codeword[k] = codebook[k];
        return;
    }
    const uint low = first_above(totals, runs, rest);
    if (low < run0 || low >= run1)
        return;
    if (low > 0)
        rest -= totals[low - 1];
    uint which = (low - run0) * RUN;
    for (;; ++which) {
        const ulong distance = (ulong)nearest[which] * block_weight(weights, which);
        if (distance > rest)
            break;
        rest -= distance;
    }
    for (uint k = 0; k < K; ++k)
        codeword[k] = blocks[(size_t)which * K + k];
}

/* Doubles the `added` heaviest codewords, the lowest index on ties: each has a new one beside it, of components larger
 * by one.
 *
 * NDRange: 1-D, size work-items rounded up to whole groups of any size. totals: size x (K + 1) ulong, the last column
 * weights. doubled: size + added codewords of K components.
 */
__kernel void vq_split(__global const value_t *codebook, __global const ulong *totals, const uint size,
                       const uint added, __global value_t *doubled)
{
    const uint j = get_global_id(0);
    if (j >= size)
        return;
    const ulong own = totals[(size_t)j * COLUMNS + K];
    uint rank = 0;
    for (uint i = 0; i < size; ++i) {
        const ulong other = totals[(size_t)i * COLUMNS + K];
        rank += other > own || (other == own && i < j);
    }
    for (uint k = 0; k < K; ++k) {
        const value_t value = codebook[(size_t)j * K + k];
        const value_t kept = rank < added ? min(value, (value_t)(LARGEST - 1)) : value;
        doubled[(size_t)j * K + k] = kept;
        if (rank < added)
            doubled[(size_t)(size + rank) * K + k] = kept + 1;
    }
}
