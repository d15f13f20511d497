/* A step of Lloyd's algorithm over points in cells: the sums of each center's points (kmeans/deep_lloyd.h).
 *
 * Constants: SPACE, SPACE_ALPHA and BITS (16) of common/color_spaces.h; WEIGHTED 1 if points have weights; WIDE_WEIGHTS
 * of weights.h; LANES: points that a work-item takes side by side, 8 where work-groups have one work-item and a copy of
 * the sums each (for CPUs), else 1; RUN, with 8: segments that follow each other and are one work-group's.
 */
#include "kmeans/deep_lloyd.h"

/* Centers of a cell that are compared in 32 bits. */
#define MOST_KEPT 64

#if LANES == 8
typedef int8 ints;
typedef ulong8 ulongs;
#define TO_INTS(x) convert_int8(x)
#define LOAD(at) vload8(0, at)
#define ADD_SUM(to, value) (*(__global ulong *)(to) += (value))
#define ADD_PART(to, value) (*(to) += (value))
#define MEET
#else
typedef int ints;
typedef ulong ulongs;
#define TO_INTS(x) ((int)(x))
#define LOAD(at) (*(at))
#define ADD_SUM(to, value) add_wide_global(to, value)
#define ADD_PART(to, value) atomic_add(to, value)
#define MEET barrier(CLK_LOCAL_MEM_FENCE)
#endif

typedef struct {
    int4 low;
    int4 high;
    int4 middle;
} Box;

Box box_of(uint cell, int4 grid, int shift, int4 extent)
{
    Box box;
    box.low = place_of((int)cell, grid) << shift;
    box.high = min(box.low + ((1 << shift) - 1), extent);
    box.middle = box.low + (1 << (shift - 1));
    return box;
}

/* A center that can be nearest to some point p of a cell with the middle m: compared by scale.(p - m) + offset. */
typedef struct {
    int4 scale;
    int offset;
    uint center;
} Kept;

/* Listed centers, which are in ascending order, and those that a work-item looks at. */
typedef struct {
    __global const int4 *centers;
    __global const ushort *list;
    uint first, end, begin, stop;
} Listed;

/* The nearest of listed centers; ties go to the first. */
uint nearest_listed(int4 point, const Listed *listed)
{
    uint nearest = listed->list[listed->first];
    Squared least = squared(point - listed->centers[nearest]);
    for (uint j = listed->first + 1; j < listed->end; j++) {
        const Squared distance = squared(point - listed->centers[listed->list[j]]);
        nearest = distance < least ? listed->list[j] : nearest;
        least = min(least, distance);
    }
    return nearest;
}

/* The pivot of a cell among listed centers, which all work-items of a group get. */
uint pivot_of(Box box, const Listed *listed, __local uint *found, __local Squared *least)
{
    const uint lid = get_local_id(0);
    Squared nearest = MAX_SQUARED;
    uint pivot = 0;
    for (uint j = listed->begin; j < listed->stop; j++) {
        const Squared distance = squared(2 * listed->centers[listed->list[j]] - box.low - box.high);
        pivot = distance < nearest ? listed->list[j] : pivot;
        nearest = min(nearest, distance);
    }
    found[lid] = pivot;
    least[lid] = nearest;
    MEET;
    for (uint i = 0; i < get_local_size(0); i++) {
        pivot = least[i] < nearest || i == 0 ? found[i] : pivot;
        nearest = i == 0 ? least[0] : min(nearest, least[i]);
    }
    MEET;
    return pivot;
}

/* Keeps the centers that can be nearest to some point of a cell, in ascending order; returns how many there are. No
 * partial sum of a comparison leaves 32 bits where `fits`: places are at most half a side from the middle. */
uint keep_near(Box box, int shift, const Listed *listed, __local uint *found, __local Squared *least,
               __local Kept *kept, int *fits)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const int4 pivot = listed->centers[pivot_of(box, listed, found, least)];
    const Squared4 at_low = squared_by_axis(pivot - box.low);
    const Squared4 at_high = squared_by_axis(pivot - box.high);
    uint near = 0;
    for (uint j = listed->begin; j < listed->stop; j++)
        near += is_near(listed->centers[listed->list[j]], box.low, box.high, at_low, at_high);
    found[lid] = near;
    MEET;
    uint count = 0;
    uint out = 0;
    for (uint i = 0; i < size; i++) {
        out += i < lid ? found[i] : 0;
        count += found[i];
    }
    MEET;
    *fits = count <= MOST_KEPT;
    for (uint j = listed->begin; j < listed->stop && count <= MOST_KEPT; j++) {
        const int4 center = listed->centers[listed->list[j]];
        if (!is_near(center, box.low, box.high, at_low, at_high))
            continue;
        const int4 scale = 2 * (pivot - center);
        const long offset = squared(center - box.middle) - squared(pivot - box.middle);
        const uint4 reach = abs(scale);
        const long most = ((long)reach.x + reach.y + reach.z + reach.w) << (shift - 1);
        /* Oclgrind does not know the function that compilers make of the offset's magnitude. */
        *fits &= most + offset <= INT_MAX && most - offset <= INT_MAX;
        kept[out].scale = scale;
        kept[out].offset = (int)offset;
        kept[out].center = listed->list[j];
        out++;
    }
    found[lid] = *fits;
    MEET;
    for (uint i = 0; i < size; i++)
        *fits &= found[i];
    return count;
}

