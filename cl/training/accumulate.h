/* Sums of the blocks of each codeword, in two forms. Included by training/lloyd.cl, which describes what is shared.
 *
 * Constants: FOR_CPUS, whether there is the kernel for CPUs or the portable ones; those of training/lloyd.cl.
 */
#define COLUMNS (K + 1)
#define WIDE (WEIGHTED || DEEP) /* whether sums of a piece may exceed 32 bits */
#define LOW_BITS 14
#define LOW(sum) ((uint)(sum) & ((1u << LOW_BITS) - 1))
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
 * weights: count ushort (unused without WEIGHTED). sums: added to.
 */
__kernel void vq_accumulate_parts(__global const value_t *blocks, __global const ushort *indices, const uint count,
                                  __global const ushort *weights, __global sum_t *sums, const uint share,
                                  const uint capacity)
{
    const uint part = get_global_id(0);
    __global sum_t *table = sums + (size_t)part * capacity * COLUMNS;
    for (uint which = part * share; which < min((part + 1) * share, count); ++which) {
        __global const value_t *block = blocks + (size_t)which * K;
        __global sum_t *row = table + (size_t)indices[which] * COLUMNS;
        const uint weight = block_weight(weights, which);
        for (uint k = 0; k < K; ++k)
            row[k] += block[k] * weight;
        row[K] += weight;
    }
}
#else
/* Many blocks are sorted by their codewords first, by counting, so that each work-item adds up a run of them and atomics
 * are few. The order of a codeword's blocks is left to chance; sums do not depend on it.
 *
 * NDRange: 1-D, ceil(count / each) work-items rounded up to whole groups of any size. indices: count ushort. counts:
 * added to. ranks: count uint, how many blocks of the same codeword were counted before.
 * Local memory: own, `bins` uint; without bins, groups do not count by themselves first.
 */
__kernel void vq_count(__global const ushort *indices, const uint count, __global uint *counts, __global uint *ranks,
                       const uint each, const uint bins, __local uint *own)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint first = get_group_id(0) * lanes * each + lane;
    const uint end = min(first + lanes * each, count);
    for (uint j = lane; j < bins; j += lanes)
        own[j] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint which = first; which < end; which += lanes)
        ranks[which] = bins ? atomic_inc(&own[indices[which]]) : atomic_inc(&counts[indices[which]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = lane; j < bins; j += lanes)
        own[j] = own[j] ? atomic_add(&counts[j], own[j]) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint which = first; which < end && bins; which += lanes)
        ranks[which] += own[indices[which]];
}

/* Running sums of counts, without each one's own; counts are emptied.
 *
 * NDRange: one group of any size. counts, starts: capacity uint. Local memory: sums, one uint per work-item.
 */
__kernel void vq_starts(__global uint *counts, const uint capacity, __global uint *starts, __local uint *sums)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint share = (capacity + lanes - 1) / lanes;
    const uint end = min((lane + 1) * share, capacity);
    uint sum = 0;
    for (uint j = lane * share; j < end; ++j)
        sum += counts[j];
    sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint before = 0;
    for (uint i = 0; i < lane; ++i)
        before += sums[i];
    for (uint j = lane * share; j < end; ++j) {
        starts[j] = before;
        before += counts[j];
        counts[j] = 0;
    }
}

/* NDRange: 1-D, count work-items rounded up to whole groups of any size. order: count uint2, blocks and their codewords
 * in the order of codewords.
 */
__kernel void vq_order(__global const ushort *indices, const uint count, __global const uint *starts,
                       __global const uint *ranks, __global uint2 *order)
{
    const uint which = get_global_id(0);
    if (which >= count)
        return;
    const uint j = indices[which];
    order[starts[j] + ranks[which]] = (uint2)(which, j);
}

inline void add_sum(__global uint *sums, size_t place, size_t high, wide_t sum)
{
#if WIDE
    atomic_add(&sums[place], LOW(sum));
    atomic_add(&sums[high + place], (uint)(sum >> LOW_BITS));
#else
    atomic_add(&sums[place], sum);
#endif
}

#define AT_ONCE 8 /* blocks that a work-item reads before it adds them; divides RUN */

/* Sums of the blocks of each codeword.
 *
 * NDRange: 1-D, ceil(count / run) * WORDS work-items rounded up to whole groups of any size, each for four components
 * of `run` blocks: RUN in the order of codewords; or 1 by its own index, where there are at most 2^16. count: at most
 * 2^22, so that sums of bytes stay below 2^30; with WEIGHTED and DEEP 2^18. A codeword's WIDE sums of a run are added
 * as a low half of 14 bits, 2^16 times at most, and a high half below 2^32. sums: added to.
 */
__kernel void vq_accumulate(__global const value_t *blocks, __global const uint2 *order, __global const ushort *indices,
                            const uint count, const uint run, __global const ushort *weights, __global uint *sums,
                            const uint capacity)
{
    const size_t item = get_global_id(0);
    const uint w = item % WORDS;
    const size_t first = item / WORDS * run;
    if (first >= count)
        return;
    const uint end = min((uint)first + run, count);
    const size_t high = (size_t)capacity * COLUMNS;
    uint own = run == 1 ? indices[first] : order[first].y;
    wide_t sum[4] = {0, 0, 0, 0}, total = 0;
    for (uint i = (uint)first; i < end; i += AT_ONCE) {
        uint label[AT_ONCE], weight[AT_ONCE];
        values_t values[AT_ONCE];
#pragma unroll
        for (uint u = 0; u < AT_ONCE; ++u) {
            const uint2 entry = run == 1 ? (uint2)(i, own) : order[min(i + u, end - 1)];
            label[u] = entry.y;
            values[u] = row_word(blocks, entry.x, w);
            weight[u] = i + u < end ? block_weight(weights, entry.x) : 0;
        }
#pragma unroll
        for (uint u = 0; u < AT_ONCE; ++u) {
            if (label[u] != own) {
                for (uint c = 0; c < min(4u, K - 4 * w); ++c)
                    add_sum(sums, (size_t)own * COLUMNS + 4 * w + c, high, sum[c]);
                if (w == 0)
                    add_sum(sums, (size_t)own * COLUMNS + K, high, total);
                own = label[u];
                sum[0] = sum[1] = sum[2] = sum[3] = total = 0;
            }
            sum[0] += values[u].x * weight[u];
            sum[1] += values[u].y * weight[u];
            sum[2] += values[u].z * weight[u];
            sum[3] += values[u].w * weight[u];
            total += weight[u];
        }
    }
    for (uint c = 0; c < min(4u, K - 4 * w); ++c)
        add_sum(sums, (size_t)own * COLUMNS + 4 * w + c, high, sum[c]);
    if (w == 0)
        add_sum(sums, (size_t)own * COLUMNS + K, high, total);
}
#endif
