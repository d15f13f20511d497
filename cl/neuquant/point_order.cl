/* Samples in an order in which those of like colours come together, for searches that gain by it.
 *
 * Source: G. M. Morton, "A computer oriented geodetic data base" (1966), the curve.
 *
 * Constants from the host:
 *   DIMS      coordinates of a point, 3 or 4
 *   WEIGHTED  1: points have weights */

#include "common/compile_hints.h"
#include "neuquant/point_order.h"

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
