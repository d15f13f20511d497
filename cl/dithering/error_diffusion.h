/* One step of error diffusion to a palette: what arrives at a pixel, the entry chosen for it, its error.
 *
 * Errors are of 8-bit values (R, G, B, alpha) where PLAIN_ERRORS, else of the coordinates of the space in which colours
 * are compared. The value is clamp(c + strength * s / (256 * DIVISOR)), rounded toward zero, with s the sum of weights
 * times errors; it is within 0..extent, so an error is at most 2048, |s| at most 48 * 2048, and strength * s < 2^25. Of
 * 16-bit values an error is at most 131070, and strength * s < 2^31.
 *
 * Entries far from a pixel's colour have a penalty, and no more of an error is passed on than its entry's bound: errors
 * of a region that the palette lacks draw no specks in others.
 *
 * Constants: dithering/reach.h's; SEARCH, how entries are found: IN_CELLS by mapping/nearest.h; IN_LANES, candidates in
 * the lanes of a vector, for CPUs; for GPUs, where errors are plain, IN_TABLE, the nearest entries of all opaque colours
 * in a table (mapping/plain_table.cl), and OF_FEW, one by one (dithering/reach.h); BY_THRESHOLD, of gray pictures and a
 * palette of 255 times black, then white: white above 128 (of 16-bit values, nearest). DIVISOR; PLAIN_ERRORS;
 * mapping/nearest.h's. Scans have ARRIVING besides, an expression: s by weights and error_at(reach, columns ahead, rows
 * below), the error of the pixel which gives that share.
 */
#define IN_CELLS 0
#define IN_LANES 1
#define IN_TABLE 2
#define BY_THRESHOLD 3
#define OF_FEW 4

#if SEARCH == IN_LANES
#include "mapping/candidates_lanes.h"
#define SEARCH_PARAMETERS LANE_PARAMETERS, __global const int4 *points, __global const int4 *colors
#define SEARCH_ARGUMENTS tables, LANE_CELLS, transparent, missing, points, colors

int nearest_entry(int4 point, int4 color, SEARCH_PARAMETERS)
{
    const int at[4] = {point.x, point.y, point.z, point.w};
    return (int)nearest_in_lanes(at, 1, packed_color(color), spans[cell_of(point, color, grid, shift)], blocks);
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

/* Errors as they are kept. */
#if BITS == 16
typedef int4 Error;
#define convert_error convert_int4
#else
typedef short4 Error;
#define convert_error convert_short4
#endif

/* What scans read of entries, one after the other in memory. */
#ifndef ENTRIES
#define ENTRIES __global const Error *
#endif
typedef struct {
    ENTRIES values;
    ENTRIES points;
    ENTRIES most; /* that is passed on of an error */
} Entries;

Entries entries_from(ENTRIES first, int n_entries)
{
    const Entries found = {first, first + n_entries, first + 2 * n_entries};
    return found;
}

#define REACH_POINTS ENTRIES
#include "dithering/reach.h"

#define CHOICE_PARAMETERS                                                                                              \
    SEARCH_PARAMETERS, __global const uint *within, int n_entries, int speck, int4 extent, int strength
#define CHOICE_ARGUMENTS SEARCH_ARGUMENTS, within, n_entries, speck, extent, strength
#define DIFFUSION_PARAMETERS                                                                                           \
    CHOICE_PARAMETERS, __global const Error *entries, __global const Sample *image, __global INDEX *output

/* The entry chosen for a pixel's colour, and the error. Pixels of alpha 0 have no error and take none; opaque ones have
 * and take none of alpha. */
int choose(CHOICE_PARAMETERS, const Entries *entries, int4 color, int4 sum, int4 *error)
{
    *error = 0;
    if (is_transparent(color, transparent, missing))
        return max(transparent, 0);
    const int4 own = PLAIN_ERRORS ? color : space_coordinates(color, tables);
    int4 value = clamp(own + strength * sum / (256 * DIVISOR), (int4)(0), extent);
#if SPACE_ALPHA
    value.w = color.w == WHITE ? own.w : value.w;
#endif
    const int4 point = PLAIN_ERRORS ? space_coordinates(value, tables) : value;
#if SEARCH == OF_FEW
    /* the nearest with the penalty is the nearest without it, unless that is a speck */
    const int entry = entry_of_few(point, color, entries->points, n_entries, speck, PENALTY);
    const int4 shown = convert_int4(entries->values[entry]), most = convert_int4(entries->most[entry]);
#else
    int entry = nearest_entry(point, PLAIN_ERRORS ? value : color, SEARCH_ARGUMENTS);
    int4 shown = convert_int4((PLAIN_ERRORS ? entries->values : entries->points)[entry]);
    int4 most = convert_int4(entries->most[entry]);
    if (gap(color, convert_int4(entries->values[entry])) > speck) {
        entry = entry_in_reach(point, color, entries->points, colors, within, n_entries, speck);
        shown = convert_int4((PLAIN_ERRORS ? entries->values : entries->points)[entry]);
        most = convert_int4(entries->most[entry]);
    }
#endif
    *error = clamp(value - shown, -most, most);
    return entry;
}
