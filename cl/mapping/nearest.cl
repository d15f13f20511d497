/* Nearest palette colour of every pixel, exactly. */
#include "mapping/nearest.h"

/* The nearest entry of every pixel; see mapping/nearest.h for the rule and the first arguments.
 * NDRange: 1-D, a work-item per pixel, guarded by n. pixels (n, CHANNELS) Sample; out (n) INDEX. */
__kernel void map_pixels(PALETTE_PARAMETERS, __global const Sample *pixels, __global INDEX *out, ulong n)
{
    const size_t i = get_global_id(0);
    if (i >= n)
        return;
    const int4 color = load_pixel(pixels, i);
    if (is_transparent(color, transparent, missing)) {
        out[i] = (INDEX)max(transparent, 0);
        return;
    }
    const int4 point = space_coordinates(color, tables);
    out[i] = (INDEX)nearest_to_color(point, color, points, colors, PALETTE_CELLS);
}
