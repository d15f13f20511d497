/* Top-down building: statistics of whole tiles, and of the leaves of a finished list.
 * Masina and Stedile, section 2.1, Algorithm 1: a region's statistics come from its pixels, not from its children. */

/* Constants besides those of quadtree/quadtree.h: ALIGNED (quadtree/pixels.h); GROUP, the work-group size; LANES, 1 for
 * the form in explicit vectors (quadtree/planes.h; GROUP is 1 then, TILE_LEVEL 6, and the criterion not that of the
 * range). */

#include "quadtree/quadtree.h"
#include "quadtree/pixels.h"

#define BLOCKS (1u << (2 * TILE_LEVEL - 4))
#define LEAF_WORDS (3 + (CHANNELS + 3) / 4)

#if LANES
#include "quadtree/planes.h"

/* Sums and sums of squares of the tile at (x, y) whose first byte is `first`. A lane adds up 512 pixels: squares stay
 * below 2^25. Neighbours are the halves of a 32-bit lane; a square is below 2^16. */
LANES_INLINE void add_tile(__global const uchar *first, uint pitch, uint x, uint y, int whole, uint width, uint height,
                           ulong *sum, ulong *squares)
{
    uint8 sums[BANDS], totals[BANDS];
    uchar rows[4 * SIDE * CHANNELS];
    for (uint c = 0; c < BANDS; ++c)
        sums[c] = totals[c] = 0;
    for (uint r = 0; r < SIDE; ++r) {
        if (!whole && (r & 3u) == 0)
            copy_rows(first + r * pitch, pitch, x, y + r, width, height, rows);
        for (uint i = 0; i < SIDE; i += 16) {
            ushort16 plane[BANDS];
            load_planes(first + r * pitch + i * CHANNELS, rows + ((r & 3u) * SIDE + i) * CHANNELS, whole, plane);
#pragma unroll
            for (uint c = 0; c < BANDS; ++c) {
                uint8 pair = as_uint8(plane[c]), squared = as_uint8(plane[c] * plane[c]);
                sums[c] += (pair & 0xFFFFu) + (pair >> 16);
                totals[c] += (squared & 0xFFFFu) + (squared >> 16);
            }
        }
    }
    for (uint c = 0; c < BANDS; ++c) {
        uint4 four = sums[c].lo + sums[c].hi, squared = totals[c].lo + totals[c].hi;
        sum[c] = four.x + four.y + four.z + four.w;
        squares[c] = (ulong)squared.x + squared.y + squared.z + squared.w;
    }
}
#endif

#if !LANES && CHANNELS <= 4
/* Wide word of band c over a 4x4 block of which `columns` by `height` pixels from its corner on are in the picture;
 * `extent` is joined with its extent. `zero`: see row_value. */
inline ulong block_word(const uint *rows, uint c, uint columns, uint height, uint zero, uchar2 *extent)
{
    uint word = 0;
#pragma unroll
    for (uint p = 0; p < 16; ++p) {
        uint v = row_value(rows, CHANNELS, p >> 2, p & 3u, c, zero);
        word += v * (v + (1u << NARROW_SHIFT));
#if CRITERION == RANGE
        if ((p & 3u) < columns && (p >> 2) < height)
            *extent = join_extents(*extent, (uchar2)(v, v));
#endif
    }
    return widened(word);
}
#endif

/* Statistics of every tile of 2^TILE_LEVEL pixels per side, nothing of what is under it.
 *
 * NDRange: one work-group of GROUP work-items per tile, in row order. pixels, origin, pitch, width, height,
 * floor_level, top_level, bound: as quadtree_tiles. stats, nodes, extents: level TILE_LEVEL alone, from stats_at and
 * nodes_at on, laid out as quadtree_tiles does; a node that is to be split counts no leaves yet.
 * Local memory: 8 * BANDS + 2 * CHANNELS bytes per work-item. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_totals(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint floor_level, uint top_level,
    ulong bound, __global ulong *stats, uint stats_at, __global uint *nodes, uint nodes_at, __global uchar2 *extents)
{
    __local ulong partial[BANDS * GROUP];
#if CRITERION == RANGE
    __local uchar2 reach[CHANNELS * GROUP];
#endif
    uint lid = get_local_id(0), cols = along(width, TILE_LEVEL), cells = cols * along(height, TILE_LEVEL);
    uint node = get_group_id(0), tile_x = node % cols, tile_y = node / cols;
#if LANES
    uint x = tile_x << TILE_LEVEL, y = tile_y << TILE_LEVEL;
    __global const uchar *first = pixels + origin + (ulong)y * pitch + (ulong)x * CHANNELS;
    ulong sum[BANDS], squares[BANDS];
    if (x + SIDE <= width && y + SIDE <= height)
        add_tile(first, pitch, x, y, 1, width, height, sum, squares);
    else
        add_tile(first, pitch, x, y, 0, width, height, sum, squares);
    for (uint c = 0; c < BANDS; ++c)
        partial[c] = sum[c] << WIDE_SHIFT | squares[c];
#elif CHANNELS <= 4
    ulong word[BANDS];
    uchar2 extent[BANDS];
#pragma unroll
    for (uint c = 0; c < BANDS; ++c) {
        word[c] = 0;
        extent[c] = NO_EXTENT;
    }
    for (uint i = lid; i < BLOCKS; i += GROUP) {
        uint x = (tile_x << TILE_LEVEL) + 4 * (i & ((1u << (TILE_LEVEL - 2)) - 1));
        uint y = (tile_y << TILE_LEVEL) + 4 * (i >> (TILE_LEVEL - 2));
        uint rows[4 * CHANNELS];
        load_block(pixels, origin, pitch, x, y, width, height, rows);
#pragma unroll
        for (uint c = 0; c < BANDS; ++c)
            word[c] +=
                block_word(rows, c, width - min(x, width), height - min(y, height), (uint)(bound >> 60), extent + c);
    }
#pragma unroll
    for (uint c = 0; c < BANDS; ++c) {
        partial[c * GROUP + lid] = word[c];
#if CRITERION == RANGE
        reach[c * GROUP + lid] = extent[c];
#endif
    }
#else
    /* Band by band, for more would not fit the registers. */
    for (uint c = 0; c < BANDS; ++c) {
        ulong word = 0;
        uchar2 extent = NO_EXTENT;
        for (uint i = lid; i < BLOCKS; i += GROUP) {
            uint x = (tile_x << TILE_LEVEL) + 4 * (i & ((1u << (TILE_LEVEL - 2)) - 1));
            uint y = (tile_y << TILE_LEVEL) + 4 * (i >> (TILE_LEVEL - 2));
            for (uint p = 0; p < 16; ++p) {
                uint px = x + (p & 3u), py = y + (p >> 2);
                if (px < width && py < height) {
                    uint v = pixels[origin + (ulong)py * pitch + px * CHANNELS + c];
                    word += (ulong)v << WIDE_SHIFT | v * v;
#if CRITERION == RANGE
                    extent = join_extents(extent, (uchar2)(v, v));
#endif
                }
            }
        }
        partial[c * GROUP + lid] = word;
#if CRITERION == RANGE
        reach[c * GROUP + lid] = extent;
#endif
    }
