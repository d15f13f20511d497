/* The leaves of a reduced quadtree as a list in Morton order, without sorting, scanning or atomics: how many leaves lie
 * under every node is known, so a leaf's place is the sum over its ancestors of the counts of their earlier siblings.
 *
 * Constants besides those of quadtree/quadtree.h: ALIGNED (quadtree/pixels.h); LEAF_LEVEL (3 to
 * TILE_LEVEL), side of the squares whose leaves one work-group gathers at a time; GROUP, the work-group size; LANES, 1
 * for the form in which one work-item writes the leaves of tiles one after another (quadtree/leaves_lanes.h; GROUP is
 * 1 then). */

#include "quadtree/quadtree.h"
#include "quadtree/pixels.h"

#define BLOCKS (1u << (2 * TILE_LEVEL - 4))
#define ACROSS (1u << (TILE_LEVEL - 2))
#define CELLS (BLOCKS / 4)
#define INNER (BLOCKS / 3 - 1) /* nodes of levels 3 to TILE_LEVEL - 1 of a tile */
#define SLOTS (1u << (2 * LEAF_LEVEL))
#define PADDED (SLOTS + SLOTS / 16)
#define STEPS 16u /* from a tile to the root, at most */
#define RECORD_WORDS (3 + MEAN_WORDS)

/* Leaves under a 4x4 block whose flags are `flag`, were none of its ancestors a leaf. */
inline uint block_leaves(uint flag, int whole, uint x, uint y, uint width, uint height)
{
    if (flag & 16u)
        return 1;
    if (whole)
        return 16u - 3u * popcount(flag);
    uint leaves = 0;
#pragma unroll 1
    for (uint q = 0; q < 4; ++q) {
        uint n = (uint)pixels_inside((x >> 1) + (q & 1u), (y >> 1) + (q >> 1), 1, width, height);
        leaves += (flag >> q & 1u) ? 1u : n;
    }
    return leaves;
}

/* Leaves that come before the node (x, y) of `level` under its parent, in Morton order. */
inline uint earlier_siblings(__global const uint *grid, uint x, uint y, uint cols)
{
    uint first = (y & ~1u) * cols + (x & ~1u), second = (x | 1u) < cols;
    /* Loaded whether they count or not, so that no load waits for another. */
    uint left = grid[first + (y & 1u) * cols], above = grid[first], beside = grid[first + second];
    return (x & 1u) * (left & COUNT_MASK) + (y & 1u) * ((above & COUNT_MASK) + second * (beside & COUNT_MASK));
}

/* The same, and STOP where the node (x, y) stops a split. nodes: from level 3 on. */
inline uint step_of(__global const uint *nodes, uint x, uint y, uint level, uint width, uint height)
{
    __global const uint *grid = nodes + level_base(width, height, 3, level);
    uint cols = along(width, level);
    return earlier_siblings(grid, x, y, cols) | (grid[y * cols + x] & STOP);
}

/* Takes one step up from a node: `place` is its place among the leaves under its parent, `covering` the level of the
 * greatest leaf that covers it, or 0. What lies before within a covering leaf does not count. */
inline void take_step(uint step, uint level, uint *place, uint *covering)
{
    *covering = step & STOP ? level : *covering;
    *place = (step & STOP ? 0u : *place) + (step & COUNT_MASK);
}

/* Mean word `w` (channels 4w to 4w + 3) of the node (x, y) of `level` >= 3, from the statistics. */
inline uint node_mean(__global const ulong *stats, __global const ulong *upper, int whole, uint x, uint y, uint level,
                      uint w, uint width, uint height)
{
    uint cells = along(width, level) * along(height, level);
    uint node = y * along(width, level) + x, word = 0;
    ulong n = pixels_inside(x, y, level, width, height);
    __global const ulong *plane = upper + node;
    uint stride = 2 * cells;
    if (level <= TILE_LEVEL) {
        plane = stats + BANDS * level_base(width, height, 3, level) + node;
        stride = cells;
    } else
        plane += 2 * BANDS * level_base(width, height, TILE_LEVEL + 1, level);
#pragma unroll 1
    for (uint c = 4 * w; c < min(4 * w + 4, (uint)CHANNELS); ++c) {
        ulong sum = plane[c * stride];
        if (level <= TILE_LEVEL)
            sum >>= WIDE_SHIFT;
        word |= (whole && level <= TILE_LEVEL ? whole_mean((uint)sum, level) : rounded_mean(sum, n)) << (8 * (c & 3u));
    }
    return word;
}

#if LANES
#include "quadtree/leaves_lanes.h"
#else
#include "quadtree/collect.h"

/* What a work-group knows of its tile. */
typedef struct {
    uint x, y, width, height; /* its place in the grid of tiles; of the picture */
    int whole;
} tile_t;

