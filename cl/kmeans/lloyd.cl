/* Lloyd's algorithm over weighted points, exact and pruned.
 *
 * S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982). Points come in
 * tiles: runs of neighbouring points with the box around them. Before a tile's points are assigned, every center is
 * discarded that loses everywhere in the box to the one nearest to the box's middle: the difference of two squared
 * distances is linear in the point, so its greatest value is at a corner (T. Kanungo et al., "An efficient k-means
 * clustering algorithm", IEEE TPAMI 24 (2002), the filtering criterion). What remains, in ascending index, holds every
 * nearest center, ties included.
 *
 * Exactness. Coordinates of points and centers are integers from 0 to an extent with the sum of squared extents below
 * 2^24 (checked on the host), so squared distances, their partial sums and the differences of partial sums are
 * integers below 2^24: exact in fp32, fused or not. Weights add up to at most 2^39, so their sums are exact in 64 bits, in
 * any order (see weights.h).
 *
 * Constants: DIMS 3 or 4; WIDE_WEIGHTS of weights.h.
 * Layout: points (DIMS, stride) float planes; centers (DIMS, k_stride) float planes; tiles: starts (n_tiles + 1) uint
 * into the points, boxes (2 * DIMS, n_tiles) float planes, lowest coordinates then highest. A center's statistics are
 * STATS 64-bit numbers, each as low and high word: weight, sums of coordinates, sums of squared differences by axis;
 * or, where `by_axis` is 0, the sum of squared distances in place of the first of the latter and 0 in the others.
 */
#define MOST_SUMS 1
#include "common/compile_hints.h"
#include "common/group_sums.h"
#include "common/wide_sums.h"
#include "kmeans/lloyd.h"
#include "kmeans/weights.h"

/* Centers of a tile's list that are kept in local memory, a multiple of SLOTS; and those that are summed there. */
#define SHORTLIST 64
#define SLOTS 16

void load_center(__global const float *centers, uint k_stride, uint j, float *c)
{
    for (int d = 0; d < DIMS; d++)
        c[d] = centers[d * k_stride + j];
}

/* The center nearest to the middle of a box, ties to the lowest; all of the group call it. keys: a ulong per work-item.
 * Squared distances are not below 0, so their bits are ordered as they are. */
uint nearest_to_middle(const float *low, const float *high, __global const float *centers, uint k, uint k_stride,
                       __local ulong *keys)
{
    float best = FLT_MAX;
    uint nearest = 0;
    for (uint j = get_local_id(0); j < k; j += get_local_size(0)) {
        float key = 0.0f;
        for (int d = 0; d < DIMS; d++) {
            const float from_middle = centers[d * k_stride + j] - 0.5f * (low[d] + high[d]);
            key += from_middle * from_middle;
        }
        nearest = key < best ? j : nearest;
        best = min(key, best);
    }
    return (uint)~most_of(~((ulong)as_uint(best) << 32 | nearest), keys);
}

/* Lists, in ascending index, the centers that can be nearest to a point of a tile; returns how many. The first
 * SHORTLIST are kept in `names` and `shortlist` too. All of the group call it; keys: a ulong per work-item. */
uint list_centers(const float *low, const float *high, __global const float *centers, uint k, uint k_stride,
                  __global ushort *list, __local ulong *keys, __local ushort *names, __local float *shortlist)
{
    float c[DIMS], s[DIMS];
    load_center(centers, k_stride, nearest_to_middle(low, high, centers, k, k_stride, keys), s);
    const Run run = own_run(k);
    uint first = run.end;
    ulong at = 0;
    ulong listed;
    for (uint j = run.first; j < run.end; j++) {
        load_center(centers, k_stride, j, c);
        const uint stays = greatest_lead(low, high, s, c) >= 0.0f;
        first = stays ? min(first, j) : first;
        at += stays;
    }
    sum_before(&at, &listed, 1, keys);
    for (uint j = first; j < run.end; j++) {
        load_center(centers, k_stride, j, c);
        if (greatest_lead(low, high, s, c) < 0.0f)
            continue;
        if (at < SHORTLIST) {
            names[at] = (ushort)j;
            for (int d = 0; d < DIMS; d++)
                shortlist[d * SHORTLIST + at] = c[d];
        }
        list[at++] = (ushort)j;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return (uint)listed;
}

/* Adds a point to the statistics of the center j at place `slot` of a tile's list, at this distance. */
void add_point(const float *x, const float *c, float distance, Weight weight, uint slot, uint j, uint by_axis,
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
 * NDRange: 1-D, groups of a power of two; a work-group strides over tiles. Does nothing where state[DONE], unless
 * `by_axis`. weights (n); lists: k ushort a work-group, scratch; sums (k, STATS) 64-bit, added to. Local: keys, a
 * ulong per work-item; local_sums SLOTS * STATS 64-bit; DIMS * SHORTLIST floats and SHORTLIST ushort besides. */
__kernel void assign_tiles(__global const float *points, uint stride, __global const Weight *weights,
                           __global const uint *starts, __global const float *boxes, uint n_tiles,
                           __global const float *centers, uint k, uint k_stride, uint by_axis,
                           __global const uint *state, __global ushort *lists, __global uint *sums, __local ulong *keys,
                           __local uint *local_sums)
{
    __local float shortlist[DIMS * SHORTLIST];
    __local ushort names[SHORTLIST];
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint end_tile = state[DONE] && !by_axis ? 0 : n_tiles;
    __global ushort *list = lists + (size_t)get_group_id(0) * k;
    for (uint tile = get_group_id(0); tile < end_tile; tile += get_num_groups(0)) {
        float low[DIMS], high[DIMS], x[DIMS], c[DIMS];
        for (int d = 0; d < DIMS; d++) {
            low[d] = boxes[d * n_tiles + tile];
            high[d] = boxes[(DIMS + d) * n_tiles + tile];
        }
        for (uint i = lid; i < 2 * SLOTS * STATS; i += size)
            local_sums[i] = 0;
        /* The first point is on its way while the list is made. */
        const uint first = starts[tile] + lid;
        const uint end = starts[tile + 1];
        Weight weight = 0;
        if (first < end) {
            load_point(points, stride, first, x);
            weight = weights[first];
        }
        const uint listed = list_centers(low, high, centers, k, k_stride, list, keys, names, shortlist);
        const uint short_listed = min(listed, (uint)SHORTLIST);
        for (uint i = first; i < end; i += size) {
            if (i > first) {
                load_point(points, stride, i, x);
                weight = weights[i];
            }
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
            const uint j = slot < SHORTLIST ? names[slot] : list[slot];
            load_center(centers, k_stride, j, c);
            add_point(x, c, best, weight, slot, j, by_axis, local_sums, sums);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = lid; i < min(listed, (uint)SLOTS) * STATS; i += size) {
            const ulong value = ((ulong)local_sums[2 * i + 1] << 32) | local_sums[2 * i];
            add_wide_global(&sums[2 * (names[i / STATS] * STATS + i % STATS)], value);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
