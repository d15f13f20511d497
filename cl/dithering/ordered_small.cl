/* dithering/ordered.cl's dithering for few entries on CPUs (mapping/small_palette.h); the same result bit for bit.
 *
 * Products with thresholds are divided by 256 * 256, and masks of fewer than 128 numbers multiplied on the other side
 * instead, so that they fit 32 bits for masks of at most 4096 numbers: |dot| <= 3 * 255^2 times 256 times 4096 / 128,
 * and a squared length of 3 * 255^2 times 2 * 4096, or times 2 * 128.
 */
#include "mapping/small_palette.h"

/* Axes' weights in lightness: those of dithering/ordered.h. */
#define LIGHTNESS(r, g, b) ((r) * 77.0f + (g) * 150.0f + (b) * 29.0f)

/* The colours, R | G << 8 | B << 16, of sixteen entries. */
#define COLORS_OF(packed, i)                                                                                           \
    as_int16((uint16)(packed[i.s0], packed[i.s1], packed[i.s2], packed[i.s3], packed[i.s4], packed[i.s5],              \
                      packed[i.s6], packed[i.s7], packed[i.s8], packed[i.s9], packed[i.sa], packed[i.sb],              \
                      packed[i.sc], packed[i.sd], packed[i.se], packed[i.sf]))

Lanes unpacked_lanes(int16 c)
{
    const Lanes lanes = {convert_float16(c & 255), convert_float16(c >> 8 & 255), convert_float16(c >> 16)};
    return lanes;
}

/* Where a second entry is looked for. */
float16 moved(float16 color, float16 first, float reach)
{
    const float16 away = color + reach * (color - first);
    const float16 floored = away > 0.0f ? away : 0.0f;
    return floored < 255.0f ? floored : 255.0f;
}

/* The thresholds from a column on; mask: those of a row. */
int16 thresholds(__global const int *mask, uint side, uint column)
{
    const uint first = column & (side - 1);
    if (first + LANES <= side)
        return vload16(0, mask + first);
    int numbers[LANES];
    for (uint i = 0; i < LANES; i++)
        numbers[i] = mask[(column + i) & (side - 1)];
    return vload16(0, numbers);
}

/* One of two entries per pixel (dithering/ordered.h).
 * NDRange: 1-D, any size; a work-item takes a run of rows' pixels. The first arguments are those of
 * mapping/small_palette.cl's kernel; packed (FEW) uint, the entries' colours; the others are those of
 * dithering/ordered.cl. */
__kernel void dither_ordered(__global const float4 *entries, uint colors, __global const uchar *restrict pixels,
                             __global uchar *restrict out, ulong n, __global const uint *packed, uint width,
                             uint first_row, __global const int *mask, uint side, int strength)
{
    const ulong run = (n + get_global_size(0) - 1) / get_global_size(0);
    const ulong end = min(n, run * (get_global_id(0) + 1));
    const int values = (int)(side * side);
    const int scale = strength * max(values / 128, 1), unit = max(128 / values, 1);
    ulong begin = run * get_global_id(0);
    uint column = (uint)(begin % width), row = first_row + (uint)(begin / width);
    for (uint count; begin < end; begin += count) {
        count = (uint)min(end - begin, (ulong)min(width - column, (uint)LANES));
        const Lanes c = load_lanes(pixels, begin, count);
        const uchar16 first = nearest_of_few(c.red, c.green, c.blue, entries, colors);
        const Lanes a = unpacked_lanes(COLORS_OF(packed, first));
        uchar16 second = first;
        char16 open = convert_char16((c.red != a.red) | (c.green != a.green) | (c.blue != a.blue));
        for (float reach = 2; reach <= 128 && any(open); reach *= 4) {
            const uchar16 other = nearest_of_few(moved(c.red, a.red, reach), moved(c.green, a.green, reach),
                                                 moved(c.blue, a.blue, reach), entries, colors);
            second = open ? other : second;
            open &= second == first;
        }
        const Lanes b = unpacked_lanes(COLORS_OF(packed, second));
        const float16 red = b.red - a.red, green = b.green - a.green, blue = b.blue - a.blue;
        const int16 dot = convert_int16((c.red - a.red) * red + (c.green - a.green) * green + (c.blue - a.blue) * blue);
        const int16 square = convert_int16(red * red + green * green + blue * blue);
        const int16 number = thresholds(mask + (row & (side - 1)) * side, side, column);
        const int16 t = LIGHTNESS(red, green, blue) < 0.0f ? values - 1 - number : number;
        const int16 above = dot * scale > square * unit * (2 * t + 1);
        store_lanes(convert_char16(above) ? second : first, out, begin, count);
        column += count;
        if (column == width) {
            column = 0;
            row++;
        }
    }
}
