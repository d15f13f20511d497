/* Moving centers from where they are worth least to where they are missed most.
 *
 * Lloyd's algorithm ends in a local optimum. A swap merges two neighbouring clusters into one and splits another: the
 * split-and-merge of G. H. Ball, D. J. Hall, "ISODATA, a novel method of data analysis and pattern classification" (1965), several
 * at once, kept only if the inertia is lower after some steps of Lloyd's algorithm (compare B. Fritzke, "The breathing k-means
 * algorithm", 2020). The cost of a merge is Ward's: N_i N_j / (N_i + N_j) |c_i - c_j|^2, with j the center nearest to i; the gain of
 * a split is the cluster's sum of squared differences along the axis where that is largest.
 *
 * Constants: DIMS 3 or 4. k at most 4096.
 */
#include "lloyd.h"

/* The axis along which center j's points differ most, ties to the lowest. totals (STATS, k). */
int widest_axis(__global const ulong *totals, uint k, uint j)
{
    int axis = 0;
    for (int d = 1; d < DIMS; d++)
        axis = totals[(1 + DIMS + d) * k + j] > totals[(1 + DIMS + axis) * k + j] ? d : axis;
    return axis;
}

/* Puts center `taker` one standard deviation of center `giver`, rounded down and at least 1, above it along its widest
 * axis, and `giver` as far below, both within 0..extents. */
void split_center(__global const ulong *totals, uint k, uint k_stride, int4 extents, uint giver, uint taker,
                  __global float *centers)
{
    const int axis = widest_axis(totals, k, giver);
    const uint deviation = integer_root((uint)(totals[(1 + DIMS + axis) * k + giver] / totals[giver]));
    const int extent[4] = {extents.x, extents.y, extents.z, extents.w};
    for (int d = 0; d < DIMS; d++) {
        const float mean = centers[d * k_stride + giver];
        const float shift = d == axis ? (float)max(deviation, 1u) : 0.0f;
        centers[d * k_stride + taker] = min(mean + shift, (float)extent[d]);
        centers[d * k_stride + giver] = max(mean - shift, 0.0f);
    }
}

/* Keeps the present centers and totals if their inertia is the lowest so far; else goes back to the best centers, and fewer swaps
 * are tried next, half as many, or a single one at the next rank. Forgets the steps that were done. The whole work-group calls it.
 * best: centers (DIMS, k_stride) and totals (STATS, k) of the lowest inertia; swaps[0]: how many swaps the next round
 * tries; swaps[1]: the rank of the first of them, by cost and by gain; lowest[0]: the lowest inertia, all bits set before the first. */
void keep_better(__global float *centers, __global const ulong *totals, uint k, uint k_stride,
                 __global float *best_centers, __global ulong *best_totals, __global uint *swaps,
                 __global ulong *lowest, __global uint *state)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const ulong inertia = ((ulong)state[INERTIA + 1] << 32) | state[INERTIA];
    const int better = inertia < lowest[0];
    barrier(CLK_GLOBAL_MEM_FENCE);
    __global const float *from = better ? centers : best_centers;
    __global float *to = better ? best_centers : centers;
    for (uint i = lid; i < DIMS * k_stride; i += size)
        to[i] = from[i];
    for (uint i = lid; i < (better ? STATS * k : 0); i += size)
        best_totals[i] = totals[i];
    for (uint i = lid; i < STATE_WORDS; i += size)
        state[i] = 0;
    if (lid == 0) {
        if (better) {
            lowest[0] = inertia;
            swaps[1] = 0;
        } else if (swaps[0] > 1)
            swaps[0] /= 2;
        else
            swaps[1] = (swaps[1] + 1) % k;
    }
}

/* What each center is worth: its nearest neighbour (ties: lowest index), the cost of merging the two, the gain of a split.
 * neighbours (k) uint; costs, gains (k) ulong. Costs: N_i N_j / (N_i + N_j) < 2^32, rounded down, times a squared distance
 * < 2^24. */
void weigh_center(uint j, __global const float *centers, __global const ulong *totals, uint k, uint k_stride,
                  __global uint *neighbours, __global ulong *costs, __global ulong *gains)
{
    float4 best = FLT_MAX;
    int4 place = 0;
    int4 here = (int4)(0, 1, 2, 3);
    for (uint i = 0; i < k; i += 4) {
        float4 distance = 0.0f;
        for (int d = 0; d < DIMS; d++) {
            const float4 difference = vload4(0, centers + d * k_stride + i) - centers[d * k_stride + j];
            distance += difference * difference;
        }
        const int4 other = (distance < best) & (here != (int)j) & (here < (int)k);
        place = select(place, here, other);
        best = select(best, distance, other);
        here += 4;
    }
    const float least = min(min(best.x, best.y), min(best.z, best.w));
    int nearest = INT_MAX;
    nearest = best.x == least ? min(nearest, place.x) : nearest;
    nearest = best.y == least ? min(nearest, place.y) : nearest;
    nearest = best.z == least ? min(nearest, place.z) : nearest;
    nearest = best.w == least ? min(nearest, place.w) : nearest;
    const ulong both = max(totals[j] + totals[nearest], (ulong)1);
    neighbours[j] = nearest;
    costs[j] = totals[j] * totals[nearest] / both * (uint)least;
    gains[j] = totals[(1 + DIMS + widest_axis(totals, k, j)) * k + j];
}

