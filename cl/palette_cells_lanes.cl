/* palette_cells.cl's candidate lists in the shape that CPUs run fast: entries in the lanes of a vector, lists in the blocks
 * of palette_lanes.h. */

#define LANES 8

int8 plane_of(__global const short *block, int row)
{
    return convert_int8(vload8(row, block));
}

/* Least (`far` 0) or greatest squared distance of a block's entries to a box. */
int8 box_distance(__global const short *block, int4 low, int4 high, int far)
{
    const int lows[4] = {low.x, low.y, low.z, low.w};
    const int highs[4] = {high.x, high.y, high.z, high.w};
    int8 sum = 0;
    for (int d = 0; d < DIMS; d++) {
        const int8 p = plane_of(block, d);
        const int8 below = (int8)(lows[d]) - p;
        const int8 above = p - (int8)(highs[d]);
        const int8 away = far ? max(-below, -above) : max(max(below, above), (int8)0);
        sum += away * away;
    }
    return sum;
}

/* One pass over a grid: with `fill` 0 counts each cell's blocks into counts; with 1 writes them at starts[cell] of lists.
 * NDRange: 1-D, a work-item a cell, guarded by their number. parent_starts (cells of the parent + 1) uint, parent_lists:
 * blocks of the grid whose cells are 2^parent_step times as long, or hold everything; extent: largest coordinate of each
 * axis; shift: log2 of a cell's side. counts (cells) uint; starts (cells + 1) uint; lists (starts[cells], PLANES, LANES)
 * short. */
__kernel void list_candidates(__global const uint *parent_starts, __global const short *parent_lists, int4 parent_grid,
                              int parent_step, int4 extent, int4 grid, int shift, int fill, __global uint *counts,
                              __global const uint *starts, __global short *lists)
{
    const int cell = (int)get_global_id(0);
    if (cell >= grid.x * grid.y * grid.z * grid.w)
        return;
    int4 at;
    at.x = cell % grid.x;
    at.y = cell / grid.x % grid.y;
    at.z = cell / (grid.x * grid.y) % grid.z;
    at.w = cell / (grid.x * grid.y * grid.z);
    const int4 low = at << shift;
    const int4 high = min(low + ((1 << shift) - 1), extent);
    const int4 above = at >> parent_step;
    const int parent = ((above.w * parent_grid.z + above.z) * parent_grid.y + above.y) * parent_grid.x + above.x;
    const uint first = parent_starts[parent];
    const uint end = parent_starts[parent + 1];

    int8 bounds = INT_MAX;
    for (uint b = first; b < end; b++)
        bounds = min(bounds, box_distance(parent_lists + (size_t)b * (PLANES * LANES), low, high, 1));
    const int4 four = min(bounds.lo, bounds.hi);
    const int bound = min(min(four.x, four.y), min(four.z, four.w));

    uint written = 0;
    int last = -1;
    __global short *list = lists + (fill ? (size_t)starts[cell] * (PLANES * LANES) : 0);
    for (uint b = first; b < end; b++) {
        __global const short *block = parent_lists + (size_t)b * (PLANES * LANES);
        const int8 kept = box_distance(block, low, high, 0) <= bound;
        if (!any(kept))
            continue;
        int flags[LANES];
        vstore8(kept, 0, flags);
        for (int lane = 0; lane < LANES; lane++) {
            const int index = (ushort)block[(PLANES - 1) * LANES + lane];
            /* A list's filling repeats its last entry. */
            if (!flags[lane] || index == last)
                continue;
            last = index;
            if (fill)
                for (int row = 0; row < PLANES; row++)
                    list[written / LANES * (PLANES * LANES) + row * LANES + written % LANES] = block[row * LANES + lane];
            written++;
        }
    }
    if (!fill) {
        counts[cell] = (written + LANES - 1) / LANES;
        return;
    }
    for (; written % LANES; written++)
        for (int row = 0; row < PLANES; row++) {
            __global short *filled = list + written / LANES * (PLANES * LANES) + row * LANES + written % LANES;
            filled[0] = filled[-1];
        }
}
