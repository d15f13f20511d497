/* What the forms of the map of many small pictures share: a group's local memory, its points, the refinement.
 *
 * Constants from the host besides those of neuquant/map.h (STAGED is 1) and common/color_spaces.h:
 *   LOCAL       work-items of a group, a power of two
 *   CITY_BLOCK, CONSCIENCE  as in neuquant/step.cl
 *   WIDE        1 if a sum of squares may exceed 32 bits, for which it is split as in a slab
 * From the file that includes this one, after neuquant/map.h:
 *   SEARCHED    vectors of local memory that a search reads, colours' centres at least
 *
 * A picture has at most 2^16 pixels; without WIDE, 2^16 times the square of the largest coordinate is below 2^32. */

#include "common/color_spaces.h"

/* Local memory in vectors: what points each node won (a vector: how many, and the sums of three coordinates), the
 * fourth sums; sums of squares (a vector: all coordinates), their high bits; the nodes; what a search reads, biases and
 * plain wins; what the refinement needs besides. */
#define QUARTER(k) (((k) + 3) / 4)
#define FOURTHS_AT(k) (k)
#define SQUARES_AT(k) (FOURTHS_AT(k) + (DIMS == 4 ? QUARTER(k) : 0))
#define HIGH_AT(k) (SQUARES_AT(k) + (k))
#define NODES_AT(k) (HIGH_AT(k) + (WIDE ? (k) : 0))
#define NETWORK_AT(k) (NODES_AT(k) + (k))
#define BIAS_AT(k) (NETWORK_AT(k) + SEARCHED(k))
#define WINS_AT(k) (BIAS_AT(k) + (CONSCIENCE ? QUARTER(k) : 0))
#define WORTH_AT(k) (WINS_AT(k) + (CONSCIENCE ? QUARTER(k) : 0))
/* Of 24 QUARTER words. */
#define REST_AT(k) (WORTH_AT(k) + (k))
#define END_AT(k) (REST_AT(k) + 6 * QUARTER(k))

#if WIDE
#define SPLIT_BITS COORDINATE_BITS
#else
#define SPLIT_BITS 31
#endif

#define SCRATCH __local
#define NODES __local int4 *
#define REFINED __local const uint *
#define COUNT_OF(totals, i) (totals)[4 * (i)]
#define SUM_OF(totals, k, i, c) (totals)[(c) < 3 ? 4 * (i) + 1 + (c) : 4 * FOURTHS_AT(k) + (i)]
#if WIDE
#define SQUARES_OF(totals, k, i, c)                                                                                    \
    ((totals)[4 * (SQUARES_AT(k) + (i)) + (c)] + ((ulong)(totals)[4 * (HIGH_AT(k) + (i)) + (c)] << COORDINATE_BITS))
#else
#define SQUARES_OF(totals, k, i, c) (ulong)(totals)[4 * (SQUARES_AT(k) + (i)) + (c)]
#endif

#include "neuquant/refine.h"

/* The network is not read while the refinement has its centres in its place. */
refined_t parts_of(__local uint4 *memory, const int colors)
{
    __local int *rest = (__local int *)(memory + REST_AT(colors));
    const refined_t r = {(__local float4 *)(memory + NETWORK_AT(colors)),
                         (__local ulong2 *)(memory + WORTH_AT(colors)),
                         rest,
                         rest + 4 * QUARTER(colors),
                         (__local int2 *)(rest + 8 * QUARTER(colors)),
                         rest + 16 * QUARTER(colors),
                         rest + 20 * QUARTER(colors)};
    return r;
}

/* The pixel of a sample that is spread: pixel floor(total * frac(number * phi + start)), as in neuquant/sampling.cl. */
uint spread_place(const uint number, const uint start, const uint total)
{
    return (uint)((ulong)(number * 2654435769u + start) * total >> 32);
}

/* A point as it is kept: its fourth coordinate, or 1, and the others; all are 0 if it is passed over. If there is
 * a fourth coordinate, alpha, it is above 0 in all other points. */
ushort4 kept_point(const uint color, __global const int *tables)
{
    if (color >> 24 == 0)
        return (ushort4)(0);
    const int4 c = (int4)(color & 255, color >> 8 & 255, color >> 16 & 255, color >> 24);
    const ushort4 p = convert_ushort4(space_coordinates(c, tables));
    return (ushort4)(DIMS == 4 ? p.w : 1, p.x, p.y, p.z);
}
