/* Sums of the blocks of each codeword, in three forms. Included by vq/lloyd.cl, which describes what is shared.
 *
 * Constants: FOR_CPUS, whether there is the kernel for CPUs or those for GPUs; those of vq/lloyd.cl.
 */
#define HALVES (1 + WEIGHTED)
#define COLUMNS (K + 1)

#if FOR_CPUS
/* The same sums for CPUs:every work-item adds a stretch of the blocks to a table of its own, without atomics.
 *
 * NDRange: 1-D, `parts` work-items, any group. share: blocks per work-item. Other buffers as in vq_accumulate.
 */
__kernel void vq_accumulate_parts(__global const uchar *blocks, __global const ushort *indices, const uint count,
                                  __global const ushort *weights, __global uint *sums, const uint share,
                                  const uint capacity)
{
    const uint part = get_global_id(0);
    const size_t high = (size_t)capacity * COLUMNS;
    __global uint *table = sums + part * high * HALVES;
    for (uint which = part * share; which < min((part + 1) * share, count); ++which) {
        __global const uchar *block = blocks + (size_t)which * K;
        __global uint *row = table + (size_t)indices[which] * COLUMNS;
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
#else
/* Sums of the blocks of each codeword.
 *
 * NDRange: 1-D, count * K work-items rounded up to whole groups of any size; count at most 2^22, so that sums of bytes
 * stay below 2^30 (with WEIGHTED below 2^32: products below 2^20 are added as two halves of 10 bits).
 * blocks: count x K bytes. indices: count ushort. weights: count ushort (unused without WEIGHTED). sums: added to.
 * share: for vq_accumulate_parts alone.
 */
__kernel void vq_accumulate(__global const uchar *blocks, __global const ushort *indices, const uint count,
                            __global const ushort *weights, __global uint *sums, const uint share, const uint capacity)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / K);
    const uint k = (uint)(item % K);
    if (which >= count)
        return;
    const uint value = blocks[item];
    const size_t row = (size_t)indices[which] * COLUMNS;
#if WEIGHTED
    const size_t high = (size_t)capacity * COLUMNS;
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

/* The same sums for GPUs, where K is a multiple of 4 and blocks have no weights: groups add up in local memory first.
 *
 * NDRange: 1-D, whole groups of any size, `slices` of them for each stretch of `share` blocks, each for `words` words of
 * every codeword. size: codewords. Local memory: table, capacity x (4 * words + 1) uint, the last ones for weights.
 */
__kernel void vq_accumulate_local(__global const uchar *blocks, __global const ushort *indices, const uint count,
                                  __global uint *sums, const uint share, const uint size, const uint slices,
                                  const uint words, __local uint *table)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint stretch = get_group_id(0) / slices;
    const uint first_word = get_group_id(0) % slices * words;
    const uint width = 4 * words + 1;
    for (uint i = lane; i < size * width; i += lanes)
        table[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint begin = min(stretch * share, count);
    const uint items = (min(begin + share, count) - begin) * words;
    for (uint i = lane; i < items; i += lanes) {
        const uint which = begin + i / words;
        const uint w = first_word + i % words;
        if (w >= WORDS)
            continue;
        const uchar4 value = ((__global const uchar4 *)blocks)[(size_t)which * WORDS + w];
        __local uint *row = table + indices[which] * width;
        __local uint *sum = row + 4 * (w - first_word);
        atomic_add(&sum[0], (uint)value.x);
        atomic_add(&sum[1], (uint)value.y);
        atomic_add(&sum[2], (uint)value.z);
        atomic_add(&sum[3], (uint)value.w);
        if (w == 0)
            atomic_add(&row[width - 1], 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lane; i < size * width; i += lanes) {
        const uint column = i % width < width - 1 ? 4 * first_word + i % width : K;
        const uint sum = table[i];
        if (sum > 0)
            atomic_add(&sums[(size_t)(i / width) * COLUMNS + column], sum);
    }
}
#endif
