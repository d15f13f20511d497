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
 * The host chooses boxes; a launch finds where to cut them, and another one divides them.
 *
 * Layout: records (n) ulong2: a point's weight, and its coordinates in 16 bits each, the first lowest; all_orders
 * (2, DIMS, n) uint; boxes (boxes) uint4, of those that are cut: the first place, the points, which table, and the axis of
 * the longest side; cuts (boxes, DIMS) ulong2: how good the best cut of a box across an axis is, above 0 if there is any,
 * and how many points come before it. room: 1 + DIMS ulongs of local memory per work-item. Barriers are outside of
 * conditions and of loops over boxes, which PoCL 3.0 compiles wrong.
 * Constants: DIMS 3 or 4.
 */
#define MOST_SUMS (1 + DIMS)
#include "common/compile_hints.h"
#include "common/group_sums.h"
#include "kmeans/box_gains.h"

ulong coordinate_of(ulong2 record, uint axis)
{
    return record.y >> (16 * axis) & 0xffff;
}

/* From the first of n points along an axis to the last. */
uint length_of(__global const ulong2 *records, __global const uint *order, uint n, uint axis)
{
    return (uint)(coordinate_of(records[order[n - 1]], axis) - coordinate_of(records[order[0]], axis));
}

/* Adds a point to its weight and weighted coordinates. */
void add_point(ulong *sums, ulong2 record)
{
    sums[0] += record.x;
#pragma unroll
    for (uint d = 0; d < DIMS; d++)
        sums[1 + d] += record.x * coordinate_of(record, d);
}

/* The cut across each axis after which the least of the squared differences remains, which is where |sum|^2 / weight of
 * both parts adds up to most. Doubles are computed of those cuts alone that may be the best by `rough_gain`: the best
 * one in doubles, which are right to 2^-50 of at most 2^24 of the weight more, is below the roughly best one by at most
 * 2^-17 of it and 2^-24 of the weight.
 * NDRange: 1-D, a work-group per axis of each box. */
__kernel void cut_by_variance(__global const ulong2 *records, uint n, __global const uint *all_orders,
                              __global const uint4 *boxes, __global ulong2 *cuts, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint axis = get_group_id(0) % DIMS;
    const uint4 box = boxes[get_group_id(0) / DIMS];
    __global const uint *orders = all_orders + (box.z * DIMS + axis) * n + box.x;
    const Run run = own_run(box.y);
    const uint end = min(run.end, box.y - 1);
    ulong before[1 + DIMS];
    ulong whole[1 + DIMS];
    ulong first[1 + DIMS];
    ulong mean[DIMS];
    for (uint v = 0; v <= DIMS; v++)
        before[v] = 0;
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
    /* Floats from 0 up are in the order of their bits. */
    float least = as_float((uint)most_of(as_uint(most), room));
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
        cuts[get_group_id(0)] = best;
}

/* The cut across each box's longest side after its weighted median.
 * NDRange: 1-D, a work-group per box. */
__kernel void cut_at_median(__global const ulong2 *records, uint n, __global const uint *all_orders,
                            __global const uint4 *boxes, __global ulong2 *cuts, __local ulong *room)
{
    const uint4 box = boxes[get_group_id(0)];
    __global const uint *orders = all_orders + (box.z * DIMS + box.w) * n + box.x;
    __global ulong2 *own_cuts = cuts + get_group_id(0) * DIMS;
    const Run run = own_run(box.y);
    ulong own = 0;
    for (uint i = run.first; i < run.end; i++)
        own += records[orders[i]].x;
    ulong passed = own;
    ulong total;
    sum_before(&passed, &total, 1, room);
    for (uint d = get_local_id(0); d < DIMS; d += get_local_size(0))
        if (d != box.w)
            own_cuts[d] = (ulong2)(0, 0);
    if (2 * passed < total && 2 * (passed + own) >= total) {
        uint i = run.first;
        for (; 2 * passed < total; i++)
            passed += records[orders[i]].x;
        own_cuts[box.w] = (ulong2)(1, min(i, box.y - 1));
    }
}

/* Puts the points of boxes into the orders of their parts, the first part before the second.
 * NDRange: 1-D, a work-group per axis of each box. parts (boxes, DIMS, 5) ulong: points and weight of the first part, its
 * weighted coordinates and squares of the axis; the sides of both parts along it, the first one's in the low word. */
__kernel void divide_boxes(__global const ulong2 *records, uint n, __global uint *all_orders,
                           __global const uint4 *boxes, __global const ulong2 *cuts, __global ulong *parts,
                           __local ulong *room)
{
    const uint axis = get_group_id(0) % DIMS;
    const uint b = get_group_id(0) / DIMS;
    const uint4 box = boxes[b];
    uint across = 0;
    for (uint d = 1; d < DIMS; d++)
        across = cuts[b * DIMS + d].x > cuts[b * DIMS + across].x ? d : across;
    const uint count = (uint)cuts[b * DIMS + across].y;
    const uint last = all_orders[(box.z * DIMS + across) * n + box.x + count - 1];
    const ulong border = coordinate_of(records[last], across);
    __global const uint *from = all_orders + (box.z * DIMS + axis) * n + box.x;
    __global uint *to = all_orders + ((1 - box.z) * DIMS + axis) * n + box.x;
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
        __global ulong *part = parts + 5 * get_group_id(0);
        for (uint v = 0; v < 4; v++)
            part[v] = totals[v];
        part[4] = length_of(records, to, count, axis) | (ulong)length_of(records, to + count, box.y - count, axis)
                                                            << 32;
    }
}
