/* Samples in an order in which those of like colours come together, for searches that gain by it: along a Z-order curve
 * through the box that they fill, whatever its size. Kept points, as in neuquant/search_lanes.h; those that are passed
 * over come behind most others.
 *
 * Source: G. M. Morton, "A computer oriented geodetic data base" (1966), the curve.
 *
 * Constants from the host:
 *   DIMS      coordinates of a point, 3 or 4
 *   WEIGHTED  1: points have weights */

#include "common/compile_hints.h"

#define LAST_KEY 65535u
#define CELL_BITS 6

/* The box of some points: its lowest corner, and by how much its longest side, below 2^bits, exceeds CELL_BITS. */
typedef struct {
    ushort4 low;
    int bits;
} extent_t;

extent_t extent_of(__global const ushort4 *points, const uint count)
{
    ushort4 low = (ushort4)(65535), high = (ushort4)(0);
    FEW_TURNS
    for (uint i = 0; i < count; ++i) {
        const ushort4 point = points[i];
        low = min(low, point.s0 ? point : (ushort4)(65535));
        high = max(high, point);
    }
    const ushort4 side = high - min(low, high);
    const extent_t extent = {low, 32 - (int)clz((uint)max(max(side.s1, side.s2), side.s3))};
    return extent;
}

/* Sixteen bits: in turn one bit of each coordinate, from the highest on, and of the last ones the second's only. */
uint order_key(const ushort4 point, const extent_t extent)
{
    if (point.s0 == 0)
        return LAST_KEY;
    uint4 c = convert_uint4(point - extent.low);
    c = extent.bits > CELL_BITS ? c >> (uint)(extent.bits - CELL_BITS) : c << (uint)(CELL_BITS - extent.bits);
    c = (c | c << 8u) & 0x0300f00fu;
    c = (c | c << 4u) & 0x030c30c3u;
    c = (c | c << 2u) & 0x09249249u;
    return (c.s1 | c.s3 << 1 | c.s2 << 2) >> 2;
}

/* One pass of a radix sort by eight bits of keys above numbers, from bit `shift` on. */
void order_by_bits(__global const uint *from, __global uint *to, const uint count, const uint shift)
{
    uint starts[256];
    FEW_TURNS
    for (int k = 0; k < 256; ++k)
        starts[k] = 0;
    FEW_TURNS
    for (uint i = 0; i < count; ++i)
        ++starts[from[i] >> shift & 255];
    uint sum = 0;
    FEW_TURNS
    for (int k = 0; k < 256; ++k) {
        const uint here = starts[k];
        starts[k] = sum;
        sum += here;
    }
    FEW_TURNS
    for (uint i = 0; i < count; ++i) {
        const uint word = from[i];
        to[starts[word >> shift & 255]++] = word;
    }
}

/* Numbers of at most 2^16 points, in the low halves of words, in the order of their keys, which are above them. */
void order_points(__global const ushort4 *points, const uint count, __global uint *order, __global uint *other)
{
    const extent_t extent = extent_of(points, count);
    FEW_TURNS
    for (uint i = 0; i < count; ++i)
        order[i] = order_key(points[i], extent) << 16 | i;
    order_by_bits(order, other, count, 16);
    order_by_bits(other, order, count, 24);
}

/* Orders every part by itself.
 *
 * NDRange: (parts), groups of 1.
 *   points    ushort4, in and out; x = 65535 marks one that is passed over
 *   weights   uint per point, in and out, if WEIGHTED
 *   parts     uint2 (parts): the first point of each, and how many, at most 2^16
 *   kept, order, other   ushort4, uint and uint per point: scratch */
__kernel SMALL __attribute__((reqd_work_group_size(1, 1, 1))) void neuquant_order(__global ushort4 *restrict points,
                                                                                  __global const uint2 *restrict parts,
                                                                                  __global ushort4 *restrict kept,
                                                                                  __global uint *restrict order,
                                                                                  __global uint *restrict other
#if WEIGHTED
                                                                                  ,
                                                                                  __global uint *restrict weights
#endif
)
{
    const uint first = parts[get_group_id(0)].x, count = parts[get_group_id(0)].y;
    points += first;
    kept += first;
    order += first;
    other += first;
    FEW_TURNS
    for (uint i = 0; i < count; ++i) {
        const ushort4 p = points[i];
        kept[i] = p.x == 65535 ? (ushort4)(0) : (ushort4)(DIMS == 4 ? p.w : 1, p.xyz);
    }
    order_points(kept, count, order, other);
    FEW_TURNS
    for (uint k = 0; k < count; ++k) {
        const ushort4 p = kept[order[k] & 65535];
        points[k] = p.s0 == 0 ? (ushort4)(65535, 0, 0, 0) : (ushort4)(p.s123, DIMS == 4 ? p.s0 : 0);
    }
#if WEIGHTED
    weights += first;
    FEW_TURNS
    for (uint k = 0; k < count; ++k)
        other[k] = weights[order[k] & 65535];
    FEW_TURNS
    for (uint k = 0; k < count; ++k)
        weights[k] = other[k];
#endif
}
