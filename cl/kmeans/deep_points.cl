/* Points of 16-bit colours, sorted by the cells of a grid over their space, for the steps of kmeans/deep_lloyd.cl.
 *
 * Equal colours are not looked for: sums of points need no distinct ones. A point is kept as its place within its cell,
 * 16 bits an axis, x lowest; the fourth number is 1 where alpha is no axis. Cells have at most 2^16 steps a side.
 *
 * Constants: SPACE, SPACE_ALPHA and BITS (16) of common/color_spaces.h; CHANNELS 1, 3 or 4 of the pixels; WEIGHTED 1 if
 * every pixel has a weight; WIDE_WEIGHTS of weights.h; RUN: pixels that follow each other and are one work-item's;
 * ALONE 1 if no two work-items count in one copy of the counters.
 */
#include "kmeans/deep_lloyd.h"

/* Notes whether some alpha is neither 0 nor the largest, whatever its pixel weighs.
 * NDRange: 1-D, any size; work-items stride. pixels (n, 4) ushort; notes (1) uint: set to 1 if so. */
__kernel void note_alphas(__global const Sample *pixels, uint n, __global uint *notes)
{
    uint partial = 0;
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint alpha = pixels[CHANNELS * i + CHANNELS - 1];
        partial |= alpha > 0 && alpha < WHITE;
    }
    if (partial)
        atomic_or(&notes[0], 1u);
}

/* Adds 1 to a counter; its value before. */
uint count_one(__global uint *counter)
{
#if ALONE
    return counter[0]++;
#else
    return atomic_inc(counter);
#endif
}

/* Counts the pixels of every cell, those of alpha 0 left out.
 * NDRange: 1-D, any size; work-items stride over runs of RUN pixels. pixels (n, CHANNELS) ushort; tables as
 * common/color_spaces.h wants; grid: cells along each axis; shift: log2 of a cell's side; counts (copies, cells) uint,
 * added to; each work-group adds to one copy. */
__kernel void count_cells(__global const Sample *pixels, uint n, __global const int *tables, int4 grid, int shift,
                          uint copies, __global uint *counts)
{
    __global uint *own = counts + (size_t)(get_group_id(0) % copies) * (grid.x * grid.y * grid.z * grid.w);
    size_t i = get_global_id(0) * RUN;
    while (i < n) {
        const int4 color = load_pixel(pixels, i);
        if (color.w > 0)
            count_one(own + cell_of(space_coordinates(color, tables), grid, shift));
        i += (i + 1) % RUN ? 1 : 1 + (get_global_size(0) - 1) * RUN;
    }
}

/* Writes the points, and their weights if WEIGHTED, to their cells, in any order within one.
 * NDRange: that of count_cells, with its pixels; the first arguments are its own. weights (n) Weight; begins (copies,
 * cells) uint: where each copy's part of a cell begins, moved on; points (n) ulong; placed (n) Weight. */
__kernel void place_points(__global const Sample *pixels, uint n, __global const int *tables, int4 grid, int shift,
                           uint copies, __global const Weight *weights, __global uint *begins, __global ulong *points,
                           __global Weight *placed)
{
    __global uint *own = begins + (size_t)(get_group_id(0) % copies) * (grid.x * grid.y * grid.z * grid.w);
    const uint low_bits = (1u << shift) - 1;
    size_t i = get_global_id(0) * RUN;
    while (i < n) {
        const int4 color = load_pixel(pixels, i);
        if (color.w > 0) {
            const int4 point = space_coordinates(color, tables);
            const uint at = count_one(own + cell_of(point, grid, shift));
            const uint4 within = as_uint4(point) & low_bits;
            points[at] =
                within.x | (ulong)within.y << 16 | (ulong)within.z << 32 | (SPACE_ALPHA ? (ulong)within.w : 1UL) << 48;
            if (WEIGHTED)
                placed[at] = weights[i];
        }
        i += (i + 1) % RUN ? 1 : 1 + (get_global_size(0) - 1) * RUN;
    }
}

/* The sums of every segment's points, as kmeans/deep_lloyd.h says.
 * NDRange: 1-D, a work-item a segment, guarded by their number. segments (n_segments) uint4; points (n) ulong; weights
 * (n) Weight, read if WEIGHTED; sums (n_segments, 1 + DIMS) ulong. squares (2) 64-bit numbers, each as low and high
 * word: the weighted squared distances from the space's origin, a low part and one that is worth 2^18 times as much,
 * added to. */
__kernel void sum_segments(__global const uint4 *segments, uint n_segments, __global const ulong *points,
                           __global const Weight *weights, int4 grid, int shift, __global ulong *sums,
                           __global uint *squares)
{
    const size_t s = get_global_id(0);
    if (s >= n_segments)
        return;
    const uint4 segment = segments[s];
    const int4 corner = place_of((int)segment.x, grid) << shift;
    ulong weight = 0, low = 0, high = 0;
    ulong4 sum = 0;
    for (uint i = segment.y; i < segment.z; i++) {
        const int4 point = corner + within_cell(points[i]);
        const ulong own = WEIGHTED ? weights[i] : 1;
        const ulong distance = (ulong)squared(point);
        weight += own;
        sum += convert_ulong4(point) * own;
        low += own * (distance & ((1 << LOW_BITS) - 1));
        high += own * (distance >> LOW_BITS);
    }
    __global ulong *out = sums + s * (1 + DIMS);
    out[0] = weight;
    out[1] = sum.x;
    out[2] = sum.y;
    out[3] = sum.z;
#if SPACE_ALPHA
    out[4] = sum.w;
#endif
    add_wide_global(squares, low);
    add_wide_global(squares + 2, high);
}
