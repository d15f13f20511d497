/* mapping/candidates.cl's candidate lists in the shape that CPUs run fast: entries in the lanes of a vector, lists in
 * the blocks of mapping/candidates_lanes.h. Lists longer than a block are shortened once more, by the entries nearest to the
 * cell's corners.
 */

#include "common/compile_hints.h"
#include "mapping/candidates.h"

#define LANES 8
#define BLOCK (PLANES * LANES)

typedef struct {
    int low[4];
    int high[4];
} Box;

int8 plane(__global const short *block, int row)
{
    return convert_int8(((__global const short8 *)block)[row]);
}

/* Where in a list of n blocks the entry nearest to a point is; the point is given doubled. */
uint nearest_of(const int *doubled, __global const short *list, uint n)
{
    int8 least = INT_MAX;
    int8 where = 0;
    for (uint b = 0; b < n; b++) {
        int8 distance = 0;
        for (int d = 0; d < DIMS; d++) {
            const int8 difference = 2 * plane(list + (size_t)b * BLOCK, d) - doubled[d];
            distance += difference * difference;
        }
        where = select(where, (int8)((int)b), distance < least);
        least = min(least, distance);
    }
    int distances[LANES], blocks[LANES];
    vstore8(least, 0, distances);
    vstore8(where, 0, blocks);
    int lane = 0;
    for (int i = 1; i < LANES; i++)
        lane = distances[i] < distances[lane] ? i : lane;
    return (uint)blocks[lane] * BLOCK + lane;
}

/* Copies to `kept`, if it is not NULL and from its beginning on, those entries of a list of n blocks that are somewhere
 * in the box as near as the entry at `pivot`; returns how many. In each direction the difference of the two squared
 * distances is linear, so its greatest value is at an end. A list's filling, which repeats its last entry, is left out.
 * `kept` may be the list itself. */
uint keep_near(const Box *box, __global const short *list, uint n, uint pivot, __global short *kept)
{
    int at_low[DIMS], at_high[DIMS];
    for (int d = 0; d < DIMS; d++) {
        const int p = list[pivot + d * LANES];
        at_low[d] = (box->low[d] - p) * (box->low[d] - p);
        at_high[d] = (box->high[d] - p) * (box->high[d] - p);
    }
    uint count = 0;
    int last = -1;
    for (uint b = 0; b < n; b++) {
        __global const short *block = list + (size_t)b * BLOCK;
        int8 lead = 0;
        for (int d = 0; d < DIMS; d++) {
            const int8 c = plane(block, d);
            const int8 from_low = c - box->low[d];
            const int8 from_high = c - box->high[d];
            lead += max(at_low[d] - from_low * from_low, at_high[d] - from_high * from_high);
        }
        const int8 near = lead >= 0;
        if (!any(near))
            continue;
        int flags[LANES];
        vstore8(near, 0, flags);
        for (int lane = 0; lane < LANES; lane++) {
            const int index = (ushort)block[(PLANES - 1) * LANES + lane];
            if (!flags[lane] || index == last)
                continue;
            last = index;
            if (kept)
                for (int row = 0; row < PLANES; row++)
                    kept[count / LANES * BLOCK + row * LANES + count % LANES] = block[row * LANES + lane];
            count++;
        }
    }
    return count;
}

/* Fills a list's last block with copies of its last entry; returns its blocks. */
uint fill_block(__global short *list, uint count)
{
    for (; count % LANES; count++)
        for (int row = 0; row < PLANES; row++) {
            __global short *entry = list + count / LANES * BLOCK + row * LANES + count % LANES;
            entry[0] = entry[-1];
        }
    return count / LANES;
}

/* One pass over a grid: with `fill` 0 writes how many blocks each cell may need to counts; with 1 its list at
 * starts[cell] of lists, and the list's beginning and end to spans.
 * NDRange: 1-D, a work-item per cell, guarded by their number. parent_spans (cells of the parent) uint2, parent_lists:
 * blocks of the grid whose cells are 2^parent_step times as long, or hold everything; extent: largest coordinate of
 * each axis; shift: log2 of a cell's side. counts, starts (cells) uint; spans (cells) uint2; lists (blocks, PLANES,
 * LANES) short. */
__kernel SMALL void list_candidates(__global const uint2 *parent_spans, __global const short *parent_lists,
                                    int4 parent_grid, int parent_step, int4 extent, int4 grid, int shift, int fill,
                                    __global uint *counts, __global const uint *starts, __global uint2 *spans,
                                    __global short *lists)
{
    const int cell = (int)get_global_id(0);
    if (cell >= grid.x * grid.y * grid.z * grid.w)
        return;
    const int4 at = place_of(cell, grid), low = min(at << shift, extent);
    Box box;
    vstore4(low, 0, box.low);
    vstore4(min(low + ((1 << shift) - 1), extent), 0, box.high);
    const uint2 span = parent_spans[parent_of(at, grid, parent_grid, parent_step)];
    __global const short *given = parent_lists + (size_t)span.x * BLOCK;

    int doubled[4];
    for (int d = 0; d < 4; d++)
        doubled[d] = box.low[d] + box.high[d];
    const uint pivot = nearest_of(doubled, given, span.y - span.x);
    if (!fill) {
        counts[cell] = (keep_near(&box, given, span.y - span.x, pivot, 0) + LANES - 1) / LANES;
        return;
    }
    __global short *list = lists + (size_t)starts[cell] * BLOCK;
    uint blocks = fill_block(list, keep_near(&box, given, span.y - span.x, pivot, list));
    for (int corner = 0; corner < 1 << DIMS && blocks > 1; corner++) {
        for (int d = 0; d < DIMS; d++)
            doubled[d] = 2 * (corner >> d & 1 ? box.high[d] : box.low[d]);
        blocks = fill_block(list, keep_near(&box, list, blocks, nearest_of(doubled, list, blocks), list));
    }
    spans[cell] = (uint2)(starts[cell], starts[cell] + blocks);
}
