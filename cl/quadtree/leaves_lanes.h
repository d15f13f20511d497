/* The leaves of tiles in their order by one work-item: the form for CPUs. Same records as the kernel of that name in
 * quadtree/leaves.cl, after whose functions this comes. */

#include "common/compile_hints.h"

#define LANES_INLINE inline __attribute__((always_inline))
/* Of what is called once a tile or seldom: PoCL compiles a kernel's own code three times, but not what it calls. */
#ifdef COMPILED_AT_LAUNCH
#define APART __attribute__((noinline))
#else
#define APART inline
#endif
#define MOST_LEVELS 17u /* of a picture */

/* The nodes of a level. */
typedef struct {
    __global const uint *nodes;
    uint cols;
} grid_t;

/* The subtree. first: its first pixel; left, top: its corner in the picture. */
typedef struct {
    __global const uchar *first, *flags;
    __global const ulong *stats, *upper;
    __global uint *leaves;
    uint pitch, width, height, left, top, cols2;
    grid_t grids[MOST_LEVELS];
} subtree_t;

/* Writes the record at `to`. */
LANES_INLINE void write_leaf(__global uint *to, uint x, uint y, uint size, const uint *words)
{
#if RECORD_WORDS == 4
    *(__global uint4 *)to = (uint4)(x, y, size, words[0]);
#else
    to[0] = x;
    to[1] = y;
    to[2] = size;
    for (uint w = 0; w < MEAN_WORDS; ++w)
        to[3 + w] = words[w];
#endif
}

/* With up to four channels only blocks at the picture's edge come here. */
#if CHANNELS <= 4
#define SELDOM SMALL APART
#else
#define SELDOM APART
#endif

/* The leaf of a node of level 1 or 2 of which `columns` by `rows` pixels lie inside the picture. */
SELDOM void write_small(__global uint *to, uint x, uint y, uint size, uint columns, uint rows,
                        __global const uchar *pixel, uint pitch)
{
    uint words[MEAN_WORDS] = {0}, sum[CHANNELS];
    for (uint c = 0; c < CHANNELS; ++c)
        sum[c] = 0;
    for (uint r = 0; r < rows; ++r)
        for (uint i = 0; i < columns; ++i)
            for (uint c = 0; c < CHANNELS; ++c)
                sum[c] += pixel[r * pitch + i * CHANNELS + c];
    for (uint c = 0; c < CHANNELS; ++c)
        words[c >> 2] |= rounded_mean(sum[c], columns * rows) << (8 * (c & 3u));
    write_leaf(to, x, y, size, words);
}

/* The leaves of the 4x4 block at (x, y) of the picture, of which `columns` by `rows` pixels lie inside, from `slot` on;
 * gives back the next free one. */
SELDOM uint write_block(__global const uchar *pixel, uint pitch, uint flag, uint columns, uint rows, uint x, uint y,
                        __global uint *list, uint slot)
{
    if (flag & 16u) {
        write_small(list + slot * RECORD_WORDS, x, y, 4, columns, rows, pixel, pitch);
        return slot + 1;
    }
    for (uint q = 0; q < 4; ++q) {
        uint qx = 2 * (q & 1u), qy = q & 2u;
        if (qx >= columns || qy >= rows)
            continue;
        uint across = min(2u, columns - qx), down = min(2u, rows - qy);
        __global const uchar *corner = pixel + qy * pitch + qx * CHANNELS;
        if (flag >> q & 1u) {
            write_small(list + slot++ * RECORD_WORDS, x + qx, y + qy, 2, across, down, corner, pitch);
            continue;
        }
        for (uint p = 0; p < 4; ++p)
            if ((p & 1u) < across && (p >> 1) < down) {
                uint words[MEAN_WORDS] = {0};
#pragma unroll
                for (uint c = 0; c < CHANNELS; ++c)
                    words[c >> 2] |= (uint)corner[(p >> 1) * pitch + (p & 1u) * CHANNELS + c] << (8 * (c & 3u));
                write_leaf(list + slot++ * RECORD_WORDS, x + qx + (p & 1u), y + qy + (p >> 1), 1, words);
            }
    }
    return slot;
}

#if CHANNELS <= 4
typedef uint8 __attribute__((aligned(16))) records_t;
typedef uint __attribute__((aligned(1))) loose_word_t;
typedef uint2 __attribute__((aligned(1))) loose_words2_t;
typedef uint4 __attribute__((aligned(1))) loose_words4_t;

