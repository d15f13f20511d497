/* Ordered dithering to any palette: of each pixel, one of two entries that mix to its colour, chosen by a mask.
 *
 * With c the pixel's point, a the nearest entry, and b the nearest to c + r (c - a), clamped to the space, for the first
 * r of 2, 8, 32, 128 for which it is not a: the share of b in a mix of both that is nearest to c is
 * f = (c - a).(b - a) / |b - a|^2. Of the two, the lighter one stands where the mask's threshold is below its share, so
 * that pixels in which a and b change roles use the mask alike.
 *
 * The thresholds are (t + 1/2) / n for mask values t = 0..n - 1. All in integers: dot products stay below 2^24 in
 * magnitude (both vectors are shorter than 2^12), times 2 n <= 2^17 and strength <= 2^8: within 64 bits.
 */
#include "palette_nearest.h"
#include "palette_ordered.h"

/* The nearest entry of any point of the space; ties go to the lowest index. */
int nearest_to_point(int4 point, __global const int4 *points, __global const uint *starts,
                     __global const ushort *list, int4 grid, int shift)
{
    const int cell = cell_of(point, grid, shift);
    const uint begin = starts[cell];
    const uint end = starts[cell + 1];
    int index = list[begin];
    if (end - begin == 1)
        return index;
    int least = squared(point - points[index]);
    for (uint j = begin + 1; j < end; j++) {
        const int distance = squared(point - points[list[j]]);
        index = distance < least ? (int)list[j] : index;
        least = min(least, distance);
    }
    return index;
}

/* One of two entries a pixel.
 * NDRange: 2-D, columns by rows of the band, a work-item a pixel, guarded by width and n. pixels (n, CHANNELS) uchar; out
 * (n) INDEX; n pixels in rows of width; row 0 is the picture's first_row; mask (side, side) int, side a power of two, a
 * permutation of 0..side^2 - 1, repeated over the picture; extent: largest coordinates of the space; strength 0..256
 * scales the share of the second entry. */
__kernel void dither_ordered(PALETTE_PARAMETERS, __global const uchar *pixels, __global INDEX *out, ulong n,
                             uint width, uint first_row, __global const int *mask, uint side, int4 extent,
                             int strength)
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
    const int first = nearest_to_color(point, color, points, colors, PALETTE_CELLS);
    const int4 error = point - points[first];
    int second = first;
    if (squared(error) > 0)
        for (int reach = 2; reach <= 128 && second == first; reach *= 4)
            second = nearest_to_point(clamp(point + reach * error, (int4)(0), extent), points, PALETTE_CELLS);

    const int4 step = points[second] - points[first];
    const int values = (int)(side * side);
    int t = mask[((first_row + row) & (side - 1)) * side + (column & (side - 1))];
    if (dot4(step, LIGHTNESS) < 0)
        t = values - 1 - t;
    const long share = (long)dot4(error, step) * strength * (2 * (long)values);
    const long threshold = (long)squared(step) * 256 * (2 * (long)t + 1);
    out[i] = (INDEX)(share > threshold ? second : first);
}
