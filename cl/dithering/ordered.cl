/* Ordered dithering to any palette: of each pixel, one of two entries that mix to its colour, chosen by a mask;
 * dithering/ordered.h has the equations. */
#include "mapping/nearest.h"
#include "dithering/reach.h"
#include "dithering/ordered.h"

/* One of two entries per pixel.
 * NDRange: 2-D, columns by rows of the band, a work-item per pixel, guarded by width and n. pixels (n, CHANNELS) Sample;
 * out (n) INDEX; n pixels in rows of width; row 0 is the picture's first_row; mask (side, side) int, side a power of
 * two, a permutation of 0..side^2 - 1, repeated over the picture; mixes (k, NEIGHBOURS); n_entries = k; speck: as
 * in dithering/reach.h; strength 0..256 scales the share of the second entry. */
__kernel void dither_ordered(PALETTE_PARAMETERS, __global const Sample *pixels, __global INDEX *out, ulong n,
                             __global const Mix *mixes, int n_entries, int speck, uint width, uint first_row,
                             __global const int *mask, uint side, int strength)
{
    const uint column = (uint)get_global_id(0);
    const uint row = (uint)get_global_id(1);
    const size_t i = (size_t)row * width + column;
    if (column >= width || i >= n)
        return;
    const int4 color = load_pixel(pixels, i);
    if (is_transparent(color, transparent, missing)) {
        out[i] = (INDEX)max(transparent, 0);
        return;
    }
    const int4 point = space_coordinates(color, tables);
    const int nearest = nearest_to_color(point, color, points, colors, PALETTE_CELLS);
    const int first = first_of(point, color, nearest, points, colors, n_entries, speck);
    const int values = (int)(side * side);
    const Second second = second_of(point, color, first, points, colors, mixes, speck, values, strength);
    const int number = mask[((first_row + row) & (side - 1)) * side + (column & (side - 1))];
    const int t = is_darker(second.entry, first, points) ? values - 1 - number : number;
    out[i] = (INDEX)(t < second.often ? second.entry : first);
}
