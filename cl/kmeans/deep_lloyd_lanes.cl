/* kmeans/deep_lloyd.cl's kernel in the shape that CPUs run fast: eight points side by side in the lanes of a vector. Equal
 * to it bit for bit, with its constants.
 */
#include "kmeans/deep_lloyd.h"

#define LANES 8
/* Segments that follow each other and are one work-item's. */
#define RUN 16

typedef struct {
    uint count;
    int fits;
    int scale[4][MOST_KEPT];
    int offset[MOST_KEPT];
    uint index[MOST_KEPT];
    ulong even[MOST_KEPT]; /* sums of x in the low and z in the high word */
    ulong odd[MOST_KEPT]; /* of y and of alpha, or of 1 */
    ulong number[MOST_KEPT];
} Kept;

/* Adds to a center's sums, which no other work-item adds to. */
void add_sums(__global ulong *own, uint center, ulong weight, ulong4 sum)
{
    __global ulong *to = own + (size_t)(1 + DIMS) * center;
    to[0] += weight;
    to[1] += sum.x;
    to[2] += sum.y;
    to[3] += sum.z;
#if SPACE_ALPHA
    to[4] += sum.w;
#endif
}

/* Lists the centers that can be nearest to some point of a cell, in ascending order. */
void keep_near(Kept *kept, Box box, int shift, __global const int4 *centers, __global const ushort *list, uint first,
               uint end)
{
    kept->count = 0;
    kept->fits = 1;
    Squared nearest = MAX_SQUARED;
    uint pivot = list[first];
    for (uint j = first; j < end && end - first > 1; j++) {
        const Squared distance = squared(2 * centers[list[j]] - box.low - box.high);
        pivot = distance < nearest ? list[j] : pivot;
        nearest = min(nearest, distance);
    }
    const Squared4 at_low = squared_by_axis(centers[pivot] - box.low);
    const Squared4 at_high = squared_by_axis(centers[pivot] - box.high);
    for (uint j = first; j < end; j++) {
        if (!is_near(centers[list[j]], box.low, box.high, at_low, at_high))
            continue;
        const uint at = kept->count++;
        if (at == MOST_KEPT) {
            kept->fits = 0;
            return;
        }
        const Comparison one = comparison_of(centers[list[j]], centers[pivot], box.middle);
        kept->fits &= comparison_fits(one, shift);
        kept->scale[0][at] = one.scale.x;
        kept->scale[1][at] = one.scale.y;
        kept->scale[2][at] = one.scale.z;
        kept->scale[3][at] = one.scale.w;
        kept->offset[at] = (int)one.offset;
        kept->index[at] = list[j];
        kept->even[at] = kept->odd[at] = kept->number[at] = 0;
    }
}

/* Which of the kept centers are nearest to eight points; ties go to the first. */
int8 nearest_kept(const Kept *kept, ulong8 points, int half_side)
{
    const int8 x = convert_int8(points & 65535) - half_side;
    const int8 y = convert_int8(points >> 16 & 65535) - half_side;
    const int8 z = convert_int8(points >> 32 & 65535) - half_side;
#if SPACE_ALPHA
    const int8 w = convert_int8(points >> 48) - half_side;
#endif
    int8 least = INT_MAX;
    int8 best = 0;
    for (uint j = 0; j < kept->count; j++) {
        int8 value = kept->offset[j] + kept->scale[0][j] * x + kept->scale[1][j] * y + kept->scale[2][j] * z;
#if SPACE_ALPHA
        value += kept->scale[3][j] * w;
#endif
        best = value < least ? (int8)(int)j : best;
        least = min(least, value);
    }
    return best;
}

/* Adds the points of a segment to the sums of the centers that are kept. */
void sum_segment(Kept *kept, uint4 segment, Box box, int shift, __global const ulong *points,
                 __global const Weight *weights, __global ulong *own)
{
    const ulong halves = 0x0000FFFF0000FFFFUL;
    for (uint i = segment.y; i < segment.z; i += LANES) {
        const ulong8 eight = vload8(0, points + i);
        int best[LANES];
        ulong each[LANES];
        vstore8(nearest_kept(kept, eight, 1 << (shift - 1)), 0, best);
        vstore8(eight, 0, each);
        const uint count = min((uint)LANES, segment.z - i);
        for (uint lane = 0; lane < count; lane++) {
            const uint j = (uint)best[lane];
#if WEIGHTED
            const ulong weight = weights[i + lane];
            const int4 point = box.low + within_cell(each[lane]);
            add_sums(own, kept->index[j], weight, convert_ulong4(point) * weight);
#else
            kept->even[j] += each[lane] & halves;
            kept->odd[j] += each[lane] >> 16 & halves;
#if SPACE_ALPHA
            kept->number[j]++;
#endif
#endif
        }
    }
    for (uint j = 0; j < kept->count && !WEIGHTED; j++) {
        const ulong4 sum =
            (ulong4)(kept->even[j] & UINT_MAX, kept->odd[j] & UINT_MAX, kept->even[j] >> 32, kept->odd[j] >> 32);
        const ulong weight = SPACE_ALPHA ? kept->number[j] : sum.w;
        if (weight)
            add_sums(own, kept->index[j], weight, convert_ulong4(box.low) * weight + sum);
    }
}

/* Adds every point to its center's sums.
 * NDRange: 1-D, work-groups of 1, as many as there are copies of the sums; work-items stride over runs of segments.
 * Parameters as kmeans/deep_lloyd.h says; points are readable LANES - 1 beyond their end. */
__kernel void sum_points(STEP_PARAMETERS)
{
    __global ulong *own = (__global ulong *)sums + (size_t)(1 + DIMS) * k * (get_group_id(0) % copies);
    Kept kept;
    for (size_t begin = get_global_id(0) * RUN; begin < n_segments; begin += get_global_size(0) * RUN)
        for (size_t s = begin; s < min(begin + RUN, (size_t)n_segments); s++) {
            const uint4 segment = segments[s];
            const Box box = box_of(segment.x, grid, shift, extent);
            const int cell = cell_of(box.low, list_grid, list_shift);
            const uint first = starts[cell];
            const uint end = starts[cell + 1];
            keep_near(&kept, box, shift, centers, list, first, end);
            if (kept.count == 1) {
                __global const ulong *all = segment_sums + s * (1 + DIMS);
                add_sums(own, kept.index[0], all[0], (ulong4)(all[1], all[2], all[3], SPACE_ALPHA ? all[DIMS] : 0));
            } else if (kept.fits) {
                sum_segment(&kept, segment, box, shift, points, weights, own);
            } else {
                for (uint i = segment.y; i < segment.z; i++) {
                    const int4 point = box.low + within_cell(points[i]);
                    const ulong weight = WEIGHTED ? weights[i] : 1;
                    const uint center = nearest_listed(point, centers, list, first, end);
                    add_sums(own, center, weight, convert_ulong4(point) * weight);
                }
            }
        }
}