/* Four pixels side by side, a word each. */
LANES_INLINE uint4 pixel_words(__global const uchar *pixel)
{
#if CHANNELS == 4
    return *(__global const loose_words4_t *)pixel;
#elif CHANNELS == 3
    uint4 words = (uint4)(*(__global const loose_words2_t *)pixel, *(__global const loose_word_t *)(pixel + 8), 0);
    return as_uint4(as_uchar16(words).s012f345f678f9abf);
#elif CHANNELS == 2
    uint4 words = (uint4)(*(__global const loose_words2_t *)pixel, 0, 0);
    return as_uint4(as_uchar16(words).s01ff23ff45ff67ff);
#else
    uint4 words = (uint4)(*(__global const loose_word_t *)pixel, 0, 0, 0);
    return as_uint4(as_uchar16(words).s0fff1fff2fff3fff);
#endif
}

/* Sums of the four pixels of each quadrant of a block: of the first and third channel, or with `shift` 8 of the
 * others. */
LANES_INLINE uint4 quadrant_sums(const uint4 *rows, uint shift)
{
    uint4 upper = (rows[0] >> shift & 0xFF00FFu) + (rows[1] >> shift & 0xFF00FFu);
    uint4 lower = (rows[2] >> shift & 0xFF00FFu) + (rows[3] >> shift & 0xFF00FFu);
    return (uint4)(upper.even, lower.even) + (uint4)(upper.odd, lower.odd);
}

/* As write_block, of a whole block, in a list of `total` records of which those from `slot` on are still to come: any
 * may be written as long as the right ones are later. */
LANES_INLINE uint write_whole_block(__global const uchar *pixel, uint pitch, uint flag, uint x, uint y,
                                    __global uint *list, uint slot, uint total)
{
    uint4 rows[4];
#pragma unroll
    for (uint r = 0; r < 4; ++r)
        rows[r] = pixel_words(pixel + r * pitch);
    uint4 low = quadrant_sums(rows, 0), high = quadrant_sums(rows, 8);
    if (flag & 16u) {
        uint first = low.x + low.y + low.z + low.w, second = high.x + high.y + high.z + high.w;
        uint mean = ((first + 0x80008u) >> 4 & 0xFF00FFu) | ((second + 0x80008u) >> 4 & 0xFF00FFu) << 8;
        ((__global uint4 *)list)[slot] = (uint4)(x, y, 4, mean);
        return slot + 1;
    }
    uint4 means = ((low + 0x20002u) >> 2 & 0xFF00FFu) | ((high + 0x20002u) >> 2 & 0xFF00FFu) << 8;
    /* Four records a quadrant, of which the first one alone counts where the quadrant is a leaf. */
    uint4 is_leaf = as_uint4(((uint4)flag & (uint4)(1, 2, 4, 8)) != 0u), sizes = 1u - is_leaf;
    uint4 words = select((uint4)(rows[0].even, rows[2].even), means, is_leaf);
    const uint8 place = (uint8)(x, y, 0, 0, x + 1, y, 0, 0);
    int room = slot + 16 <= total;
#pragma unroll
    for (uint q = 0; q < 4; ++q) {
        uint right = q & 1u, low_half = q & 2u;
        uint4 upper = rows[low_half], lower = rows[low_half + 1];
        uint2 top = right ? upper.hi : upper.lo, bottom = right ? lower.hi : lower.lo;
        uint2 side = low_half ? sizes.hi : sizes.lo, word = low_half ? words.hi : words.lo;
        uint8 here = place + (uint8)(2 * right, low_half, 0, 0, 2 * right, low_half, 0, 0), pairs[2];
        pairs[0] = here | (uint8)(0, 0, right ? side.y : side.x, right ? word.y : word.x, 0, 0, 1, top.y);
        pairs[1] = (here + (uint8)(0, 1, 1, 0, 0, 1, 1, 0)) | (uint8)(0, 0, 0, bottom.x, 0, 0, 0, bottom.y);
        __global uint *to = list + 4 * slot;
        uint many = flag >> q & 1u ? 1u : 4u;
        if (room) {
            *(__global records_t *)to = pairs[0];
            *(__global records_t *)(to + 8) = pairs[1];
        } else {
            FEW_TURNS
            for (uint i = 0; i < many; ++i)
                ((__global uint4 *)to)[i] = ((const uint4 *)pairs)[i];
        }
        slot += many;
    }
    return slot;
}
#endif

/* The leaves of a cell of 8x8 pixels at (x, y) of the subtree, from `slot` on; gives back the next free one. */
LANES_INLINE uint write_cell(const subtree_t *subtree, int whole, uint x, uint y, __global uint *list, uint slot,
                             uint total)
{
    uint pitch = subtree->pitch, cols2 = subtree->cols2;
    __global const uchar *flag = subtree->flags + (y >> 2) * cols2 + (x >> 2);
    for (uint b = 0; b < 4; ++b) {
        uint bx = x + 4 * (b & 1u), by = y + 2 * (b & 2u), left = subtree->left + bx, top = subtree->top + by;
        if (!whole && (bx >= subtree->width || by >= subtree->height))
            continue;
        __global const uchar *pixel = subtree->first + (ulong)by * pitch + bx * CHANNELS;
        uint flags = flag[(b >> 1) * cols2 + (b & 1u)];
#if CHANNELS <= 4
        if (whole) {
            slot = write_whole_block(pixel, pitch, flags, left, top, list, slot, total);
            continue;
        }
#endif
        slot = write_block(pixel, pitch, flags, min(4u, subtree->width - bx), min(4u, subtree->height - by), left, top,
                           list, slot);
    }
    return slot;
}