#endif
#if !LANES
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = GROUP / 2; step > 0; step /= 2) {
        if (lid < step) {
            for (uint c = 0; c < BANDS; ++c)
                partial[c * GROUP + lid] += partial[c * GROUP + lid + step];
#if CRITERION == RANGE
            for (uint c = 0; c < CHANNELS; ++c)
                reach[c * GROUP + lid] = join_extents(reach[c * GROUP + lid], reach[c * GROUP + lid + step]);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
    if (lid == 0) {
        uint n = (uint)pixels_inside(tile_x, tile_y, TILE_LEVEL, width, height);
        ulong limit = small_limit(n, bound);
        verdict_t verdict = no_verdict();
        for (uint c = 0; c < BANDS; ++c) {
            stats[stats_at + c * cells + node] = partial[c * GROUP];
#if CRITERION == RANGE
            extents[c * cells + node] = reach[c * GROUP];
            add_extent(&verdict, reach[c * GROUP], bound);
#else
            add_word(&verdict, c, partial[c * GROUP], n, limit);
#endif
        }
        int stop = TILE_LEVEL <= top_level && (TILE_LEVEL <= floor_level || is_uniform(&verdict, limit));
        nodes[nodes_at + node] = stop ? STOP | 1u : 0u;
    }
}

/* Exact statistics of the leaves of a list: those of at most 4 pixels per side from the pixels, greater ones from the
 * levels' statistics.
 *
 * NDRange: one work-item a leaf, any work-group size. left, top: of this subtree in the picture. leaves: records as
 * quadtree_leaves writes them. stats, upper: as quadtree_leaves takes them. sums, squares: CHANNELS a leaf. */
__kernel void quadtree_leaf_sums(__global const uchar *pixels, ulong origin, uint pitch, uint width, uint height,
                                 uint left, uint top, __global const uint *leaves, uint count,
                                 __global const ulong *stats, __global const ulong *upper, __global ulong *sums,
                                 __global ulong *squares)
{
    uint leaf = get_global_id(0);
    if (leaf >= count)
        return;
    __global const uint *record = leaves + (ulong)leaf * LEAF_WORDS;
    uint x = record[0] - left, y = record[1] - top, size = record[2], level = 31 - clz(size);
    uint node = (y >> level) * along(width, level) + (x >> level), cells = along(width, level) * along(height, level);
    for (uint c = 0; c < CHANNELS; ++c) {
        ulong sum = 0, total2 = 0;
        if (level <= 2) {
            for (uint py = y; py < min(y + size, height); ++py)
                for (uint px = x; px < min(x + size, width); ++px) {
                    uint v = pixels[origin + (ulong)py * pitch + px * CHANNELS + c];
                    sum += v;
                    total2 += v * v;
                }
        } else if (level <= TILE_LEVEL) {
            ulong word = stats[BANDS * level_base(width, height, 3, level) + c * cells + node];
            sum = word >> WIDE_SHIFT;
            total2 = word & WIDE_MASK;
        } else {
            __global const ulong *plane =
                upper + 2 * (BANDS * level_base(width, height, TILE_LEVEL + 1, level) + c * cells);
            sum = plane[node];
            total2 = plane[cells + node];
        }
        sums[(ulong)leaf * CHANNELS + c] = sum;
        squares[(ulong)leaf * CHANNELS + c] = total2;
    }
}