/* Ranks of the centers: by cost ascending and by gain descending, ties to the lowest index.
 * costs, gains are filled up to whole vectors with the greatest number and with 0. by_cost, by_gain (k) uint; merges (k) uint
 * is set to 0. */
void rank_center(uint j, __global const ulong *costs, __global const ulong *gains, uint k, __global uint *by_cost,
                 __global uint *by_gain, __global uint *merges)
{
    const ulong4 cost = costs[j];
    const ulong4 gain = gains[j];
    long4 cost_ranks = 0;
    long4 gain_ranks = 0;
    long4 before = (long4)(0, 1, 2, 3) - (long)j;
    for (uint i = 0; i < k; i += 4) {
        const ulong4 other_cost = vload4(0, costs + i);
        const ulong4 other_gain = vload4(0, gains + i);
        const long4 lower_cost = (other_cost < cost) | ((other_cost == cost) & (before < 0));
        const long4 higher_gain = (other_gain > gain) | ((other_gain == gain) & (before < 0));
        cost_ranks += select((long4)0, (long4)1, lower_cost);
        gain_ranks += select((long4)0, (long4)1, higher_gain);
        before += 4;
    }
    by_cost[j] = (uint)(cost_ranks.x + cost_ranks.y + cost_ranks.z + cost_ranks.w);
    by_gain[j] = (uint)(gain_ranks.x + gain_ranks.y + gain_ranks.z + gain_ranks.w);
    merges[j] = 0;
}

/* Chooses the merges. The centers of swaps[0] cost ranks from swaps[1] on are tried: one merges with its neighbour unless one
 * tried of a lower rank, or that one's neighbour, is one of the two. merges (k) uint: 1 for a center that goes, 2 for its
 * neighbour, else 0. by_cost and neighbours are filled up to whole vectors, by_cost with the greatest number. */
void choose_merge(uint j, __global const uint *neighbours, __global const uint *by_cost, uint k,
                  __global const uint *swaps, __global uint *merges)
{
    const uint first = swaps[1];
    if (by_cost[j] - first >= swaps[0])
        return;
    const uint partner = neighbours[j];
    const uint tried = by_cost[j] - first;
    const int4 step = (int4)(0, 1, 2, 3);
    int4 clash = 0;
    for (uint i = 0; i < k; i += 4) {
        const uint4 others = vload4(0, neighbours + i);
        const int4 here = (int4)(int)i + step;
        const int4 shared = (here == (int)j) | (here == (int)partner) | (others == j) | (others == partner);
        clash |= shared & (vload4(0, by_cost + i) - first < tried);
    }
    if (!any(clash)) {
        merges[j] = 1;
        merges[partner] = 2;
    }
}

/* Numbers the centers that go, by cost, and those that no merge touches, by gain, each from 0 on.
 * by_cost, by_gain, merges are filled up to whole vectors, the first two with the greatest number. turns (k) uint is written;
 * untouched (k) uint: the untouched center of each turn, k where there is none. */
void take_turn(uint j, __global const uint *by_cost, __global const uint *by_gain, __global const uint *merges, uint k,
               __global uint *turns, __global uint *untouched)
{
    const uint kind = merges[j];
    __global const uint *order = kind ? by_cost : by_gain;
    int4 turn = 0;
    int4 free = 0;
    for (uint i = 0; i < k; i += 4) {
        const uint4 kinds = vload4(0, merges + i);
        const int4 earlier = (kinds == kind) & (vload4(0, order + i) < order[j]);
        turn += select((int4)0, (int4)1, earlier);
        free += select((int4)0, (int4)1, kinds == 0);
    }
    turns[j] = (uint)(turn.x + turn.y + turn.z + turn.w);
    if (kind == 0)
        untouched[turns[j]] = j;
    if (j >= (uint)(free.x + free.y + free.z + free.w))
        untouched[j] = k;
}

