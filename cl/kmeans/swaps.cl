/* Moving centers from where they are worth least to where they are missed most.
 *
 * Lloyd's algorithm ends in a local optimum. A swap merges two neighbouring clusters into one and splits another: the
 * split-and-merge of G. H. Ball, D. J. Hall, "ISODATA, a novel method of data analysis and pattern classification"
 * (1965), several at once, kept only if the inertia is lower after some steps of Lloyd's algorithm (compare B. Fritzke,
 * "The breathing k-means algorithm", 2020). The cost of a merge is Ward's: N_i N_j / (N_i + N_j) |c_i - c_j|^2, with j
 * the center nearest to i; the gain of a split is the cluster's sum of squared differences along the axis where that is
 * largest.
 *
 * Constants: DIMS 3 or 4. k at most 4096.
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

/* Moves centers: the phases first .. end - 1 of weighing, ranking, merging, taking turns and swapping, each over all
 * centers.
 * NDRange: one work-group for all PHASES, or any number for one phase. best_centers, best_totals as above; centers, a
 * copy of the former, is changed; room: `Marks`, all bits set before the first round. */
__kernel SMALL void move_centers(__global const float *best_centers, __global const ulong *best_totals, uint k,
                                 uint k_stride, int4 extents, __global ulong *room, __global const uint *swaps,
                                 __global float *centers, uint first, uint end)
{
    const Marks marks = marks_in(room, k_stride);
    const Places places = {best_centers, best_totals, k, k_stride, extents};
    for (uint phase = first; phase < end; phase++) {
        for (uint j = get_global_id(0); j < k; j += get_global_size(0))
            swap_phase(phase, j, &places, &marks, swaps[0], swaps[1], centers);
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
