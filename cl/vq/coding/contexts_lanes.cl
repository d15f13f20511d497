/* The tables of contexts of vq/coding/contexts.cl for CPUs, 16 codewords side by side in explicit vectors: the same bytes.
 *
 * The bin of a distance d between sides of n components is floor(2 log2((d + n) / n)). As floats, d + n and n have
 * exponents e and f and mantissas m and M, as whole numbers from 2^23 on; the bin is 2 (e - f) - 2 and one more for each
 * of M / sqrt(2), M and M sqrt(2), rounded up, that m reaches. All of it is exact, as d + n is below 2^24.
 *
 * Constants: BUCKET (a multiple of 16), MOST_BUCKETS (vq/coding/buckets.h).
 */
#include "vq/coding/contexts.h"

/* Bins of distances.
 *
 * NDRange: 2-D, (ceil(size / 16), ceil(groups / part)), rounded up to whole groups of any size. own: side x STRIDE bytes,
 * component after component, zeros behind the last codeword. others: groups x side bytes. thresholds: what mantissas
 * must reach, less 2^23, and in w the bin that is added to twice the exponent. part: groups of a work-item. bins: groups
 * x STRIDE bytes.
 */
__kernel void vq_side_bins_lanes(__global const uchar16 *own, __global const uchar *others, const uint side,
                                 const int4 thresholds, const uint groups, const uint part, __global uchar16 *bins)
{
    const uint vector = get_global_id(0);
    const uint first = get_global_id(1) * part;
    if (vector >= STRIDE / 16 || first >= groups)
        return;
    for (uint g = first; g < min(first + part, groups); ++g) {
        int16 sum = (int)side;
        for (uint k = 0; k < side; ++k) {
            const uchar16 a = own[k * (STRIDE / 16) + vector];
            const uchar16 b = (uchar16)others[g * side + k];
            const ushort16 difference = convert_ushort16(max(a, b) - min(a, b));
            sum += convert_int16(difference * difference);
        }
        const int16 bits = as_int16(convert_float16(sum));
        const int16 mantissa = bits & 0x7fffff;
        const int16 reached = (mantissa >= thresholds.x) + (mantissa >= thresholds.y) + (mantissa >= thresholds.z);
        bins[(size_t)g * (STRIDE / 16) + vector] = convert_uchar16(2 * (bits >> 23) + thresholds.w - reached);
    }
}

/* The weights of the logarithms v - rare of 16 codewords, 0 where there is no codeword. */
inline uint16 weights_of(uchar16 v, uchar16 rare)
{
    const uint16 left = convert_uint16(v - min(v, rare));
    return (8 | (left & 7)) << (left >> 3) >> 3;
}

/* Values of codewords and of buckets, as vq_side_values.
 *
 * NDRange: 2-D, (buckets, ceil((groups + 1) / part)), rounded up to whole groups of any size. part: groups of a
 * work-item. bins, curve, rarity, size, groups, is_above, values, buckets: as in vq_side_values.
 */
__kernel void vq_side_values_lanes(__global const uchar *bins, __global const uchar *curve,
                                   __global const uchar *rarity, const uint size, const uint groups,
                                   const uint is_above, const uint part, __global uchar *values,
                                   __global uchar *buckets)
{
    const uint b = get_global_id(0);
    const uint first = get_global_id(1) * part;
    if (b >= buckets_of(size) || first > groups)
        return;
    const uint members = min((uint)BUCKET, size - b * BUCKET);
    uchar16 rare[BUCKET / 16], rarer[BUCKET / 16];
    uint whole = 0;
    for (uint i = 0; i < BUCKET; i += 16) {
        uchar own[16];
        for (uint k = 0; k < 16; ++k)
            own[k] = i + k < members ? rarity[b * BUCKET + i + k] : 0;
        rare[i / 16] = vload16(0, own);
        rarer[i / 16] = add_sat(rare[i / 16], (uchar16)LEAST);
        const uint16 highest = weights_of((uchar16)HIGHEST, rarer[i / 16]);
        whole += sum_of_16(select((uint16)0, highest, PLACES < (uint16)(max(members, i) - i)));
    }
    for (uint g = first; g < min(first + part, groups + 1); ++g) {
        const size_t at = (size_t)g * STRIDE + b * BUCKET;
        uint16 sums = 0;
        for (uint i = 0; i < BUCKET; i += 16) {
            uchar of_bins[16];
            for (uint k = 0; k < 16; ++k)
                of_bins[k] = g < groups ? curve[bins[at + i + k] & (BINS - 1)] : NO_NEIGHBOUR;
            const uchar16 value = vload16(0, of_bins);
            const uint16 weights = weights_of(value, rarer[i / 16]);
            sums += select((uint16)0, weights, PLACES < (uint16)(max(members, i) - i));
            vstore16(is_above ? value - min(value, rare[i / 16]) : value, 0, values + at + i);
        }
        const uint sum = sum_of_16(sums);
        const uint mean = is_above ? log_of(max(sum / members, 1u)) + LEAST : HIGHEST + log_of(sum) - log_of(whole);
        buckets[g * BUCKET_STRIDE + b] = (uchar)mean;
    }
}
