/* A step of Lloyd's algorithm over points in cells: the sums of each center's points (kmeans/deep_lloyd.h).
 *
 * Constants: SPACE, SPACE_ALPHA and BITS (16) of common/color_spaces.h; WEIGHTED 1 if points have weights; WIDE_WEIGHTS of
 * weights.h.
 */
#include "kmeans/deep_lloyd.h"

/* Adds to a center's sums. */
void add_sums(__global uint *own, uint center, ulong weight, ulong4 sum)
{
    __global uint *to = own + (size_t)2 * (1 + DIMS) * center;
    add_wide_global(to, weight);
    add_wide_global(to + 2, sum.x);
    add_wide_global(to + 4, sum.y);
    add_wide_global(to + 6, sum.z);
#if SPACE_ALPHA
    add_wide_global(to + 8, sum.w);
#endif
}

/* The pivot of a cell among listed centers, which all work-items of a group get. */
uint pivot_of(Box box, __global const int4 *centers, __global const ushort *list, uint begin, uint stop,
              __local uint *found, __local Squared *least)
{
    const uint lid = get_local_id(0);
    Squared nearest = MAX_SQUARED;
    uint pivot = 0;
    for (uint j = begin; j < stop; j++) {
        const Squared distance = squared(2 * centers[list[j]] - box.low - box.high);
        pivot = distance < nearest ? list[j] : pivot;
        nearest = min(nearest, distance);
    }
    found[lid] = pivot;
    least[lid] = nearest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < get_local_size(0); i++) {
        pivot = least[i] < nearest || i == 0 ? found[i] : pivot;
        nearest = i == 0 ? least[0] : min(nearest, least[i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return pivot;
}

/* Adds every point to its center's sums.
 * NDRange: 1-D, a work-group a segment, of any size. Parameters as kmeans/deep_lloyd.h says; found, least: a uint and a
 * Squared a work-item. */
__kernel void sum_points(STEP_PARAMETERS, __local uint *found, __local Squared *least)
{
    __local int4 scales[MOST_KEPT];
    __local int offsets[MOST_KEPT];
    __local uint kept[MOST_KEPT];
    __local uint parts[MOST_KEPT * 5];
    const size_t s = get_group_id(0);
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint4 segment = segments[s];
    const Box box = box_of(segment.x, grid, shift, extent);
    __global uint *own = sums + (size_t)2 * (1 + DIMS) * k * (s % copies);
    const int cell = cell_of(box.low, list_grid, list_shift);
    const uint first = starts[cell];
    const uint end = starts[cell + 1];
    const uint run = (end - first + size - 1) / size;
    const uint begin = min(end, first + lid * run);
    const uint stop = min(end, begin + run);
    const uint pivot = pivot_of(box, centers, list, begin, stop, found, least);
    const Squared4 at_low = squared_by_axis(centers[pivot] - box.low);
    const Squared4 at_high = squared_by_axis(centers[pivot] - box.high);
    uint near = 0;
    for (uint j = begin; j < stop; j++)
        near += is_near(centers[list[j]], box.low, box.high, at_low, at_high);
    found[lid] = near;
    for (uint i = lid; i < MOST_KEPT * 5; i += size)
        parts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint count = 0;
    uint out = 0;
    for (uint i = 0; i < size; i++) {
        out += i < lid ? found[i] : 0;
        count += found[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int fits = count <= MOST_KEPT;
    for (uint j = begin; j < stop && count <= MOST_KEPT; j++)
        if (is_near(centers[list[j]], box.low, box.high, at_low, at_high)) {
            const Comparison one = comparison_of(centers[list[j]], centers[pivot], box.middle);
            fits &= comparison_fits(one, shift);
            scales[out] = one.scale;
            offsets[out] = (int)one.offset;
            kept[out] = list[j];
            out++;
        }
    found[lid] = fits;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < size; i++)
        fits &= found[i];
    if (count == 1) {
        __global const ulong *all = segment_sums + s * (1 + DIMS);
        if (lid == 0)
            add_sums(own, kept[0], all[0], (ulong4)(all[1], all[2], all[3], SPACE_ALPHA ? all[DIMS] : 0));
        return;
    }
    for (uint i = segment.y + lid; i < segment.z; i += size) {
        const int4 within = within_cell(points[i]);
        uint best = 0;
        if (fits) {
            const int4 p = within + box.low - box.middle;
            int least_of_all = INT_MAX;
            for (uint j = 0; j < count; j++) {
                const int4 product = scales[j] * p;
                const int value = offsets[j] + product.x + product.y + product.z + product.w;
                best = value < least_of_all ? j : best;
                least_of_all = min(least_of_all, value);
            }
        }
        if (fits && !WEIGHTED) {
            atomic_inc(&parts[5 * best]);
            atomic_add(&parts[5 * best + 1], (uint)within.x);
            atomic_add(&parts[5 * best + 2], (uint)within.y);
            atomic_add(&parts[5 * best + 3], (uint)within.z);
            if (SPACE_ALPHA)
                atomic_add(&parts[5 * best + 4], (uint)within.w);
        } else {
            const int4 point = box.low + within;
            const ulong weight = WEIGHTED ? weights[i] : 1;
            add_sums(own, fits ? kept[best] : nearest_listed(point, centers, list, first, end), weight,
                     convert_ulong4(point) * weight);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = lid; j < count && fits && !WEIGHTED; j += size) {
        __local const uint *part = parts + 5 * j;
        const ulong weight = part[0];
        if (weight)
            add_sums(own, kept[j], weight,
                     convert_ulong4(box.low) * weight + (ulong4)(part[1], part[2], part[3], part[4]));
    }
}
