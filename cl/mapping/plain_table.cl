#include "mapping/nearest.h"

/* The nearest palette entry of every opaque 8-bit colour, for scans in which each pixel would wait for its search:
 * INDEX [2^24], that of the colour R | G << 8 | B << 16. NDRange 2^24, any group. */
__kernel void nearest_of_all(PALETTE_PARAMETERS, __global INDEX *nearest)
{
    const int place = (int)get_global_id(0);
    const int4 color = (int4)(place & 255, place >> 8 & 255, place >> 16, 255);
    nearest[place] = (INDEX)nearest_to_color(space_coordinates(color, tables), color, points, colors, PALETTE_CELLS);
}
