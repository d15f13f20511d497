/* What the halftone kernels share. The host gives BLOCK (N), PHASE (0 outward, 1 inward), SLOTS and PIXELS = N * N.
 *
 * A path entry, ushort8, is the k-th pixel of the scan: s0 = x | y << 8 within the block; s1 = slot | row << 10;
 * s2..s4 = slots of the three further receivers; s5..s7 = their offsets, (dx + 2) | (dy + 2) << 8.
 *
 * All arithmetic is in 1/16 gray and fits 16 bits: |error| <= 8191 after clamping, and the host asserts of the tables
 * that 4080 + 8191 + (what reaches a slot) < 32768 (clquant/halftone/pinwheel/layout.py, error_limit). */

/* A picture in memory, as launches have it, int4: height and width in pixels, interleaved channels, and the picture row of
 * the buffer's first. */
#define height_of(picture) (picture).s0
#define width_of(picture) (picture).s1
#define stride_of(picture) (picture).s2
#define origin_of(picture) (picture).s3

/* A launch's blocks, int4: its first row of them, the first row of blocks that `edges` has, how many rows, and blocks of a
 * phase in a row. */
#define first_row_of(blocks) (blocks).s0
#define edge_row_of(blocks) (blocks).s1
#define edge_rows_of(blocks) (blocks).s2
#define half_of(blocks) (blocks).s3

inline int outside(int y, int x, int4 picture)
{
    return y < 0 || x < 0 || y >= height_of(picture) || x >= width_of(picture);
}

inline size_t pixel_index(int y, int x, int channel, int4 picture)
{
    return ((size_t)(y - origin_of(picture)) * width_of(picture) + x) * stride_of(picture) + channel;
}

/* Errors on the pixels beyond a block's sides lie at edges[entry * (blocks that edges has) + edge_block(...)]. */
inline int edge_block(int block_y, int block_x, int channel, int4 blocks)
{
    return (channel * edge_rows_of(blocks) + block_y - edge_row_of(blocks)) * half_of(blocks) + (block_x >> 1);
}

/* What a spiral outward leaves beyond its block comes side after side: left downward, lower rightward, right upward,
 * upper leftward, with a gap between two sides. The entry of the i-th of these 4 N + 3 sums, -1 for a gap. */
inline int entry_beyond(int i)
{
    const int side = i / (BLOCK + 1), along = i % (BLOCK + 1);
    return along == BLOCK ? -1
           : side == 0    ? 3 * BLOCK + along
           : side == 1    ? 2 * BLOCK + along
           : side == 2    ? 2 * BLOCK - 1 - along
                          : BLOCK - 1 - along;
}

/* Blocks of one phase in a row of blocks are every other one; their index among all of both phases, halved. */
inline int block_column(int index, int block_row)
{
    return 2 * index + ((block_row + PHASE) & 1);
}

/* Philox counter words: block column, block row, channel, use (0: start error; 1 + k / 128: bits of pixels k). key: of
 * the numbers, then the block column and row that the picture's first block has in the picture it is cut from. */
inline uint4 block_random(int block_x, int block_y, int channel, uint use, uint4 key)
{
    return philox4x32((uint4)((uint)block_x + key.z, (uint)block_y + key.w, (uint)channel, use), key.xy);
}

/* Uniform in -amplitude..amplitude - 1, from the upper half of a random word. */
inline int start_error(uint word, int amplitude)
{
    return (int)(((word >> 16) * (uint)(2 * amplitude)) >> 16) - amplitude;
}

/* Bit k of the 128 that a counter gives. */
inline uint random_bit(uint4 words, uint k)
{
    uint word = (k & 64u) ? ((k & 32u) ? words.s3 : words.s2) : ((k & 32u) ? words.s1 : words.s0);
    return (word >> (k & 31u)) & 1u;
}
