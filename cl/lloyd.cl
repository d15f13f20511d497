/* Lloyd's algorithm over weighted points, exact and pruned.
 *
 * S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982). Points come in tiles:
 * runs of neighbouring points with the box around them. Before a tile's points are assigned, every center is discarded
 * that loses everywhere in the box to the one nearest to the box's middle: the difference of two squared distances is
 * linear in the point, so its greatest value is at a corner (T. Kanungo et al., "An efficient k-means clustering
 * algorithm", IEEE TPAMI 24 (2002), the filtering criterion). What remains, in ascending index, holds every nearest
 * center, ties included.
 *
 * Exactness. Coordinates of points and centers are integers from 0 to an extent with the sum of squared extents below
 * 2^24 (asserted on the host), so squared distances, their partial sums and the differences of partial sums are
 * integers below 2^24: exact in fp32, fused or not. Weights add up to less than 2^32, so sums of coordinates stay below
 * 2^44 and of squared distances below 2^56: exact in 64 bits, in any order.
 *
 * Constants: DIMS 3 or 4.
 * Layout: points (DIMS, stride) float planes; centers (DIMS, k_stride) float planes; tiles: starts (n_tiles + 1) uint into the
 * points, boxes (2 * DIMS, n_tiles) float planes, lowest coordinates then highest. A center's statistics are STATS
 * 64-bit numbers, each as low and high word: weight, sums of coordinates, sums of squared differences by axis; or, where
 * `by_axis` is 0, the sum of squared distances in place of the first of the latter and 0 in the others.
 */
#include "lloyd.h"

/* Centers of a tile's list that are summed in local memory, and that are read from there. */
#define SLOTS 16
#define SHORTLIST 64

/* The greatest lead that a center c has over the pivot s within a box: max over it of |x - s|^2 - |x - c|^2. */
float greatest_lead(const float *low, const float *high, const float *s, const float *c)
{
    float lead = 0.0f;
    for (int d = 0; d < DIMS; d++) {
        const float at_low = (low[d] - s[d]) * (low[d] - s[d]) - (low[d] - c[d]) * (low[d] - c[d]);
        const float at_high = (high[d] - s[d]) * (high[d] - s[d]) - (high[d] - c[d]) * (high[d] - c[d]);
        lead += max(at_low, at_high);
    }
    return lead;
}

void load_center(__global const float *centers, uint k_stride, uint j, float *c)
{
    for (int d = 0; d < DIMS; d++)
        c[d] = centers[d * k_stride + j];
}

void add_wide_local(__local volatile uint *sum, ulong value)
{
    const uint low = (uint)value;
    uint high = (uint)(value >> 32);
    if (low)
        high += (uint)(atomic_add(&sum[0], low) + low) < low;
    if (high)
        atomic_add(&sum[1], high);
}

void add_wide_global(__global volatile uint *sum, ulong value)
{
    const uint low = (uint)value;
    uint high = (uint)(value >> 32);
    if (low)
        high += (uint)(atomic_add(&sum[0], low) + low) < low;
    if (high)
        atomic_add(&sum[1], high);
}

/* Lists, in ascending index, the centers that can be nearest to a point of a tile; returns how many. Every work-item of
 * the group calls it; keys and found have an entry a work-item. */
