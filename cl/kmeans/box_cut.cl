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
 * Boxes are numbered, the whole first; both parts of one have consecutive numbers. A round chooses boxes, finds where
 * to cut them, and divides them, in a launch each.
 *
 * Layout: records (n) ulong2: a point's weight, and its coordinates in 16 bits each, the first lowest; orders
 * (2, DIMS, n) uint; boxes (boxes) uint4: the first place, the points, which table, and the number of the first part, 0
 * for none; moments (boxes, MOMENTS) ulong: weight, weighted coordinates, weighted squares of each axis; sides
 * (boxes, DIMS) uint; state uint: as below; chosen (boxes) uint: numbers; cuts (boxes, DIMS) ulong2: how good the best
 * cut of a chosen box across an axis is, above 0 if there is any, and how many points come before it. room: 1 + DIMS
 * ulongs of local memory per work-item. Barriers are outside of conditions and of loops over boxes, which PoCL 3.0
 * compiles wrong.
 * Constants: DIMS 3 or 4; WIDE_WEIGHTS of kmeans/weights.h.
 */
#define MOST_SUMS (1 + DIMS)
#include "common/compile_hints.h"
#include "common/group_sums.h"
#include "kmeans/doubles.h"
#include "kmeans/weights.h"

#define DIGIT_BITS 6
#define DIGITS (1 << DIGIT_BITS)
#define PASSES 2
#define MOMENTS (1 + 2 * DIMS)
/* Of an urgency's float the exponent and three more bits. */
#define KEY_SHIFT 20
#define BINS 2048
/* Of the state: boxes that are there, those that are chosen, and those whose urgency is known. */
#define KNOWN 0
#define CHOSEN 1
#define KEYED 2

ulong coordinate_of(ulong2 record, uint axis)
{
    return record.y >> (16 * axis) & 0xffff;
}