/* Four flags of a tile's blocks, row by row: word i; 0 outside the picture. */
inline uint tile_flags(const tile_t *tile, __global const uchar *flags, uint i)
{
    uint cols = along(tile->width, 2), rows = along(tile->height, 2);
    uint x = (tile->x << (TILE_LEVEL - 2)) + 4 * (i % (ACROSS / 4));
    uint y = (tile->y << (TILE_LEVEL - 2)) + i / (ACROSS / 4);
    if (tile->whole && (cols & 3u) == 0)
        return *(__global const uint *)(flags + y * cols + x);
    uint word = 0;
#pragma unroll 1
    for (uint j = 0; j < 4; ++j)
        word |= (x + j < cols && y < rows ? (uint)flags[y * cols + x + j] : 0u) << (8 * j);
    return word;
}

/* Entry i of a tile's nodes of levels 3 to TILE_LEVEL - 1, one level after another in Morton order; 0 outside the
 * picture. */
inline uint tile_node(const tile_t *tile, __global const uint *nodes, uint i)
{
    uint level = 3;
#pragma unroll 1
    for (uint here = CELLS; level + 1 < TILE_LEVEL && i >= here; here >>= 2, ++level) {
        nodes += along(tile->width, level) * along(tile->height, level);
        i -= here;
    }
    uint cols = along(tile->width, level), x = (tile->x << (TILE_LEVEL - level)) + even_bits(i);
    uint y = (tile->y << (TILE_LEVEL - level)) + even_bits(i >> 1);
    return tile->whole || (x < cols && y < along(tile->height, level)) ? nodes[y * cols + x] : 0u;
}

/* Loads a tile's nodes and flags, several of each before any is kept, so that they do not wait for one another. */
inline void load_tile(const tile_t *tile, __global const uint *nodes, __global const uchar *flags, __local uint *inner,
                      __local uint *block_flags)
{
#pragma unroll 1
    for (uint start = get_local_id(0); start < INNER; start += 3 * GROUP) {
        uint words[3], more[2];
#pragma unroll
        for (uint k = 0; k < 3; ++k)
            words[k] = start + k * GROUP < INNER ? tile_node(tile, nodes, start + k * GROUP) : 0u;
#pragma unroll
        for (uint k = 0; k < 2; ++k)
            more[k] = start + k * GROUP < BLOCKS / 4 ? tile_flags(tile, flags, start + k * GROUP) : 0u;
#pragma unroll
        for (uint k = 0; k < 3; ++k)
            if (start + k * GROUP < INNER)
                inner[start + k * GROUP] = words[k];
#pragma unroll
        for (uint k = 0; k < 2; ++k)
            if (start + k * GROUP < BLOCKS / 4)
                block_flags[start + k * GROUP] = more[k];
    }
    /* Where the group is small, the loop above has left flags out. */
#pragma unroll 1
    for (uint i = get_local_id(0); i < BLOCKS / 4 && 2 * GROUP < BLOCKS / 4; i += GROUP)
        block_flags[i] = tile_flags(tile, flags, i);
}

/* Mean word `w` of the node (x, y) of a level from 3 to TILE_LEVEL - 1. */
inline uint inner_mean(const tile_t *tile, __global const ulong *stats, uint x, uint y, uint level, uint w)
{
    return node_mean(stats, 0, tile->whole, x, y, level, w, tile->width, tile->height);
}

/* Whether cell j of level 3 is the first of the node of `level` that holds it. */
inline uint begins_node(uint j, uint level)
{
    return (j & ((1u << (2 * level - 6)) - 1u)) == 0;
}

/* Follows a tile's tree from the levels below TILE_LEVEL down to `last`, to the node that holds cell j of level 3:
 * gives back the level of the leaf that covers the cell, or 0, and at *slot the place of the leaf, or of the node, in
 * the tile. */
inline uint find_cell(__local const uint4 *inner, uint j, uint last, uint *slot)
{
    uint leaf = 0;
    *slot = 0;
#pragma unroll 1
    for (uint level = TILE_LEVEL - 1, start = INNER; level >= last && leaf == 0; --level) {
        uint node = j >> (2 * level - 6), q = node & 3u;
        start -= CELLS >> (2 * level - 6);
        uint4 siblings = inner[(start + node) >> 2], counts = siblings & COUNT_MASK;
        *slot += (q > 0 ? counts.x : 0u) + (q > 1 ? counts.y : 0u) + (q > 2 ? counts.z : 0u);
        uint own = q < 2 ? (q == 0 ? siblings.x : siblings.y) : (q == 2 ? siblings.z : siblings.w);
        leaf = own & STOP ? level : 0u;
    }
    return leaf;
}

