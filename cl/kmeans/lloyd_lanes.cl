/* The assignment step of kmeans/lloyd.cl in the shape that CPUs run fast: one work-item per group, eight points or
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
uint nearest_to_middle(const Box box, __global const float *list, uint n, uint stride)
{
    float8 best = FLT_MAX;
    int8 place = 0;
    int8 here = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    for (uint m = 0; m < n; m += 8) {
        float8 key = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float8 difference = vload8(0, list + d * stride + m) - 0.5f * (box.low[d] + box.high[d]);
            key += difference * difference;
        }
        place = select(place, here, key < best);
        best = min(key, best);
        here += 8;
    }
    const float4 four = min(best.lo, best.hi);
    const float nearest = min(min(four.x, four.y), min(four.z, four.w));
    const int8 places = select((int8)INT_MAX, place, best == nearest);
    const int4 least = min(places.lo, places.hi);
    return min(min(least.x, least.y), min(least.z, least.w));
}

/* Copies the centers m .. m + 3 of a list to `kept` where the highest bit is set; returns how many are kept by then. */
uint keep(int4 chosen, __global const float *list, uint m, uint stride, __global float *kept, uint count)
{
    const int lane[4] = {chosen.x, chosen.y, chosen.z, chosen.w};
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int d = 0; d < PLANES; d++)
            kept[d * stride + count] = list[d * stride + m + i];
        count += lane[i] & 1;
    }
    return count;
}

/* Copies to `kept` those centers of a list that can be nearest to a point of a box, in order, and fills its last
 * vector; returns how many. */
uint filter_list(const Box box, __global const float *list, uint n, uint stride, __global float *kept)
{
    const uint pivot = nearest_to_middle(box, list, n, stride);
    float at_low[DIMS], at_high[DIMS];
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
        const float s = list[d * stride + pivot];
        at_low[d] = (box.low[d] - s) * (box.low[d] - s);
        at_high[d] = (box.high[d] - s) * (box.high[d] - s);
    }
    uint count = 0;
    for (uint m = 0; m < n; m += 8) {
        float8 lead = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float8 c = vload8(0, list + d * stride + m);
            const float8 from_low = box.low[d] - c;
            const float8 from_high = box.high[d] - c;
            lead += max(at_low[d] - from_low * from_low, at_high[d] - from_high * from_high);
        }
        const int8 chosen = lead >= 0.0f;
        if (any(chosen.lo))
            count = keep(chosen.lo, list, m, stride, kept, count);
        if (any(chosen.hi))
            count = keep(chosen.hi, list, m + 4, stride, kept, count);
    }
    for (uint m = count; m < (count + 7) / 8 * 8; m++)
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
 * lists: 3 * PLANES * k_stride float per group, scratch; sums (groups, k, STATS) ulong, added to. Does nothing where
 * state[DONE], unless `by_axis`. */
__kernel void assign_tiles(__global const float *points, uint stride, __global const Weight *weights,
                           __global const uint *starts, __global const float *boxes, uint n_tiles,
                           __global const float *centers, uint k, uint k_stride, uint by_axis,
                           __global const uint *state, __global float *lists, __global ulong *sums)
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
        const uint shared = filter_list(box, all, k, k_stride, all + size);
        for (uint tile = span * SPAN; tile < end; tile++) {
            box = box_of(boxes, n_tiles, tile, tile + 1);
            const uint listed = filter_list(box, all + size, shared, k_stride, all + 2 * size);
            assign_points(points, stride, weights, starts[tile], starts[tile + 1], all + 2 * size, listed, k_stride,
                          centers, by_axis, own);
        }
    }
}
