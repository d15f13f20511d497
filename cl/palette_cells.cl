/* Candidate lists: for each cell of a grid over the colour space, the palette entries that can be nearest to a point
 * of the cell.
 *
 * For a box, an entry is a candidate if its least distance to the box is at most the smallest, over all entries, of
 * the greatest distance to the box: any other entry is farther from every point of the box than that one. Ties are
 * kept. A cell's candidates are among its parent's, where the parent cell holds the cell.
 *
 * All distances are of integer points and below 2^24.
 */

int least_squared(int4 p, int4 low, int4 high)
{
    const int4 d = max(max(low - p, p - high), 0);
    return d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
}

int greatest_squared(int4 p, int4 low, int4 high)
{
    const int4 d = max(p - low, high - p);
    return d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
}

/* One pass over a grid: with `fill` 0 counts each cell's candidates into counts; with 1 writes them, ascending, at
 * starts[cell] of list.
 * NDRange: 1-D, a work-item a cell, guarded by grid.x * grid.y * grid.z * grid.w.
 * points (k, 4) int; extent: largest coordinate of each axis; shift: log2 of a cell's side.
 * parent_starts, parent_list, parent_grid: the lists of a grid whose cells are 2^parent_step times as long; with
 * parent_step 0 all k entries are tried. counts (cells) uint; starts (cells + 1) uint; list ushort. */
__kernel void list_candidates(__global const int4 *points, int k, int4 extent, int4 grid, int shift,
                              int4 parent_grid, int parent_step, __global const uint *parent_starts,
                              __global const ushort *parent_list, int fill, __global uint *counts,
                              __global const uint *starts, __global ushort *list)
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

    uint first = 0;
    uint end = (uint)k;
    if (parent_step) {
        const int4 above = at >> parent_step;
        const int parent =
            ((above.w * parent_grid.z + above.z) * parent_grid.y + above.y) * parent_grid.x + above.x;
        first = parent_starts[parent];
        end = parent_starts[parent + 1];
    }

    int bound = INT_MAX;
    for (uint j = first; j < end; j++)
        bound = min(bound, greatest_squared(points[parent_step ? parent_list[j] : j], low, high));
    uint written = 0;
    const uint start = fill ? starts[cell] : 0;
    for (uint j = first; j < end; j++) {
        const uint index = parent_step ? parent_list[j] : j;
        if (least_squared(points[index], low, high) <= bound) {
            if (fill)
                list[start + written] = (ushort)index;
            written++;
        }
    }
    if (!fill)
        counts[cell] = written;
}