uint list_centers(const float *low, const float *high, __global const float *centers, uint k, uint k_stride,
                  __global ushort *list, __local float *keys, __local uint *found)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    float best = FLT_MAX;
    uint pivot = 0;
    float c[DIMS], s[DIMS];
    for (uint j = lid; j < k; j += size) {
        float key = 0.0f;
        for (int d = 0; d < DIMS; d++) {
            const float from_middle = centers[d * k_stride + j] - 0.5f * (low[d] + high[d]);
            key += from_middle * from_middle;
        }
        pivot = key < best ? j : pivot;
        best = min(key, best);
    }
    keys[lid] = best;
    found[lid] = pivot;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < size; i++) {
        pivot = keys[i] < best ? found[i] : pivot;
        best = min(keys[i], best);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Work-items may differ in a pivot of equal distance; any pivot gives a list that holds every nearest center. */
    load_center(centers, k_stride, pivot, s);
    const uint run = (k + size - 1) / size;
    const uint end = min(k, (lid + 1) * run);
    uint n = 0;
    for (uint j = lid * run; j < end; j++) {
        load_center(centers, k_stride, j, c);
        n += greatest_lead(low, high, s, c) >= 0.0f;
    }
    found[lid] = n;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = 0;
    uint total = 0;
    for (uint i = 0; i < size; i++) {
        at += i < lid ? found[i] : 0;
        total += found[i];
    }
    for (uint j = lid * run; j < end; j++) {
        load_center(centers, k_stride, j, c);
        if (greatest_lead(low, high, s, c) >= 0.0f)
            list[at++] = (ushort)j;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return total;
}

/* Adds a point to the statistics of the center j at place `slot` of a tile's list, at this distance. */
void add_point(const float *x, const float *c, float distance, uint weight, uint slot, uint j, uint by_axis,
               __local uint *local_sums, __global uint *sums)
{
    ulong value[STATS];
    value[0] = weight;
    for (int d = 0; d < DIMS; d++) {
        const float squared = (x[d] - c[d]) * (x[d] - c[d]);
        value[1 + d] = (ulong)weight * (uint)x[d];
        value[1 + DIMS + d] = (ulong)weight * (uint)(by_axis ? squared : d == 0 ? distance : 0.0f);
    }
    const int used = by_axis ? STATS : 2 + DIMS;
    for (int s = 0; s < used; s++) {
        if (slot < SLOTS)
            add_wide_local(&local_sums[2 * (slot * STATS + s)], value[s]);
        else
            add_wide_global(&sums[2 * (j * STATS + s)], value[s]);
    }
}

/* Assigns every point to its nearest center, ties to the lowest index, and adds up each center's statistics.
 * NDRange: 1-D, any size; a work-group strides over tiles. Does nothing where state[DONE].
 * weights (n) uint; lists: k ushort a work-group, scratch; sums (k, STATS) 64-bit, added to. Local: keys float and found uint,
 * one a work-item; local_sums SLOTS * STATS 64-bit; DIMS * SHORTLIST floats besides. */
__kernel void assign_tiles(__global const float *points, uint stride, __global const uint *weights,
                           __global const uint *starts, __global const float *boxes, uint n_tiles,
                           __global const float *centers, uint k, uint k_stride, uint by_axis,
                           __global const uint *state, __global ushort *lists, __global uint *sums,
                           __local float *keys, __local uint *found, __local uint *local_sums)
{
    __local float shortlist[DIMS * SHORTLIST];
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    __global ushort *list = lists + (size_t)get_group_id(0) * k;
    const uint end_tile = state[DONE] ? 0 : n_tiles;
    for (uint tile = get_group_id(0); tile < end_tile; tile += get_num_groups(0)) {
        float low[DIMS], high[DIMS], x[DIMS], c[DIMS];
        for (int d = 0; d < DIMS; d++) {
            low[d] = boxes[d * n_tiles + tile];
            high[d] = boxes[(DIMS + d) * n_tiles + tile];
        }
        for (uint i = lid; i < 2 * SLOTS * STATS; i += size)
            local_sums[i] = 0;
        const uint listed = list_centers(low, high, centers, k, k_stride, list, keys, found);
        const uint short_listed = min(listed, (uint)SHORTLIST);
        for (uint m = lid; m < short_listed; m += size)
            for (int d = 0; d < DIMS; d++)
                shortlist[d * SHORTLIST + m] = centers[d * k_stride + list[m]];
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint end = starts[tile + 1];
        for (uint i = starts[tile] + lid; i < end; i += size) {
            for (int d = 0; d < DIMS; d++)
                x[d] = points[d * stride + i];
            float best = FLT_MAX;
            uint slot = 0;
            for (uint m = 0; m < short_listed; m++) {
                float distance = 0.0f;
                for (int d = 0; d < DIMS; d++)
                    distance += (x[d] - shortlist[d * SHORTLIST + m]) * (x[d] - shortlist[d * SHORTLIST + m]);
                slot = distance < best ? m : slot;
                best = min(distance, best);
            }
            for (uint m = SHORTLIST; m < listed; m++) {
                load_center(centers, k_stride, list[m], c);
                float distance = 0.0f;
                for (int d = 0; d < DIMS; d++)
                    distance += (x[d] - c[d]) * (x[d] - c[d]);
                slot = distance < best ? m : slot;
                best = min(distance, best);
            }
            load_center(centers, k_stride, list[slot], c);
            add_point(x, c, best, weights[i], slot, list[slot], by_axis, local_sums, sums);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = lid; i < min(listed, (uint)SLOTS) * STATS; i += size) {
            const ulong value = ((ulong)local_sums[2 * i + 1] << 32) | local_sums[2 * i];
            add_wide_global(&sums[2 * (list[i / STATS] * STATS + i % STATS)], value);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}

/* The box around each tile's points.
 * NDRange: 1-D, a work-item a tile, guarded by n_tiles. boxes is written. */
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
