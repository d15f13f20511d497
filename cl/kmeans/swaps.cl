/* Moving centers from where they are worth least to where they are missed most.
 *
 * Lloyd's algorithm ends in a local optimum. A swap merges two neighbouring clusters into one and splits another: the
 * split-and-merge of G. H. Ball, D. J. Hall, "ISODATA, a novel method of data analysis and pattern classification"
 * (1965), several at once, kept only if the inertia is lower after some steps of Lloyd's algorithm (compare B. Fritzke,
 * "The breathing k-means algorithm", 2020). The cost of a merge is Ward's: N_i N_j / (N_i + N_j) |c_i - c_j|^2, with j
 * the center nearest to i; the gain of a split is the cluster's sum of squared differences along the axis where that is
 * largest.
 *
 * Constants: DIMS 3 or 4. k at most 4096. PLACE: the address space of what the centers are compared by: __global for
 * the kernels of a work-item per center, __local for `swap_round`, which does all of it.
 */
#include "kmeans/lloyd.h"
#include "common/compile_hints.h"
#include "kmeans/swaps.h"

/* Keeps the present centers and totals if their inertia is the lowest so far; else goes back to the best centers, and
 * fewer swaps are tried next, half as many, or a single one at the next rank. Forgets the steps that were done. The
 * whole work-group calls it. best: centers (DIMS, k_stride) and totals (STATS, k) of the lowest inertia; swaps[0]: how
 * many swaps the next round tries; swaps[1]: the rank of the first of them, by cost and by gain; lowest[0]: the lowest
 * inertia, all bits set before the first. */
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

/* How many of the centers begin .. end - 1 rank before center j: by cost ascending (x), and by gain descending
 * (y) << 32, ties to the lowest index. costs, gains are filled up to whole vectors with the greatest number and with 0.
 */
ulong ranks_before(uint j, uint begin, uint end, PLACE const ulong *costs, PLACE const ulong *gains)
{
    const ulong4 cost = costs[j];
    const ulong4 gain = gains[j];
    ulong4 ranks = 0;
    long4 before = (long)begin + (long4)(0, 1, 2, 3) - (long)j;
    for (uint i = begin; i < end; i += 4) {
        const ulong4 other_cost = vload4(0, costs + i);
        const ulong4 other_gain = vload4(0, gains + i);
        const long4 lower_cost = (other_cost < cost) | ((other_cost == cost) & (before < 0));
        const long4 higher_gain = (other_gain > gain) | ((other_gain == gain) & (before < 0));
        ranks += select((ulong4)0, (ulong4)1, lower_cost) + select((ulong4)0, (ulong4)1 << 32, higher_gain);
        before += 4;
    }
    return ranks.x + ranks.y + ranks.z + ranks.w;
}

/* Whether center j cannot merge with its neighbour because of one among the centers begin .. end - 1. The centers of
 * swaps[0] cost ranks from swaps[1] on are tried: one merges with its neighbour unless one tried of a lower rank, or
 * that one's neighbour, is one of the two. by_cost and neighbours are filled up to whole vectors, by_cost with the
 * greatest number. */
int cannot_merge(uint j, uint begin, uint end, PLACE const uint *neighbours, PLACE const uint *by_cost,
                 __global const uint *swaps)
{
    const uint first = swaps[1];
    const uint tried = by_cost[j] - first;
    if (tried >= swaps[0])
        return 1;
    const uint partner = neighbours[j];
    const int4 step = (int4)(0, 1, 2, 3);
    int4 clash = 0;
    for (uint i = begin; i < end; i += 4) {
        const uint4 others = vload4(0, neighbours + i);
        const int4 here = (int4)(int)i + step;
        const int4 shared = (here == (int)j) | (here == (int)partner) | (others == j) | (others == partner);
        clash |= shared & (vload4(0, by_cost + i) - first < tried);
    }
    return any(clash);
}

/* Lets center j merge. merges (k) uint: 1 for a center that goes, 2 for its neighbour, else 0. */
void merge_center(uint j, PLACE const uint *neighbours, PLACE uint *merges)
{
    merges[j] = 1;
    merges[neighbours[j]] = 2;
}

