/* palette_map_table.cl's table of all colours' nearest entries, the same, where points are colours and the palette has
 * at most 256: without lists, as a work-group finds the candidates of its colours itself.
 *
 * Constants: those of palette_nearest.h, CHANNELS 3 or 4 among them; SIDE of a group's cube of colours, a multiple of
 * 4.
 */
#include "palette_nearest.h"
#define COLUMNS 256
#include "palette_table.h"

#define BRICKS (SIDE / 4)

/* The nearest entries of all colours.
 * NDRange: 1-D, (256 / SIDE)^3 groups of any size, one a cube of SIDE^3 colours, cubes by red, then green, then blue.
 * points (k, 4) int, the palette; k 1 to 256; table (2^24) uchar.
 *
 * An entry is a candidate if somewhere in the cube it is as near as the pivot, the entry nearest to the cube's middle
 * (palette_cells.cl). One number orders entries: the distance, then the index, in 8 bits. Distances are below 2^18,
 * those of doubled points below 2^20. A work-item's four colours differ in red alone: (d + j)^2 = d^2 + 2 d j + j^2. */
__kernel void map_colors(__global const int4 *restrict points, uint k, __global uint *restrict table)
{
    __local int4 near[256];
    __local uint pivot;
    __local uint count;
    const uint lid = (uint)get_local_id(0);
    const uint size = (uint)get_local_size(0);
    const uint across = 256 / SIDE;
    const uint cube = (uint)get_group_id(0);
    const uint4 at = (uint4)(cube % across, cube / across % across, cube / (across * across), 0);
    const int4 low = convert_int4(at) * SIDE;
    const int4 high = (int4)(low.xyz + (SIDE - 1), 0);
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
    for (uint i = lid; i < SIDE * SIDE * SIDE / 4; i += size) {
        const uint b = i / 16;
        const uint4 brick = at * BRICKS + (uint4)(b % BRICKS, b / BRICKS % BRICKS, b / (BRICKS * BRICKS), 0);
        const uint quad = (brick.z << 12 | brick.y << 6 | brick.x) << 4 | (i & 15u);
        const int4 color = table_color(4 * quad);
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
