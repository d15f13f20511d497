/* Moving centers to the means of their points, and repairing those that lost all points (see kmeans/lloyd.cl for the
 * layout).
 *
 * Constants: DIMS 3 or 4.
 */
#include "kmeans/lloyd.h"
#include "kmeans/lloyd_repair.h"
#include "kmeans/lloyd_update.h"
#include "common/compile_hints.h"

/* Moves each center to the mean of its points; those without points get half of another's.
 *
 * The first `pinned` centers stay as they are: they neither move, nor take, nor give.
 *
 * The i-th empty center, by index, shares with the i-th of those whose inertia is above 0 and at least the mean; where
 * there are fewer of these, the other empty ones stay.
 * NDRange: one work-group, its size a power of two. Does nothing where state[DONE], unless `forced`.
 * sums (replicas, k, STATS) ulong: added up and set to 0; totals (STATS, k) ulong gets them; pairs (2, k) uint:
 * scratch. state[DONE] is set to 1 where no center moved and none is empty, or where the inertia fell by no more than
 * tolerance / 2^64 of it; state[STEPS] counts; state[INERTIA], [INERTIA + 1]: inertia about the centers as they were.
 * Local: three ulong a work-item. */
__kernel SMALL void update_centers(__global ulong *sums, uint replicas, __global ulong *totals, __global float *centers,
                             uint k, uint k_stride, uint pinned, int4 extents, ulong tolerance, uint forced,
                             __global uint *pairs, __global uint *state, __local ulong *partial)
{
    update_all(sums, replicas, totals, centers, k, k_stride, pinned, extents, tolerance, forced, pairs, state, partial);
}
