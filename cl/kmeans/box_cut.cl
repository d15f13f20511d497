/* Cutting boxes of weighted points in two: median cut, and Wu's least variance.
 *
 * P. Heckbert, "Color image quantization for frame buffer display", SIGGRAPH 1982; X. Wu, "Efficient statistical
 * computations for optimal color quantization", Graphics Gems II, 1991. A box has its points in order along each axis,
 * those at the same place by their number, and is cut between two neighbours in one of the orders. Boxes lie one behind
 * the other in two tables of orders in turn: the parts of a box go where it was, in the other table.
 *
 * Sums of weights are at most 2^39, of weighted coordinates below 2^51 and of weighted squares below 2^63 (see
 * kmeans/weights.h). A work-item has a run of consecutive points of an order.
 *
 * Layout: records (n) ulong2: a point's weight, and its coordinates in 16 bits each, the first lowest; orders
 * (2, DIMS, n) uint; boxes (boxes) uint4: the first place, the points, and which table; cuts (boxes, DIMS) ulong2: how
 * good the best cut across an axis is, above 0 if there is any, and how many points come before it.
 * Constants: DIMS 3 or 4; WIDE_WEIGHTS of kmeans/weights.h.
 */
#include "common/compile_hints.h"
#include "kmeans/doubles.h"
#include "kmeans/weights.h"

#define DIGIT_BITS 6
#define DIGITS (1 << DIGIT_BITS)
#define PASSES 2
#define STATISTICS 5
#define MOST_SUMS (1 + DIMS)

typedef struct {
    uint first, end;
} Run;

/* The work-item's part of n places. */
Run own_run(uint n)
{
    const uint length = (n + (uint)get_local_size(0) - 1) / (uint)get_local_size(0);
    Run run;
    run.first = min(n, (uint)get_local_id(0) * length);
    run.end = min(n, run.first + length);
    return run;
}

ulong coordinate_of(ulong2 record, uint axis)
{
    return record.y >> (16 * axis) & 0xffff;
}

/* Of each of `count` numbers its sum over all work-items before this one, in its place, and over all in `totals`.
 * room: `count` ulongs per work-item. Begins without a barrier and ends with one. */
