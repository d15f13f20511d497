/* Sums of the blocks of each codeword, in two forms. Included by training/lloyd.cl, which describes what is shared.
 *
 * Constants: FOR_CPUS, whether there is the kernel for CPUs or the portable one; those of training/lloyd.cl.
 */
#define HALVES (1 + WEIGHTED)
#define COLUMNS (K + 1)

#if FOR_CPUS
/* The same sums for CPUs: every work-item adds a stretch of the blocks to a table of its own, without atomics.
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
#endif
