/* Pixels of a tile of 64x64 in explicit vectors, band by band, for quadtree/tiles_lanes.h. After quadtree/pixels.h. */

#include "common/rgb_planes.h"

#define LANES_INLINE inline __attribute__((always_inline))
#define SIDE 64u
/* How far loops over bands are unrolled: with more bands than a picture mostly has, compilers would take several times
 * as long, for code that is no faster. */
#define UNROLLED (BANDS > 4 ? 1 : BANDS)

typedef uchar8 __attribute__((aligned(1))) flags_t;
typedef uint8 __attribute__((aligned(4))) words_t;

/* Of neighbours in sixteen lanes, which are the halves of a 32-bit lane, the sum of their products. Values are below
 * 2^15, their products below 2^16. */
LANES_INLINE uint8 dot_lanes(ushort16 a, ushort16 b)
{
    uint8 products = as_uint8(a * b);
    return (products & 0xFFFFu) + (products >> 16);
}

/* Sixteen pixels, band by band, of a picture or of a copy of some of its rows. */
LANES_INLINE void load_planes(__global const uchar *pixel, const uchar *copy, int whole, ushort16 *plane)
{
    uchar16 bytes[CHANNELS];
#pragma unroll UNROLLED
    for (uint i = 0; i < CHANNELS; ++i)
        bytes[i] = whole ? ((__global const bytes_t *)pixel)[i] : ((const bytes_t *)copy)[i];
#if CHANNELS == 1
    plane[0] = convert_ushort16(bytes[0]);
#elif CHANNELS == 3
    uchar16 channels[3];
    split_channels(bytes[0], bytes[1], bytes[2], channels);
#pragma unroll
    for (uint c = 0; c < 3; ++c)
        plane[c] = convert_ushort16(channels[c]);
#elif CHANNELS == 4
    uchar16 a = bytes[0], b = bytes[1], c = bytes[2], d = bytes[3];
    plane[0] = convert_ushort16((uchar16)(a.s048c, b.s048c, c.s048c, d.s048c));
    plane[1] = convert_ushort16((uchar16)(a.s159d, b.s159d, c.s159d, d.s159d));
    plane[2] = convert_ushort16((uchar16)(a.s26ae, b.s26ae, c.s26ae, d.s26ae));
    plane[3] = convert_ushort16((uchar16)(a.s37bf, b.s37bf, c.s37bf, d.s37bf));
#else
#pragma unroll UNROLLED
    for (uint c = 0; c < CHANNELS; ++c) {
        ushort values[16];
        for (uint i = 0; i < 16; ++i)
            values[i] = whole ? pixel[i * CHANNELS + c] : copy[i * CHANNELS + c];
        plane[c] = vload16(0, values);
    }
#endif
#if BANDS > CHANNELS
    uint16 red = convert_uint16(plane[0]), green = convert_uint16(plane[1]), blue = convert_uint16(plane[2]);
    plane[CHANNELS] = convert_ushort16((red * 19595u + green * 38470u + blue * 7471u + 32768u) >> 16);
#endif
}

/* Four rows of a tile from (x, y) on, `first` its first byte; outside the picture, zeros. */
LANES_INLINE void copy_rows(__global const uchar *first, uint pitch, uint x, uint y, uint width, uint height,
                            uchar *rows)
{
    uint bytes = min(SIDE, width - x) * CHANNELS;
    for (uint r = 0; r < 4; ++r) {
        __global const uchar *from = first + r * pitch;
        uchar *to = rows + r * SIDE * CHANNELS;
        if (y + r < height && bytes == SIDE * CHANNELS)
            for (uint i = 0; i < SIDE * CHANNELS / 16; ++i)
                ((bytes_t *)to)[i] = ((__global const bytes_t *)from)[i];
        else
            for (uint i = 0; i < SIDE * CHANNELS; ++i)
                to[i] = y + r < height && i < bytes ? from[i] : (uchar)0;
    }
}
