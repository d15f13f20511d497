/* The assignment step of kmeans/lloyd.cl in the shape that CPUs run fast: one work-item per group, eight points or four
 * centers at a time in the lanes of a vector, sums without atomics in each group's own copy. Same result bit for bit.
 *
 * Candidates are listed twice: for SPAN neighbouring tiles together from all centers, then for each tile from those.
 * The bounds of kmeans/lloyd.cl hold, so every distance is exact.
 *
 * A list has PLANES float planes of k_stride: coordinates, then indices (below 2^16, exact). Centers beyond k, which
 * fill the last vector, are so far away that they never enter a list.
 */
#include "kmeans/lloyd.h"
#include "kmeans/weights.h"

#define SPAN 16
#define PLANES (DIMS + 1)
#define FAR 1.0e6f

typedef struct {
    float low[DIMS];
    float high[DIMS];
} Box;

Box box_of(__global const float *boxes, uint n_tiles, uint first, uint end)
{
    Box box;
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
        box.low[d] = boxes[d * n_tiles + first];
        box.high[d] = boxes[(DIMS + d) * n_tiles + first];
        for (uint t = first + 1; t < end; t++) {
            box.low[d] = min(box.low[d], boxes[d * n_tiles + t]);
            box.high[d] = max(box.high[d], boxes[(DIMS + d) * n_tiles + t]);
        }
    }
    return box;
}

/* The place in a list of the center nearest to the middle of a box. */
uint nearest_to_middle(const Box *box, __global const float *list, uint n, uint stride)
{
    float4 best = FLT_MAX;
    int4 place = 0;
    int4 here = (int4)(0, 1, 2, 3);
    for (uint m = 0; m < n; m += 4) {
        float4 key = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float4 difference = vload4(0, list + d * stride + m) - 0.5f * (box->low[d] + box->high[d]);
            key += difference * difference;
        }
        place = select(place, here, key < best);
        best = min(key, best);
        here += 4;
    }
    const float nearest = min(min(best.x, best.y), min(best.z, best.w));
    return best.x == nearest ? place.x : best.y == nearest ? place.y : best.z == nearest ? place.z : place.w;
}

/* Copies to `kept` those centers of a list that can be nearest to a point of a box, in order, and fills its last
 * vector; returns how many. */
uint filter_list(const Box *box, __global const float *list, uint n, uint stride, __global float *kept)
{
    const uint pivot = nearest_to_middle(box, list, n, stride);
    float at_low[DIMS], at_high[DIMS];
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
        const float s = list[d * stride + pivot];
        at_low[d] = (box->low[d] - s) * (box->low[d] - s);
        at_high[d] = (box->high[d] - s) * (box->high[d] - s);
    }
    uint count = 0;
    for (uint m = 0; m < n; m += 4) {
        float4 lead = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float4 c = vload4(0, list + d * stride + m);
            const float4 from_low = box->low[d] - c;
            const float4 from_high = box->high[d] - c;
            lead += max(at_low[d] - from_low * from_low, at_high[d] - from_high * from_high);
        }
        const int4 kept_lanes = lead >= 0.0f;
        if (any(kept_lanes)) {
            const int lane[4] = {kept_lanes.x, kept_lanes.y, kept_lanes.z, kept_lanes.w};
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int d = 0; d < PLANES; d++)
                    kept[d * stride + count] = list[d * stride + m + i];
                count += lane[i] & 1;
            }
        }
    }
    for (uint m = count; m < (count + 3) / 4 * 4; m++)
#pragma unroll
        for (int d = 0; d < PLANES; d++)
            kept[d * stride + m] = FAR;
    return count;
}

/* Adds the points first .. end - 1 to the statistics of their nearest centers in a list. */
void assign_points(__global const float *points, uint stride, __global const Weight *weights, uint first, uint end,
                   __global const float *list, uint listed, uint k_stride, __global const float *centers, uint by_axis,
                   __global ulong *sums)
{
    for (uint i = first; i < end; i += 8) {
        float8 x[DIMS];
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            x[d] = vload8(0, points + d * stride + i);
        float8 best = FLT_MAX;
        float8 nearest = 0.0f;
        for (uint m = 0; m < listed; m++) {
            float8 distance = 0.0f;
#pragma unroll
            for (int d = 0; d < DIMS; d++) {
                const float8 difference = x[d] - list[d * k_stride + m];
                distance += difference * difference;
            }
            nearest = select(nearest, (float8)list[DIMS * k_stride + m], distance < best);
            best = min(distance, best);
        }
        int coordinates[8 * DIMS], indices[8], distances[8];
        vstore8(convert_int8(nearest), 0, indices);
        vstore8(convert_int8(best), 0, distances);
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            vstore8(convert_int8(x[d]), d, coordinates);
        for (uint lane = 0; lane < min(8u, end - i); lane++) {
            const uint j = (uint)indices[lane];
            const ulong weight = weights[i + lane];
            __global ulong *sum = sums + j * STATS;
            sum[0] += weight;
#pragma unroll
            for (int d = 0; d < DIMS; d++)
                sum[1 + d] += weight * (uint)coordinates[8 * d + lane];
            if (by_axis)
#pragma unroll
                for (int d = 0; d < DIMS; d++) {
                    const int difference = coordinates[8 * d + lane] - (int)centers[d * k_stride + j];
                    sum[1 + DIMS + d] += weight * (uint)(difference * difference);
                }
            else
                sum[1 + DIMS] += weight * (uint)distances[lane];
        }
    }
}

/* As assign_tiles of lloyd.cl. NDRange: 1-D, work-groups of one work-item, each with a share of the tiles.
 * lists: 3 * PLANES * k_stride float a group, scratch; sums (groups, k, STATS) ulong, added to. Does nothing where
 * state[DONE], unless `by_axis`. The last two arguments are not used. */
__kernel void assign_tiles(__global const float *points, uint stride, __global const Weight *weights,
                           __global const uint *starts, __global const float *boxes, uint n_tiles,
                           __global const float *centers, uint k, uint k_stride, uint by_axis,
                           __global const uint *state, __global float *lists, __global ulong *sums, __local ulong *keys,
                           __local uint *local_sums)
{
    const uint group = get_group_id(0);
    const uint size = PLANES * k_stride;
    __global float *all = lists + 3 * (size_t)size * group;
    __global ulong *own = sums + (size_t)k * STATS * group;
    const uint spans = (n_tiles + SPAN - 1) / SPAN;
    const uint end_span = state[DONE] && !by_axis ? 0 : spans;
    for (uint i = 0; i < k_stride; i++) {
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            all[d * k_stride + i] = i < k ? centers[d * k_stride + i] : FAR;
        all[DIMS * k_stride + i] = (float)i;
    }
    for (uint span = group; span < end_span; span += get_num_groups(0)) {
        const uint end = min(n_tiles, (span + 1) * SPAN);
        Box box = box_of(boxes, n_tiles, span * SPAN, end);
        const uint shared = filter_list(&box, all, k, k_stride, all + size);
        for (uint tile = span * SPAN; tile < end; tile++) {
            box = box_of(boxes, n_tiles, tile, tile + 1);
            const uint listed = filter_list(&box, all + size, shared, k_stride, all + 2 * size);
            assign_points(points, stride, weights, starts[tile], starts[tile + 1], all + 2 * size, listed, k_stride,
                          centers, by_axis, own);
        }
    }
}