/* The leaf that is the node (x, y) of `level` >= 3. */
LANES_INLINE void write_node(const subtree_t *subtree, int whole, uint x, uint y, uint level, __global uint *to)
{
    uint words[MEAN_WORDS];
    for (uint w = 0; w < MEAN_WORDS; ++w)
        words[w] = node_mean(subtree->stats, subtree->upper, whole, x, y, level, w, subtree->width, subtree->height);
    write_leaf(to, subtree->left + (x << level), subtree->top + (y << level), 1u << level, words);
}

/* The leaves of the tile (x, y); where a greater leaf covers it, that leaf is written by its first tile. */
APART void write_tile(const subtree_t *subtree, uint x, uint y, uint last_level)
{
    uint offset = 0, covering = 0, total = 0, slot = 0;
    for (uint level = last_level; level >= TILE_LEVEL && covering == 0; --level) {
        const grid_t *grid = subtree->grids + level;
        uint nx = x >> (level - TILE_LEVEL), ny = y >> (level - TILE_LEVEL);
        total = grid->nodes[ny * grid->cols + nx];
        offset += earlier_siblings(grid->nodes, nx, ny, grid->cols);
        covering = total & STOP ? level : 0u;
    }
    __global uint *list = subtree->leaves + (ulong)offset * RECORD_WORDS;
    if (covering > 0) {
        uint shift = covering - TILE_LEVEL, nx = x >> shift, ny = y >> shift;
        if (nx << shift == x && ny << shift == y)
            write_node(subtree, 0, nx, ny, covering, list);
        return;
    }
    int whole = (x + 1) << TILE_LEVEL <= subtree->width && (y + 1) << TILE_LEVEL <= subtree->height;
    for (uint j = 0; j < CELLS; ++j) {
        uint cx = (x << (TILE_LEVEL - 3)) + even_bits(j), cy = (y << (TILE_LEVEL - 3)) + even_bits(j >> 1), leaf = 0;
        if (!whole && (8 * cx >= subtree->width || 8 * cy >= subtree->height))
            continue;
        /* The nodes within the tile that begin at this cell, the greatest first. */
        for (uint level = TILE_LEVEL - 1; level >= 3 && leaf == 0; --level)
            if ((j & ((1u << (2 * level - 6)) - 1u)) == 0) {
                const grid_t *grid = subtree->grids + level;
                leaf = grid->nodes[(cy >> (level - 3)) * grid->cols + (cx >> (level - 3))] & STOP ? level : 0u;
            }
        if (leaf > 0) {
            write_node(subtree, whole, cx >> (leaf - 3), cy >> (leaf - 3), leaf, list + slot++ * RECORD_WORDS);
            j += (1u << (2 * leaf - 6)) - 1u;
        } else
            slot = write_cell(subtree, whole || (8 * cx + 8 <= subtree->width && 8 * cy + 8 <= subtree->height), 8 * cx,
                              8 * cy, list, slot, total);
    }
}

/* As quadtree_leaves in quadtree/leaves.cl.
 *
 * NDRange: work-groups of one work-item, any number; they share the tiles in row order. Buffers: as there. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void quadtree_leaves(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint left, uint top,
    uint last_level, __global const uchar *flags, __global const ulong *stats, __global const ulong *upper,
    __global const uint *nodes, __global uint *leaves)
{
    uint cols = along(width, TILE_LEVEL), tiles = cols * along(height, TILE_LEVEL);
    uint groups = get_num_groups(0), share = (tiles + groups - 1) / groups, begin = get_group_id(0) * share;
    uint end = min(begin + share, tiles);
    subtree_t subtree;
    subtree.first = pixels + origin;
    subtree.flags = flags;
    subtree.stats = stats;
    subtree.upper = upper;
    subtree.leaves = leaves;
    subtree.pitch = pitch;
    subtree.width = width;
    subtree.height = height;
    subtree.left = left;
    subtree.top = top;
    subtree.cols2 = along(width, 2);
    FEW_TURNS
    for (uint level = 3; level <= last_level; ++level) {
        subtree.grids[level].nodes = nodes + level_base(width, height, 3, level);
        subtree.grids[level].cols = along(width, level);
    }
    for (uint tile = begin; tile < end; ++tile)
        write_tile(&subtree, tile % cols, tile / cols, last_level);
}
