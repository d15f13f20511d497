#include "palette_nearest.h"
#include "halftone_table.h"

/* The table of halftone_table.h, for scans in which each pixel would wait for its search: NDRange 2^24, any group. */
kernel void nearest_of_all(PALETTE_PARAMETERS, global INDEX *nearest) {
    const uint place = (uint)get_global_id(0);
    const int4 color = (int4)(table_color(place), 255);
    nearest[place] = (INDEX)nearest_to_color(space_coordinates(color, tables), color, points, colors, PALETTE_CELLS);
}
