#include "quadtree.h"
#include "quadtree_pixels.h"

#define BLOCKS (1u << (2 * TILE_LEVEL - 4))
#define SLOTS (1u << (2 * TILE_LEVEL))
#define MEAN_WORDS ((CHANNELS + 3) / 4)
#define RECORD_WORDS (3 + MEAN_WORDS)

// Leaves under a 4x4 block whose flags are `flag`, were none of its ancestors a leaf.
inline uint block_leaves(uint flag, int whole, uint x, uint y, uint width, uint height) {
    if (flag & 16u)
        return 1;
    if (whole)
        return 16u - 3u * popcount(flag);
    uint leaves = 0;
    for (uint q = 0; q < 4; ++q) {
        uint n = (uint)pixels_inside((x >> 1) + (q & 1u), (y >> 1) + (q >> 1), 1, width, height);
        leaves += (flag >> q & 1u) ? 1u : n;
    }
    return leaves;
}

// Leaves that come before the node (x, y) of `level` under its parent, in Morton order.
inline uint earlier_siblings(__global const uint *grid, uint x, uint y, uint cols) {
    uint first = (y & ~1u) * cols + (x & ~1u), leaves = 0;
    if (x & 1u)
        leaves += grid[first + (y & 1u) * cols] & COUNT_MASK;
    if (y & 1u) {
        leaves += grid[first] & COUNT_MASK;
        if ((x | 1u) < cols)
            leaves += grid[first + 1] & COUNT_MASK;
    }
    return leaves;
}

// Mean of channel sums over n pixels, rounded half up.
inline uint rounded_mean(ulong sum, ulong n) {
    return n <= 16 ? (2 * (uint)sum + (uint)n) / (2 * (uint)n) : (uint)((2 * sum + n) / (2 * n));
}

// Mean word `w` (channels 4w to 4w + 3) of the node (x, y) of `level` >= 3, from the statistics.
inline uint node_mean(__global const ulong *stats, __global const ulong *upper, uint x, uint y, uint level, uint w,
                      uint width, uint height) {
    uint cells = along(width, level) * along(height, level);
    uint node = y * along(width, level) + x, word = 0;
    ulong n = pixels_inside(x, y, level, width, height);
    for (uint c = 4 * w; c < min(4 * w + 4, (uint)CHANNELS); ++c) {
        ulong sum = level <= TILE_LEVEL
                        ? stats[BANDS * level_base(width, height, 3, level) + c * cells + node] >> WIDE_SHIFT
                        : upper[2 * (BANDS * level_base(width, height, TILE_LEVEL + 1, level) + c * cells) + node];
        word |= rounded_mean(sum, n) << (8 * (c & 3u));
    }
    return word;
}

// Mean word `w` over the pixels of a block from column px and row py, `side` by `side`, of which n lie inside.
inline uint block_mean(const uint *rows, uint px, uint py, uint side, uint n, uint w) {
    uint word = 0;
    for (uint c = 4 * w; c < min(4 * w + 4, (uint)CHANNELS); ++c) {
        uint sum = 0;
        for (uint i = 0; i < side * side; ++i)
            sum += block_value(rows, py + i / side, px + i % side, c);
        word |= rounded_mean(sum, n) << (8 * (c & 3u));
    }
    return word;
}

// One leaf of a tile, kept until the tile's leaves are written side by side: its place and level, and its means.
inline uint tile_place(uint x, uint y, uint level) {
    return level << 12 | y << 6 | x;
}

// Collects the leaves of the 4x4 block at column bx, row by (in pixels, from the tile's corner) into `slot` onward.
inline void collect_block(const uint *rows, uint flag, int whole, uint x, uint y, uint width, uint height,
                          uint slot, __local ushort *places, __local uint *means) {
    uint bx = x & ((1u << TILE_LEVEL) - 1), by = y & ((1u << TILE_LEVEL) - 1);
    if (flag & 16u) {
        places[slot] = tile_place(bx, by, 2);
        uint n = whole ? 16u : (uint)pixels_inside(x >> 2, y >> 2, 2, width, height);
        for (uint w = 0; w < MEAN_WORDS; ++w)
            means[w * SLOTS + slot] = whole ? block_mean(rows, 0, 0, 4, 16, w) : block_mean(rows, 0, 0, 4, n, w);
        return;
    }
    for (uint q = 0; q < 4; ++q) {
        uint qx = 2 * (q & 1u), qy = q & 2u;
        uint n = whole ? 4u : (uint)pixels_inside((x + qx) >> 1, (y + qy) >> 1, 1, width, height);
        if (n > 0 && (flag >> q & 1u)) {
            places[slot] = tile_place(bx + qx, by + qy, 1);
            for (uint w = 0; w < MEAN_WORDS; ++w)
                means[w * SLOTS + slot] = whole ? block_mean(rows, qx, qy, 2, 4, w) : block_mean(rows, qx, qy, 2, n, w);
            ++slot;
        } else if (n > 0)
            for (uint p = 0; p < 4; ++p) {
                uint px = qx + (p & 1u), py = qy + (p >> 1);
                if (whole || (x + px < width && y + py < height)) {
                    places[slot] = tile_place(bx + px, by + py, 0);
                    for (uint w = 0; w < MEAN_WORDS; ++w)
                        means[w * SLOTS + slot] = block_mean(rows, px, py, 1, 1, w);
                    ++slot;
                }
            }
    }
}

