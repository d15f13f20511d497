// The levels above the tiles, up to the root: Masina and Stedile, section 5.2; the paper finishes these on the host.
//
// Constants besides those of quadtree.h: SPAN, the most levels of one launch; GROUP, the work-group size.

#include "quadtree.h"

#define FIRST_NODES (1u << (2 * SPAN - 2))
#define NODES (FIRST_NODES + FIRST_NODES / 3 + 1)

// `levels` <= SPAN levels from `first` on, from the level below them.
//
// NDRange: one work-group of GROUP work-items a node of level first + SPAN - 1, in row order.
// below: the statistics of level first - 1; with `packed`, BANDS planes of wide words, else 2 * BANDS planes: sums,
// squares, sums, ... stats: 2 * BANDS planes of each level, one level after another. nodes: leaves under each node, and
// STOP, from below_nodes_at on for the level below and from nodes_at on for these. extents: with the range criterion,
// CHANNELS planes of (least, greatest) of each level, likewise. *_at: in elements.
// Local memory: 16 * BANDS + 4 bytes a node of a group (NODES), and 2 * CHANNELS for extents.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_upper(
    __global const ulong *below, uint below_at, uint packed, __global ulong *stats, uint stats_at,
    __global uint *nodes, uint below_nodes_at, uint nodes_at, __global uchar2 *extents, uint below_extents_at,
    uint extents_at, uint width, uint height, uint first, uint levels, uint floor_level, ulong bound) {
    __local ulong pairs[2 * BANDS * NODES];
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
            ulong sum[BANDS], squares[BANDS], n = pixels_inside(x, y, level, width, height);
            uint leaves = 0, node = y * cols + x;
            uchar2 extent[BANDS];
            for (uint c = 0; c < BANDS; ++c) {
                sum[c] = squares[c] = 0;
                extent[c] = NO_EXTENT;
            }
            // Loads of a child outside the picture go to child 0 and count for nothing: no load waits for another.
            uint children[4], inside[4];
            for (uint q = 0; q < 4; ++q) {
                uint child_x = 2 * x + (q & 1u), child_y = 2 * y + (q >> 1);
                inside[q] = pixels_inside(child_x, child_y, level - 1, width, height) > 0;
                children[q] = s > 0 ? from + 4 * j + q : inside[q] ? child_y * below_cols + child_x : 0u;
            }
            for (uint q = 0; q < 4; ++q)
                leaves += inside[q] * ((s > 0 ? count[children[q]] : nodes[below_nodes_at + children[q]]) & COUNT_MASK);
            if (s > 0) {
                for (uint i = 0; i < 4 * BANDS; ++i) {
                    uint c = i >> 2, q = i & 3u;
                    sum[c] += inside[q] * pairs[2 * (c * NODES + children[q])];
                    squares[c] += inside[q] * pairs[2 * (c * NODES + children[q]) + 1];
                }
            } else if (packed) {
                for (uint i = 0; i < 4 * BANDS; ++i) {
                    ulong word = below[below_at + (i >> 2) * below_cells + children[i & 3u]];
                    sum[i >> 2] += inside[i & 3u] * (word >> WIDE_SHIFT);
                    squares[i >> 2] += inside[i & 3u] * (word & WIDE_MASK);
                }
            } else {
                for (uint i = 0; i < 4 * BANDS; ++i) {
                    __global const ulong *plane = below + below_at + 2 * (i >> 2) * below_cells;
                    sum[i >> 2] += inside[i & 3u] * plane[children[i & 3u]];
                    squares[i >> 2] += inside[i & 3u] * plane[below_cells + children[i & 3u]];
                }
            }
#if CRITERION == RANGE
            for (uint i = 0; i < 4 * CHANNELS; ++i) {
                uint c = i >> 2, q = i & 3u;
                uchar2 other = s > 0 ? reach[c * NODES + children[q]]
                                     : extents[below_extents_at + c * below_cells + children[q]];
                extent[c] = inside[q] ? join_extents(extent[c], other) : extent[c];
            }
#endif
            int uniform = n > 0 && uniform_node(sum, squares, extent, level, n, bound);
            uint entry = level <= floor_level || uniform ? STOP | 1u : leaves;
            count[to + j] = entry;
            if (n > 0)
                nodes[nodes_at + node] = entry;
            for (uint c = 0; c < BANDS; ++c) {
                pairs[2 * (c * NODES + to + j)] = sum[c];
                pairs[2 * (c * NODES + to + j) + 1] = squares[c];
                if (n > 0) {
                    stats[stats_at + 2 * c * cells + node] = sum[c];
                    stats[stats_at + (2 * c + 1) * cells + node] = squares[c];
                }
            }
#if CRITERION == RANGE
            for (uint c = 0; c < CHANNELS; ++c) {
                reach[c * NODES + to + j] = extent[c];
                if (n > 0)
                    extents[extents_at + c * cells + node] = extent[c];
            }
#endif
        }
        from = to;
        to += here;
        nodes_at += cells;
        stats_at += 2 * BANDS * cells;
        extents_at += CHANNELS * cells;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
