/* Sums of the blocks of each codeword, in two forms. Included by training/lloyd.cl, which describes what is shared.
 *
 * Constants: FOR_CPUS, whether there is the kernel for CPUs or the portable ones; those of training/lloyd.cl.
 */
#define COLUMNS (K + 1)
#define WIDE (WEIGHTED || DEEP) /* whether sums of a piece may exceed 32 bits */
#if WIDE
typedef ulong wide_t;
#else
typedef uint wide_t;
#endif
#if FOR_CPUS
typedef wide_t sum_t;
#define HALVES 1
#else
typedef uint sum_t;
#define HALVES (1 + WIDE)
#endif

#if FOR_CPUS
/* Every work-item adds a stretch of the blocks to a table of its own, without atomics.
 *
 * NDRange: 1-D, `parts` work-items, any group. share: blocks per work-item. blocks: count x K. indices: count ushort.
 * weights: count uint (unused without WEIGHTED). sums: added to.
 */
__kernel void vq_accumulate_parts(__global const value_t *blocks, __global const ushort *indices, const uint count,
                                  __global const uint *weights, __global sum_t *sums, const uint share,
                                  const uint capacity)
{
    const uint part = get_global_id(0);
    __global sum_t *table = sums + (size_t)part * capacity * COLUMNS;
    for (uint which = part * share; which < min((part + 1) * share, count); ++which) {
        __global const value_t *block = blocks + (size_t)which * K;
        __global sum_t *row = table + (size_t)indices[which] * COLUMNS;
        const uint weight = block_weight(weights, which);
        for (uint k = 0; k < K; ++k)
            row[k] += (wide_t)block[k] * weight;
        row[K] += weight;
    }
}
#else
#define MOST_SUMS 1
#include "common/compile_hints.h"
#include "common/group_sums.h"

#define RUN 16     /* blocks in the order of codewords that a work-item adds up */
#define AT_ONCE 8 /* blocks that it reads before it adds them; divides RUN */

inline void add_sum(__global uint *sums, size_t place, size_t high, wide_t sum)
{
#if WIDE
    const uint low = (uint)sum, before = atomic_add(&sums[place], low);
    atomic_add(&sums[high + place], (uint)(sum >> 32) + (before + low < before));
#else
    atomic_add(&sums[place], sum);
#endif
}

/* Adds what word w of a codeword's blocks adds up to, and with the first word their weight. */
inline void add_sums(__global uint *sums, uint codeword, size_t high, uint w, const wide_t *sum, wide_t weight)
{
    const size_t row = (size_t)codeword * COLUMNS;
    for (uint c = 0; c < min(4u, K - 4 * w); ++c)
        add_sum(sums, row + 4 * w + c, high, sum[c]);
    if (w == 0)
        add_sum(sums, row + K, high, weight);
}

/* Sums of the blocks of each codeword. A group sorts its blocks by their codewords, by counting, so that each work-item
 * adds up a run of them and atomics are few. Which of a codeword's blocks comes first is left to chance; sums do not
 * depend on it.
 *
 * NDRange: 1-D, groups of any size, each for `each` blocks per work-item. indices: count ushort. count: at most 2^22,
 * so that sums of bytes stay below 2^30. WIDE sums are added as a low half of 32 bits, whose carries go to a high half. sums:
 * added to. bins: capacity,
 * or 0 for blocks that are not sorted. Local memory: own, `bins` uint; ranks, a ushort per block of a group; order, a
 * uint per block; room, a ulong per work-item.
 */
__kernel void vq_accumulate(__global const value_t *blocks, __global const ushort *indices, const uint count,
                            __global const uint *weights, __global uint *sums, const uint capacity, const uint each,
                            const uint bins, __local uint *own, __local ushort *ranks, __local uint *order,
                            __local ulong *room)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint first = get_group_id(0) * lanes * each;
    const uint some = min(lanes * each, count - first);
    for (uint j = lane; j < bins; j += lanes)
        own[j] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lane; i < some && bins > 0; i += lanes)
        ranks[i] = (ushort)atomic_inc(&own[indices[first + i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    const Run run = own_run(bins);
    ulong all, before = 0;
    for (uint j = run.first; j < run.end; ++j)
        before += own[j];
    sum_before(&before, &all, 1, room);
    for (uint j = run.first; j < run.end; ++j) {
        const uint number = own[j];
        own[j] = (uint)before;
        before += number;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lane; i < some; i += lanes) {
        const uint j = indices[first + i];
        order[bins > 0 ? own[j] + ranks[i] : i] = j << 16 | i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const size_t high = (size_t)capacity * COLUMNS;
    for (uint item = lane; item < (some + RUN - 1) / RUN * WORDS; item += lanes) {
        const uint w = item % WORDS;
        const uint begin = item / WORDS * RUN;
        const uint end = min(begin + RUN, some);
        uint codeword = order[begin] >> 16;
        wide_t sum[4] = {0, 0, 0, 0}, total = 0;
        for (uint i = begin; i < end; i += AT_ONCE) {
            uint label[AT_ONCE], weight[AT_ONCE];
            values_t values[AT_ONCE];
#pragma unroll
            for (uint u = 0; u < AT_ONCE; ++u) {
                const uint entry = order[min(i + u, end - 1)], which = first + (entry & 0xffff);
                label[u] = entry >> 16;
                values[u] = row_word(blocks, which, w);
                weight[u] = i + u < end ? block_weight(weights, which) : 0;
            }
#pragma unroll
            for (uint u = 0; u < AT_ONCE; ++u) {
                if (label[u] != codeword) {
                    add_sums(sums, codeword, high, w, sum, total);
                    codeword = label[u];
                    sum[0] = sum[1] = sum[2] = sum[3] = total = 0;
                }
                sum[0] += (wide_t)values[u].x * weight[u];
                sum[1] += (wide_t)values[u].y * weight[u];
                sum[2] += (wide_t)values[u].z * weight[u];
                sum[3] += (wide_t)values[u].w * weight[u];
                total += weight[u];
            }
        }
        add_sums(sums, codeword, high, w, sum, total);
    }
}
#endif