// The leaves in Morton order.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_leaves(__global const uchar *pixels, ulong origin, uint pitch, uint width, uint height,
                              uint left, uint top, uint last_level, __global const uchar *flags,
                              __global const ulong *stats, __global const ulong *upper, __global const uint *nodes,
                              __global uint *leaves) {
    __local uint before[32], leaf_at[32];
    __local ushort places[SLOTS];
    __local uint means[MEAN_WORDS * SLOTS];
    uint lid = get_local_id(0);
    const uint group = GROUP;
    uint tile_cols = along(width, TILE_LEVEL);
    uint tile_x = get_group_id(0) % tile_cols, tile_y = get_group_id(0) / tile_cols;
    int whole = (tile_x + 1) << TILE_LEVEL <= width && (tile_y + 1) << TILE_LEVEL <= height;

    for (uint level = TILE_LEVEL + lid; level <= last_level; level += group) {
        uint cols = along(width, level);
        uint x = tile_x >> (level - TILE_LEVEL), y = tile_y >> (level - TILE_LEVEL);
        __global const uint *grid = nodes + level_base(width, height, 3, level);
        leaf_at[level] = grid[y * cols + x];
        before[level] = level < last_level ? earlier_siblings(grid, x, y, cols) : 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint tile_offset = 0, covering = 0, tile_leaves = leaf_at[TILE_LEVEL] & COUNT_MASK;
    for (uint level = last_level; level >= TILE_LEVEL && covering == 0; --level) {
        tile_offset += before[level];
        covering = leaf_at[level] & STOP ? level : 0u;
    }
    __global uint *record = leaves + (ulong)tile_offset * RECORD_WORDS;
    if (covering > 0) {
        uint shift = covering - TILE_LEVEL, nx = tile_x >> shift, ny = tile_y >> shift;
        tile_leaves = 0;
        if (lid == 0 && nx << shift == tile_x && ny << shift == tile_y) {
            record[0] = left + (nx << covering);
            record[1] = top + (ny << covering);
            record[2] = 1u << covering;
            for (uint w = 0; w < MEAN_WORDS; ++w)
                record[3 + w] = node_mean(stats, upper, nx, ny, covering, w, width, height);
        }
    }
    for (uint b = lid; b < BLOCKS && covering == 0; b += group) {
        uint x = (tile_x << (TILE_LEVEL - 2)) + even_bits(b), y = (tile_y << (TILE_LEVEL - 2)) + even_bits(b >> 1);
        uint slot = 0, leaf = 0;
        if (4 * x >= width || 4 * y >= height)
            continue;
        for (uint level = TILE_LEVEL - 1; level >= 3 && leaf == 0; --level) {
            uint cols = along(width, level), nx = x >> (level - 2), ny = y >> (level - 2);
            __global const uint *grid = nodes + level_base(width, height, 3, level);
            slot += earlier_siblings(grid, nx, ny, cols);
            leaf = grid[ny * cols + nx] & STOP ? level : 0u;
        }
        if (leaf > 0) {
            uint mask = (1u << (leaf - 2)) - 1u;
            if ((x & mask) == 0 && (y & mask) == 0) {
                places[slot] = tile_place(4 * even_bits(b), 4 * even_bits(b >> 1), leaf);
                for (uint w = 0; w < MEAN_WORDS; ++w)
                    means[w * SLOTS + slot] =
                        node_mean(stats, upper, x >> (leaf - 2), y >> (leaf - 2), leaf, w, width, height);
            }
            continue;
        }
        uint cols2 = along(width, 2);
        for (uint q = 0; q < ((y & 1u) << 1 | (x & 1u)); ++q) {
            uint sx = (x & ~1u) + (q & 1u), sy = (y & ~1u) + (q >> 1);
            if (sx < cols2)
                slot += block_leaves(flags[sy * cols2 + sx], whole, 4 * sx, 4 * sy, width, height);
        }
        uint rows[4 * CHANNELS], flag = flags[y * cols2 + x];
        if (whole) {
            load_whole_block(pixels + origin + (ulong)(4 * y) * pitch + 4 * x * CHANNELS, pitch, rows);
            collect_block(rows, flag, 1, 4 * x, 4 * y, width, height, slot, places, means);
        } else {
            load_block(pixels, origin, pitch, 4 * x, 4 * y, width, height, rows);
            collect_block(rows, flag, 0, 4 * x, 4 * y, width, height, slot, places, means);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint corner_x = left + (tile_x << TILE_LEVEL), corner_y = top + (tile_y << TILE_LEVEL);
    for (uint slot = lid; slot < tile_leaves; slot += group) {
        uint place = places[slot];
        uint x = corner_x + (place & 63u), y = corner_y + (place >> 6 & 63u), size = 1u << (place >> 12);
#if RECORD_WORDS == 4
        ((__global uint4 *)record)[slot] = (uint4)(x, y, size, means[slot]);
#else
        __global uint *here = record + slot * RECORD_WORDS;
        here[0] = x;
        here[1] = y;
        here[2] = size;
        for (uint w = 0; w < MEAN_WORDS; ++w)
            here[3 + w] = means[w * SLOTS + slot];
#endif
    }
}
