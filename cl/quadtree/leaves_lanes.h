/* The leaves of tiles in their order by one work-item: the form for CPUs. Same records as the kernel of that name in
 * quadtree/leaves.cl, after whose functions this comes.
 *
 * Each tile is gone through twice. First come the counts alone: they say which nodes of 8x8 pixels and more are leaves,
 * which cells of 8x8 are split, and where the records of either begin; pixels of the cells are asked for. Those are
 * there when the tile's turn comes to be written, after the next tile has been gone through. */

#include "common/compile_hints.h"

#define LANES_INLINE inline __attribute__((always_inline))
/* Of what is called once a tile or seldom: PoCL compiles a kernel's own code three times, but not what it calls. */
#ifdef COMPILED_AT_LAUNCH
#define APART __attribute__((noinline))
#else
#define APART inline
#endif
#define MOST_LEVELS 17u /* of a picture */

/* The nodes of a level: `sums` is the first band's statistics up to TILE_LEVEL; cells: nodes of the level. */
typedef struct {
    __global const uint *nodes;
    __global const ulong *sums;
    uint cols, cells;
} grid_t;

/* The subtree. first: its first pixel; left, top: its corner in the picture. */
typedef struct {
    __global const uchar *first, *flags;
    __global uint *leaves;
    uint pitch, width, height, left, top, cols2;
    grid_t grids[MOST_LEVELS];
} subtree_t;

/* What is to be written of a tile whose first cell of 8x8 pixels is (x, y): the cells that are split, and leaves from
 * level 3 on with their levels, all by the Morton codes of their first cells and with the places of their records. */
typedef struct {
    __global uint *list;
    uint x, y, total, split_many, leaf_many;
    int whole;
    uchar split[CELLS], leaf[CELLS], level[CELLS];
    ushort split_slot[CELLS], leaf_slot[CELLS];
} plan_t;

/* Asks for a line of pixels before it is needed. On PoCL alone: compilers that make SPIR-V may know no such thing. */
LANES_INLINE void ask_for(__global const uchar *pixel)
{
#ifdef COMPILED_AT_LAUNCH
    __builtin_prefetch((const void *)(size_t)pixel, 0, 3);
#endif
}

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

/* The leaves of a cell of 8x8 pixels at (x, y) of the subtree, from `slot` on. */
LANES_INLINE void write_cell(const subtree_t *subtree, const plan_t *plan, uint x, uint y, uint slot)
{
    uint pitch = subtree->pitch, width = subtree->width, height = subtree->height;
    __global const uchar *pixel = subtree->first + (ulong)y * pitch + x * CHANNELS;
    __global const uchar *flag = subtree->flags + (y >> 2) * subtree->cols2 + (x >> 2);
#if CHANNELS <= 4
    if (plan->whole || (x + 8 <= width && y + 8 <= height)) {
        for (uint b = 0; b < 4; ++b) {
            uint bx = 4 * (b & 1u), by = 2 * (b & 2u);
            slot =
                write_whole_block(pixel + by * pitch + bx * CHANNELS, pitch, flag[(b >> 1) * subtree->cols2 + (b & 1u)],
                                  subtree->left + x + bx, subtree->top + y + by, plan->list, slot, plan->total);
        }
        return;
    }
#endif
    for (uint b = 0; b < 4; ++b) {
        uint bx = 4 * (b & 1u), by = 2 * (b & 2u);
        if (x + bx < width && y + by < height)
            slot = write_block(pixel + by * pitch + bx * CHANNELS, pitch, flag[(b >> 1) * subtree->cols2 + (b & 1u)],
                               min(4u, width - x - bx), min(4u, height - y - by), subtree->left + x + bx,
                               subtree->top + y + by, plan->list, slot);
    }
}

/* The leaf of a node of `level` >= 3 below the tile's whose first cell is (x, y). */
LANES_INLINE void write_node(const subtree_t *subtree, const plan_t *plan, uint x, uint y, uint level, uint slot)
{
    const grid_t *grid = subtree->grids + level;
    uint nx = x >> (level - 3), ny = y >> (level - 3), words[MEAN_WORDS] = {0};
    uint n = plan->whole ? 1u << (2 * level) : (uint)pixels_inside(nx, ny, level, subtree->width, subtree->height);
    __global const ulong *sums = grid->sums + ny * grid->cols + nx;
    FEW_TURNS
    for (uint c = 0; c < CHANNELS; ++c) {
        uint sum = (uint)(sums[c * grid->cells] >> WIDE_SHIFT);
        words[c >> 2] |= (plan->whole ? whole_mean(sum, level) : rounded_mean(sum, n)) << (8 * (c & 3u));
    }
    write_leaf(plan->list + slot * RECORD_WORDS, subtree->left + 8 * x, subtree->top + 8 * y, 1u << level, words);
}

