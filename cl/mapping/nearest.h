/* What kernels that choose palette entries share: pixels, distances, the nearest entry, transparency.
 *
 * The nearest entry is the one of the least squared distance in the space of common/color_spaces.h; among those the one
 * of the least squared distance of the plain 8-bit values (so a colour that is in the palette is always kept, also
 * where the space maps two colours to one point); among those the lowest index. Opaque colours take opaque entries alone,
 * if there are any.
 *
 * With CITY_BLOCK the nearest entry is the one of the least sum of absolute differences in the space instead; candidate
 * lists do not hold for it, so all entries are in one cell.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels; CITY_BLOCK 0 or 1; INDEX uchar or ushort; SPACE, SPACE_ALPHA, BITS of
 * common/color_spaces.h (with 16 bits the entries' values are 257 times the 8-bit ones); EXACT_TIES 0 where points are
 * the 8-bit values themselves, so the second rule says nothing new.
 *
 * Every such kernel begins with the same arguments (Mapper.arguments of clquant/mapping/nearest.py):
 *   tables (Space.tables()) int; points (k, 4) int coordinates and colors (k, 4) int 8-bit values of the palette;
 *   starts (cells + 1) uint into list, list (starts[cells]) ushort: each cell's candidates, ascending, from
 *   mapping/candidates.cl, or all entries in one cell (with alpha in two); grid: cells along each axis; shift: log2 of a cell's side;
 *   transparent: first entry of alpha 0 or -1; missing (1) int: set to 1 where that entry is wanting.
 */
#include "common/color_spaces.h"

#define PALETTE_PARAMETERS                                                                                             \
    __global const int *tables, __global const int4 *points, __global const int4 *colors, __global const uint *starts, \
        __global const ushort *list, int4 grid, int shift, int transparent, __global int *missing
#define PALETTE_CELLS starts, list, grid, shift
#define PALETTE_ARGUMENTS tables, points, colors, PALETTE_CELLS, transparent, missing

int4 load_pixel(__global const Sample *pixels, size_t i)
{
#if CHANNELS == 1
    const int v = pixels[i];
    return (int4)(v, v, v, WHITE);
#elif CHANNELS == 3
    return (int4)(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2], WHITE);
#else
    return convert_int4(vload4(i, pixels));
#endif
}

uint packed_color(int4 color)
{
    return (uint)color.x | (uint)color.y << 8 | (uint)color.z << 16 | (uint)color.w << 24;
}

int4 unpacked_color(uint key)
{
    return (int4)((int)(key & 255), (int)(key >> 8 & 255), (int)(key >> 16 & 255), (int)(key >> 24));
}

#include "common/squared.h"

/* What decides in the space. */
Squared separation(int4 a, int4 b)
{
#if CITY_BLOCK
    const uint4 d = abs_diff(a, b);
    return (Squared)(d.x + d.y + d.z + d.w);
#else
    return squared(a - b);
#endif
}

typedef struct {
    Squared distance;
    Squared plain;
    int index;
} Best;

/* Entries must be offered in ascending index, so that strict comparisons leave ties to the lowest. */
void offer(Best *best, int index, int4 point, int4 color, __global const int4 *points, __global const int4 *colors)
{
    const Squared distance = separation(point, points[index]);
    if (distance > best->distance)
        return;
#if EXACT_TIES
    const Squared plain = squared(color - colors[index]);
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

/* Products of a value and an alpha, over white, rounded down; for CPUs, whose vectors have no division, of 8 bits. */
#if defined(FOR_CPUS) && BITS == 8
#define OVER_WHITE(product) (((product) + 1 + ((product) >> 8)) >> 8)
#else
#define OVER_WHITE(product) ((product) / (uint)WHITE)
#endif

/* A colour's values, over black where colours have alpha. */
int4 gap_axes(int4 color)
{
#if SPACE_ALPHA
    return convert_int4((uint4)(OVER_WHITE(convert_uint3(color.xyz) * (uint)color.w), (uint)color.w));
#else
    return color;
#endif
}

/* The largest difference of two colours' values in a channel, over black or white where they have alpha. By `abs`:
 * NVIDIA's compiler (driver 580) drops an operand of max(a, -a) within a maximum of three. */
int gap(int4 a, int4 b)
{
#if SPACE_ALPHA
    const int4 d = gap_axes(a) - gap_axes(b), white = (int4)(d.xyz - d.w, 0);
    const uint4 off = max(abs(d), abs(white));
    return (int)max(max(off.x, off.y), max(off.z, off.w));
#else
    const uint4 off = abs_diff(a, b);
    return (int)max(max(off.x, off.y), off.z);
#endif
}

/* Whether a pixel has alpha 0; where the palette has no entry for those, says so in `missing` (every writer writes the
 * same value). */
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

/* The cell of a colour's point, whose coordinates are within the extent. Where alpha is an axis the last layer is that of
 * opaque colours, and lists opaque entries. */
int cell_of(int4 point, int4 color, int4 grid, int shift)
{
    int4 at = point >> shift;
#if SPACE_ALPHA
    at.w = color.w == WHITE ? grid.w - 1 : at.w;
#endif
    return ((at.w * grid.z + at.z) * grid.y + at.y) * grid.x + at.x;
}

/* The nearest entry of a pixel: `point` its coordinates, `color` its values. */
int nearest_to_color(int4 point, int4 color, __global const int4 *points, __global const int4 *colors,
                     __global const uint *starts, __global const ushort *list, int4 grid, int shift)
{
    const int cell = cell_of(point, color, grid, shift);
    const uint end = starts[cell + 1];
    uint j = starts[cell];
    if (end - j == 1)
        return list[j];
    Best best = {MAX_SQUARED, MAX_SQUARED, 0};
    for (; j < end; j++)
        offer(&best, list[j], point, color, points, colors);
    return best.index;
}
