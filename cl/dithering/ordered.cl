/* Ordered dithering to any palette: of each pixel, one of two entries that mix to its colour, chosen by a mask.
 *
 * With c the pixel's point, a the nearest entry and b one of a's nearest neighbours in the palette: lengths and angles
 * with G are those of I + LUMA (l l' + w w'), l the weights of lightness and w the axis of alpha
 * (clquant/dithering/mixes.py). The share of b in the mix of both that is nearest to c is f = (c - a).G(b - a) /
 * |b - a|_G^2, at most 1. Of the neighbours with f > 0 the one is taken for which the square of what the mix leaves,
 * |c - a - f (b - a)|_G^2, plus f (1 - f) |b - a|^2 / SPREAD, which is a part of the variance of its pixels, is least;
 * of equals the nearer one. Shares up to `least`, whose few pixels would be seen as specks, are not drawn, and others
 * are (f - least) / (1 - least); least is a tenth where b is half of the space's range or more from a, less in
 * proportion where it is nearer, and 0 in palettes of few colours.
 *
 * A speck (dithering/reach.h) that is the nearest entry gives way as there, and where a is none, b is one only if
 * f |b - a|_G^2, what the mix gains over f, is above PENALTY.
 *
 * Where the colour and a are opaque, b is.
 *
 * Of the two, the lighter one stands where the mask's threshold is below its share, so that pixels in which a and b
 * change roles use the mask alike. The thresholds are (t + 1/2) / n for mask values t = 0..n - 1.
 *
 * All in integers. Errors are below 2^19 and weights at most 3 * 2^24, so f in 1/2^24 stays below 2^47; squares
 * below 2^40 times 2^17 are within 64 bits, as their product with f > 1 is, |c - a| |b - a| 2^18.
 *
 * With SIMPLICES pixels are mixed as dithering/simplices.h says instead.
 *
 * Constants: those of mapping/nearest.h and dithering/reach.h; NEIGHBOURS of an entry; SIMPLICES 0, 1 or 2.
 */
#include "mapping/nearest.h"
#include "dithering/reach.h"
#include "dithering/simplices.h"

/* A neighbour: (b - a) times G over |b - a|_G^2, in 1/2^24; |b - a|_G^2; |b - a|^2 / SPREAD; its index, or -1;
 * the share, in 1/2^16, up to which it is not drawn. */
typedef struct {
    int4 weights;
    long square;
    long spread;
    int entry;
    int least;
} Mix;

/* The entry b, and for how many numbers t = 0, 1, ... of a mask of `values` it stands. */
typedef struct {
    int entry;
    int often;
} Second;

/* What a pixel's first entry is mixed with: of it, once, the neighbour that costs least. */
Second second_of(int4 point, int4 color, int first, __global const int4 *points, __global const int4 *colors,
                 __global const Mix *mixes, int speck, int values, int strength)
{
    const int most = gap(color, colors[first]) > speck ? INT_MAX : speck;
    const int4 error = point - points[first];
    const int is_opaque = color.w == WHITE && colors[first].w == WHITE;
    long least = LONG_MAX, share = 0;
    Second second = {first, 0};
    mixes += NEIGHBOURS * first;
    for (int i = 0; i < NEIGHBOURS; i++) {
        const Mix mix = mixes[i];
        const long f = ((long)error.x * mix.weights.x + (long)error.y * mix.weights.y + (long)error.z * mix.weights.z +
                        (long)error.w * mix.weights.w) /
                       256;
        if (f <= 0 || (is_opaque && colors[mix.entry].w < WHITE))
            continue;
        if (min(f, 65536L) * mix.square < PENALTY * 65536L && gap(color, colors[mix.entry]) > most)
            continue;
        const long h = f / 256;
        const long cost =
            f < 65536 ? 256 * h * mix.spread - h * h * (mix.square + mix.spread) : (65536 - 512 * h) * mix.square;
        if (cost < least) {
            least = cost;
            second.entry = mix.entry;
            share = max(min(f, 65536L) - mix.least, 0L) * 65536 / (65536 - mix.least);
        }
    }
    second.often = (int)((share * strength * values + (1 << 23) - 1) >> 24);
    return second;
}

/* One of two entries per pixel.
 * NDRange: 2-D, columns by rows of the band, a work-item per pixel, guarded by width and n. pixels (n, CHANNELS) Sample;
 * out (n) INDEX; n pixels in rows of width; row 0 is the picture's first_row; mask (side, side) int, side a power of
 * two, a permutation of 0..side^2 - 1, repeated over the picture; mixes (k, NEIGHBOURS); n_entries = k; speck: as
 * in dithering/reach.h; strength 0..256 scales the share of the second entry; simplices and walks as in
 * dithering/simplices.h. */
__kernel void dither_ordered(PALETTE_PARAMETERS, __global const Sample *pixels, __global INDEX *out, ulong n,
                             __global const Mix *mixes, __global const uint *within, int n_entries, int speck,
                             uint width, uint first_row, __global const int *mask, uint side,
                             int strength SIMPLEX_PARAMETERS)
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
    int first = WITHOUT_NEAREST(color.w, strength) ? 0 : nearest_to_color(point, color, points, colors, PALETTE_CELLS);
    const int values = (int)(side * side);
    const int number = mask[((first_row + row) & (side - 1)) * side + (column & (side - 1))];
#if SIMPLICES
    if (IS_MIXED(color.w)) {
        const int4 mixed = point_to_mix(point, points[first], strength);
        const Mixture mixture = mixture_of(mixed, points, simplices, walks, values);
        out[i] = entry_at(&mixture, number);
        return;
    }
#endif
    if (gap(color, colors[first]) > speck)
        first = entry_in_reach(point, color, points, colors, within, n_entries, speck);
    const Second second = second_of(point, color, first, points, colors, mixes, speck, values, strength);
    const int4 lighter = (points[second.entry] - points[first]) * SPACE_LIGHTNESS;
    const int t = lighter.x + lighter.y + lighter.z + lighter.w < 0 ? values - 1 - number : number;
    out[i] = (INDEX)(t < second.often ? second.entry : first);
}
