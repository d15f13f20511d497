// The levels above the tiles in the launch of the tiles, for CPUs: who ends the last child of a node makes the node.
// The integers of quadtree/upper.cl; not for the range criterion. After quadtree_blocks.h.
//
// OpenCL C 1.2 does not promise that a fence reaches other work-groups, so this is for compilers whose own is known.

#include "common/compile_hints.h"

// Adds up band c of a node from its children, whose places in a plane of `below_cells` words are given: wide words
// of `stats`, or where that is null sums and squares apart in `upper`.
inline ulong2 add_children(__global const ulong *stats, __global const ulong *upper, uint below_cells, uint c,
                           const uint *children, uint many) {
    ulong2 total = 0;
    FEW_TURNS
    for (uint q = 0; q < many; ++q)
        if (stats) {
            ulong word = stats[c * below_cells + children[q]];
            total += (ulong2)(word >> WIDE_SHIFT, word & WIDE_MASK);
        } else
            total += (ulong2)(upper[2 * c * below_cells + children[q]], upper[(2 * c + 1) * below_cells + children[q]]);
    return total;
}

// From the tile (x, y) on up, as far as all children of a node are there. stats, nodes: of quadtree_tiles. upper:
// levels TILE_LEVEL + 1 to last_level one after another, 2 * BANDS planes each: sums, squares, sums, ... arrived: a
// word a node of these levels, 0 before and after the launch.
inline void climb(uint x, uint y, uint last_level, const rules_t *rules, __global ulong *stats, __global ulong *upper,
                  __global uint *nodes, __global uint *arrived) {
    uint width = rules->width, height = rules->height;
    uint below_at = level_base(width, height, 3, TILE_LEVEL);
    __global const ulong *tiles = stats + BANDS * below_at, *below = upper;
    for (uint level = TILE_LEVEL + 1; level <= last_level; ++level) {
        uint below_cols = along(width, level - 1), below_cells = below_cols * along(height, level - 1);
        uint cols = along(width, level), cells = cols * along(height, level);
        x >>= 1;
        y >>= 1;
        uint across = min(2u, below_cols - 2 * x), many = across * min(2u, along(height, level - 1) - 2 * y);
        uint node = y * cols + x;
        __sync_synchronize();
        if (atomic_inc(arrived + node) + 1 < many)
            return;
        __sync_synchronize();
        arrived[node] = 0;
        uint children[4], leaves = 0;
        FEW_TURNS
        for (uint q = 0; q < many; ++q) {
            children[q] = (2 * y + q / across) * below_cols + 2 * x + q % across;
            leaves += nodes[below_at + children[q]] & COUNT_MASK;
        }
        ulong n = pixels_inside(x, y, level, width, height);
        ulong2 limit = deviation_limit(n, rules->bound);
        verdict_t verdict = no_verdict();
        FEW_TURNS
        for (uint c = 0; c < BANDS; ++c) {
            ulong2 total = add_children(tiles, below, below_cells, c, children, many);
            upper[2 * c * cells + node] = total.x;
            upper[(2 * c + 1) * cells + node] = total.y;
            add_wide_band(&verdict, c, total.x, total.y, n, limit);
        }
        below_at += below_cells;
        nodes[below_at + node] = level <= rules->floor_level || is_uniform_wide(&verdict, limit) ? STOP | 1u : leaves;
        tiles = 0;
        below = upper;
        upper += 2 * BANDS * cells;
        arrived += cells;
    }
}
