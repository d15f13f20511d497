/* Rounds of swaps: what kmeans/swaps.cl, which has the sources, and kmeans/swaps_warps.h share.
 *
 * PLACE: the address space of what the centers are compared by; FOUR: the vector at a multiple of four floats.
 */
#ifndef FOUR
#define FOUR(place) vload4(0, place)
#endif

/* The axis along which center j's points differ most, ties to the lowest. totals (STATS, k). */
int widest_axis(__global const ulong *totals, uint k, uint j)
{
    ulong squared[DIMS];
    for (int d = 0; d < DIMS; d++)
        squared[d] = TOTAL(totals, k, 1 + DIMS + d, j);
    int axis = 0;
    ulong widest = squared[0];
    for (int d = 1; d < DIMS; d++) {
        axis = squared[d] > widest ? d : axis;
        widest = max(widest, squared[d]);
    }
    return axis;
}

/* Puts center `taker` one standard deviation of center `giver`, rounded down and at least 1, above it along its widest
 * axis, and `giver` as far below, both within 0..extents. */
void split_center(__global const ulong *totals, uint k, uint k_stride, int4 extents, uint giver, uint taker,
                  CENTERS float *centers)
{
    const int axis = widest_axis(totals, k, giver);
    const uint deviation = integer_root((uint)(TOTAL(totals, k, 1 + DIMS + axis, giver) / TOTAL(totals, k, 0, giver)));
    const int extent[4] = {extents.x, extents.y, extents.z, extents.w};
    float mean[DIMS];
    for (int d = 0; d < DIMS; d++)
        mean[d] = centers[d * k_stride + giver];
    for (int d = 0; d < DIMS; d++) {
        const float shift = d == axis ? (float)max(deviation, 1u) : 0.0f;
        centers[d * k_stride + taker] = min(mean[d] + shift, (float)extent[d]);
        centers[d * k_stride + giver] = max(mean[d] - shift, 0.0f);
    }
}

/* The nearest to center j among the centers begin .. end - 1 without itself: its squared distance (as its
 * bits) << 32 | its index, so that the least of several wins, ties to the lowest index; greater than all others where
 * there is none. `begin` a multiple of 4. */
ulong nearest_other(uint j, uint begin, uint end, PLACE const float *centers, uint k_stride)
{
    float4 best = FLT_MAX;
    int4 place = -1;
    int4 here = (int)begin + (int4)(0, 1, 2, 3);
    float own[DIMS];
    for (int d = 0; d < DIMS; d++)
        own[d] = centers[d * k_stride + j];
    for (uint i = begin; i < end; i += 4) {
        float4 distance = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float4 difference = FOUR(centers + d * k_stride + i) - own[d];
            distance += difference * difference;
        }
        const int4 other = (distance < best) & (here != (int)j) & (here < (int)end);
        place = select(place, here, other);
        best = select(best, distance, other);
        here += 4;
    }
    const ulong4 keys = (convert_ulong4(as_uint4(best)) << 32) | convert_ulong4(as_uint4(place));
    return min(min(keys.x, keys.y), min(keys.z, keys.w));
}

/* a b / (a + b), rounded down; 0 if both are 0. a + b at most 2^39, so that a product may pass 2^64: then a is cut at
 * 2^20, and no intermediate value passes 2^60. */
ulong merged_weight(ulong a, ulong b)
{
    const ulong both = max(a + b, (ulong)1);
    if (!(both >> 32))
        return a * b / both;
    const ulong high = (a >> 20) * b;
    const ulong low = (a & 0xfffff) * b;
    return ((high / both) << 20) + (((high % both) << 20) + low) / both;
}

/* What center j is worth, whose `nearest_other` of all has this key: its nearest neighbour, the cost of merging the
 * two, the gain of a split. neighbours (k) uint; costs, gains (k) ulong. Costs: N_i N_j / (N_i + N_j) < 2^38, rounded
 * down, times a squared distance < 2^24. */
void weigh_center(uint j, ulong key, __global const ulong *totals, uint k, PLACE uint *neighbours, PLACE ulong *costs,
                  PLACE ulong *gains)
{
    const uint nearest = (uint)key;
    neighbours[j] = nearest;
    costs[j] = merged_weight(TOTAL(totals, k, 0, j), TOTAL(totals, k, 0, nearest)) * (uint)as_float((uint)(key >> 32));
    gains[j] = TOTAL(totals, k, 1 + DIMS + widest_axis(totals, k, j), j);
}

/* Carries the swaps out: the t-th center that goes takes half of the untouched one of turn t + rank; the two are
 * put one standard deviation, rounded down and at least 1, above and below the mean along the widest axis, within
 * 0..extent. A neighbour of one that goes moves to the mean of both. centers (DIMS, k_stride) holds the best centers
 * and is changed where they change: no two work-items write or read the same one. */
void swap_center(uint j, __global const ulong *totals, uint k, uint k_stride, int4 extents,
                 PLACE const uint *neighbours, PLACE const uint *merges, PLACE const uint *turns,
                 PLACE const uint *untouched, uint rank, CENTERS float *centers)
{
    if (merges[j] != 1)
        return;
    const uint partner = neighbours[j];
    const ulong weight = TOTAL(totals, k, 0, j) + TOTAL(totals, k, 0, partner);
    ulong sum[DIMS];
    for (int d = 0; d < DIMS; d++)
        sum[d] = TOTAL(totals, k, 1 + d, j) + TOTAL(totals, k, 1 + d, partner);
    for (int d = 0; d < (weight ? DIMS : 0); d++)
        centers[d * k_stride + partner] = mean_of(sum[d], weight);
    const uint turn = turns[j] + rank;
    const uint split = turn < k ? untouched[turn] : k;
    if (split == k || TOTAL(totals, k, 0, split) == 0)
        return;
    split_center(totals, k, k_stride, extents, split, j, centers);
}
