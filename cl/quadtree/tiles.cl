/* Bottom-up reduction of a picture's tiles: Masina and Stedile, "Parallelizing Quadtree Image Decomposition with mixed
 * approaches", sections 5.2 and 6, with exact sums in place of means and deviations.
 *
 * Constants besides those of quadtree/quadtree.h: ALIGNED (see quadtree/pixels.h); STORE_LOW, 1 to write the statistics
 * of levels 1 and 2; GROUP, the work-group size; MAX_TILES, the most tiles side by side of a group, 1 without LANES;
 * LANES, 1 for the form in explicit vectors (quadtree/tiles_lanes.h; GROUP is 1 then). */

#include "quadtree/quadtree.h"
#include "quadtree/pixels.h"

#define CELLS (1u << (2 * TILE_LEVEL - 6))
#define WIDE_NODES (CELLS + CELLS / 3 + 1)

#include "quadtree/blocks.h"

/* One node of level 3 or more, whose words and extents go to the slot `at`: they are those of `parts` slots from
 * `below` on. Decides, stores, and gives back the leaves under it, `leaves` if it is split. */
inline uint finish_node(__local ulong *wide, __local uchar2 *reach, uint below, uint parts, uint at, uint leaves,
                        uint level, uint x, uint y, uint base, int whole, const params_t *params, __global ulong *stats,
                        __global uint *nodes)
{
    uint cols = along(params->width, level), cells = cols * along(params->height, level), node = y * cols + x;
    uint n = whole ? 1u << (2 * level) : (uint)pixels_inside(x, y, level, params->width, params->height);
    ulong limit = whole ? whole_limit(level, params->bound) : small_limit(n, params->bound);
    verdict_t verdict = no_verdict();
    for (uint c = 0, slot = 0; c < BANDS; ++c, slot += WIDE_NODES) {
        ulong word = wide[slot + below];
        for (uint i = 1; i < parts; ++i)
            word += wide[slot + below + i];
        wide[slot + at] = word;
        if (n > 0)
            stats[BANDS * base + c * cells + node] = word;
#if CRITERION == RANGE
        uchar2 extent = reach[slot + below];
        for (uint i = 1; i < parts; ++i)
            extent = join_extents(extent, reach[slot + below + i]);
        reach[slot + at] = extent;
        add_extent(&verdict, extent, params->bound);
#else
        add_word(&verdict, c, word, n, limit);
#endif
    }
    if (n == 0)
        return 0;
    int stop = level <= params->top_level && (level <= params->floor_level || is_uniform(&verdict, limit));
    leaves = stop ? 1u : leaves;
    nodes[base + node] = stop ? STOP | leaves : leaves;
    return leaves;
}

/* Levels 1 to 3 of the 8x8 cell at (x, y), whose slot is `at`; gives back the leaves under it. */
inline uint reduce_cell(__global const uchar *pixels, ulong origin, uint pitch, uint x, uint y, int whole,
                        const params_t *params, __local ulong *wide, __local uchar2 *reach, uint at, __global uint *low,
                        __global uchar *flags, __global ulong *stats, __global uint *nodes)
{
    uint leaves = 0;
#pragma unroll 1
    for (uint lower = 0; lower < 2; ++lower) {
        uint top = y + 4 * lower;
        half_cell_t part = {pixels + origin + (ulong)top * pitch + x * CHANNELS,
                            pitch,
                            x,
                            top,
                            whole ? 8u : min(8u, params->width - min(x, params->width)),
                            whole ? 4u : min(4u, params->height - min(top, params->height))};
        leaves += reduce_half(&part, lower, whole, params, wide, reach, at, low, flags);
    }
    return finish_node(wide, reach, at, 1, at, leaves, 3, x >> 3, y >> 3, 0, whole, params, stats, nodes);
}

#if LANES
#include "quadtree/planes.h"
#include "quadtree/tiles_lanes.h"

/* Levels 5 and 6 of a tile whose nodes of level 4 are in the first slots. */
inline void finish_tile(__local ulong *wide, __local uchar2 *reach, __local uint *count, uint tile_x, uint tile_y,
                        const params_t *params, __global ulong *stats, __global uint *nodes)
{
    int whole = (tile_x + 1) << TILE_LEVEL <= params->width && (tile_y + 1) << TILE_LEVEL <= params->height;
    uint from = 0, to = CELLS / 4, base = level_base(params->width, params->height, 3, 5);
    for (uint level = 5; level <= TILE_LEVEL; ++level) {
        uint across = TILE_LEVEL - level, here = 1u << (2 * across);
        for (uint j = 0; j < here; ++j) {
            uint x = (tile_x << across) + even_bits(j), y = (tile_y << across) + even_bits(j >> 1), leaves = 0;
            for (uint i = 4 * j; i < 4 * j + 4; ++i)
                leaves += count[from + i];
            count[to + j] = finish_node(wide, reach, from + 4 * j, 4, to + j, leaves, level, x, y, base, whole, params,
                                        stats, nodes);
        }
        from = to;
        to += here;
        base += along(params->width, level) * along(params->height, level);
    }
}
#endif