/* Finds the cells of a tile that are split and the leaves that are greater; `slot` is the next free place. */
LANES_INLINE void plan_nodes(const subtree_t *subtree, plan_t *plan)
{
    uint split_many = 0, leaf_many = 0, slot = 0;
    for (uint j = 0; j < CELLS; ++j) {
        uint x = plan->x + even_bits(j), y = plan->y + even_bits(j >> 1), leaf = 0, entry = 0;
        if (!plan->whole && (8 * x >= subtree->width || 8 * y >= subtree->height))
            continue;
        /* The nodes within the tile that begin at this cell, the greatest first. */
        for (uint level = TILE_LEVEL - 1; level >= 3 && leaf == 0; --level)
            if ((j & ((1u << (2 * level - 6)) - 1u)) == 0) {
                const grid_t *grid = subtree->grids + level;
                entry = grid->nodes[(y >> (level - 3)) * grid->cols + (x >> (level - 3))];
                leaf = entry & STOP ? level : 0u;
            }
        if (leaf > 0) {
            plan->leaf[leaf_many] = j;
            plan->level[leaf_many] = leaf;
            plan->leaf_slot[leaf_many++] = slot++;
            j += (1u << (2 * leaf - 6)) - 1u;
            continue;
        }
        __global const uchar *pixel = subtree->first + (ulong)(8 * y) * subtree->pitch + 8 * x * CHANNELS;
#pragma unroll
        for (uint r = 0; r < 8; ++r) {
            ask_for(pixel + r * subtree->pitch);
            if (CHANNELS > 1)
                ask_for(pixel + r * subtree->pitch + 8 * CHANNELS - 1);
        }
        plan->split[split_many] = j;
        plan->split_slot[split_many++] = slot;
        slot += entry;
    }
    plan->split_many = split_many;
    plan->leaf_many = leaf_many;
}

/* Plans the tile (x, y); where a greater leaf covers it, nothing, but that leaf is written by its first tile. */
APART void plan_tile(const subtree_t *subtree, uint x, uint y, uint last_level, __global const ulong *stats,
                     __global const ulong *upper, plan_t *plan)
{
    uint offset = 0, covering = 0;
    for (uint level = last_level; level >= TILE_LEVEL && covering == 0; --level) {
        const grid_t *grid = subtree->grids + level;
        uint nx = x >> (level - TILE_LEVEL), ny = y >> (level - TILE_LEVEL), entry = grid->nodes[ny * grid->cols + nx];
        offset += earlier_siblings(grid->nodes, nx, ny, grid->cols);
        covering = entry & STOP ? level : 0u;
        plan->total = entry;
    }
    plan->list = subtree->leaves + (ulong)offset * RECORD_WORDS;
    plan->split_many = plan->leaf_many = 0;
    if (covering > 0) {
        uint shift = covering - TILE_LEVEL, nx = x >> shift, ny = y >> shift, words[MEAN_WORDS];
        if (nx << shift == x && ny << shift == y) {
            for (uint w = 0; w < MEAN_WORDS; ++w)
                words[w] = node_mean(stats, upper, 0, nx, ny, covering, w, subtree->width, subtree->height);
            write_leaf(plan->list, subtree->left + (nx << covering), subtree->top + (ny << covering), 1u << covering,
                       words);
        }
        return;
    }
    plan->x = x << (TILE_LEVEL - 3);
    plan->y = y << (TILE_LEVEL - 3);
    plan->whole = (x + 1) << TILE_LEVEL <= subtree->width && (y + 1) << TILE_LEVEL <= subtree->height;
    plan_nodes(subtree, plan);
}

/* Writes what was planned of a tile: cells first, as their records may be written beyond them. */
APART void write_tile(const subtree_t *subtree, const plan_t *plan)
{
    FEW_TURNS
    for (uint k = 0; k < plan->split_many; ++k) {
        uint j = plan->split[k];
        write_cell(subtree, plan, 8 * (plan->x + even_bits(j)), 8 * (plan->y + even_bits(j >> 1)), plan->split_slot[k]);
    }
    FEW_TURNS
    for (uint k = 0; k < plan->leaf_many; ++k) {
        uint j = plan->leaf[k];
        write_node(subtree, plan, plan->x + even_bits(j), plan->y + even_bits(j >> 1), plan->level[k],
                   plan->leaf_slot[k]);
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
    subtree.leaves = leaves;
    subtree.pitch = pitch;
    subtree.width = width;
    subtree.height = height;
    subtree.left = left;
    subtree.top = top;
    subtree.cols2 = along(width, 2);
    FEW_TURNS
    for (uint level = 3, base = 0; level <= last_level; ++level) {
        grid_t *grid = subtree.grids + level;
        grid->nodes = nodes + base;
        grid->sums = stats + BANDS * base;
        grid->cols = along(width, level);
        grid->cells = grid->cols * along(height, level);
        base += grid->cells;
    }
    plan_t plans[2];
    for (uint tile = begin; tile < end + 1; ++tile) {
        if (tile < end)
            plan_tile(&subtree, tile % cols, tile / cols, last_level, stats, upper, plans + (tile & 1u));
        if (tile > begin)
            write_tile(&subtree, plans + (~tile & 1u));
    }
}
