/* Answers for all colours, in a table: for pictures of more pixels than a few million. After mapping/nearest.h, whose
 * constants it takes.
 *
 * The table is by plain 8-bit values, of which gray pictures have 256 and others 2^24; alpha is 255. Colours of a cube
 * of side 4 are neighbours in it, so that the similar colours of neighbouring pixels are few cache lines.
 *
 * A work-group takes a tile of pixels, whose colours are similar as well. Where ALIGNED, a work-item reads AT_ONCE
 * quads before it waits for any. COLUMNS (common/pixel_quads.h) is defined before this.
 */
#define AT_ONCE 2
#include "common/pixel_quads.h"

#define QUAD_OF_(type) type##4
#define QUAD_OF(type) QUAD_OF_(type)

/* Where in the table the colour R | G << 8 | B << 16 is; other bits are not looked at. */
uint table_place(uint key)
{
#if CHANNELS == 1
    return key & 255u;
#else
    /* The two low bits of each channel come together at the top of the product, and nothing else of it there. */
    return (key & 0xFCu) << 4 | (key & 0xFC00u) << 2 | (key & 0xFC0000u) | (key & 0x030303u) * 0x4104000u >> 26;
#endif
}

/* The colour at a place. */
int4 table_color(uint place)
{
#if CHANNELS == 1
    return (int4)((int)place, (int)place, (int)place, 255);
#else
    return (int4)((int)((place >> 6 & 63u) << 2 | (place & 3u)), (int)((place >> 12 & 63u) << 2 | (place >> 2 & 3u)),
                  (int)((place >> 18 & 63u) << 2 | (place >> 4 & 3u)), 255);
#endif
}

QUAD_OF(INDEX) index_quad(uint4 indices)
{
    return (QUAD_OF(INDEX))((INDEX)indices.x, (INDEX)indices.y, (INDEX)indices.z, (INDEX)indices.w);
}

void store_quad(uint4 indices, __global INDEX *out, ulong quad, ulong n)
{
    const QUAD_OF(INDEX) found = index_quad(indices);
    if (4 * quad + 4 <= n) {
        ((__global QUAD_OF(INDEX) *)out)[quad] = found;
    } else {
        INDEX one[4];
        vstore4(found, 0, one);
        for (uint j = 0; 4 * quad + j < n; j++)
            out[4 * quad + j] = one[j];
    }
}

/* What a table does not answer: whether a pixel's alpha is below 255. */
int is_beyond_table(uint key)
{
#if CHANNELS == 4
    return key >> 24 != 255u;
#else
    (void)key;
    return 0;
#endif
}

int4 unpacked_key(uint key)
{
#if CHANNELS == 1
    return (int4)((int)key, (int)key, (int)key, 255);
#elif CHANNELS == 3
    return (int4)((int)(key & 255u), (int)(key >> 8 & 255u), (int)(key >> 16 & 255u), 255);
#else
    return (int4)((int)(key & 255u), (int)(key >> 8 & 255u), (int)(key >> 16 & 255u), (int)(key >> 24));
#endif
}
