/* The nearest of few palette entries in plain RGB, every one compared, sixteen pixels in the lanes of a vector: what CPUs
 * run fast, whatever the picture. Equal bit for bit to palette_nearest.h, whose constants it takes, where SPACE is 0,
 * there is no axis of alpha, and distances are squared.
 *
 * Of a pixel p and an entry e of the index i the score is FEW (|e|^2 - 2 p.e) + i: the order of squared distances, as
 * |p|^2 is missing from all of them, then that of indices. Each product and partial sum is a whole number below
 * FEW * 6 * 255^2 + FEW < 2^24, so floats are exact in any order, contracted or not.
 *
 * entries (FEW, 4) float: -2 FEW e, then FEW |e|^2 + i (FewColors of clquant/palette/few.py).
 */
#include "palette_nearest.h"

#define FEW 32
#define LANES 16

/* Sixteen colours, and where alpha is 0. */
typedef struct {
    float16 red, green, blue;
    char16 clear;
} Lanes;

#define EVERY_THIRD_0(a, b, c) ((uchar16)(a.s0369, a.scf, b.s258, b.sbe, c.s147, c.sad))
#define EVERY_THIRD_1(a, b, c) ((uchar16)(a.s147a, a.sd, b.s0369, b.scf, c.s258, c.sbe))
#define EVERY_THIRD_2(a, b, c) ((uchar16)(a.s258b, a.se, b.s147a, b.sd, c.s0369, c.scf))
#define EVERY_FOURTH(a, b, c, d, s) ((uchar16)(a.s, b.s, c.s, d.s))

/* The colours of sixteen pixels. */
Lanes load_lanes(const uchar *pixels)
{
    Lanes lanes;
    lanes.clear = 0;
    const uchar16 a = vload16(0, pixels);
#if CHANNELS == 1
    lanes.red = lanes.green = lanes.blue = convert_float16(a);
#else
    const uchar16 b = vload16(1, pixels), c = vload16(2, pixels);
#if CHANNELS == 3
    lanes.red = convert_float16(EVERY_THIRD_0(a, b, c));
    lanes.green = convert_float16(EVERY_THIRD_1(a, b, c));
    lanes.blue = convert_float16(EVERY_THIRD_2(a, b, c));
#else
    const uchar16 d = vload16(3, pixels);
    lanes.red = convert_float16(EVERY_FOURTH(a, b, c, d, s048c));
    lanes.green = convert_float16(EVERY_FOURTH(a, b, c, d, s159d));
    lanes.blue = convert_float16(EVERY_FOURTH(a, b, c, d, s26ae));
    lanes.clear = EVERY_FOURTH(a, b, c, d, s37bf) == (uchar16)0;
#endif
#endif
    return lanes;
}

/* The colours of pixels begin to begin + n - 1, n at most LANES; opaque black beyond them. */
Lanes load_colors(__global const uchar *pixels, ulong begin, uint n)
{
    uchar bytes[CHANNELS * LANES];
    const uint end = CHANNELS * n;
    pixels += CHANNELS * begin;
    for (uint i = 0; i < CHANNELS * LANES; i++)
        bytes[i] = i < end ? pixels[i] : i % CHANNELS == 3 ? 255 : 0;
    return load_lanes(bytes);
}

/* Writes what stands for pixels: entries, or that of alpha 0. */
void store_entries(uchar16 found, char16 clear, __global uchar *out, ulong begin, uint n, int transparent,
                   __global int *missing)
{
#if CHANNELS == 4
    if (any(clear)) {
        if (transparent < 0)
            missing[0] = 1;
        found = clear ? (uchar16)max(transparent, 0) : found;
    }
#endif
    if (n == LANES) {
        vstore16(found, 0, out + begin);
    } else {
        uchar entries[LANES];
        vstore16(found, 0, entries);
        for (uint i = 0; i < n; i++)
            out[begin + i] = entries[i];
    }
}

/* The nearest entries of sixteen colours. */
uchar16 nearest_of_few(float16 red, float16 green, float16 blue, __global const float4 *entries, uint colors)
{
    float16 least = FLT_MAX;
    for (uint j = 0; j < colors; j++) {
        const float4 e = entries[j];
        const float16 score = red * e.x + green * e.y + blue * e.z + e.w;
        least = score < least ? score : least;
    }
    return convert_uchar16(convert_int16(least) & (FEW - 1));
}
