/* mapping/candidates.cl's candidate lists, the same, of palettes that fit local memory: a work-group finds the
 * candidates of one cell of a coarser grid and makes the lists of all cells in it from those.
 *
 * Constants: MOST colours; STEP: log2 of how often longer the cells of the coarser grid are; DIMS axes of the space.
 */
#include "mapping/candidates.h"

/* One pass over a grid: with `fill` 0 counts each cell's candidates into counts; with 1 writes them, ascending, at
 * starts[cell] of list.
 * NDRange: 1-D, a work-group a cell of the coarser grid; its work-items share the palette in runs, then the cells.
 * points (k, 4) int, k at most MOST; extent: largest coordinate of each axis; grid, coarse: cells along each axis;
 * shift: log2 of a cell's side. counts (cells) uint; starts (cells + 1) uint; list ushort.
 * found, least: a uint and an int a work-item; local memory of 18 MOST bytes besides. */
__kernel void list_candidates(__global const int4 *points, int k, int4 extent, int4 grid, int shift, int4 coarse,
                              int fill, __global uint *counts, __global const uint *starts, __global ushort *list,
                              __local uint *found, __local int *least)
{
    __local int4 near[MOST];
    __local ushort indices[MOST];
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const int4 at = place_of((int)get_group_id(0), coarse);
    int4 low = at << (shift + STEP);
    int4 high = min(low + ((1 << (shift + STEP)) - 1), extent);
    const uint run = ((uint)k + size - 1) / size;
    const uint begin = min((uint)k, lid * run);
    const uint stop = min((uint)k, begin + run);

    int nearest = INT_MAX;
    uint pivot = 0;
    for (uint j = begin; j < stop; j++) {
        const int distance = squared(2 * points[j] - low - high);
        pivot = distance < nearest ? j : pivot;
        nearest = min(nearest, distance);
    }
    found[lid] = pivot;
    least[lid] = nearest;
    barrier(CLK_LOCAL_MEM_FENCE);
    nearest = INT_MAX;
    for (uint i = 0; i < size; i++) {
        pivot = least[i] < nearest ? found[i] : pivot;
        nearest = min(nearest, least[i]);
    }
    int4 from_low = points[pivot] - low;
    int4 from_high = points[pivot] - high;
    int4 at_low = from_low * from_low;
    int4 at_high = from_high * from_high;
    barrier(CLK_LOCAL_MEM_FENCE);

    uint own = 0;
    for (uint j = begin; j < stop; j++)
        own += is_near(points[j], low, high, at_low, at_high);
    found[lid] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint out = 0;
    uint total = 0;
    for (uint i = 0; i < size; i++) {
        out += i < lid ? found[i] : 0;
        total += found[i];
    }
    for (uint j = begin; j < stop; j++)
        if (is_near(points[j], low, high, at_low, at_high)) {
            near[out] = points[j];
            indices[out++] = (ushort)j;
        }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint i = lid; i < 1u << STEP * DIMS; i += size) {
        const int4 bits = (int4)((int)i, (int)(i >> STEP), (int)(i >> 2 * STEP), (int)(i >> 3 * STEP));
        const int4 fine = (at << STEP) + (bits & ((1 << STEP) - 1));
        if (any(fine >= grid))
            continue;
        const int cell = ((fine.w * grid.z + fine.z) * grid.y + fine.y) * grid.x + fine.x;
        low = fine << shift;
        high = min(low + ((1 << shift) - 1), extent);
        nearest = INT_MAX;
        for (uint j = 0; j < total; j++) {
            const int distance = squared(2 * near[j] - low - high);
            pivot = distance < nearest ? j : pivot;
            nearest = min(nearest, distance);
        }
        from_low = near[pivot] - low;
        from_high = near[pivot] - high;
        at_low = from_low * from_low;
        at_high = from_high * from_high;
        uint count = 0;
        for (uint j = 0; j < total; j++)
            if (is_near(near[j], low, high, at_low, at_high)) {
                if (fill)
                    list[starts[cell] + count] = indices[j];
                count++;
            }
        if (!fill)
            counts[cell] = count;
    }
}
