/* The nearest of few palette entries in plain RGB, every one compared, sixteen pixels in the lanes of a vector: what CPUs
 * run fast, whatever the picture. Equal bit for bit to palette_nearest.h where distances are squared, in sRGB, and alpha is
 * no axis.
 *
 * Of a pixel p and an entry e of the index i the score is FEW (|e|^2 - 2 p.e) + i: the order of squared distances, as
 * |p|^2 is missing from all of them, then that of indices. Each product and partial sum is a whole number below
 * FEW * 6 * 255^2 + FEW < 2^24, so floats are exact in any order, contracted or not.
 *
 * Constants: CHANNELS 1 or 3 of the pixels.
 *
 * entries (FEW, 4) float: -2 FEW e, then FEW |e|^2 + i (FewColors of clquant/palette/few.py).
 */
#define FEW 32
#define LANES 16

/* Sixteen colours. */
typedef struct {
    float16 red, green, blue;
} Lanes;

#define EVERY_THIRD_0(a, b, c) ((uchar16)(a.s0369, a.scf, b.s258, b.sbe, c.s147, c.sad))
#define EVERY_THIRD_1(a, b, c) ((uchar16)(a.s147a, a.sd, b.s0369, b.scf, c.s258, c.sbe))
#define EVERY_THIRD_2(a, b, c) ((uchar16)(a.s258b, a.se, b.s147a, b.sd, c.s0369, c.scf))

/* The colours of pixels begin to begin + n - 1, n at most LANES; black beyond them. */
Lanes load_lanes(__global const uchar *pixels, ulong begin, uint n)
{
    uchar bytes[CHANNELS * LANES];
    pixels += CHANNELS * begin;
    if (n == LANES) {
        for (uint i = 0; i < CHANNELS; i++)
            vstore16(vload16(i, pixels), i, bytes);
    } else {
        for (uint i = 0; i < CHANNELS * LANES; i++)
            bytes[i] = i < CHANNELS * n ? pixels[i] : 0;
    }
    Lanes lanes;
    const uchar16 a = vload16(0, bytes);
#if CHANNELS == 1
    lanes.red = lanes.green = lanes.blue = convert_float16(a);
#else
    const uchar16 b = vload16(1, bytes), c = vload16(2, bytes);
    lanes.red = convert_float16(EVERY_THIRD_0(a, b, c));
    lanes.green = convert_float16(EVERY_THIRD_1(a, b, c));
    lanes.blue = convert_float16(EVERY_THIRD_2(a, b, c));
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
    float16 least = FLT_MAX;
    for (uint j = 0; j < colors; j++) {
        const float4 e = entries[j];
        const float16 score = red * e.x + green * e.y + blue * e.z + e.w;
        least = score < least ? score : least;
    }
    return convert_uchar16(convert_int16(least) & (FEW - 1));
}
