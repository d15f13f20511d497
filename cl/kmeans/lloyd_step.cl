/* A whole step of Lloyd's algorithm in one launch: the work-group that ends last moves the centers (see kmeans/lloyd.cl
 * for the layout).
 *
 * What groups hand each other goes through atomic operations on `sums` alone, before a fence and an atomic count of the
 * groups that are done; so the last one sees all of it. OpenCL C 1.2 does not promise that a fence reaches other
 * work-groups, so the device's own is a constant, and this form is taken where that is known.
 *
 * Constants: DIMS 3 or 4; DEVICE_FENCE: a statement after which all other work-groups see what was written before.
 */
#include "kmeans/lloyd.h"
#include "kmeans/lloyd_tiles.h"
#include "kmeans/lloyd_repair.h"
#include "kmeans/lloyd_update.h"

/* The step of `assign_tiles` of kmeans/lloyd.cl and then of `update_centers` of kmeans/lloyd_update.cl, with their
 * arguments. NDRange: 1-D, groups of a power of two. Does nothing where state[DONE], unless `by_axis`. state[ARRIVED]
 * is 0 before and after. Local: partial, three ulong a work-item; local_sums as in `assign_tiles`. */
__kernel void lloyd_step(__global const float *points, uint stride, __global const uint *weights,
                         __global const uint *starts, __global const float *boxes, uint n_tiles,
                         __global float *centers, uint k, uint k_stride, uint by_axis, __global uint *state,
                         __global ushort *lists, __global uint *sums, __global ulong *totals, uint pinned,
                         int4 extents, ulong tolerance, __global uint *pairs, __local ulong *partial,
                         __local uint *local_sums)
{
    __local float shortlist[DIMS * SHORTLIST];
    __local ushort names[SHORTLIST];
    __local uint arrived;
    if (state[DONE] && !by_axis)
        return;
    assign_share(points, stride, weights, starts, boxes, n_tiles, centers, k, k_stride, by_axis, lists, sums, partial,
                 local_sums, shortlist, names);
    DEVICE_FENCE;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        arrived = atomic_inc(&state[ARRIVED]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (arrived + 1 < get_num_groups(0))
        return;
    DEVICE_FENCE;
    update_all((__global ulong *)sums, 1, totals, centers, k, k_stride, pinned, extents, tolerance, by_axis, pairs,
               state, partial);
    if (get_local_id(0) == 0)
        state[ARRIVED] = 0;
}
