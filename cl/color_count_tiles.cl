/* Counting opaque colours in the shape that GPUs run fast: a work-group counts a tile of the picture in local memory
 * and adds each of its colours to the histogram once. The sums are those of color_count.cl's count_opaque.
 *
 * The table in local memory has SLOTS words: 0, or a tag in the high 12 bits and a count, which a tile of fewer than
 * 2^20 pixels does not exceed. Eight colours of a cube of side 2 are neighbours in it, as they are in the histogram, so
 * that neighbouring work-items add to the same memory sectors. A cube's line is a bijective hash of its 21 bits: the
 * high ones are the line, the low ones, plus 1, the tag. A colour that finds its slot taken is added to the histogram
 * at once.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels; ALIGNED of quads.h.
 */
#define COLUMNS 128
#include "quads.h"
#include "color_bins.h"

#define LINE_BITS 10
#define TAG_BITS (CUBE_BITS - LINE_BITS)
#define SLOTS (8 << LINE_BITS)
#define COUNT_BITS 20
#define HASH 0x3779B1u
#define HASH_BACK 0xB2F51u

/* Adds pixels of one colour to the table, or to the histogram. */
void count_near(uint key, uint often, volatile __local uint *held, __global uint *bins)
{
    const uint bin = bin_of_color(key);
    const uint hash = (bin >> 3) * HASH & ((1u << CUBE_BITS) - 1);
    const uint tag = (hash & ((1u << TAG_BITS) - 1)) + 1;
    const uint slot = hash >> TAG_BITS << 3 | (bin & 7u);
    /* A plain look first races with the others' additions, and was no faster on an NVIDIA H200. */
    const uint old = atomic_cmpxchg(&held[slot], 0u, tag << COUNT_BITS | often);
    if (old >> COUNT_BITS == tag)
        atomic_add(&held[slot], often);
    else if (old)
        atomic_add(&bins[bin], often);
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
void count_quad(uint4 keys, uint there, uint *clear, uint *partial, volatile __local uint *held,
                __global uint *bins)
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
 * NDRange: 1-D, a work-group of any size a tile. pixels (n, CHANNELS) uchar in rows of width, 4-byte aligned; rows of a
 * tile, fewer than 2^20 / COLUMNS; bins (2^24) uint as color_bins.h says, added to. notes[0]: pixels of alpha 0, added
 * to; notes[1]: set to 1 where a pixel has alpha 1..254. */
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
    for (uint i = lid; i < QUADS * rows; i += size)
        if (is_there(quads, i))
            count_quad(keys_of_words(words_of_quad(from, place_of_quad(quads, i))), 4, &clear, &partial, held,
                       bins);
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
            const uint hash = i >> 3 << TAG_BITS | ((word >> COUNT_BITS) - 1);
            const uint cube = hash * HASH_BACK & ((1u << CUBE_BITS) - 1);
            atomic_add(&bins[cube << 3 | (i & 7u)], word & ((1u << COUNT_BITS) - 1));
        }
    }
    if (clear)
        atomic_add(&notes[0], clear);
    if (partial)
        atomic_or(&notes[1], 1u);
}
