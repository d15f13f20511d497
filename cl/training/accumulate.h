/* Sums of the blocks of each codeword, in two forms. Included by training/lloyd.cl, which describes what is shared.
 *
 * Constants: FOR_CPUS, whether there is the kernel for CPUs or the portable one; those of training/lloyd.cl.
 */
#if WEIGHTED || DEEP
#define HALVES 2
#define LOW_BITS (DEEP ? 14 : 10)
#define LOW(product) ((product) & ((1u << LOW_BITS) - 1))
#else
#define HALVES 1
#endif
#define COLUMNS (K + 1)

inline uint weight_of(__global const ushort *weights, uint which)
{
#if WEIGHTED
    return weights[which];
#else
    return 1;
#endif
}

#if FOR_CPUS
/* The same sums for CPUs: every work-item adds a stretch of the blocks to a table of its own, without atomics.
 *
 * NDRange: 1-D, `parts` work-items, any group. share: blocks per work-item. Other buffers as in vq_accumulate.
 */
__kernel void vq_accumulate_parts(__global const value_t *blocks, __global const ushort *indices, const uint count,
                                  __global const ushort *weights, __global uint *sums, const uint share,
                                  const uint capacity)
{
    const uint part = get_global_id(0);
    const size_t high = (size_t)capacity * COLUMNS;
    __global uint *table = sums + part * high * HALVES;
    for (uint which = part * share; which < min((part + 1) * share, count); ++which) {
        __global const value_t *block = blocks + (size_t)which * K;
        __global uint *row = table + (size_t)indices[which] * COLUMNS;
#if HALVES == 2
        const uint weight = weight_of(weights, which);
        for (uint k = 0; k < K; ++k) {
            row[k] += LOW(block[k] * weight);
            row[high + k] += block[k] * weight >> LOW_BITS;
        }
        row[K] += LOW(weight);
        row[high + K] += weight >> LOW_BITS;
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
 * stay below 2^30. With WEIGHTED, products below 2^20 are added as two halves of 10 bits; with DEEP, products below 2^28
 * as two of 14 bits, of at most 2^18 blocks: sums stay below 2^32. blocks: count x K. indices: count ushort. weights: count ushort (unused without WEIGHTED). sums: added to.
 * share: for vq_accumulate_parts alone.
 */
__kernel void vq_accumulate(__global const value_t *blocks, __global const ushort *indices, const uint count,
                            __global const ushort *weights, __global uint *sums, const uint share, const uint capacity)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / K);
    const uint k = (uint)(item % K);
    if (which >= count)
        return;
    const uint value = blocks[item];
    const size_t row = (size_t)indices[which] * COLUMNS;
#if HALVES == 2
    const size_t high = (size_t)capacity * COLUMNS;
    const uint weight = weight_of(weights, which);
    atomic_add(&sums[row + k], LOW(value * weight));
    atomic_add(&sums[high + row + k], value * weight >> LOW_BITS);
    if (k == 0) {
        atomic_add(&sums[row + K], LOW(weight));
        atomic_add(&sums[high + row + K], weight >> LOW_BITS);
    }
#else
    atomic_add(&sums[row + k], value);
    if (k == 0)
        atomic_add(&sums[row + K], 1);
#endif
}
#endif
