// Bottom-up reduction of a picture's tiles: Masina and Stedile, "Parallelizing Quadtree Image Decomposition with mixed
// approaches", sections 5.2 and 6, with exact sums in place of means and deviations.
//
// Constants besides those of quadtree.h: ALIGNED (see quadtree_pixels.h); STORE_LOW, 1 to write the statistics of levels
// 1 and 2; GROUP, the work-group size.

#include "quadtree.h"
#include "quadtree_pixels.h"

#define BLOCKS (1u << (2 * TILE_LEVEL - 4))
#define WIDE_NODES (BLOCKS / 3 + 1)

// What one work-item needs to know of the job besides its pixels.
typedef struct {
    uint width, height, floor_level, top_level;
    ulong bound;
} rules_t;

// Whether a node of level 1 or 2 with n > 0 pixels inside the picture stops a split.
inline uint stops_narrow(const uint *word, const uchar2 *extent, uint level, uint n, int whole, const rules_t *rules) {
    if (level > rules->top_level)
        return 0;
    if (level <= rules->floor_level)
        return 1;
#if CRITERION == RANGE
    return uniform_extent(extent, rules->bound);
#else
    return uniform_narrow(word, n, whole ? whole_limit(level, rules->bound) : deviation_limit(n, rules->bound).y);
#endif
}

// Sums and extents of the quadrant q of a block, all bands; pixels outside the picture are 0 in `rows`.
inline void reduce_quadrant(const uint *rows, uint q, uint inside_x, uint inside_y, uint *word, uchar2 *extent) {
    for (uint c = 0; c < BANDS; ++c) {
        uint total = 0;
#if CRITERION == RANGE
        extent[c] = NO_EXTENT;
#endif
        for (uint p = 0; p < 4; ++p) {
            uint px = 2 * (q & 1u) + (p & 1u), py = (q & 2u) + (p >> 1);
            uint v = block_value(rows, py, px, c);
            total += v * (v + (1u << NARROW_SHIFT));
#if CRITERION == RANGE
            if (px < inside_x && py < inside_y)
                extent[c] = join_extents(extent[c], (uchar2)(v, v));
#endif
        }
        word[c] = total;
    }
}

#if STORE_LOW
// Writes the statistics of a block's four nodes of level 1 and its node of level 2.
inline void store_low(__global uint *low, const uint *word1, const uint *word2, int whole, uint x, uint y, uint width,
                      uint height) {
    uint cols1 = along(width, 1), cells1 = cols1 * along(height, 1);
    uint cols2 = along(width, 2), cells2 = cols2 * along(height, 2);
    __global uint *cell = low + (y >> 1) * cols1 + (x >> 1);
    for (uint c = 0; c < BANDS; ++c)
        for (uint qy = 0; qy < 2; ++qy) {
            __global uint *pair = cell + c * cells1 + qy * cols1;
            const uint *from = word1 + 2 * qy * BANDS + c;
            if (whole && (cols1 & 1u) == 0)
                *(__global uint2 *)pair = (uint2)(from[0], from[BANDS]);
            else
                for (uint qx = 0; qx < 2; ++qx)
                    if (whole || (x + 2 * qx < width && y + 2 * qy < height))
                        pair[qx] = from[qx * BANDS];
        }
    if (whole || (x < width && y < height))
        for (uint c = 0; c < BANDS; ++c)
            low[BANDS * cells1 + c * cells2 + (y >> 2) * cols2 + (x >> 2)] = word2[c];
}
#endif

// Levels 1 and 2 of one 4x4 block. Returns the leaves under it, were none of its ancestors a leaf.
inline uint reduce_block(const uint *rows, int whole, uint x, uint y, const rules_t *rules, uint *word2,
                         uchar2 *extent2, __global uint *low, __global uchar *flags) {
    uint width = rules->width, height = rules->height, flag = 0, count = 0;
    uint inside_x = whole ? 4u : min(4u, width - min(x, width));
    uint inside_y = whole ? 4u : min(4u, height - min(y, height));
    uint word1[4 * BANDS];
    uchar2 extent[BANDS];
    for (uint c = 0; c < BANDS; ++c) {
        word2[c] = 0;
        extent2[c] = NO_EXTENT;
    }
    for (uint q = 0; q < 4; ++q) {
        uint n = whole ? 4u : (uint)pixels_inside((x >> 1) + (q & 1u), (y >> 1) + (q >> 1), 1, width, height);
        reduce_quadrant(rows, q, inside_x, inside_y, word1 + q * BANDS, extent);
        for (uint c = 0; c < BANDS; ++c) {
            word2[c] += word1[q * BANDS + c];
#if CRITERION == RANGE
            extent2[c] = join_extents(extent2[c], extent[c]);
#endif
        }
        uint stop = n > 0 ? stops_narrow(word1 + q * BANDS, extent, 1, n, whole, rules) : 0u;
        flag |= stop << q;
        count += stop ? 1u : n;
    }
#if STORE_LOW
    store_low(low, word1, word2, whole, x, y, width, height);
#endif
    uint n = inside_x * inside_y;
    if (n > 0) {
        uint stop = stops_narrow(word2, extent2, 2, n, whole, rules);
        flags[(y >> 2) * along(width, 2) + (x >> 2)] = (uchar)(flag | stop << 4);
        count = stop ? 1u : count;
    }
    return count;
}

