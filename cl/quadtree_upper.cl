// The levels above the tiles, up to the root: Masina and Stedile, section 5.2; the paper finishes these on the host.

#include "quadtree.h"

// One level from the level below it.
//
// NDRange: one work-item a node of `level`; any work-group size.
// below: the statistics of the level below; with `packed`, BANDS planes of wide words, else 2 * BANDS planes: sums,
// squares, sums, ... stats: 2 * BANDS planes of this level's. below_nodes, nodes: leaves under each node, and STOP.
// below_extents, extents: with the range criterion, CHANNELS planes of (least, greatest).
// *_at: where the level begins in its buffer, in elements (of nodes for the nodes, of words for the statistics).
__kernel void quadtree_upper(__global const ulong *below, uint below_at, uint packed, __global ulong *stats,
                             uint stats_at, __global uint *nodes, uint below_nodes_at, uint nodes_at,
                             __global uchar2 *extents, uint below_extents_at, uint extents_at, uint width, uint height,
                             uint level, uint floor_level, ulong bound) {
    uint cols = along(width, level), cells = cols * along(height, level);
    uint below_cols = along(width, level - 1), below_cells = below_cols * along(height, level - 1);
    uint node = get_global_id(0), x = node % cols, y = node / cols, leaves = 0;
    if (node >= cells)
        return;
    ulong sum[BANDS], squares[BANDS];
    uchar2 extent[CHANNELS];
    for (uint c = 0; c < BANDS; ++c)
        sum[c] = squares[c] = 0;
    for (uint c = 0; c < CHANNELS; ++c)
        extent[c] = NO_EXTENT;
    for (uint q = 0; q < 4; ++q) {
        uint child_x = 2 * x + (q & 1u), child_y = 2 * y + (q >> 1), child = child_y * below_cols + child_x;
        if (pixels_inside(child_x, child_y, level - 1, width, height) == 0)
            continue;
        leaves += nodes[below_nodes_at + child] & COUNT_MASK;
        for (uint c = 0; c < BANDS; ++c) {
            if (packed) {
                ulong word = below[below_at + c * below_cells + child];
                sum[c] += word >> WIDE_SHIFT;
                squares[c] += word & WIDE_MASK;
            } else {
                sum[c] += below[below_at + 2 * c * below_cells + child];
                squares[c] += below[below_at + (2 * c + 1) * below_cells + child];
            }
        }
#if CRITERION == RANGE
        for (uint c = 0; c < CHANNELS; ++c)
            extent[c] = join_extents(extent[c], extents[below_extents_at + c * below_cells + child]);
#endif
    }
#if CRITERION == RANGE
    for (uint c = 0; c < CHANNELS; ++c)
        extents[extents_at + c * cells + node] = extent[c];
    int uniform = uniform_extent(extent, bound);
#else
    int uniform = uniform_region(sum, squares, pixels_inside(x, y, level, width, height), bound);
#endif
    nodes[nodes_at + node] = level <= floor_level || uniform ? STOP | 1u : leaves;
    for (uint c = 0; c < BANDS; ++c) {
        stats[stats_at + 2 * c * cells + node] = sum[c];
        stats[stats_at + (2 * c + 1) * cells + node] = squares[c];
    }
}
