/* Loading of interleaved 8-bit pixels for the quadtree kernels: four rows of a few pixels, in words.
 *
 * Pixels are taken four at a time, which is CHANNELS words of a row, least significant byte first.
 * ALIGNED is 1 where the rows' pitch and origin are multiples of 4 bytes (four pixels always are). */

/* Byte i of row r, of rows of `words` words; `zero` is 0. */
#define ROW_BYTE(rows, words, r, i, zero) (((rows)[(r) * (words) + ((i) >> 2)] >> ((((i) & 3u) << 3) + (zero))) & 255u)

inline uint load_word(__global const uchar *at)
{
#if ALIGNED
    return *(__global const uint *)at;
#else
    return as_uint(vload4(0, at));
#endif
}

/* Loads four rows of `words` words that lie inside the picture, from their first byte. */
inline void load_whole_rows(__global const uchar *first, uint pitch, uint words, uint *rows)
{
#pragma unroll
    for (uint r = 0; r < 4; ++r)
#pragma unroll
        for (uint i = 0; i < words; ++i)
            rows[r * words + i] = load_word(first + r * pitch + 4 * i);
}

/* ITU-R BT.601 luma in 16-bit fixed point, rounded half up. */
inline uint luma(uint red, uint green, uint blue)
{
    return (red * 19595u + green * 38470u + blue * 7471u + 32768u) >> 16;
}

/* Value of `band` at pixel p of row r of rows of `words` words: a channel, or the luma behind the channels. `zero` is
 * 0, which the compiler does not know where it comes from an argument: what luma takes from the words is then no value
 * that it could keep from the channels, for which there are not registers enough. */
inline uint row_value(const uint *rows, uint words, uint r, uint p, uint band, uint zero)
{
    uint i = p * CHANNELS;
#if BANDS > CHANNELS
    if (band == CHANNELS)
        return luma(ROW_BYTE(rows, words, r, i, zero), ROW_BYTE(rows, words, r, i + 1, zero),
                    ROW_BYTE(rows, words, r, i + 2, zero));
#endif
    return ROW_BYTE(rows, words, r, i + band, 0u);
}

/* The same of a pixel in the picture. */
inline uint pixel_value(__global const uchar *pixel, uint band)
{
#if BANDS > CHANNELS
    if (band == CHANNELS)
        return luma(pixel[0], pixel[1], pixel[2]);
#endif
    return pixel[band];
}
