/* The leaves of a 4x4 block, collected in local memory: what a work-item of quadtree_leaves does with it. After
 * quadtree/leaves.cl, whose constants it takes. */

/* A 4x4 block: its first byte, and its pixels inside the picture. */
typedef struct {
    __global const uchar *first;
    uint pitch, columns, height;
} block_t;

/* Mean word `w` over the n pixels inside the picture from column px and row py of a block on, `side` by `side`. */
inline uint block_mean(const block_t *block, uint px, uint py, uint side, uint n, uint w)
{
    uint word = 0, right = min(px + side, block->columns), below = min(py + side, block->height);
#pragma unroll 1
    for (uint c = 4 * w; c < min(4 * w + 4, (uint)CHANNELS); ++c) {
        uint sum = 0;
#pragma unroll 1
        for (uint y = py; y < below; ++y)
#pragma unroll 1
            for (uint x = px; x < right; ++x)
                sum += block->first[y * block->pitch + x * CHANNELS + c];
        word |= rounded_mean(sum, n) << (8 * (c & 3u));
    }
    return word;
}

/* Where a slot is in local memory. Work-items begin 16 or 32 slots apart where nothing is uniform: with a gap after
 * every 16 these are in different banks. */
inline uint padded(uint slot)
{
    return slot + (slot >> 4);
}

/* A leaf's place in its tile and its level, kept until the leaves are written side by side. */
inline uint square_place(uint x, uint y, uint level)
{
    return level << 12 | y << 6 | x;
}

/* Writes the record `at` of a tile whose corner is (x, y), collected in `slot`. */
inline void write_record(__global uint *record, uint at, uint x, uint y, uint slot, __local const ushort *places,
                         __local const uint *means)
{
    uint place = places[padded(slot)], size = 1u << (place >> 12);
    x += place & 63u;
    y += place >> 6 & 63u;
#if CHANNELS <= 4
    ((__global uint4 *)record)[at] = (uint4)(x, y, size, means[padded(slot)]);
#else
    record += at * RECORD_WORDS;
    record[0] = x;
    record[1] = y;
    record[2] = size;
    for (uint w = 0; w < MEAN_WORDS; ++w)
        record[3 + w] = means[w * PADDED + padded(slot)];
#endif
}

/* Collects the places and mean words `w` of the leaves of the 4x4 block at column x, row y of the tile into `slot`
 * onward. */
inline void collect_words(const block_t *block, uint flag, uint x, uint y, uint slot, uint w, __local ushort *places,
                          __local uint *means)
{
    if (flag & 16u) {
        places[padded(slot)] = square_place(x, y, 2);
        means[w * PADDED + padded(slot)] = block_mean(block, 0, 0, 4, block->columns * block->height, w);
        return;
    }
#pragma unroll 1
    for (uint q = 0; q < 4; ++q) {
        uint qx = 2 * (q & 1u), qy = q & 2u, leaf = flag >> q & 1u, side = 1u + leaf;
        uint columns = block->columns - min(block->columns, qx), height = block->height - min(block->height, qy);
#pragma unroll 1
        for (uint p = 0; p < (leaf ? 1u : 4u); ++p) {
            uint px = p & 1u, py = p >> 1;
            if (px < columns && py < height) {
                uint n = leaf ? min(2u, columns) * min(2u, height) : 1u;
                places[padded(slot)] = square_place(x + qx + px, y + qy + py, leaf);
                means[w * PADDED + padded(slot)] = block_mean(block, qx + px, qy + py, side, n, w);
                ++slot;
            }
        }
    }
}

/* Collects the leaves of the 4x4 block at column x, row y of the tile, of which `columns` by `height` pixels lie inside
 * the picture. Word by word: with the loop over words inside the one over leaves, Intel's CPU compiler (2026.22) loses
 * slots where there are two words. */
inline void collect_block(__global const uchar *first, uint pitch, uint columns, uint height, uint flag, uint x, uint y,
                          uint slot, __local ushort *places, __local uint *means)
{
    block_t block;
    block.first = first;
    block.pitch = pitch;
    block.columns = columns;
    block.height = height;
    for (uint w = 0; w < MEAN_WORDS; ++w)
        collect_words(&block, flag, x, y, slot, w, places, means);
}

#if CHANNELS <= 4
/* Mean word over the pixels from column px and row py of a whole block on, 2^level by 2^level. */
inline uint square_mean(const uint *rows, uint px, uint py, uint level)
{
    uint word = 0, side = 1u << level;
#pragma unroll
    for (uint c = 0; c < CHANNELS; ++c) {
        uint sum = 0;
#pragma unroll
        for (uint i = 0; i < side * side; ++i)
            sum += ROW_BYTE(rows, CHANNELS, py + i / side, (px + i % side) * CHANNELS + c, 0u);
        word |= rounded_mean(sum, side * side) << (8 * (c & 3u));
    }
    return word;
}

/* As collect_block, of a block that lies wholly inside the picture, with its pixels in registers: more channels would
 * not fit these. */
inline void collect_whole_block(__global const uchar *first, uint pitch, uint flag, uint x, uint y, uint slot,
                                __local ushort *places, __local uint *means)
{
    uint rows[4 * CHANNELS];
    load_whole_rows(first, pitch, CHANNELS, rows);
    if (flag & 16u) {
        places[padded(slot)] = square_place(x, y, 2);
        means[padded(slot)] = square_mean(rows, 0, 0, 2);
        return;
    }
#pragma unroll
    for (uint q = 0; q < 4; ++q) {
        uint qx = 2 * (q & 1u), qy = q & 2u;
        if (flag >> q & 1u) {
            places[padded(slot)] = square_place(x + qx, y + qy, 1);
            means[padded(slot)] = square_mean(rows, qx, qy, 1);
            ++slot;
        } else
#pragma unroll
            for (uint p = 0; p < 4; ++p) {
                uint px = qx + (p & 1u), py = qy + (p >> 1);
                places[padded(slot)] = square_place(x + px, y + py, 0);
                means[padded(slot)] = square_mean(rows, px, py, 0);
                ++slot;
            }
    }
}
#endif
