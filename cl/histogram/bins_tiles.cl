/* Counting opaque colours in the shape that GPUs run fast: a work-group counts a tile of the picture in local memory
 * and adds each of its colours to the histogram once. The sums are those of histogram/counting.cl's count_opaque.
 *
 * The table in local memory has SLOTS words: 0, or a tag in the high 18 bits and a count, which a tile of fewer than
 * 2^14 pixels does not exceed. Eight colours of a cube of side 2 are neighbours in it, as they are in the histogram, so
 * that neighbouring work-items add to the same memory sectors. A cube's line is a hash of the bits that say which cube
 * it is, their product with HASH modulo 2^28: the high ones are the line, the others the tag, and as HASH is odd both
 * together tell the cube. A colour that finds its slot taken is added to the histogram at once.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels; ALIGNED of common/pixel_quads.h.
 */
#define COLUMNS 128
#include "common/pixel_quads.h"
#include "histogram/bins.h"

#define LINE_BITS 10
#define HASH_BITS 28
#define SLOTS (8 << LINE_BITS)
#define COUNT_BITS 14
#define HASH 0xB6E6B73u
#define HASH_BACK 0x7FB1BBu
/* Quads that a work-item loads before it looks at any. */
#define AT_ONCE 2

/* Adds pixels of one colour to the table, or to the histogram. */
void count_near(uint key, uint often, volatile __local uint *held, __global uint *bins)
{
#if CHANNELS == 1
    key *= 0x010101u;
#endif
    const uint of_cube = key & CUBE_MASK;
    const uint hash = of_cube * (HASH << (32 - HASH_BITS));
    const uint within = (key & 0x010101u) * 0x40201u >> 16 & 7u;
    const uint slot = hash >> (32 - LINE_BITS) << 3 | within;
    const uint word = (hash << LINE_BITS) + often;
    /* A plain look first races with the others' additions, and was no faster on an NVIDIA H200. */
    const uint old = atomic_cmpxchg(&held[slot], 0u, word);
    if (old == 0)
        return;
    if ((old ^ word) >> COUNT_BITS == 0)
        atomic_add(&held[slot], often);
    else
        atomic_add(&bins[bin_in_cube(of_cube, within)], often);
}

/* Whether a colour is opaque. Others are noted: how many have alpha 0, and whether one has neither. */
int is_opaque(uint key, uint often, uint *clear, uint *partial)
{
#if CHANNELS == 4
    if (key >> 24 < 255u) {
        *clear += key >> 24 ? 0 : often;
        *partial |= key >> 24 ? 1 : 0;
        return 0;
    }
#else
    (void)key, (void)often, (void)clear, (void)partial;
#endif
    return 1;
}

/* Adds the first `there` pixels of a quad, 1 to 4. */
void count_quad(uint4 keys, uint there, uint *clear, uint *partial, volatile __local uint *held, __global uint *bins)
{
    const uint differ = ((keys.x ^ keys.y) | (keys.x ^ keys.z) | (keys.x ^ keys.w)) & (CHANNELS == 4 ? ~0u : 0xFFFFFFu);
    const uint often = there == 4 && differ == 0 ? 4 : 1;
    if (is_opaque(keys.x, often, clear, partial))
        count_near(keys.x, often, held, bins);
    if (often == 4)
        return;
    if (there > 1 && is_opaque(keys.y, 1, clear, partial))
        count_near(keys.y, 1, held, bins);
    if (there > 2 && is_opaque(keys.z, 1, clear, partial))
        count_near(keys.z, 1, held, bins);
    if (there > 3 && is_opaque(keys.w, 1, clear, partial))
        count_near(keys.w, 1, held, bins);
}

/* Histogram of opaque colours.
 * NDRange: 1-D, a work-group of any size per tile. pixels (n, CHANNELS) uchar in rows of width, 4-byte aligned; rows of a
 * tile, fewer than 2^14 / COLUMNS; bins (2^24) uint as histogram/bins.h says, added to. notes[0]: pixels of alpha 0,
 * added to; notes[1]: set to 1 where a pixel has alpha 1..254. */
__kernel void count_tiles(__global const uchar *restrict pixels, uint n, uint width, uint rows, __global uint *bins,
                          __global uint *notes)
{
    __local uint held[SLOTS];
    const uint lid = (uint)get_local_id(0);
    const uint size = (uint)get_local_size(0);
    for (uint i = lid; i < SLOTS; i += size)
        held[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const Tile tile = tile_of((uint)get_group_id(0), width, rows);
    uint clear = 0;
    uint partial = 0;
#if ALIGNED
    const Quads quads = quads_of(tile, width, n);
    __global const uchar *from = pixels + quads.first * (4 * CHANNELS);
    uint i = lid;
    if (is_full(quads, rows))
        for (; i + (AT_ONCE - 1) * size < QUADS * rows; i += AT_ONCE * size) {
            Words words[AT_ONCE];
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                words[k] = words_of_quad(from, place_of_quad(quads, i + k * size));
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                count_quad(keys_of_words(words[k]), 4, &clear, &partial, held, bins);
        }
    for (; i < QUADS * rows; i += size)
        if (is_there(quads, i))
            count_quad(keys_of_words(words_of_quad(from, place_of_quad(quads, i))), 4, &clear, &partial, held, bins);
#else
    for (uint i = lid; i < QUADS * rows; i += size) {
        uint column;
        const ulong quad = quad_of_tile(tile, i, width, &column);
        if (column < tile.end && 4 * quad < n)
            count_quad(load_quad(pixels, quad, n), (uint)min((ulong)4, n - 4 * quad), &clear, &partial, held, bins);
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lid; i < SLOTS; i += size) {
        const uint word = held[i];
        if (word) {
            const uint hash = i >> 3 << (HASH_BITS - LINE_BITS) | word >> COUNT_BITS;
            atomic_add(&bins[bin_in_cube(hash * HASH_BACK & CUBE_MASK, i & 7u)], word & ((1u << COUNT_BITS) - 1));
        }
    }
    if (clear)
        atomic_add(&notes[0], clear);
    if (partial)
        atomic_or(&notes[1], 1u);
}
