/* One step of error diffusion to a palette: what arrives at a pixel, the entry chosen for it, its error.
 *
 * Errors are of 8-bit values (R, G, B, alpha) where PLAIN_ERRORS, else of the coordinates of the space in which colours
 * are compared. The value is clamp(c + strength * s / (256 * DIVISOR)), rounded toward zero, with s the sum of weights
 * times errors; it is within 0..extent, so an error is at most 2048, |s| at most 48 * 2048, and strength * s < 2^25. Of
 * 16-bit values an error is at most 131070, and strength * s < 2^31.
 *
 * Constants: IN_LANES 1: candidates are compared in the lanes of a vector, for CPUs; DIVISOR; PLAIN_ERRORS;
 * mapping/nearest.h's. Scans have ARRIVING besides, an expression: s by weights and error_at(reach, columns ahead, rows
 * below), the error of the pixel which gives that share.
 */
#if IN_LANES
#include "mapping/candidates_lanes.h"
#define SEARCH_PARAMETERS LANE_PARAMETERS, __global const int4 *points, __global const int4 *colors
#define SEARCH_ARGUMENTS tables, LANE_CELLS, transparent, missing, points, colors

int nearest_entry(int4 point, int4 color, SEARCH_PARAMETERS)
{
    const int at[4] = {point.x, point.y, point.z, point.w};
    const uint key = (uint)color.x | (uint)color.y << 8 | (uint)color.z << 16 | (uint)color.w << 24;
    return (int)nearest_in_lanes(at, 1, key, spans[cell_of(point, grid, shift)], blocks);
}
#else
#include "mapping/nearest.h"
#define SEARCH_PARAMETERS PALETTE_PARAMETERS
#define SEARCH_ARGUMENTS PALETTE_ARGUMENTS

int nearest_entry(int4 point, int4 color, SEARCH_PARAMETERS)
{
    return nearest_to_color(point, color, points, colors, PALETTE_CELLS);
}
#endif

/* Errors as they are kept. */
#if BITS == 16
typedef int4 Error;
#define convert_error convert_int4
#else
typedef short4 Error;
#define convert_error convert_short4
#endif

#define DIFFUSION_PARAMETERS                                                                                           \
    SEARCH_PARAMETERS, __global const Sample *image, __global INDEX *output, int4 extent, int strength
#define DIFFUSION_ARGUMENTS SEARCH_ARGUMENTS, image, output, extent, strength

/* Chooses the entry of the pixel `from` of the image, writes it to the place `to` of the output unless that is
 * negative, and returns the error. Pixels of alpha 0 have no error and take none. */
int4 diffuse(DIFFUSION_PARAMETERS, size_t from, long to, int4 sum)
{
    const int4 color = load_pixel(image, from);
    int entry = max(transparent, 0);
    int4 error = 0;
    if (!is_transparent(color, transparent, missing)) {
        const int4 arriving = strength * sum / (256 * DIVISOR);
#if PLAIN_ERRORS
        const int4 value = clamp(color + arriving, (int4)(0), extent);
        entry = nearest_entry(space_coordinates(value, tables), value, SEARCH_ARGUMENTS);
        error = value - colors[entry];
#else
        const int4 value = clamp(space_coordinates(color, tables) + arriving, (int4)(0), extent);
        entry = nearest_entry(value, color, SEARCH_ARGUMENTS);
        error = value - points[entry];
#endif
    }
    if (to >= 0)
        output[to] = (INDEX)entry;
    return error;
}