/* Which of the kept centers are nearest to points; ties go to the first. */
ints nearest_kept(__local const Kept *kept, uint count, ulongs points, int half_side)
{
    const ints x = TO_INTS(points & 65535) - half_side;
    const ints y = TO_INTS(points >> 16 & 65535) - half_side;
    const ints z = TO_INTS(points >> 32 & 65535) - half_side;
#if SPACE_ALPHA
    const ints w = TO_INTS(points >> 48) - half_side;
#endif
    ints least = INT_MAX;
    ints best = 0;
    for (uint j = 0; j < count; j++) {
        const int4 scale = kept[j].scale;
        ints value = kept[j].offset + scale.x * x + scale.y * y + scale.z * z;
#if SPACE_ALPHA
        value += scale.w * w;
#endif
        best = value < least ? (ints)(int)j : best;
        least = min(least, value);
    }
    return best;
}

/* Adds to a center's sums. */
void add_sums(__global uint *own, uint center, ulong weight, ulong4 sum)
{
    __global uint *to = own + (size_t)2 * (1 + DIMS) * center;
    ADD_SUM(to, weight);
    ADD_SUM(to + 2, sum.x);
    ADD_SUM(to + 4, sum.y);
    ADD_SUM(to + 6, sum.z);
#if SPACE_ALPHA
    ADD_SUM(to + 8, sum.w);
#endif
}

/* Adds a point's place in its cell to the five sums of a kept center. */
void add_part(__local uint *part, int4 within)
{
    ADD_PART(part, 1u);
    ADD_PART(part + 1, (uint)within.x);
    ADD_PART(part + 2, (uint)within.y);
    ADD_PART(part + 3, (uint)within.z);
    if (SPACE_ALPHA)
        ADD_PART(part + 4, (uint)within.w);
}

/* Adds every point to its center's sums.
 * NDRange: 1-D, a work-group of any size a segment; with 8 LANES any number of work-groups, which stride over runs of
 * segments. segments (n_segments) uint4; points (n) ulong, readable LANES - 1 beyond their end; weights (n) Weight,
 * read if WEIGHTED; segment_sums (n_segments, 1 + DIMS) ulong; grid, shift: the points' cells; extent: largest
 * coordinate of each axis; centers (k, 4) int; starts, list, list_grid, list_shift: candidate lists as
 * mapping/nearest.h takes them, whose cells hold whole cells of points; sums (copies, k, 1 + DIMS) 64-bit numbers, each
 * as low and high word: weight and weighted coordinates of each center's points, added to; each work-group adds to one
 * copy. found, least: a uint and a Squared a work-item. */
__kernel void sum_points(__global const uint4 *segments, uint n_segments, __global const ulong *points,
                         __global const Weight *weights, __global const ulong *segment_sums, int4 grid, int shift,
                         int4 extent, __global const int4 *centers, uint k, __global const uint *starts,
                         __global const ushort *list, int4 list_grid, int list_shift, uint copies, __global uint *sums,
                         __local uint *found, __local Squared *least)
{
    __local Kept kept[MOST_KEPT];
    __local uint parts[MOST_KEPT * 5];
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    __global uint *own = sums + (size_t)2 * (1 + DIMS) * k * (get_group_id(0) % copies);
#if LANES == 8
    for (size_t run = get_group_id(0) * RUN; run < n_segments; run += get_num_groups(0) * RUN)
        for (size_t s = run; s < min(run + RUN, (size_t)n_segments); s++)
#else
    const size_t s = get_group_id(0);
#endif
        {
            const uint4 segment = segments[s];
            const Box box = box_of(segment.x, grid, shift, extent);
            const int cell = cell_of(box.low, list_grid, list_shift);
            Listed listed = {centers, list, starts[cell], starts[cell + 1], 0, 0};
            const uint share = (listed.end - listed.first + size - 1) / size;
            listed.begin = min(listed.end, listed.first + lid * share);
            listed.stop = min(listed.end, listed.begin + share);
            int fits;
            const uint count = keep_near(box, shift, &listed, found, least, kept, &fits);
            const int whole = count == 1; /* all points have the same center */
            if (whole && lid == 0) {
                __global const ulong *all = segment_sums + s * (1 + DIMS);
                add_sums(own, kept[0].center, all[0], (ulong4)(all[1], all[2], all[3], SPACE_ALPHA ? all[DIMS] : 0));
            }
            const uint begin = whole ? segment.z : segment.y;
            for (uint i = lid; i < (fits ? 5 * count : 0); i += size)
                parts[i] = 0;
            MEET;
            for (uint i = begin + LANES * lid; i < segment.z; i += LANES * size) {
                union {
                    ints all;
                    int each[LANES];
                } best = {fits ? nearest_kept(kept, count, LOAD(points + i), 1 << (shift - 1)) : (ints)0};
                for (uint lane = 0; lane < min((uint)LANES, segment.z - i); lane++) {
                    const int4 within = within_cell(points[i + lane]);
                    if (fits && !WEIGHTED) {
                        add_part(parts + 5 * best.each[lane], within);
                        continue;
                    }
                    const int4 point = box.low + within;
                    const uint center = fits ? kept[best.each[lane]].center : nearest_listed(point, &listed);
                    const ulong weight = WEIGHTED ? weights[i + lane] : 1;
                    add_sums(own, center, weight, convert_ulong4(point) * weight);
                }
            }
            MEET;
            for (uint j = lid; j < (fits && !WEIGHTED && !whole ? count : 0); j += size) {
                __local const uint *part = parts + 5 * j;
                const ulong weight = part[0];
                const ulong4 sum = (ulong4)(part[1], part[2], part[3], part[4]);
                if (weight)
                    add_sums(own, kept[j].center, weight, convert_ulong4(box.low) * weight + sum);
            }
        }
}