void sum_before(ulong *numbers, ulong *totals, uint count, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    for (uint v = 0; v < count; v++)
        room[v * size + lid] = numbers[v];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < size; step *= 2) {
        ulong before[MOST_SUMS];
        for (uint v = 0; v < count; v++)
            before[v] = lid >= step ? room[v * size + lid - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint v = 0; v < count; v++)
            room[v * size + lid] += before[v];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint v = 0; v < count; v++) {
        numbers[v] = room[v * size + lid] - numbers[v];
        totals[v] = room[v * size + size - 1];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The largest number of all work-items; ends with a barrier. */
ulong most_of(ulong own, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    room[lid] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint left = size; left > 1; left = (left + 1) / 2) {
        const uint middle = (left + 1) / 2;
        if (lid + middle < left)
            room[lid] = max(room[lid], room[lid + middle]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const ulong most = room[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}

/* NDRange: 1-D, a work-item per point, guarded by n. points (DIMS, stride) float and weights as kmeans/points.cl has
 * them; records is written. */
__kernel SMALL void record_points(__global const float *points, uint stride, __global const Weight *weights, uint n,
                            __global ulong2 *records)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    ulong coordinates = 0;
    for (uint d = 0; d < DIMS; d++)
        coordinates |= (ulong)points[d * stride + i] << (16 * d);
    records[i] = (ulong2)(weights[i], coordinates);
}

/* The orders of all points, by counting sorts on the digits of coordinates below 2^12, the lowest first.
 * NDRange: 2-D, one work-group per axis along the second. orders: its first table is the result, the second scratch;
 * counts (DIMS, DIGITS, group) uint: scratch; room: 1 + DIMS ulongs per work-item. */
__kernel SMALL void order_points(__global const ulong2 *records, uint n, __global uint *orders, __global uint *counts,
                           __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint axis = get_group_id(1);
    const Run run = own_run(n);
    counts += axis * DIGITS * size;
    for (uint pass = 0; pass < PASSES; pass++) {
        __global const uint *from = orders + axis * n + (pass & 1 ? DIMS * n : 0);
        __global uint *to = orders + axis * n + (pass & 1 ? 0 : DIMS * n);
        const uint shift = pass * DIGIT_BITS;
        for (uint digit = 0; digit < DIGITS; digit++)
            counts[digit * size + lid] = 0;
        for (uint i = run.first; i < run.end; i++) {
            const ulong2 record = records[pass ? from[i] : i];
            counts[(coordinate_of(record, axis) >> shift & DIGITS - 1) * size + lid]++;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        ulong place = 0;
        ulong total;
        for (uint i = lid * DIGITS; i < (lid + 1) * DIGITS; i++)
            place += counts[i];
        sum_before(&place, &total, 1, room);
        for (uint i = lid * DIGITS; i < (lid + 1) * DIGITS; i++) {
            const uint count = counts[i];
            counts[i] = (uint)place;
            place += count;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (uint i = run.first; i < run.end; i++) {
            const uint point = pass ? from[i] : i;
            to[counts[(coordinate_of(records[point], axis) >> shift & DIGITS - 1) * size + lid]++] = point;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

/* Adds a point to its weight and weighted coordinates. */
void add_point(ulong *sums, ulong2 record)
{
    sums[0] += record.x;
#pragma unroll
    for (uint d = 0; d < DIMS; d++)
        sums[1 + d] += record.x * coordinate_of(record, d);
}

/* About the sum of |sum|^2 / weight over two parts, with coordinates from the mean of the whole on: 14 roundings of at
 * most 2^-24, or 2.5 times that of divisions, add only numbers from 0 up, so that it is right to 2^-19 of it. */
float rough_gain(const ulong *first, const ulong *whole, const ulong *mean)
{
    const ulong mass = whole[0] - first[0];
    float before = 0.0f;
    float after = 0.0f;
#pragma unroll
    for (uint d = 0; d < DIMS; d++) {
        const float a = (float)(long)(first[1 + d] - first[0] * mean[d]);
        const float b = (float)(long)(whole[1 + d] - first[1 + d] - mass * mean[d]);
        before += a * a;
        after += b * b;
    }
    return before / (float)first[0] + after / (float)mass;
}

/* The bits of the sum of |sum|^2 / weight over two parts, in doubles: first all squares of a part, axis by axis. */
ulong gain_of(const ulong *first, const ulong *whole)
{
    Double gain = {0, 0};
    FEW_TURNS
    for (uint part = 0; part < 2; part++) {
        Double squares = {0, 0};
        FEW_TURNS
        for (uint d = 1; d <= DIMS; d++)
            squares = sum_of(squares, square_of(part ? whole[d] - first[d] : first[d]));
        gain = sum_of(gain, quotient_of(squares, part ? whole[0] - first[0] : first[0]));
    }
    return bits_of(gain);
}

/* The cut across each axis after which the least of the squared differences remains, which is where |sum|^2 / weight of
 * both parts adds up to most. Doubles are computed of those cuts alone that may be the best by `rough_gain`.
 *
 * By it the best is at most 2^-17 of it and 2^-24 of the weight above the best in doubles: these are right to 2^-50 of
 * a sum that is at most 2^24 of the weight more.
 * NDRange: 2-D, a work-group per box along the first axis, and one per axis along the second. room: 1 + DIMS
 * ulongs per work-item. */
__kernel SMALL void cut_by_variance(__global const ulong2 *records, uint n, __global const uint *orders,
                              __global const uint4 *boxes, __global ulong2 *cuts, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint axis = get_group_id(1);
    const uint4 box = boxes[get_group_id(0)];
    orders += (box.z * DIMS + axis) * n + box.x;
    const Run run = own_run(box.y);
    const uint end = min(run.end, box.y - 1);
    ulong before[1 + DIMS] = {0};
    ulong whole[1 + DIMS];
    ulong first[1 + DIMS];
    ulong mean[DIMS];
    for (uint i = run.first; i < run.end; i++)
        add_point(before, records[orders[i]]);
    sum_before(before, whole, 1 + DIMS, room);
    for (uint d = 0; d < DIMS; d++)
        mean[d] = (2 * whole[1 + d] + whole[0]) / (2 * whole[0]);

    float most = 0.0f;
    for (uint v = 0; v <= DIMS; v++)
        first[v] = before[v];
    for (uint i = run.first; i < end; i++) {
        add_point(first, records[orders[i]]);
        most = max(most, rough_gain(first, whole, mean));
    }
    float least = as_float((uint)most_of(as_uint(most), room)); /* floats from 0 up are in the order of their bits */
    least -= least * 0x1p-17f + (float)whole[0] * 0x1p-24f;

    ulong2 best = (ulong2)(0, 0);
    for (uint v = 0; v <= DIMS; v++)
        first[v] = before[v];
    for (uint i = run.first; i < (most >= least ? end : run.first); i++) {
        add_point(first, records[orders[i]]);
        if (rough_gain(first, whole, mean) < least)
            continue;
        const ulong gain = 1 + gain_of(first, whole);
        if (gain > best.x)
            best = (ulong2)(gain, i + 1);
    }
    const ulong gain = most_of(best.x, room);
    const ulong winner = most_of(best.x == gain ? size - lid : 0, room);
    if (size - lid == winner)
        cuts[get_group_id(0) * DIMS + axis] = best;
}

/* The length of a box along an axis, of whose table `orders` is the beginning. */
ulong side_of(__global const ulong2 *records, uint n, __global const uint *orders, uint4 box, uint axis)
{
    orders += axis * n + box.x;
    return coordinate_of(records[orders[box.y - 1]], axis) - coordinate_of(records[orders[0]], axis);
}

/* The cut across each box's longest side, ties to the lowest axis, after its weighted median.
 * NDRange, room: as above. */
__kernel SMALL void cut_at_median(__global const ulong2 *records, uint n, __global const uint *orders,
                            __global const uint4 *boxes, __global ulong2 *cuts, __local ulong *room)
{
    const uint axis = get_group_id(1);
    const uint4 box = boxes[get_group_id(0)];
    __global ulong2 *cut = cuts + get_group_id(0) * DIMS + axis;
    orders += box.z * DIMS * n;
    const ulong side = side_of(records, n, orders, box, axis);
    int longest = 1;
    for (uint d = 0; d < DIMS; d++) {
        const ulong other = side_of(records, n, orders, box, d);
        longest &= d < axis ? side > other : side >= other;
    }
    orders += axis * n + box.x;
    const Run run = own_run(longest ? box.y : 0);
    ulong own = 0;
    for (uint i = run.first; i < run.end; i++)
        own += records[orders[i]].x;
    ulong passed = own;
    ulong total;
    sum_before(&passed, &total, 1, room);
    if (!longest && get_local_id(0) == 0)
        *cut = (ulong2)(0, 0);
    if (2 * passed < total && 2 * (passed + own) >= total) {
        uint i = run.first;
        for (; 2 * passed < total; i++)
            passed += records[orders[i]].x;
        *cut = (ulong2)(1, min(i, box.y - 1));
    }
}

/* Puts the points of boxes that are cut into the orders of both parts.
 * NDRange: as above. statistics (boxes, DIMS, STATISTICS) ulong is written: of the first part, the points, their
 * weight, and along the axis their weighted coordinates and squares; then, in 16 bits each, the lowest and the highest
 * coordinate of the first part, and both of the second. */
__kernel SMALL void divide_boxes(__global const ulong2 *records, uint n, __global uint *orders, __global const uint4 *boxes,
                           __global const ulong2 *cuts, __global ulong *statistics, __local ulong *room)
{
    const uint axis = get_group_id(1);
    const uint4 box = boxes[get_group_id(0)];
    cuts += get_group_id(0) * DIMS;
    uint across = 0;
    for (uint d = 1; d < DIMS; d++)
        across = cuts[d].x > cuts[across].x ? d : across;
    const uint count = (uint)cuts[across].y;
    const uint last = orders[(box.z * DIMS + across) * n + box.x + count - 1];
    const ulong border = coordinate_of(records[last], across);
    __global const uint *from = orders + (box.z * DIMS + axis) * n + box.x;
    __global uint *to = orders + ((1 - box.z) * DIMS + axis) * n + box.x;
    const Run run = own_run(box.y);
    ulong sums[4] = {0, 0, 0, 0};
    for (uint i = run.first; i < run.end; i++) {
        const ulong2 record = records[from[i]];
        const ulong place = coordinate_of(record, across);
        if (place < border || (place == border && from[i] <= last)) {
            const ulong x = coordinate_of(record, axis);
            sums[0]++;
            sums[1] += record.x;
            sums[2] += record.x * x;
            sums[3] += record.x * x * x;
        }
    }
    ulong totals[4];
    sum_before(sums, totals, 4, room);
    uint before = (uint)sums[0];
    for (uint i = run.first; i < run.end; i++) {
        const ulong place = coordinate_of(records[from[i]], across);
        const int is_first = place < border || (place == border && from[i] <= last);
        to[is_first ? before : count + i - before] = from[i];
        before += is_first;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        statistics += (get_group_id(0) * DIMS + axis) * STATISTICS;
        for (uint s = 0; s < 4; s++)
            statistics[s] = totals[s];
        const uint second = min(count, box.y - 1);
        statistics[4] = coordinate_of(records[to[0]], axis) | coordinate_of(records[to[count - 1]], axis) << 16 |
                        coordinate_of(records[to[second]], axis) << 32 |
                        coordinate_of(records[to[box.y - 1]], axis) << 48;
    }
}