// Levels 1 to TILE_LEVEL of tiles of 2^TILE_LEVEL pixels a side.
//
// NDRange: one work-group of GROUP work-items a tile: of `list` if `listed`, else of the picture in row order.
// pixels: rows of `pitch` bytes from byte `origin`, CHANNELS bytes a pixel; width x height pixels are the picture.
// floor_level: nodes up to this level are leaves whatever they hold; top_level: the root's level, none is above.
// bound: the criterion's bound in fixed point (quadtree.h).
// low: with STORE_LOW, BANDS planes of level 1, then of level 2: narrow words. flags: a byte a node of level 2: bits 0 to
// 3, its children in Morton order stop a split; bit 4, it does. stats: levels 3 to TILE_LEVEL one after another, BANDS
// planes of wide words each. nodes: the same levels on: leaves under a node, and STOP where it stops a split.
// extents: with the range criterion, CHANNELS planes of (least, greatest) of level TILE_LEVEL.
// Local memory: 4 * BANDS + 4 bytes a block, 8 * BANDS + 4 a node above (about BLOCKS / 3); extents 2 * CHANNELS each.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_tiles(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint floor_level, uint top_level,
    ulong bound, __global uint *low, __global uchar *flags, __global ulong *stats, __global uint *nodes,
    __global uchar2 *extents, uint listed, __global const uint *list) {
    __local uint word2[BANDS * BLOCKS], count2[BLOCKS], count[WIDE_NODES];
    __local ulong wide[BANDS * WIDE_NODES];
#if CRITERION == RANGE
    __local uchar2 reach2[CHANNELS * BLOCKS], reach[CHANNELS * WIDE_NODES];
#endif
    const rules_t rules = {width, height, floor_level, top_level, bound};
    uint lid = get_local_id(0), tile_cols = along(width, TILE_LEVEL);
    uint tile = listed ? list[get_group_id(0)] : get_group_id(0);
    uint tile_x = tile % tile_cols, tile_y = tile / tile_cols;
    int whole = (tile_x + 1) << TILE_LEVEL <= width && (tile_y + 1) << TILE_LEVEL <= height;

    // Work-items go along the rows, for the sake of coalescing; slot b in local memory is the block's Morton code.
    for (uint i = lid; i < BLOCKS; i += GROUP) {
        uint bx = i & ((1u << (TILE_LEVEL - 2)) - 1), by = i >> (TILE_LEVEL - 2);
        uint b = spread_bits(bx) | spread_bits(by) << 1;
        uint x = (tile_x << TILE_LEVEL) + 4 * bx, y = (tile_y << TILE_LEVEL) + 4 * by;
        uint rows[4 * CHANNELS], words[BANDS];
        uchar2 extent2[BANDS];
        if (whole) {
            load_whole_block(pixels + origin + (ulong)y * pitch + x * CHANNELS, pitch, rows);
            count2[b] = reduce_block(rows, 1, x, y, &rules, words, extent2, low, flags);
        } else {
            load_block(pixels, origin, pitch, x, y, width, height, rows);
            count2[b] = reduce_block(rows, 0, x, y, &rules, words, extent2, low, flags);
        }
        for (uint c = 0; c < BANDS; ++c)
            word2[c * BLOCKS + b] = words[c];
#if CRITERION == RANGE
        for (uint c = 0; c < CHANNELS; ++c)
            reach2[c * BLOCKS + b] = extent2[c];
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint from = 0, to = 0, base = 0;
    for (uint level = 3; level <= TILE_LEVEL; ++level) {
        uint cols = along(width, level), cells = cols * along(height, level);
        uint here = BLOCKS >> (2 * level - 4);
        for (uint j = lid; j < here; j += GROUP) {
            ulong sum[BANDS], squares[BANDS], words[BANDS];
            uint leaves = 0;
            for (uint c = 0; c < BANDS; ++c) {
                ulong word = 0;
                for (uint i = 4 * j; i < 4 * j + 4; ++i)
                    word += level == 3 ? widened(word2[c * BLOCKS + i]) : wide[c * WIDE_NODES + from + i];
                wide[c * WIDE_NODES + to + j] = word;
                words[c] = word;
                sum[c] = word >> WIDE_SHIFT;
                squares[c] = word & WIDE_MASK;
            }
            for (uint i = 4 * j; i < 4 * j + 4; ++i)
                leaves += level == 3 ? count2[i] : count[from + i];
            uint x = (tile_x << (TILE_LEVEL - level)) + even_bits(j);
            uint y = (tile_y << (TILE_LEVEL - level)) + even_bits(j >> 1), node = y * cols + x;
            ulong n = whole ? 1UL << (2 * level) : pixels_inside(x, y, level, width, height);
#if CRITERION == RANGE
            uchar2 extent[CHANNELS];
            for (uint c = 0; c < CHANNELS; ++c) {
                extent[c] = NO_EXTENT;
                for (uint i = 4 * j; i < 4 * j + 4; ++i)
                    extent[c] = join_extents(extent[c], level == 3 ? reach2[c * BLOCKS + i]
                                                                   : reach[c * WIDE_NODES + from + i]);
                reach[c * WIDE_NODES + to + j] = extent[c];
                if (n > 0 && level == TILE_LEVEL)
                    extents[c * cells + node] = extent[c];
            }
            int uniform = uniform_extent(extent, bound);
#else
            int uniform = whole ? uniform_whole(sum, squares, level, bound)
                                : n > 0 && uniform_region(sum, squares, n, bound);
#endif
            if (n > 0) {
                int stop = level <= top_level && (level <= floor_level || uniform);
                leaves = stop ? 1u : leaves;
                nodes[base + node] = stop ? STOP | leaves : leaves;
                for (uint c = 0; c < BANDS; ++c)
                    stats[BANDS * base + c * cells + node] = words[c];
            }
            count[to + j] = leaves;
        }
        from = to;
        to += here;
        base += cells;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
