// Loading of 4x4 blocks of interleaved 8-bit pixels for the quadtree kernels.
//
// A row of a block is 4 * CHANNELS bytes, held in CHANNELS words, least significant byte first.
// ALIGNED is 1 where the rows' pitch and origin are multiples of 4 bytes (a block's offset in its row always is).

#define BLOCK_BYTE(rows, r, i) (((rows)[(r) * CHANNELS + ((i) >> 2)] >> (((i) & 3u) << 3)) & 255u)

// Loads a block that lies inside the picture, from its first byte.
inline void load_whole_block(__global const uchar *first, uint pitch, uint *rows) {
    for (uint r = 0; r < 4; ++r)
        for (uint i = 0; i < CHANNELS; ++i) {
#if ALIGNED
            rows[r * CHANNELS + i] = ((__global const uint *)(first + r * pitch))[i];
#else
            __global const uchar *byte = first + r * pitch + 4 * i;
            rows[r * CHANNELS + i] = byte[0] | byte[1] << 8 | byte[2] << 16 | (uint)byte[3] << 24;
#endif
        }
}

// Loads the block whose top-left pixel is (x, y); bytes outside the picture become 0.
inline void load_block(__global const uchar *pixels, ulong origin, uint pitch, uint x, uint y, uint width,
                       uint height, uint *rows) {
    for (uint r = 0; r < 4; ++r) {
        __global const uchar *row = pixels + origin + (ulong)(y + r) * pitch + (ulong)x * CHANNELS;
        int inside = y + r < height;
#if ALIGNED
        if (inside && x + 4 <= width) {
            for (uint i = 0; i < CHANNELS; ++i)
                rows[r * CHANNELS + i] = ((__global const uint *)row)[i];
            continue;
        }
#endif
        uint bytes = inside ? min(4u, width - min(x, width)) * CHANNELS : 0u;
        for (uint i = 0; i < CHANNELS; ++i) {
            uint word = 0;
            for (uint j = 0; j < 4; ++j)
                word |= (4 * i + j < bytes ? (uint)row[4 * i + j] : 0u) << (8 * j);
            rows[r * CHANNELS + i] = word;
        }
    }
}

// ITU-R BT.601 luma in 16-bit fixed point, rounded half up.
inline uint luma(uint red, uint green, uint blue) {
    return (red * 19595u + green * 38470u + blue * 7471u + 32768u) >> 16;
}

// Value of `band` at pixel p of row r of a block: a channel, or the luma behind the channels.
inline uint block_value(const uint *rows, uint r, uint p, uint band) {
    uint i = p * CHANNELS;
#if BANDS > CHANNELS
    if (band == CHANNELS)
        return luma(BLOCK_BYTE(rows, r, i), BLOCK_BYTE(rows, r, i + 1), BLOCK_BYTE(rows, r, i + 2));
#endif
    return BLOCK_BYTE(rows, r, i + band);
}
