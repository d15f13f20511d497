/* The nearest of few palette entries in plain RGB, every one compared, sixteen pixels in the lanes of a vector: what
 * CPUs run fast, whatever the picture. Equal bit for bit to mapping/nearest.h where distances are squared, in sRGB, and
 * alpha is no axis.
 *
 * Of a pixel p and an entry e of the index i the score is FEW (|e|^2 - 2 p.e) + i: the order of squared distances, as
 * |p|^2 is missing from all of them, then that of indices. Each product and partial sum is a whole number below
 * FEW * 6 * 255^2 + FEW < 2^24, so floats are exact in any order, contracted or not.
 *
 * Constants: CHANNELS 1 or 3 of the pixels.
 *
 * entries (FEW, 4) float: -2 FEW e, then FEW |e|^2 + i (FewColors of clquant/mapping/small_palette.py).
 */
#include "common/rgb_planes.h"

#define FEW 32
#define LANES 16

/* Sixteen colours. */
typedef struct {
    float16 red, green, blue;
} Lanes;

/* The colours of pixels begin to begin + n - 1, n at most LANES; black beyond them. */
Lanes load_lanes(__global const uchar *pixels, ulong begin, uint n)
{
    uchar16 bytes[CHANNELS];
    pixels += CHANNELS * begin;
    if (n == LANES) {
        for (uint i = 0; i < CHANNELS; i++)
            bytes[i] = ((__global const bytes_t *)pixels)[i];
    } else {
        for (uint i = 0; i < CHANNELS * LANES; i++)
            ((uchar *)bytes)[i] = i < CHANNELS * n ? pixels[i] : 0;
    }
    Lanes lanes;
#if CHANNELS == 1
    lanes.red = lanes.green = lanes.blue = convert_float16(bytes[0]);
#else
    uchar16 channels[3];
    split_channels(bytes[0], bytes[1], bytes[2], channels);
    lanes.red = convert_float16(channels[0]);
    lanes.green = convert_float16(channels[1]);
    lanes.blue = convert_float16(channels[2]);
#endif
    return lanes;
}

/* Writes the entries of n pixels. */
void store_lanes(uchar16 found, __global uchar *out, ulong begin, uint n)
{
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
    float16 least = FLT_MAX, least_odd = FLT_MAX;
    for (uint j = 0; j < colors; j += 2) {
        const float4 e = entries[j], f = entries[j + 1];
        const float16 score = red * e.x + (green * e.y + (blue * e.z + e.w));
        const float16 score_odd = red * f.x + (green * f.y + (blue * f.z + f.w));
        least = score < least ? score : least;
        least_odd = score_odd < least_odd ? score_odd : least_odd;
    }
    least = least_odd < least ? least_odd : least;
    return convert_uchar16(convert_int16(least) & (FEW - 1));
}
