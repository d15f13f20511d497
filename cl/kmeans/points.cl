/* Weighted points of a colour space, from counted colours, and their sketch: the means of the occupied cells of a grid.
 *
 * Points are (DIMS, stride) float planes of integers: coordinates of common/color_spaces.h times `scale`.
 * Constants: SPACE, SPACE_ALPHA of common/color_spaces.h; WIDE_WEIGHTS of kmeans/weights.h.
 */
#include "common/color_spaces.h"
#include "kmeans/weights.h"

#define DIMS (3 + SPACE_ALPHA)

int4 unpacked(uint color)
{
    return (int4)(color & 255, (color >> 8) & 255, (color >> 16) & 255, color >> 24);
}

/* Points of colours.
 * NDRange: 1-D, a work-item per colour, guarded by n. colors (n) uint packed; tables as common/color_spaces.h wants;
 * points is written. */
__kernel void points_of_colors(__global const uint *colors, uint n, __global const int *tables, int scale, uint stride,
                               __global float *points)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const int4 p = space_coordinates(unpacked(colors[i]), tables) * scale;
    const int axes[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        points[d * stride + i] = (float)axes[d];
}

/* Copies chosen points to centers.
 * NDRange: 1-D, a work-item per center, guarded by k. chosen (k) uint; centers (DIMS, k_stride) float. */
__kernel void pick_points(__global const float *points, uint stride, __global const uint *chosen, uint k, uint k_stride,
                          __global float *centers)
{
    const uint j = get_global_id(0);
    for (int d = 0; d < (j < k ? DIMS : 0); d++)
        centers[d * k_stride + j] = points[d * stride + chosen[j]];
}

/* Whether colour i is the first of its grid cell: `mask` has the bits of a packed colour in which a cell's colours
 * agree. */
int begins_group(__global const uint *colors, uint i, uint first, uint mask)
{
    return i == first || ((colors[i] ^ colors[i - 1]) & mask);
}

/* How many cells of some grids are occupied in each coarse cell.
 * NDRange: 2-D, along the first axis a work-group a coarse cell, along the second a grid. starts (cells + 1) uint into
 * colors; masks: a mask per grid; groups (grids, cells) uint is written; counts: a uint per work-item. */
__kernel void count_groups(__global const uint *colors, __global const uint *starts, uint4 masks, __global uint *groups,
                           __local uint *counts)
{
    const uint grids[4] = {masks.x, masks.y, masks.z, masks.w};
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint first = starts[get_group_id(0)];
    const uint end = starts[get_group_id(0) + 1];
    const uint mask = grids[get_group_id(1)];
    uint found = 0;
    for (uint i = first + lid; i < end; i += size)
        found += begins_group(colors, i, first, mask) != 0;
    counts[lid] = found;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0) {
        uint sum = 0;
        for (uint i = 0; i < size; i++)
            sum += counts[i];
        groups[get_group_id(1) * get_num_groups(0) + get_group_id(0)] = sum;
    }
}

/* The weighted mean of each occupied grid cell, rounded half up, in Z-order.
 * NDRange: 1-D, a work-group a coarse cell. points, weights of the colours; group_starts (cells + 1) uint: where each
 * coarse cell's means go; means (DIMS, mean_stride) and mean_weights are written. counts: a uint per work-item. */
__kernel void mean_of_groups(__global const uint *colors, __global const uint *starts, uint mask,
                             __global const float *points, uint stride, __global const Weight *weights,
                             __global const uint *group_starts, uint mean_stride, __global float *means,
                             __global Weight *mean_weights, __local uint *counts)
{
    const uint lid = get_local_id(0);
    const uint first = starts[get_group_id(0)];
    const uint end = starts[get_group_id(0) + 1];
    const uint run = (end - first + get_local_size(0) - 1) / get_local_size(0);
    const uint begin = min(end, first + lid * run);
    const uint stop = min(end, begin + run);
    uint found = 0;
    for (uint i = begin; i < stop; i++)
        found += begins_group(colors, i, first, mask) != 0;
    counts[lid] = found;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint out = group_starts[get_group_id(0)];
    for (uint i = 0; i < lid; i++)
        out += counts[i];
    for (uint i = begin; i < stop; i++) {
        if (!begins_group(colors, i, first, mask))
            continue;
        ulong weight = 0;
        ulong sums[DIMS];
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            sums[d] = 0;
        uint j = i;
        do {
            weight += weights[j];
#pragma unroll
            for (int d = 0; d < DIMS; d++)
                sums[d] += (ulong)weights[j] * (uint)points[d * stride + j];
            j++;
        } while (j < end && !begins_group(colors, j, first, mask));
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            means[d * mean_stride + out] = (float)(uint)((2 * sums[d] + weight) / (2 * weight));
        mean_weights[out] = (Weight)weight;
        out++;
    }
}

/* The box around the points of each tile of lloyd.cl.
 * NDRange: 1-D, a work-item per tile, guarded by n_tiles. starts (n_tiles + 1) uint into the points; boxes
 * (2 * DIMS, n_tiles) float planes, lowest coordinates then highest, is written. */
__kernel void bound_tiles(__global const float *points, uint stride, __global const uint *starts, uint n_tiles,
                          __global float *boxes)
{
    const uint tile = get_global_id(0);
    if (tile >= n_tiles)
        return;
    for (int d = 0; d < DIMS; d++) {
        float low = FLT_MAX;
        float high = 0.0f;
        for (uint i = starts[tile]; i < starts[tile + 1]; i++) {
            low = min(low, points[d * stride + i]);
            high = max(high, points[d * stride + i]);
        }
        boxes[d * n_tiles + tile] = low;
        boxes[(DIMS + d) * n_tiles + tile] = high;
    }
}