/* The leaves' records: x, y, size (pixels), and the means rounded half up, a byte per channel, padded to whole words.
 *
 * NDRange: one work-group of GROUP work-items per tile of 2^TILE_LEVEL pixels per side, in row order. A tile that has
 * more leaves than fit local memory is gathered in squares of 2^LEAF_LEVEL pixels per side, one after another.
 * pixels, origin, pitch, width, height, flags, stats, nodes: as quadtree_tiles. left, top: of this subtree in the
 * picture. last_level: the highest in `nodes`, whose grid is one node. upper: levels above TILE_LEVEL, 2 * BANDS planes
 * each: sums, squares, sums, ... leaves: RECORD_WORDS words per leaf.
 * Local memory: 2 + 4 * MEAN_WORDS bytes per pixel of a square, some 3 per block of the tile, and 64. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_leaves(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint left, uint top,
    uint last_level, __global const uchar *flags, __global const ulong *stats, __global const ulong *upper,
    __global const uint *nodes, __global uint *leaves)
{
    __local uint4 inner[INNER / 4];
    __local uint block_flags[BLOCKS / 4];
    __local ushort places[PADDED];
    __local uint means[MEAN_WORDS * PADDED];
    __local uint steps[STEPS];
    uint lid = get_local_id(0), tile_cols = along(width, TILE_LEVEL), offset = 0, covering = 0;
    tile_t tile = {get_group_id(0) % tile_cols, get_group_id(0) / tile_cols, width, height, 0};
    tile.whole = (tile.x + 1) << TILE_LEVEL <= width && (tile.y + 1) << TILE_LEVEL <= height;
#pragma unroll 1
    for (uint i = lid; TILE_LEVEL + i <= last_level; i += GROUP)
        steps[i] = step_of(nodes, tile.x >> i, tile.y >> i, TILE_LEVEL + i, width, height);
    load_tile(&tile, nodes, flags, (__local uint *)inner, block_flags);
    uint tile_leaves = nodes[level_base(width, height, 3, TILE_LEVEL) + get_group_id(0)] & COUNT_MASK;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (uint i = 0; TILE_LEVEL + i <= last_level; ++i)
        take_step(steps[i], TILE_LEVEL + i, &offset, &covering);
    __global uint *record = leaves + (ulong)offset * RECORD_WORDS;
    if (covering > 0 && lid == 0) {
        uint shift = covering - TILE_LEVEL, nx = tile.x >> shift, ny = tile.y >> shift;
        if (nx << shift == tile.x && ny << shift == tile.y) {
            record[0] = left + (nx << covering);
            record[1] = top + (ny << covering);
            record[2] = 1u << covering;
#pragma unroll 1
            for (uint w = 0; w < MEAN_WORDS; ++w)
                record[3 + w] = node_mean(stats, upper, 0, nx, ny, covering, w, width, height);
        }
    }
    uint level = tile_leaves <= SLOTS ? TILE_LEVEL : LEAF_LEVEL, cells = 1u << (2 * level - 6);
    /* The same for all work-items of the group, as `covering` is. */
    uint squares = covering > 0 ? 0u : CELLS / cells;
#pragma unroll 1
    for (uint s = 0; s < squares; ++s) {
        uint first, end = tile_leaves, cover = find_cell(inner, s * cells, level, &first);
        if (cover > 0)
            end = first + begins_node(s * cells, cover);
        else if (s + 1 < squares)
            find_cell(inner, (s + 1) * cells, level, &end);
        /* A work-item takes two blocks side by side: the upper or the lower half of a cell. */
#pragma unroll 1
        for (uint i = 2 * s * cells + lid; i < 2 * (s + 1) * cells; i += GROUP) {
            uint j = i >> 1, lower = i & 1u, slot, leaf = find_cell(inner, j, 3, &slot);
            uint column = 8 * even_bits(j), row = 8 * even_bits(j >> 1) + 4 * lower;
            uint x = (tile.x << TILE_LEVEL) + column, y = (tile.y << TILE_LEVEL) + row;
            slot -= first;
            if (!tile.whole && (x >= width || y >= height))
                continue;
            if (leaf > 0) {
                if (lower == 0 && begins_node(j, leaf)) {
                    places[padded(slot)] = square_place(column, row, leaf);
#pragma unroll 1
                    for (uint w = 0; w < MEAN_WORDS; ++w)
                        means[w * PADDED + padded(slot)] = inner_mean(&tile, stats, x >> leaf, y >> leaf, leaf, w);
                }
                continue;
            }
            __local const uchar *pair = (__local const uchar *)block_flags + (row >> 2) * ACROSS + (column >> 2);
#pragma unroll 1
            for (uint b = 0; b < 2 && lower; ++b)
                slot += block_leaves(pair[(int)b - (int)ACROSS], tile.whole, x + 4 * b, y - 4, width, height);
#pragma unroll 1
            for (uint b = 0; b < 2; ++b) {
                uint bx = x + 4 * b;
                __global const uchar *pixel = pixels + origin + (ulong)y * pitch + bx * CHANNELS;
#if CHANNELS <= 4
                if (tile.whole || (bx + 4 <= width && y + 4 <= height))
                    collect_whole_block(pixel, pitch, pair[b], column + 4 * b, row, slot, places, means);
                else
#endif
                    if (bx < width)
                    collect_block(pixel, pitch, min(4u, width - bx), min(4u, height - y), pair[b], column + 4 * b, row,
                                  slot, places, means);
                slot += block_leaves(pair[b], tile.whole, bx, y, width, height);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint slot = lid; slot < end - first; slot += GROUP)
            write_record(record, first + slot, left + (tile.x << TILE_LEVEL), top + (tile.y << TILE_LEVEL), slot,
                         places, means);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif
