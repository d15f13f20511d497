/* Nearest palette colour of every pixel, exactly.
 *
 * The nearest entry is the one of the least squared distance in the space of spaces.h; among those the one of the
 * least squared distance of the plain 8-bit values (so a colour that is in the palette is always kept, also where
 * the space maps two colours to one point); among those the lowest index.
 *
 * With CITY_BLOCK the nearest entry is the one of the least sum of absolute differences instead; the candidate lists of
 * map_cells do not hold for it.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels; CITY_BLOCK 0 or 1; INDEX uchar or ushort; SPACE, SPACE_ALPHA of spaces.h;
 * EXACT_TIES 0 where points are the 8-bit values themselves, so the second rule says nothing new.
 * Palette buffers: points (k, 4) int32 coordinates, colors (k, 4) int32 8-bit values.
 */
#include "spaces.h"

int4 load_pixel(__global const uchar *pixels, size_t i)
{
#if CHANNELS == 1
    const int v = pixels[i];
    return (int4)(v, v, v, 255);
#elif CHANNELS == 3
    return (int4)(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2], 255);
#else
    return convert_int4(vload4(i, pixels));
#endif
}

/* At most 2^24 for points and 4 * 255^2 for colours. */
int squared(int4 d)
{
    return d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
}

/* What decides in the space. */
int separation(int4 a, int4 b)
{
#if CITY_BLOCK
    const uint4 d = abs_diff(a, b);
    return (int)(d.x + d.y + d.z + d.w);
#else
    return squared(a - b);
#endif
}

typedef struct {
    int distance;
    int plain;
    int index;
} Best;

/* Entries must be offered in ascending index, so that strict comparisons leave ties to the lowest. */
void offer(Best *best, int index, int4 point, int4 color, __global const int4 *points, __global const int4 *colors)
{
    const int distance = separation(point, points[index]);
    if (distance > best->distance)
        return;
#if EXACT_TIES
    const int plain = squared(color - colors[index]);
    if (distance == best->distance && plain >= best->plain)
        return;
    best->plain = plain;
#else
    if (distance == best->distance)
        return;
#endif
    best->distance = distance;
    best->index = index;
}

/* A pixel of alpha 0 takes `transparent`, the first entry of alpha 0; where the palette has none (-1), `missing` is
 * set to 1 (all writers write the same value). Returns whether the pixel is of that kind. */
int is_transparent(int4 color, int transparent, __global int *missing)
{
#if CHANNELS == 4
    if (color.w == 0) {
        if (transparent < 0)
            missing[0] = 1;
        return 1;
    }
#endif
    return 0;
}

/* Every palette entry against every pixel.
 * NDRange: 1-D, a work-item a pixel, guarded by n. pixels (n, CHANNELS) uchar; out (n) INDEX; missing (1) int. */
__kernel void map_all(__global const uchar *pixels, __global const int *tables, __global const int4 *points,
                      __global const int4 *colors, int k, int transparent, __global INDEX *out,
                      __global int *missing, ulong n)
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
    Best best = {INT_MAX, INT_MAX, 0};
    for (int index = 0; index < k; index++)
        offer(&best, index, point, color, points, colors);
    out[i] = (INDEX)best.index;
}

/* Only the candidates of the pixel's grid cell (see palette_cells.cl), which hold every possible nearest entry.
 * NDRange: 1-D, a work-item a pixel, guarded by n. starts (cells + 1) uint into list; list (starts[cells]) ushort,
 * ascending in each cell; grid: cells along each axis; shift: log2 of a cell's side. Others as in map_all. */
__kernel void map_cells(__global const uchar *pixels, __global const int *tables, __global const int4 *points,
                        __global const int4 *colors, __global const uint *starts, __global const ushort *list,
                        int4 grid, int shift, int transparent, __global INDEX *out, __global int *missing, ulong n)
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
    const int4 at = point >> shift;
    const int cell = ((at.w * grid.z + at.z) * grid.y + at.y) * grid.x + at.x;
    const uint end = starts[cell + 1];
    uint j = starts[cell];
    Best best = {INT_MAX, INT_MAX, list[j]};
    if (end - j > 1)
        for (; j < end; j++)
            offer(&best, list[j], point, color, points, colors);
    out[i] = (INDEX)best.index;
}

/* Colours of indices: out (n, OUT_CHANNELS) uchar from colors (k, 4) int32.
 * NDRange: 1-D, a work-item a pixel, guarded by n. Indices are below k by construction. */
__kernel void apply_palette(__global const INDEX *indices, __global const int4 *colors, __global uchar *out, ulong n)
{
    const size_t i = get_global_id(0);
    if (i >= n)
        return;
    const uchar4 color = convert_uchar4(colors[indices[i]]);
#if OUT_CHANNELS == 4
    vstore4(color, i, out);
#else
    out[3 * i] = color.x;
    out[3 * i + 1] = color.y;
    out[3 * i + 2] = color.z;
#endif
}
