/* One step of error diffusion to a palette: what arrives at a pixel, the entry chosen for it, its error.
 *
 * Errors are of 8-bit values (R, G, B, alpha) where PLAIN_ERRORS, else of the coordinates of the space in which colours
 * are compared. The value is clamp(c + strength * s / (256 * DIVISOR)), rounded toward zero, with s the sum of weights
 * times errors; it is within 0..extent, so an error is at most 2048, |s| at most 48 * 2048, and strength * s < 2^25. Of
 * 16-bit values an error is at most 131070, and strength * s < 2^31.
 *
 * Entries far from a pixel's colour have a penalty, and no more of an error is passed on than its entry's bound: errors of a
 * region that the palette lacks draw no specks in others.
 *
 * Constants: dithering/reach.h's; SEARCH, how entries are found: IN_CELLS by mapping/nearest.h; IN_LANES, candidates in the lanes of a vector,
 * for CPUs; IN_TABLE, where errors are plain, the nearest entries of all opaque colours in a table
 * (mapping/plain_table.cl), for GPUs; BY_THRESHOLD, of gray pictures and a palette of 255 times black, then white: white above
 * 128 (of 16-bit values, nearest). DIVISOR; PLAIN_ERRORS; mapping/nearest.h's. Scans have ARRIVING besides, an
 * expression: s by weights and error_at(reach, columns ahead, rows below), the error of the pixel which gives that share.
 */
#define IN_CELLS 0
#define IN_LANES 1
#define IN_TABLE 2
#define BY_THRESHOLD 3

#if SEARCH == IN_LANES
#include "mapping/candidates_lanes.h"
#define SEARCH_PARAMETERS LANE_PARAMETERS, __global const int4 *points, __global const int4 *colors
#define SEARCH_ARGUMENTS tables, LANE_CELLS, transparent, missing, points, colors

int nearest_entry(int4 point, int4 color, SEARCH_PARAMETERS)
{
    const int at[4] = {point.x, point.y, point.z, point.w};
    return (int)nearest_in_lanes(at, 1, packed_color(color), spans[cell_of(point, grid, shift)], blocks);
}
#elif SEARCH == IN_TABLE
#include "mapping/nearest.h"
#define SEARCH_PARAMETERS PALETTE_PARAMETERS, __global const INDEX *restrict nearest
#define SEARCH_ARGUMENTS PALETTE_ARGUMENTS, nearest

int nearest_entry(int4 point, int4 color, SEARCH_PARAMETERS)
{
    if (color.w == 255)
        return nearest[color.x | color.y << 8 | color.z << 16];
    return nearest_to_color(point, color, points, colors, PALETTE_CELLS);
}
#else
#include "mapping/nearest.h"
#define SEARCH_PARAMETERS PALETTE_PARAMETERS
#define SEARCH_ARGUMENTS PALETTE_ARGUMENTS

int nearest_entry(int4 point, int4 color, SEARCH_PARAMETERS)
{
#if SEARCH == BY_THRESHOLD
    return color.x > WHITE / 2 + (BITS == 8) ? 255 : 0;
#else
    return nearest_to_color(point, color, points, colors, PALETTE_CELLS);
#endif
}
#endif

#include "dithering/reach.h"

/* Errors as they are kept. */
#if BITS == 16
typedef int4 Error;
#define convert_error convert_int4
#else
typedef short4 Error;
#define convert_error convert_short4
#endif

#define DIFFUSION_PARAMETERS                                                                                           \
    SEARCH_PARAMETERS, __global const int4 *bounds, int n_entries, int speck, int4 extent, int strength,               \
        __global const Sample *image, __global INDEX *output
#define DIFFUSION_ARGUMENTS SEARCH_ARGUMENTS, bounds, n_entries, speck, extent, strength, image, output

/* A pixel's colour with what arrives; errors are of it. */
int4 value_with(int4 color, int4 sum, __global const int *tables, int4 extent, int strength)
{
    const int4 own = PLAIN_ERRORS ? color : space_coordinates(color, tables);
    return clamp(own + strength * sum / (256 * DIVISOR), (int4)(0), extent);
}

int4 point_of(int4 value, __global const int *tables)
{
    return PLAIN_ERRORS ? space_coordinates(value, tables) : value;
}

/* What an entry leaves of a value. */
int4 error_of(int4 value, int entry, __global const int4 *points, __global const int4 *colors,
              __global const int4 *bounds)
{
    const int4 most = bounds[entry].xyyx;
    return clamp(value - (PLAIN_ERRORS ? colors : points)[entry], -most, most);
}

/* Chooses the entry of the pixel `from` of the image, writes it to the place `to` of the output unless that is
 * negative, and returns the error. Pixels of alpha 0 have no error and take none. */
int4 diffuse(DIFFUSION_PARAMETERS, size_t from, long to, int4 sum)
{
    const int4 color = load_pixel(image, from);
    int entry = max(transparent, 0);
    int4 error = 0;
    if (!is_transparent(color, transparent, missing)) {
        const int4 value = value_with(color, sum, tables, extent, strength);
        const int4 point = point_of(value, tables);
        entry = nearest_entry(point, PLAIN_ERRORS ? value : color, SEARCH_ARGUMENTS);
        if (gap(color, colors[entry]) > speck)
            entry = entry_in_reach(point, color, points, colors, n_entries, speck);
        error = error_of(value, entry, points, colors, bounds);
    }
    if (to >= 0)
        output[to] = (INDEX)entry;
    return error;
}
