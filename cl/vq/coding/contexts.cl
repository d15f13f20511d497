/* The contexts of .clvq indices (docs/clvq-format.md): how well every codeword continues a neighbour, from the squared
 * distance of the sides that meet (after side-match VQ: T. Kim, "Side match and overlap match vector quantizers for
 * images", 1992).
 *
 * Neighbours come in groups of codewords, most often of one. Codewords are cut into buckets of BUCKET each, at most
 * MOST_BUCKETS; the last may have fewer. Rows of tables have STRIDE = MOST_BUCKETS * BUCKET bytes.
 *
 * Constants: BUCKET, MOST_BUCKETS (vq/coding/buckets.h).
 */
#include "vq/coding/buckets.h"

#define BINS 32
#define NO_NEIGHBOUR 170
#define HIGHEST 211
#define LEAST 32 /* of the logarithms that buckets are averaged from, so that 256 weights add up to less than 2^32 */

/* The logarithm of a number from 1 on, in eighths of a bit. */
inline uint log_of(uint n)
{
    const uint top = 31 - clz(n);
    return 8 * top + ((top >= 3 ? n >> (top - 3) : n << (3 - top)) & 7);
}

/* a - b, or 0 if that is negative; both below 2^31. In signed numbers, as Oclgrind has no saturating subtraction, which
 * its compiler makes of a comparison of unsigned ones.
 */
inline uint reduced(uint a, uint b)
{
    return (uint)max((int)a - (int)b, 0);
}

/* The bin of the distance between the sides of codewords and of groups.
 *
 * NDRange: 2-D, (size, groups), rounded up to whole work-groups of any size. own: size x side bytes, the side of every
 * codeword that meets the neighbour. others: groups x side bytes, the neighbours' sides. bounds: BINS - 1 uint, the
 * least distance of each bin from 1 on, ascending; distances are at most 65025 * 128 < 2^23. bins: groups x STRIDE
 * bytes.
 */
__kernel void vq_side_bins(__global const uchar *own, __global const uchar *others, const uint side,
                           __global const uint *bounds, const uint size, const uint groups, __global uchar *bins)
{
    const uint j = get_global_id(0);
    const uint g = get_global_id(1);
    if (j >= size || g >= groups)
        return;
    __global const uchar *a = own + (size_t)j * side;
    __global const uchar *b = others + (size_t)g * side;
    uint distance = 0;
    for (uint k = 0; k < side; ++k) {
        const int difference = (int)a[k] - (int)b[k];
        distance += (uint)(difference * difference);
    }
    uint bin = 0;
#pragma unroll
    for (uint step = BINS / 2; step; step /= 2)
        bin += distance >= bounds[bin + step - 1] ? step : 0;
    bins[(size_t)g * STRIDE + j] = (uchar)bin;
}

/* Values of codewords and of buckets from the bins.
 *
 * NDRange: 2-D, (buckets, groups + 1), rounded up to whole work-groups of any size. bins: as above. curve: BINS bytes,
 * each at most HIGHEST. rarity: size bytes. is_above: whether values are less by the codeword's rarity; else it is only
 * by how much a codeword counts less than the others of its bucket. values: (groups + 1) x STRIDE bytes; buckets:
 * (groups + 1) x BUCKET_STRIDE bytes; the last row of each stands for no neighbour.
 */
__kernel void vq_side_values(__global const uchar *bins, __global const uchar *curve, __global const uchar *rarity,
                             const uint size, const uint groups, const uint is_above, __global uchar *values,
                             __global uchar *buckets)
{
    const uint b = get_global_id(0);
    const uint g = get_global_id(1);
    if (b >= buckets_of(size) || g > groups)
        return;
    const size_t at = (size_t)g * STRIDE + b * BUCKET;
    const uint members = min((uint)BUCKET, size - b * BUCKET);
    uint sum = 0, whole = 0; /* of weights below 2^23.5, at most 256 */
    for (uint i = 0; i < members; ++i) {
        const uint value = g < groups ? curve[bins[at + i]] : NO_NEIGHBOUR;
        const uint rare = LEAST + rarity[b * BUCKET + i];
        sum += weight_of(reduced(value, rare));
        whole += weight_of(reduced(HIGHEST, rare));
        values[at + i] = (uchar)(is_above ? reduced(value + LEAST, rare) : value);
    }
    const uint mean = is_above ? log_of(max(sum / members, 1u)) + LEAST : HIGHEST + log_of(sum) - log_of(whole);
    buckets[g * BUCKET_STRIDE + b] = (uchar)mean;
}

/* The ranges of buckets for every pair of neighbours, from the weights of all their codewords.
 *
 * NDRange: 2-D, (groups + 1, groups + 1), rounded up to whole work-groups of any size: to the left, above. above, left,
 * size, groups: as above; size at most 2^11, so that the sum of all weights stays below 2^32. begins: (groups + 1) x
 * (groups + 1) x PAIR_STRIDE ushort, by the group above, the group to the left and the bucket: where its range begins,
 * TOTAL where there is no bucket.
 */