/* Of the centers begin .. end - 1: how many have center j's fate and rank before it, those that go or are merged into
 * by cost, the others by gain; and how many no merge touches, << 32. by_cost, by_gain, merges are filled up to whole
 * vectors, the first two with the greatest number. */
ulong turns_before(uint j, uint begin, uint end, PLACE const uint *by_cost, PLACE const uint *by_gain,
                   PLACE const uint *merges)
{
    const uint kind = merges[j];
    PLACE const uint *order = kind ? by_cost : by_gain;
    const uint own = order[j];
    int4 turn = 0;
    int4 free = 0;
    for (uint i = begin; i < end; i += 4) {
        const uint4 kinds = vload4(0, merges + i);
        const int4 earlier = (kinds == kind) & (vload4(0, order + i) < own);
        turn += select((int4)0, (int4)1, earlier);
        free += select((int4)0, (int4)1, kinds == 0);
    }
    return ((ulong)(free.x + free.y + free.z + free.w) << 32) | (uint)(turn.x + turn.y + turn.z + turn.w);
}

/* Gives center j its turn among its like, from 0 on, by `turns_before` of all. turns (k) uint is written; untouched (k)
 * uint: the untouched center of each turn, k where there is none. */
void take_turn(uint j, ulong before, PLACE const uint *merges, uint k, PLACE uint *turns, PLACE uint *untouched)
{
    turns[j] = (uint)before;
    if (merges[j] == 0)
        untouched[turns[j]] = j;
    if (j >= (uint)(before >> 32))
        untouched[j] = k;
}

/* `keep_better` by itself. NDRange: one work-group of any size. */
__kernel SMALL void keep_best(__global float *centers, __global const ulong *totals, uint k, uint k_stride,
                              __global float *best_centers, __global ulong *best_totals, __global uint *swaps,
                              __global ulong *lowest, __global uint *state)
{
    keep_better(centers, totals, k, k_stride, best_centers, best_totals, swaps, lowest, state);
}

#if APART

/* `weigh_center` of every center. NDRange: 1-D, a work-item per center, guarded by k. */
__kernel void weigh_centers(__global const float *centers, __global const ulong *totals, uint k, uint k_stride,
                            __global uint *neighbours, __global ulong *costs, __global ulong *gains)
{
    const uint j = get_global_id(0);
    if (j < k)
        weigh_center(j, nearest_other(j, 0, k, centers, k_stride), totals, k, neighbours, costs, gains);
}

/* Ranks of the centers by cost and by gain; by_cost, by_gain, merges (k) uint are written, the last one with 0.
 * NDRange: 1-D, a work-item per center, guarded by k. */
__kernel void rank_centers(__global const ulong *costs, __global const ulong *gains, uint k, __global uint *by_cost,
                           __global uint *by_gain, __global uint *merges)
{
    const uint j = get_global_id(0);
    if (j >= k)
        return;
    const ulong ranks = ranks_before(j, 0, k, costs, gains);
    by_cost[j] = (uint)ranks;
    by_gain[j] = (uint)(ranks >> 32);
    merges[j] = 0;
}

/* `merge_center` of those that can. NDRange: 1-D, a work-item per center, guarded by k. */
__kernel void choose_merges(__global const uint *neighbours, __global const uint *by_cost, uint k,
                            __global const uint *swaps, __global uint *merges)
{
    const uint j = get_global_id(0);
    if (j < k && !cannot_merge(j, 0, k, neighbours, by_cost, swaps))
        merge_center(j, neighbours, merges);
}

/* `take_turn` of every center. NDRange: 1-D, a work-item per center, guarded by k. */
__kernel void take_turns(__global const uint *by_cost, __global const uint *by_gain, __global const uint *merges,
                         uint k, __global uint *turns, __global uint *untouched)
{
    const uint j = get_global_id(0);
    if (j < k)
        take_turn(j, turns_before(j, 0, k, by_cost, by_gain, merges), merges, k, turns, untouched);
}

