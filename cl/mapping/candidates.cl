/* Candidate lists: for each cell of a grid over the colour space, the palette entries that can be nearest to a point
 * of the cell.
 *
 * An entry is a candidate if somewhere in the cell it is as near as the pivot, the entry nearest to the cell's middle.
 * In each direction the difference of the two squared distances is linear, so its greatest value is at an end of the
 * cell. Ties are kept. A cell's candidates are among its parent's, where the parent cell holds the cell.
 *
 * All distances are of integer points and below 2^24, those of doubled points below 2^26; of 16-bit values see
 * common/squared.h.
 *
 * Constants: BITS 8 or 16.
 */

#include "mapping/candidates.h"

/* One pass over a grid: with `fill` 0 counts each cell's candidates into counts; with 1 writes them, ascending, at
 * starts[cell] of list.
 * NDRange: 1-D, a work-group per cell; its work-items share the parent's list in runs.
 * points (k, 4) int; extent: largest coordinate of each axis; shift: log2 of a cell's side.
 * parent_starts, parent_list, parent_grid: the lists of a grid whose cells are 2^parent_step times as long. counts (cells) uint; starts (cells + 1) uint; list ushort.
 * found, least: a uint and a Squared a work-item. */
__kernel void list_candidates(__global const int4 *points, int4 extent, int4 grid, int shift, int4 parent_grid,
                              int parent_step, __global const uint *parent_starts, __global const ushort *parent_list,
                              int fill, __global uint *counts, __global const uint *starts, __global ushort *list,
                              __local uint *found, __local Squared *least)
{
    const int cell = (int)get_group_id(0);
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const int4 at = place_of(cell, grid);
    const int4 low = min(at << shift, extent);
    const int4 high = min(low + ((1 << shift) - 1), extent);

    const int parent = parent_of(at, grid, parent_grid, parent_step);
    const uint first = parent_starts[parent], end = parent_starts[parent + 1];
    const uint run = (end - first + size - 1) / size;
    const uint begin = min(end, first + lid * run);
    const uint stop = min(end, begin + run);

    Squared nearest = MAX_SQUARED;
    uint pivot = 0;
    for (uint j = begin; j < stop; j++) {
        const uint index = parent_list[j];
        const Squared distance = squared(2 * points[index] - low - high);
        pivot = distance < nearest ? index : pivot;
        nearest = min(nearest, distance);
    }
    found[lid] = pivot;
    least[lid] = nearest;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0) {
        for (uint i = 1; i < size; i++) {
            pivot = least[i] < nearest ? found[i] : pivot;
            nearest = min(nearest, least[i]);
        }
        found[0] = pivot;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const Squared4 at_low = squared_by_axis(points[found[0]] - low);
    const Squared4 at_high = squared_by_axis(points[found[0]] - high);
    barrier(CLK_LOCAL_MEM_FENCE);

    uint near = 0;
    for (uint j = begin; j < stop; j++)
        near += is_near(points[parent_list[j]], low, high, at_low, at_high);
    found[lid] = near;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (fill) {
        uint out = starts[cell];
        for (uint i = 0; i < lid; i++)
            out += found[i];
        for (uint j = begin; j < stop; j++) {
            const uint index = parent_list[j];
            if (is_near(points[index], low, high, at_low, at_high))
                list[out++] = (ushort)index;
        }
    } else if (lid == 0) {
        uint sum = 0;
        for (uint i = 0; i < size; i++)
            sum += found[i];
        counts[cell] = sum;
    }
}
