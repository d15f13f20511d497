/* Moving centers from where they are worth least to where they are missed most.
 *
 * Lloyd's algorithm ends in a local optimum. A swap merges two neighbouring clusters into one and splits another: the
 * split-and-merge of G. H. Ball, D. J. Hall, "ISODATA, a novel method of data analysis and pattern classification"
 * (1965), several at once, kept only if the inertia is lower after some steps of Lloyd's algorithm (compare B. Fritzke,
 * "The breathing k-means algorithm", 2020). The cost of a merge is Ward's: N_i N_j / (N_i + N_j) |c_i - c_j|^2, with j
 * the center nearest to i; the gain of a split is the cluster's sum of squared differences along the axis where that is
 * largest.
 *
 * Constants: DIMS 3 or 4. k at most 4096. Arrays of a number per center are filled up to whole vectors of four: costs,
 * by_cost, by_gain, neighbours and merges with the greatest number, gains with 0.
 */
#define PLACE __global
#include "kmeans/lloyd.h"
#include "common/compile_hints.h"
#include "kmeans/swaps.h"

/* Keeps the present centers and totals if their inertia is the lowest so far; else goes back to the best centers, and
 * fewer swaps are tried next, half as many, or a single one at the next rank. Forgets the steps that were done.
 * NDRange: one work-group of any size. best: centers (DIMS, k_stride) and totals (STATS, k) of the lowest inertia;
 * swaps[0]: how many swaps the next round tries; swaps[1]: the rank of the first of them, by cost and by gain;
 * lowest[0]: the lowest inertia, all bits set before the first. */
__kernel SMALL void keep_best(__global float *centers, __global const ulong *totals, uint k, uint k_stride,
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

/* Ranks center j by cost ascending and by gain descending, ties to the lowest index. */
void rank_center(uint j, __global const ulong *costs, __global const ulong *gains, uint k, __global uint *by_cost,
                 __global uint *by_gain)
{
    const ulong4 cost = costs[j];
    const ulong4 gain = gains[j];
    ulong4 ranks = 0; /* by cost; by gain << 32 */
    long4 before = (long4)(0, 1, 2, 3) - (long)j;
    for (uint i = 0; i < k; i += 4) {
        const ulong4 other_cost = vload4(0, costs + i);
        const ulong4 other_gain = vload4(0, gains + i);
        const long4 lower_cost = (other_cost < cost) | ((other_cost == cost) & (before < 0));
        const long4 higher_gain = (other_gain > gain) | ((other_gain == gain) & (before < 0));
        ranks += select((ulong4)0, (ulong4)1, lower_cost) + select((ulong4)0, (ulong4)1 << 32, higher_gain);
        before += 4;
    }
    const ulong both = ranks.x + ranks.y + ranks.z + ranks.w;
    by_cost[j] = (uint)both;
    by_gain[j] = (uint)(both >> 32);
}

/* The centers of swaps[0] cost ranks from swaps[1] on are tried: one merges with its neighbour unless one tried of a
 * lower rank, or that one's neighbour, is one of the two. */
void choose_merge(uint j, __global const uint *neighbours, __global const uint *by_cost, uint k,
                  __global const uint *swaps, __global uint *merges)
{
    const uint partner = neighbours[j];
    const uint tried = by_cost[j] - swaps[1];
    if (tried >= swaps[0])
        return;
    int4 clash = 0;
    for (uint i = 0; i < k; i += 4) {
        const uint4 others = vload4(0, neighbours + i);
        const int4 here = (int4)(int)i + (int4)(0, 1, 2, 3);
        const int4 shared = (here == (int)j) | (here == (int)partner) | (others == j) | (others == partner);
        clash |= shared & (vload4(0, by_cost + i) - swaps[1] < tried);
    }
    if (!any(clash)) {
        merges[j] = 1;
        merges[partner] = 2;
    }
}

/* Center j's turn among its like, from 0 on: of those that go or are merged into by cost, of the others by gain. */
void take_turn(uint j, __global const uint *by_cost, __global const uint *by_gain, __global const uint *merges, uint k,
               __global uint *turns, __global uint *untouched)
{
    const uint kind = merges[j];
    __global const uint *order = kind ? by_cost : by_gain;
    const uint own = order[j];
    int4 turn = 0;
    int4 free = 0;
    for (uint i = 0; i < k; i += 4) {
        const uint4 kinds = vload4(0, merges + i);
        turn += select((int4)0, (int4)1, (kinds == kind) & (vload4(0, order + i) < own));
        free += select((int4)0, (int4)1, kinds == 0);
    }
    turns[j] = (uint)(turn.x + turn.y + turn.z + turn.w);
    if (kind == 0)
        untouched[turns[j]] = j;
    if ((int)j >= free.x + free.y + free.z + free.w)
        untouched[j] = k;
}

/* Moves centers: the phases first .. end - 1 of weighing, ranking, merging, taking turns and swapping, each over all
 * centers.
 * NDRange: one work-group for all PHASES, or any number for one phase. best_centers, best_totals as above; centers, a
 * copy of the former, is changed. Of a number per center each: neighbours uint; costs, gains ulong; by_cost, by_gain
 * uint: ranks; merges uint: 1 for a center that goes, 2 for its neighbour, else 0; turns uint; untouched uint: the
 * untouched center of each turn, k where there is none. */
__kernel SMALL void move_centers(__global const float *best_centers, __global const ulong *best_totals, uint k,
                                 uint k_stride, int4 extents, __global uint *neighbours, __global ulong *costs,
                                 __global ulong *gains, __global uint *by_cost, __global uint *by_gain,
                                 __global uint *merges, __global uint *turns, __global uint *untouched,
                                 __global const uint *swaps, __global float *centers, uint first, uint end)
{
    for (uint phase = first; phase < end; phase++) {
        for (uint j = get_global_id(0); j < k; j += get_global_size(0)) {
            if (phase == 0) {
                const ulong nearest = nearest_other(j, 0, k, best_centers, k_stride);
                weigh_center(j, nearest, best_totals, k, neighbours, costs, gains);
                merges[j] = 0;
            } else if (phase == 1)
                rank_center(j, costs, gains, k, by_cost, by_gain);
            else if (phase == 2)
                choose_merge(j, neighbours, by_cost, k, swaps, merges);
            else if (phase == 3)
                take_turn(j, by_cost, by_gain, merges, k, turns, untouched);
            else
                swap_center(j, best_totals, k, k_stride, extents, neighbours, merges, turns, untouched, swaps[1],
                            centers);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