/* `swap_center` of every center. NDRange: 1-D, a work-item per center, guarded by k. */
__kernel void swap_centers(__global const ulong *totals, uint k, uint k_stride, int4 extents,
                           __global const uint *neighbours, __global const uint *merges, __global const uint *turns,
                           __global const uint *untouched, __global const uint *swaps, __global float *centers)
{
    if (get_global_id(0) < k)
        swap_center(get_global_id(0), totals, k, k_stride, extents, neighbours, merges, turns, untouched, swaps[1],
                    centers);
}

#else

/* All six in one launch, for few centers: several work-items share a center, each with a part of the others.
 * NDRange: one work-group. parts: work-items per center, so that k times that is at most the group's size, or 1.
 * Arguments as above; room: a ulong per work-item, two per place of k_stride, DIMS floats and six uints per place. */
__kernel SMALL void swap_round(__global float *centers, __global const ulong *totals, uint k, uint k_stride,
                               int4 extents, __global float *best_centers, __global ulong *best_totals,
                               __global uint *swaps, __global ulong *lowest, __global uint *state, uint parts,
                               __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint all = get_local_size(0);
    const uint size = all / parts;
    const uint run = ((k + parts - 1) / parts + 3) / 4 * 4;
    const uint begin = min(k, lid / size * run);
    const uint end = min(k, begin + run);
    __local ulong *partial = room;
    __local ulong *costs = partial + all;
    __local ulong *gains = costs + k_stride;
    __local float *places = (__local float *)(gains + k_stride);
    __local uint *neighbours = (__local uint *)(places + DIMS * k_stride);
    __local uint *by_cost = neighbours + k_stride;
    __local uint *by_gain = by_cost + k_stride;
    __local uint *merges = by_gain + k_stride;
    __local uint *turns = merges + k_stride;
    __local uint *untouched = turns + k_stride;
    keep_better(centers, totals, k, k_stride, best_centers, best_totals, swaps, lowest, state);
    /* What ranks last fills the last vector. */
    for (uint i = k + lid; i < k_stride; i += all) {
        costs[i] = ULONG_MAX;
        gains[i] = 0;
        neighbours[i] = by_cost[i] = by_gain[i] = merges[i] = UINT_MAX;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint i = lid; i < DIMS * k_stride; i += all)
        places[i] = best_centers[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint group = 0; group < k; group += size) {
        const uint j = group + lid % size;
        const int leads = j < k && lid < size;
        partial[lid] = j < k ? nearest_other(j, begin, end, places, k_stride) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint p = 1; p < (leads ? parts : 0); p++)
            partial[lid] = min(partial[lid], partial[lid + p * size]);
        if (leads)
            weigh_center(j, partial[lid], best_totals, k, neighbours, costs, gains);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint group = 0; group < k; group += size) {
        const uint j = group + lid % size;
        const int leads = j < k && lid < size;
        partial[lid] = j < k ? ranks_before(j, begin, end, costs, gains) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint p = 1; p < (leads ? parts : 0); p++)
            partial[lid] += partial[lid + p * size];
        if (leads) {
            by_cost[j] = (uint)partial[lid];
            by_gain[j] = (uint)(partial[lid] >> 32);
            merges[j] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint group = 0; group < k; group += size) {
        const uint j = group + lid % size;
        partial[lid] = j < k ? cannot_merge(j, begin, end, neighbours, by_cost, swaps) : 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint p = 1; p < (lid < size ? parts : 0); p++)
            partial[lid] |= partial[lid + p * size];
        if (lid < size && !partial[lid])
            merge_center(j, neighbours, merges);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint group = 0; group < k; group += size) {
        const uint j = group + lid % size;
        const int leads = j < k && lid < size;
        partial[lid] = j < k ? turns_before(j, begin, end, by_cost, by_gain, merges) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint p = 1; p < (leads ? parts : 0); p++)
            partial[lid] += partial[lid + p * size];
        if (leads)
            take_turn(j, partial[lid], merges, k, turns, untouched);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint j = lid; j < k; j += all)
        swap_center(j, best_totals, k, k_stride, extents, neighbours, merges, turns, untouched, swaps[1], centers);
}

#endif
