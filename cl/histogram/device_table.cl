/* Adding counts of opaque colours to a table of all 2^24 such colours.
 *
 * Constants: COUNT and SUM, the types of counts and of the table.
 * NDRange: 1-D, at least a work-item per colour, any groups. colors: n distinct ones, R | G << 8 | B << 16. counts: of
 * each. table: a sum per colour, in the Z-order of R, G, B. No two work-items meet, as the colours are distinct. */
#include "common/z_order.h"

#ifndef COUNT
#define COUNT uint
#endif
#ifndef SUM
#define SUM ulong
#endif

__kernel void add_counts(__global const uint *restrict colors, __global const COUNT *restrict counts, uint n,
                         __global SUM *restrict table)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const uint color = colors[i];
    table[z_order_rgb(color & 255, color >> 8 & 255, color >> 16 & 255)] += counts[i];
}
