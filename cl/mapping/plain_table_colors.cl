/* mapping/plain_table.cl's table, the same, where points are colours and the palette has at most 256: without lists, as
 * a work-group finds the candidates of its colours itself.
 *
 * Constants: those of mapping/nearest.h; WIDE, HIGH and DEEP, the sides of a group's box of colours, powers of two, the
 * first a multiple of 4.
 */
#include "mapping/nearest.h"

/* The i-th four colours of a box, whose first is `low`. */
uint quad_of_box(uint i, uint4 low)
{
    const uint4 at = low + (uint4)(i % (WIDE / 4) * 4, i / (WIDE / 4) % HIGH, i / (WIDE / 4 * HIGH), 0);
    return at.z << 14 | at.y << 6 | at.x >> 2;
}

int4 first_color(uint quad)
{
    return (int4)((int)(quad << 2 & 255u), (int)(quad >> 6 & 255u), (int)(quad >> 14), 255);
}

/* The nearest entries of all colours.
 * NDRange: 1-D, 2^24 / (WIDE HIGH DEEP) groups of any size, one a box of colours, boxes by red, then green, then blue.
 * points (k, 4) int, the palette; k 1 to 256; table (2^24) uchar.
 *
 * An entry is a candidate if somewhere in the box it is as near as the pivot, the entry nearest to the box's middle
 * (mapping/candidates.cl). One number orders entries: the distance, then the index, in 8 bits. Distances are below
 * 2^18, those of doubled points below 2^20. A work-item's four colours differ in red alone: (d + j)^2 = d^2 + 2 d j +
 * j^2. */
__kernel void map_colors(__global const int4 *restrict points, uint k, __global uint *restrict table)
{
    __local int4 near[256];
    __local uint pivot;
    __local uint count;
    const uint lid = (uint)get_local_id(0);
    const uint size = (uint)get_local_size(0);
    const uint box = (uint)get_group_id(0), across = 256 / WIDE, down = 256 / HIGH;
    const uint4 first = (uint4)(box % across * WIDE, box / across % down * HIGH, box / (across * down) * DEEP, 0);
    const int4 low = convert_int4(first);
    const int4 high = low + (int4)(WIDE - 1, HIGH - 1, DEEP - 1, 0);
    if (lid == 0) {
        pivot = UINT_MAX;
        count = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint least = UINT_MAX;
    for (uint j = lid; j < k; j += size)
        least = min(least, (uint)squared(2 * points[j] - low - high) << 8 | j);
    if (least != UINT_MAX)
        atomic_min(&pivot, least);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int4 middle = points[pivot & 255u];
    const int4 at_low = (middle - low) * (middle - low);
    const int4 at_high = (middle - high) * (middle - high);
    for (uint j = lid; j < k; j += size) {
        const int4 p = points[j];
        const int4 lead = max(at_low - (p - low) * (p - low), at_high - (p - high) * (p - high));
        if (lead.x + lead.y + lead.z >= 0)
            near[atomic_inc(&count)] = (int4)(p.xyz, (int)j);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint found = count;
    for (uint i = lid; i < WIDE * HIGH * DEEP / 4; i += size) {
        const uint quad = quad_of_box(i, first);
        const int4 color = first_color(quad);
        int4 best = INT_MAX;
        for (uint j = 0; j < found; j++) {
            const int4 entry = near[j];
            const int4 d = color - entry;
            const int order = ((d.x * d.x + d.y * d.y + d.z * d.z) << 8) + entry.w;
            const int step = d.x << 9;
            best = min(best, (int4)(order, order + step + 256, order + 2 * step + 1024, order + 3 * step + 2304));
        }
        const uint4 index = as_uint4(best) & 255u;
        table[quad] = index.x | index.y << 8 | index.z << 16 | index.w << 24;
    }
}
