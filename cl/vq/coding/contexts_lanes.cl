/* The bins of distances of vq/coding/contexts.cl for CPUs, 16 codewords side by side in explicit vectors: the same bytes.
 *
 * The bin of a distance d between sides of n components is floor(2 log2((d + n) / n)). As floats, d + n and n have
 * exponents e and f and mantissas m and M, as whole numbers from 2^23 on; the bin is 2 (e - f) - 2 and one more for each
 * of M / sqrt(2), M and M sqrt(2), rounded up, that m reaches. All of it is exact, as d + n is below 2^24.
 *
 * Constants: BUCKET (a multiple of 16), MOST_BUCKETS (vq/coding/buckets.h).
 */
#include "vq/coding/buckets.h"

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