/* From the first of n points along an axis to the last. */
uint length_of(__global const ulong2 *records, __global const uint *order, uint n, uint axis)
{
    return (uint)(coordinate_of(records[order[n - 1]], axis) - coordinate_of(records[order[0]], axis));
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

/* A pass of the counting sort that makes the orders of all points: by a digit of coordinates below 2^12, the lowest
 * first. The last of PASSES also makes box 0.
 * NDRange: 1-D, a work-group per axis. orders: passes write the second table and the first in turn;
 * counts (DIMS, DIGITS, group) uint: scratch; state: of box 0 alone. */
__kernel SMALL void order_points(__global const ulong2 *records, uint n, __global uint *orders, uint pass,
                                 __global uint *counts, __global uint4 *boxes, __global ulong *moments,
                                 __global uint *sides, __global uint *state, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint axis = get_group_id(0);
    const uint shift = pass * DIGIT_BITS;
    const Run run = own_run(n);
    __global const uint *from = orders + axis * n + (pass & 1 ? DIMS * n : 0);
    __global uint *to = orders + axis * n + (pass & 1 ? 0 : DIMS * n);
    ulong numbers[4] = {0, 0, 0, 0};
    ulong totals[4];
    counts += axis * DIGITS * size;
    for (uint digit = 0; digit < DIGITS; digit++)
        counts[digit * size + lid] = 0;
    for (uint i = run.first; i < run.end; i++) {
        const ulong2 record = records[pass ? from[i] : i];
        const ulong x = coordinate_of(record, axis);
        counts[(x >> shift & DIGITS - 1) * size + lid]++;
        numbers[1] += record.x;
        numbers[2] += record.x * x;
        numbers[3] += record.x * x * x;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint i = lid * DIGITS; i < (lid + 1) * DIGITS; i++)
        numbers[0] += counts[i];
    sum_before(numbers, totals, 4, room);
    uint place = (uint)numbers[0];
    for (uint i = lid * DIGITS; i < (lid + 1) * DIGITS; i++) {
        const uint count = counts[i];
        counts[i] = place;
        place += count;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint i = run.first; i < run.end; i++) {
        const uint point = pass ? from[i] : i;
        to[counts[(coordinate_of(records[point], axis) >> shift & DIGITS - 1) * size + lid]++] = point;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (lid == 0 && pass == PASSES - 1) {
        const uint table = 0;
        sides[axis] = length_of(records, to, n, axis);
        moments[1 + axis] = totals[2];
        moments[1 + DIMS + axis] = totals[3];
        if (axis == 0) {
            moments[0] = totals[1];
            boxes[0] = (uint4)(0, n, table, 0);
            state[KNOWN] = 1;
            state[CHOSEN] = state[KEYED] = 0;
        }
    }
}

/* How urgent a box is: above 0 in its upper bits but for a single point, and the more the more urgent. By variance it
 * is the sum of squared differences from the rounded mean, below 2^63, though its terms may be more and wrap; else the
 * longest side. */
uint key_of(uint points, __global const ulong *moments, __global const uint *sides, int by_variance)
{
    ulong urgency = 0;
    for (uint d = 0; d < DIMS; d++) {
        const ulong sum = moments[1 + d];
        const ulong mean = (2 * sum + moments[0]) / (2 * moments[0]);
        const ulong squared = moments[1 + DIMS + d] + mean * (mean * moments[0] - 2 * sum);
        urgency = by_variance ? urgency + squared : max(urgency, (ulong)sides[d]);
    }
    return points == 1 ? 0 : as_uint((float)urgency) + (1 << KEY_SHIFT);
}

/* Chooses the boxes that are not cut yet among the `wanted` most urgent ones, as far as there is room for their parts;
 * some less urgent ones as well, by the bits of their keys that are left out.
 * NDRange: one work-group. keys (boxes) uint: scratch; most: boxes that there is room for; most_chosen: of a round. */
__kernel SMALL void choose_boxes(__global uint4 *boxes, __global const ulong *moments, __global const uint *sides,
                                 __global uint *state, __global uint *chosen, __global uint *keys, uint wanted,
                                 uint most, uint most_chosen, int by_variance, __local ulong *room)
{
    __local uint least;
    __local uint bins[BINS];
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint known = state[KNOWN];
    for (uint i = lid; i < BINS; i += size)
        bins[i] = 0;
    for (uint i = state[KEYED] + lid; i < known; i += size)
        keys[i] = key_of(boxes[i].y, moments + i * MOMENTS, sides + i * DIMS, by_variance);
    if (lid == 0)
        least = 1;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint i = lid; i < known; i += size)
        atomic_inc(&bins[keys[i] >> KEY_SHIFT]);
    barrier(CLK_LOCAL_MEM_FENCE);

    Run run = own_run(BINS); /* from the highest bin on */
    ulong own = 0;
    for (uint i = run.first; i < run.end; i++)
        own += bins[BINS - 1 - i];
    ulong passed = own;
    ulong total;
    sum_before(&passed, &total, 1, room);
    if (passed < wanted && passed + own >= wanted) {
        uint i = run.first;
        for (; passed < wanted; i++)
            passed += bins[BINS - 1 - i];
        least = max(BINS - i, 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    run = own_run(known);
    own = 0;
    for (uint i = run.first; i < run.end; i++)
        own += boxes[i].w == 0 && keys[i] >> KEY_SHIFT >= least;
    ulong place = own;
    sum_before(&place, &total, 1, room);
    const uint count = (uint)min(total, (ulong)min(most_chosen, (most - known) / 2));
    for (uint i = run.first; i < run.end; i++) {
        if (place < count && boxes[i].w == 0 && keys[i] >> KEY_SHIFT >= least) {
            chosen[place] = i;
            boxes[i].w = known + 2 * (uint)place;
            place++;
        }
    }
    if (lid == 0) {
        state[KNOWN] = known + 2 * count;
        state[CHOSEN] = count;
        state[KEYED] = known;
    }
}

/* About what the means of both parts of a cut take off the sum of squares: the sum of |sum|^2 / weight, with coordinates
 * from the mean of the whole on. 14 roundings of at most 2^-24, or 2.5 times that of divisions, add only numbers from 0
 * up, so that it is right to 2^-19 of it. Parts have a weight, then DIMS weighted coordinates. */
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
 * NDRange: 1-D, a work-group per axis of each chosen box, or more of them. */
__kernel void cut_by_variance(__global const ulong2 *records, uint n, __global const uint *orders,
                              __global const uint4 *boxes, __global const uint *state, __global const uint *chosen,
                              __global ulong2 *cuts, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint axis = get_group_id(0) % DIMS;
    const uint b = get_group_id(0) / DIMS;
    const int is_chosen = b < state[CHOSEN];
    const uint number = is_chosen ? chosen[b] : 0;
    const uint4 box = is_chosen ? boxes[number] : (uint4)(0, 0, 0, 0);
    orders += (box.z * DIMS + axis) * n + box.x;
    const Run run = own_run(box.y);
    const uint end = min(run.end, max(box.y, 1u) - 1);
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
        mean[d] = (2 * whole[1 + d] + whole[0]) / max(2 * whole[0], 1UL);

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
    if (is_chosen && size - lid == winner)
        cuts[b * DIMS + axis] = best;
}

/* The cut across each box's longest side, ties to the lowest axis, after its weighted median.
 * NDRange: as above. */
__kernel void cut_at_median(__global const ulong2 *records, uint n, __global const uint *orders,
                            __global const uint4 *boxes, __global const uint *state, __global const uint *chosen,
                            __global const uint *sides, __global ulong2 *cuts, __local ulong *room)
{
    const uint axis = get_group_id(0) % DIMS;
    const uint b = get_group_id(0) / DIMS;
    const int is_chosen = b < state[CHOSEN];
    const uint number = is_chosen ? chosen[b] : 0;
    const uint4 box = is_chosen ? boxes[number] : (uint4)(0, 0, 0, 0);
    __global const uint *lengths = sides + number * DIMS;
    orders += (box.z * DIMS + axis) * n + box.x;
    __global ulong2 *cut = cuts + b * DIMS + axis;
    int longest = 1;
    for (uint d = 0; d < DIMS; d++)
        longest &= d < axis ? lengths[axis] > lengths[d] : lengths[axis] >= lengths[d];
    const Run run = own_run(longest ? box.y : 0);
    ulong own = 0;
    for (uint i = run.first; i < run.end; i++)
        own += records[orders[i]].x;
    ulong passed = own;
    ulong total;
    sum_before(&passed, &total, 1, room);
    if (is_chosen && !longest && get_local_id(0) == 0)
        *cut = (ulong2)(0, 0);
    if (2 * passed < total && 2 * (passed + own) >= total) {
        uint i = run.first;
        for (; 2 * passed < total; i++)
            passed += records[orders[i]].x;
        *cut = (ulong2)(1, min(i, box.y - 1));
    }
}

/* Puts the points of the chosen boxes into the orders of their parts, which are described.
 * NDRange: as above. */
__kernel void divide_boxes(__global const ulong2 *records, uint n, __global uint *orders, __global uint4 *boxes,
                           __global const uint *state, __global const uint *chosen, __global const ulong2 *cuts,
                           __global ulong *moments, __global uint *sides, __local ulong *room)
{
    const uint axis = get_group_id(0) % DIMS;
    const uint b = get_group_id(0) / DIMS;
    const int is_chosen = b < state[CHOSEN];
    const uint number = is_chosen ? chosen[b] : 0;
    const uint4 box = is_chosen ? boxes[number] : (uint4)(0, 0, 0, 0);
    uint across = 0;
    for (uint d = 1; d < DIMS; d++)
        across = cuts[b * DIMS + d].x > cuts[b * DIMS + across].x ? d : across;
    const uint count = is_chosen ? (uint)cuts[b * DIMS + across].y : 1;
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
    if (is_chosen && get_local_id(0) == 0) {
        __global ulong *whole = moments + number * MOMENTS;
        __global ulong *first = moments + box.w * MOMENTS;
        __global ulong *second = first + MOMENTS;
        __global uint *lengths = sides + box.w * DIMS + axis;
        first[1 + axis] = totals[2];
        second[1 + axis] = whole[1 + axis] - totals[2];
        first[1 + DIMS + axis] = totals[3];
        second[1 + DIMS + axis] = whole[1 + DIMS + axis] - totals[3];
        lengths[0] = length_of(records, to, count, axis);
        lengths[DIMS] = length_of(records, to + count, box.y - count, axis);
        if (axis == 0) {
            first[0] = totals[1];
            second[0] = whole[0] - totals[1];
            boxes[box.w] = (uint4)(box.x, count, 1 - box.z, 0);
            boxes[box.w + 1] = (uint4)(box.x + count, box.y - count, 1 - box.z, 0);
        }
    }
}
