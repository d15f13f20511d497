/* The levels above the tiles, up to the root: Masina and Stedile, section 5.2; the paper finishes these on the host.
 *
 * Constants besides those of quadtree/quadtree.h: SPAN, the most levels of one launch; GROUP, the work-group size. */

#include "quadtree/quadtree.h"
#include "common/compile_hints.h"

/* Bands whose loads do not wait for one another; more would not fit the registers. Alone, as on CPUs, a work-item finds
 * them in its cache, and several would take a compiler longer than the levels take. */
#if GROUP == 1
#define AT_ONCE 1u
#else
#define AT_ONCE (BANDS < 4 ? BANDS : 4u)
#endif
#define FIRST_NODES (1u << (2 * SPAN - 2))
#define NODES (FIRST_NODES + FIRST_NODES / 3 + 1)

/* `levels` <= SPAN levels from `first` on, from the level below them.
 *
 * NDRange: one work-group of GROUP work-items per node of level first + SPAN - 1, in row order.
 * below: the statistics of level first - 1; with `packed`, BANDS planes of wide words, else 2 * BANDS planes: sums,
 * squares, sums, ... stats: 2 * BANDS planes of each level, one level after another. nodes: leaves under each node, and
 * STOP, from below_nodes_at on for the level below and from nodes_at on for these. extents: with the range criterion,
 * CHANNELS planes of (least, greatest) of each level, likewise. *_at: in elements.
 * Local memory: 16 * BANDS + 4 bytes per node of a group (NODES), and 2 * CHANNELS for extents. */
__kernel SMALL __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_upper(
    __global const ulong *below, uint below_at, uint packed, __global ulong *stats, uint stats_at, __global uint *nodes,
    uint below_nodes_at, uint nodes_at, __global uchar2 *extents, uint below_extents_at, uint extents_at, uint width,
    uint height, uint first, uint levels, uint floor_level, ulong bound)
{
    __local ulong2 pairs[BANDS * NODES];
    __local uint count[NODES];
#if CRITERION == RANGE
    __local uchar2 reach[CHANNELS * NODES];
#endif
    uint lid = get_local_id(0), group_cols = along(width, first + SPAN - 1);
    uint group_x = get_group_id(0) % group_cols, group_y = get_group_id(0) / group_cols;
    uint below_cols = along(width, first - 1), below_cells = below_cols * along(height, first - 1);
    uint from = 0, to = 0;
    for (uint s = 0; s < levels; ++s) {
        uint level = first + s, here = FIRST_NODES >> (2 * s);
        uint cols = along(width, level), cells = cols * along(height, level);
        for (uint j = lid; j < here; j += GROUP) {
            uint x = (group_x << (SPAN - 1 - s)) + even_bits(j), y = (group_y << (SPAN - 1 - s)) + even_bits(j >> 1);
            ulong n = pixels_inside(x, y, level, width, height);
            uint leaves = 0, node = y * cols + x;
            /* Loads of a child outside the picture go to child 0 and count for nothing: no load waits for another. */
            uint children[4], inside[4];
#pragma unroll
            for (uint q = 0; q < 4; ++q) {
                uint child_x = 2 * x + (q & 1u), child_y = 2 * y + (q >> 1);
                inside[q] = pixels_inside(child_x, child_y, level - 1, width, height) > 0;
                children[q] = s > 0 ? from + 4 * j + q : inside[q] ? child_y * below_cols + child_x : 0u;
            }
#pragma unroll
            for (uint q = 0; q < 4; ++q)
                leaves += inside[q] * ((s > 0 ? count[children[q]] : nodes[below_nodes_at + children[q]]) & COUNT_MASK);
            int whole = level <= WHOLE_LEVELS && n == 1UL << (2 * level);
            ulong limit = whole ? whole_limit(level, bound) : 0;
            ulong2 wide_limit = whole ? (ulong2)(0, 0) : deviation_limit(n, bound);
            verdict_t verdict = no_verdict();
            for (uint first_band = 0; first_band < BANDS; first_band += AT_ONCE) {
                ulong sum[AT_ONCE], squares[AT_ONCE];
#pragma unroll
                for (uint k = 0; k < AT_ONCE; ++k)
                    sum[k] = squares[k] = 0;
                uint many = min((uint)AT_ONCE, BANDS - first_band);
                if (s > 0) {
#pragma unroll
                    for (uint i = 0; i < 4 * AT_ONCE; ++i) {
                        if (i >> 2 >= many)
                            continue;
                        ulong2 pair = pairs[(first_band + (i >> 2)) * NODES + children[i & 3u]];
                        sum[i >> 2] += inside[i & 3u] * pair.x;
                        squares[i >> 2] += inside[i & 3u] * pair.y;
                    }
                } else if (packed) {
#pragma unroll
                    for (uint i = 0; i < 4 * AT_ONCE; ++i) {
                        if (i >> 2 >= many)
                            continue;
                        ulong word = below[below_at + (first_band + (i >> 2)) * below_cells + children[i & 3u]];
                        sum[i >> 2] += inside[i & 3u] * (word >> WIDE_SHIFT);
                        squares[i >> 2] += inside[i & 3u] * (word & WIDE_MASK);
                    }
                } else {
#pragma unroll
                    for (uint i = 0; i < 4 * AT_ONCE; ++i) {
                        if (i >> 2 >= many)
                            continue;
                        uint plane = below_at + 2 * (first_band + (i >> 2)) * below_cells;
                        sum[i >> 2] += inside[i & 3u] * below[plane + children[i & 3u]];
                        squares[i >> 2] += inside[i & 3u] * below[plane + below_cells + children[i & 3u]];
                    }
                }
#pragma unroll
                for (uint k = 0; k < AT_ONCE; ++k) {
                    uint c = first_band + k;
                    if (c >= BANDS)
                        continue;
                    pairs[c * NODES + to + j] = (ulong2)(sum[k], squares[k]);
                    if (n > 0) {
                        stats[stats_at + 2 * c * cells + node] = sum[k];
                        stats[stats_at + (2 * c + 1) * cells + node] = squares[k];
                    }
#if CRITERION == RANGE
                    uchar2 extent = NO_EXTENT;
#pragma unroll
                    for (uint q = 0; q < 4; ++q) {
                        uchar2 other = s > 0 ? reach[c * NODES + children[q]]
                                             : extents[below_extents_at + c * below_cells + children[q]];
                        extent = inside[q] ? join_extents(extent, other) : extent;
                    }
                    reach[c * NODES + to + j] = extent;
                    if (n > 0)
                        extents[extents_at + c * cells + node] = extent;
                    add_extent(&verdict, extent, bound);
#else
                    if (whole)
                        add_band(&verdict, c, (squares[k] << (2 * level)) - (ulong)(uint)sum[k] * (uint)sum[k], limit);
                    else
                        add_wide_band(&verdict, c, sum[k], squares[k], n, wide_limit);
#endif
                }
            }
            int uniform = n > 0 && (whole ? is_uniform(&verdict, limit) : is_uniform_wide(&verdict, wide_limit));
            uint entry = level <= floor_level || uniform ? STOP | 1u : leaves;
            count[to + j] = entry;
            if (n > 0)
                nodes[nodes_at + node] = entry;
        }
        from = to;
        to += here;
        nodes_at += cells;
        stats_at += 2 * BANDS * cells;
        extents_at += CHANNELS * cells;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