/* Carries the swaps out: the t-th center that goes takes half of the untouched one of turn t + swaps[1]; the two are put one standard
 * deviation, rounded down and at least 1, above and below the mean along the widest axis, within 0..extent. A neighbour of
 * one that goes moves to the mean of both. centers (DIMS, k_stride) holds the best centers and is changed where they change: no
 * two work-items write or read the same one. */
void swap_center(uint j, __global const ulong *totals, uint k, uint k_stride, int4 extents,
                 __global const uint *neighbours, __global const uint *merges, __global const uint *turns,
                 __global const uint *untouched, __global const uint *swaps, __global float *centers)
{
    if (merges[j] != 1)
        return;
    const uint partner = neighbours[j];
    const ulong weight = totals[j] + totals[partner];
    for (int d = 0; d < (weight ? DIMS : 0); d++) {
        const ulong sum = totals[(1 + d) * k + j] + totals[(1 + d) * k + partner];
        centers[d * k_stride + partner] = (float)(uint)((2 * sum + weight) / (2 * weight));
    }
    const uint turn = turns[j] + swaps[1];
    const uint split = turn < k ? untouched[turn] : k;
    if (split == k || totals[split] == 0)
        return;
    split_center(totals, k, k_stride, extents, split, j, centers);
}

/* `keep_better` by itself. NDRange: one work-group of any size. */
__kernel void keep_best(__global float *centers, __global const ulong *totals, uint k, uint k_stride,
                        __global float *best_centers, __global ulong *best_totals, __global uint *swaps,
                        __global ulong *lowest, __global uint *state)
{
    keep_better(centers, totals, k, k_stride, best_centers, best_totals, swaps, lowest, state);
}

/* `weigh_center` of every center. NDRange of this kernel and the next four: 1-D, a work-item a center, guarded by k. */
__kernel void weigh_centers(__global const float *centers, __global const ulong *totals, uint k, uint k_stride,
                            __global uint *neighbours, __global ulong *costs, __global ulong *gains)
{
    if (get_global_id(0) < k)
        weigh_center(get_global_id(0), centers, totals, k, k_stride, neighbours, costs, gains);
}

/* `rank_center` of every center. */
__kernel void rank_centers(__global const ulong *costs, __global const ulong *gains, uint k, __global uint *by_cost,
                           __global uint *by_gain, __global uint *merges)
{
    if (get_global_id(0) < k)
        rank_center(get_global_id(0), costs, gains, k, by_cost, by_gain, merges);
}

/* `choose_merge` of every center. */
__kernel void choose_merges(__global const uint *neighbours, __global const uint *by_cost, uint k,
                            __global const uint *swaps, __global uint *merges)
{
    if (get_global_id(0) < k)
        choose_merge(get_global_id(0), neighbours, by_cost, k, swaps, merges);
}

/* `take_turn` of every center. */
__kernel void take_turns(__global const uint *by_cost, __global const uint *by_gain, __global const uint *merges,
                         uint k, __global uint *turns, __global uint *untouched)
{
    if (get_global_id(0) < k)
        take_turn(get_global_id(0), by_cost, by_gain, merges, k, turns, untouched);
}

/* `swap_center` of every center. */
__kernel void swap_centers(__global const ulong *totals, uint k, uint k_stride, int4 extents,
                           __global const uint *neighbours, __global const uint *merges, __global const uint *turns,
                           __global const uint *untouched, __global const uint *swaps, __global float *centers)
{
    if (get_global_id(0) < k)
        swap_center(get_global_id(0), totals, k, k_stride, extents, neighbours, merges, turns, untouched, swaps, centers);
}

/* All six in one launch, for few centers. NDRange: one work-group of any size. Arguments as above. */
__kernel void swap_round(__global float *centers, __global const ulong *totals, uint k, uint k_stride, int4 extents,
                         __global float *best_centers, __global ulong *best_totals, __global uint *swaps,
                         __global ulong *lowest, __global uint *state, __global uint *neighbours,
                         __global ulong *costs, __global ulong *gains, __global uint *by_cost, __global uint *by_gain,
                         __global uint *merges, __global uint *turns, __global uint *untouched)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    keep_better(centers, totals, k, k_stride, best_centers, best_totals, swaps, lowest, state);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = lid; j < k; j += size)
        weigh_center(j, best_centers, best_totals, k, k_stride, neighbours, costs, gains);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = lid; j < k; j += size)
        rank_center(j, costs, gains, k, by_cost, by_gain, merges);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = lid; j < k; j += size)
        choose_merge(j, neighbours, by_cost, k, swaps, merges);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = lid; j < k; j += size)
        take_turn(j, by_cost, by_gain, merges, k, turns, untouched);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = lid; j < k; j += size)
        swap_center(j, best_totals, k, k_stride, extents, neighbours, merges, turns, untouched, swaps, centers);
}