__kernel void vq_pair_buckets(__global const uchar *above, __global const uchar *left, const uint size,
                              const uint groups, __global ushort *begins)
{
    const uint b = get_global_id(0);
    const uint a = get_global_id(1);
    if (a > groups || b > groups)
        return;
    __global const uchar *row_above = above + (size_t)a * STRIDE, *row_left = left + (size_t)b * STRIDE;
    uint before[MOST_BUCKETS];
    const uint buckets = buckets_of(size);
    uint sum = 0;
    for (uint bucket = 0; bucket < buckets; ++bucket) {
        before[bucket] = sum;
        const uint first = bucket * BUCKET;
        sum += sum_of_weights(row_above + first, row_left + first, min((uint)BUCKET, size - first));
    }
    const Spread spread = spread_of(sum, buckets);
    for (uint bucket = 0; bucket < buckets; ++bucket)
        begins[((size_t)a * (groups + 1) + b) * PAIR_STRIDE + bucket] =
            (ushort)spread_to(spread, before[bucket], bucket);
    for (uint bucket = buckets; bucket < PAIR_STRIDE; ++bucket)
        begins[((size_t)a * (groups + 1) + b) * PAIR_STRIDE + bucket] = TOTAL;
}

/* What codewords weigh in sums over all of 65536 of them: below 15 * 2^12 each, so these stay below 2^32. */
inline uint small_weight(__global const uchar *curves, uint bin_above, uint bin_left, uint rarity)
{
    const uint above = curves[bin_above];
    return joint_weight((uchar)reduced(above, rarity), curves[BINS + bin_left]) >> 5;
}

/* What blocks of a sample have beside them, and what the model expects there.
 *
 * NDRange: 1-D, ceil(count / part) work-items rounded up to whole groups of any size; count at most 2^16. part: blocks
 * of a work-item. pairs: count x 3 ushort: the group above, the group to the left, the codeword. above_bins, left_bins:
 * of vq_side_bins. curves: 2 x BINS bytes, above and left. rarity: size bytes. spreads: count uint2, written: the
 * Spread of the block's small weights. counted: 4 x BINS + 1 uint, added to: how many codewords were in each bin, above
 * and left; the sums of the probabilities of each bin in 1/2^15, at most 2^31; what the blocks cost in eighths of a
 * bit. Local memory: room, 4 x BINS uint per work-item.
 */
__kernel void vq_sample_bins(__global const ushort *pairs, const uint count, const uint size, const uint part,
                             __global const uchar *above_bins, __global const uchar *left_bins,
                             __global const uchar *curves, __global const uchar *rarity, __global uint2 *spreads,
                             __global uint *counted, __local uint *room)
{
    const uint begin = get_global_id(0) * part;
    if (begin >= count)
        return;
    __local uint *weights = room + 4 * BINS * get_local_id(0), *expected = weights + 2 * BINS;
    uint bits = 0;
    for (uint i = 0; i < 2 * BINS; ++i)
        expected[i] = 0;
    for (uint which = begin; which < min(begin + part, count); ++which) {
        __global const uchar *above = above_bins + (size_t)pairs[3 * which] * STRIDE;
        __global const uchar *left = left_bins + (size_t)pairs[3 * which + 1] * STRIDE;
        const uint codeword = pairs[3 * which + 2];
        for (uint i = 0; i < 2 * BINS; ++i)
            weights[i] = 0;
        for (uint j = 0; j < size; ++j) {
            const uint weight = small_weight(curves, above[j], left[j], rarity[j]);
            weights[above[j]] += weight;
            weights[BINS + left[j]] += weight;
        }
        uint sum = 0;
        for (uint i = 0; i < BINS; ++i)
            sum += weights[i];
        const Spread spread = spread_of(max(sum, 1u), 0);
        spreads[which] = (uint2)(spread.top, spread.ratio);
        for (uint i = 0; i < 2 * BINS; ++i)
            expected[i] += spread_to(spread, weights[i], 0);
        atomic_inc(counted + above[codeword]);
        atomic_inc(counted + BINS + left[codeword]);
        const uint own = small_weight(curves, above[codeword], left[codeword], rarity[codeword]);
        bits += 8 * TOTAL_BITS + 1 - log_of(spread_to(spread, own, 1));
    }
    for (uint i = 0; i < 2 * BINS; ++i)
        if (expected[i])
            atomic_add(counted + 2 * BINS + i, expected[i]);
    atomic_add(counted + 4 * BINS, bits);
}

/* How often the model expects every codeword in parts of a sample.
 *
 * NDRange: 2-D, (ceil(size / SIDE_BY_SIDE), ceil(count / part)), rounded up to whole groups of any size. part: blocks
 * of a part. pairs, count, above_bins, left_bins, curves, rarity, spreads: as in vq_sample_bins. expected: parts x size
 * uint, written: in 1/2^15, at most 2^31.
 */
#define SIDE_BY_SIDE 16
__kernel void vq_sample_codewords(__global const ushort *pairs, const uint count, const uint size, const uint part,
                                  __global const uchar *above_bins, __global const uchar *left_bins,
                                  __global const uchar *curves, __global const uchar *rarity,
                                  __global const uint2 *spreads, __global uint *expected)
{
    const uint first = get_global_id(0) * SIDE_BY_SIDE;
    const uint begin = get_global_id(1) * part;
    if (first >= size || begin >= count)
        return;
    const uint own = min((uint)SIDE_BY_SIDE, size - first);
    uint total[SIDE_BY_SIDE];
    for (uint i = 0; i < SIDE_BY_SIDE; ++i)
        total[i] = 0;
    for (uint which = begin; which < min(begin + part, count); ++which) {
        __global const uchar *above = above_bins + (size_t)pairs[3 * which] * STRIDE + first;
        __global const uchar *left = left_bins + (size_t)pairs[3 * which + 1] * STRIDE + first;
        const Spread spread = {spreads[which].x, spreads[which].y};
        for (uint i = 0; i < own; ++i)
            total[i] += spread_to(spread, small_weight(curves, above[i], left[i], rarity[first + i]), 0);
    }
    for (uint i = 0; i < own; ++i)
        expected[(size_t)get_global_id(1) * size + first + i] = total[i];
}
