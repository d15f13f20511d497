/* Moving centers to the means of their points, and repairing those that lost all points (see kmeans/lloyd.cl for the
 * layout).
 *
 * Constants: DIMS 3 or 4.
 */
#define MOST_SUMS 3
#include "common/compile_hints.h"
#include "common/group_sums.h"
#include "kmeans/lloyd.h"
#include "kmeans/lloyd_repair.h"

/* Adds up the replicas of a center's statistics, sets them to 0, and moves the center to the mean of its points,
 * rounded half up, if it has any and is none of the first `pinned`. partial: its inertia, 1 on each axis on which it
 * moved, 1 if it is empty and not pinned are added to the three. */
void move_center(__global ulong *sums, uint replicas, __global ulong *totals, __global float *centers, uint k,
                 uint k_stride, uint pinned, uint j, ulong *partial)
{
    ulong total[STATS];
    float place[DIMS];
    for (int d = 0; d < DIMS; d++)
        place[d] = centers[d * k_stride + j];
    for (int s = 0; s < STATS; s++)
        total[s] = 0;
    /* All loads before the stores, which might be to the same places for all that a compiler knows. */
    for (uint r = 0; r < replicas; r++)
        for (int s = 0; s < STATS; s++)
            total[s] += sums[((size_t)r * k + j) * STATS + s];
    for (uint r = 0; r < replicas; r++)
        for (int s = 0; s < STATS; s++)
            sums[((size_t)r * k + j) * STATS + s] = 0;
    for (int s = 0; s < STATS; s++)
        totals[s * k + j] = total[s];
    for (int d = 0; d < DIMS; d++) {
        partial[0] += total[1 + DIMS + d];
        if (total[0] && j >= pinned) {
            const float mean = mean_of(total[1 + d], total[0]);
            partial[1] += mean != place[d];
            centers[d * k_stride + j] = mean;
        }
    }
    partial[2] += total[0] == 0 && j >= pinned;
}

/* Moves each center to the mean of its points; those without points get half of another's.
 *
 * The first `pinned` centers stay as they are: they neither move, nor take, nor give.
 *
 * The i-th empty center, by index, shares with the i-th of those whose inertia is above 0 and at least the mean; where
 * there are fewer of these, the other empty ones stay.
 * NDRange: one work-group of any size. Does nothing where state[DONE], unless `forced`.
 * sums (replicas, k, STATS) ulong: added up and set to 0; totals (STATS, k) ulong gets them; pairs (2, k) uint:
 * scratch. state[DONE] is set to 1 where no center moved and none is empty, or where the inertia fell by no more than
 * tolerance / 2^64 of it; state[STEPS] counts; state[INERTIA], [INERTIA + 1]: inertia about the centers as they were.
 * Local: three ulong per work-item. */
__kernel SMALL void update_centers(__global ulong *sums, uint replicas, __global ulong *totals, __global float *centers,
                                   uint k, uint k_stride, uint pinned, int4 extents, ulong tolerance, uint forced,
                                   __global uint *pairs, __global uint *state, __local ulong *partial)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint n = state[DONE] && !forced ? 0 : k;
    const uint steps = state[STEPS];
    const ulong before = ((ulong)state[INERTIA + 1] << 32) | state[INERTIA];
    ulong own[3] = {0, 0, 0};
    for (uint j = lid; j < n; j += size)
        move_center(sums, replicas, totals, centers, k, k_stride, pinned, j, own);
    ulong all[3];
    sum_before(own, all, 3, partial);
    barrier(CLK_GLOBAL_MEM_FENCE);
    const ulong inertia = all[0];
    const uint empty = (uint)all[2];
    if (lid == 0 && n) {
        state[INERTIA] = (uint)inertia;
        state[INERTIA + 1] = (uint)(inertia >> 32);
        state[STEPS] = steps + 1;
        state[DONE] = is_last_step(steps, before, inertia, tolerance, all[1], empty);
    }
    repair_centers(totals, centers, k, k_stride, pinned, extents, inertia, n ? empty : 0, pairs, partial);
}