/* Levels 1 to TILE_LEVEL of tiles of 2^TILE_LEVEL pixels per side.
 *
 * NDRange: one work-group of GROUP work-items per `across` tiles side by side (up to MAX_TILES), in row order.
 * pixels: rows of `pitch` bytes from byte `origin`, CHANNELS bytes per pixel; width x height pixels are the picture.
 * floor_level: nodes up to this level are leaves whatever they hold; top_level: the root's level, none is above.
 * bound: the criterion's bound in fixed point (quadtree/quadtree.h).
 * low: with STORE_LOW, BANDS planes of level 1, then of level 2: narrow words. flags: a byte per node of level 2: bits
 * 0 to 3, its children in Morton order stop a split; bit 4, it does. stats: levels 3 to TILE_LEVEL one after another,
 * BANDS planes of wide words each. nodes: the same levels on: leaves under a node, and STOP where it stops a split.
 * extents: with the range criterion, CHANNELS planes of (least, greatest) of level TILE_LEVEL.
 * Local memory: 8 * BANDS + 4 bytes per cell of 8x8 pixels and a node above (a third more) of MAX_TILES tiles; extents
 * 2 * CHANNELS each. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_tiles(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint floor_level, uint top_level,
    ulong bound, __global uint *low, __global uchar *flags, __global ulong *stats, __global uint *nodes,
    __global uchar2 *extents, uint across)
{
    __local uint count[MAX_TILES * WIDE_NODES];
    __local ulong wide[MAX_TILES * BANDS * WIDE_NODES];
#if CRITERION == RANGE
    __local uchar2 reach[CHANNELS * WIDE_NODES];
#else
    __local uchar2 reach[1];
#endif
    const params_t params = {width, height, floor_level, top_level, bound};
    uint group = get_group_id(0), tile_cols = along(width, TILE_LEVEL);
    uint step = LANES ? across : 1u, group_cols = (tile_cols + step - 1) / step;
    uint tile_x = group % group_cols * step, tile_y = group / group_cols;
#if LANES
    uint many = min(across, tile_cols - tile_x);
    reduce_tiles(pixels, origin, pitch, tile_x << TILE_LEVEL, tile_y << TILE_LEVEL, many, &params, wide, count, low,
                 flags, stats, nodes);
    for (uint t = 0; t < many; ++t)
        finish_tile(wide + t * BANDS * WIDE_NODES, reach, count + t * WIDE_NODES, tile_x + t, tile_y, &params, stats,
                    nodes);
#else
    uint lid = get_local_id(0);
    int whole = (tile_x + 1) << TILE_LEVEL <= width && (tile_y + 1) << TILE_LEVEL <= height;
    /* Work-items go along the rows, for the sake of coalescing; slot j in local memory is the cell's Morton code. */
    for (uint i = lid; i < CELLS; i += GROUP) {
        uint cx = i & ((1u << (TILE_LEVEL - 3)) - 1), cy = i >> (TILE_LEVEL - 3);
        uint j = spread_bits(cx) | spread_bits(cy) << 1;
        uint x = (tile_x << TILE_LEVEL) + 8 * cx, y = (tile_y << TILE_LEVEL) + 8 * cy;
        if (whole)
            count[j] = reduce_cell(pixels, origin, pitch, x, y, 1, &params, wide, reach, j, low, flags, stats, nodes);
        else
            count[j] = reduce_cell(pixels, origin, pitch, x, y, 0, &params, wide, reach, j, low, flags, stats, nodes);
    }
    uint from = 0, to = CELLS, base = along(width, 3) * along(height, 3);
    for (uint level = 4; level <= TILE_LEVEL; ++level) {
        uint here = CELLS >> (2 * level - 6);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = lid; j < here; j += GROUP) {
            uint x = (tile_x << (TILE_LEVEL - level)) + even_bits(j), leaves = 0;
            uint y = (tile_y << (TILE_LEVEL - level)) + even_bits(j >> 1);
            for (uint i = 4 * j; i < 4 * j + 4; ++i)
                leaves += count[from + i];
            count[to + j] = finish_node(wide, reach, from + 4 * j, 4, to + j, leaves, level, x, y, base, whole, &params,
                                        stats, nodes);
        }
        from = to;
        to += here;
        base += along(width, level) * along(height, level);
    }
#endif
#if CRITERION == RANGE
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint c = lid; c < CHANNELS; c += GROUP)
        extents[(c * along(height, TILE_LEVEL) + tile_y) * tile_cols + tile_x] = reach[c * WIDE_NODES + from];
#endif
}
