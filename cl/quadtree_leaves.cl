// The leaves of a reduced quadtree as a list in Morton order, without sorting, scanning or atomics: how many leaves lie
// under every node is known, so a leaf's place is the sum over its ancestors of the counts of their earlier siblings.
//
// Constants besides those of quadtree.h: ALIGNED (quadtree_pixels.h); LEAF_LEVEL (3 to TILE_LEVEL), side of the squares
// whose leaves one work-group gathers; GROUP, the work-group size; SERIAL, 1 for the form in which one work-item writes
// the leaves of a square one after another (quadtree_leaves_serial.h; GROUP is 1 then).

#include "quadtree.h"
#include "quadtree_pixels.h"

#define BLOCKS (1u << (2 * LEAF_LEVEL - 4))
#define SLOTS (1u << (2 * LEAF_LEVEL))
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
    uint first = (y & ~1u) * cols + (x & ~1u), second = (x | 1u) < cols;
    // Loaded whether they count or not, so that no load waits for another.
    uint left = grid[first + (y & 1u) * cols], above = grid[first], beside = grid[first + second];
    return (x & 1u) * (left & COUNT_MASK) + (y & 1u) * ((above & COUNT_MASK) + second * (beside & COUNT_MASK));
}

// Mean of a channel sum over n pixels, rounded half up; in 32 bits where 2 * 255 * n + n fits.
inline uint rounded_mean(ulong sum, ulong n) {
    return n < 1 << 22 ? (2 * (uint)sum + (uint)n) / (2 * (uint)n) : (uint)((2 * sum + n) / (2 * n));
}

// Mean word `w` (channels 4w to 4w + 3) of the node (x, y) of `level` >= 3, from the statistics.
inline uint node_mean(__global const ulong *stats, __global const ulong *upper, int whole, uint x, uint y, uint level,
                      uint w, uint width, uint height) {
    uint cells = along(width, level) * along(height, level);
    uint node = y * along(width, level) + x, word = 0;
    if (whole && level <= TILE_LEVEL) {
        __global const ulong *plane = stats + BANDS * level_base(width, height, 3, level) + node;
        for (uint c = 4 * w; c < min(4 * w + 4, (uint)CHANNELS); ++c) {
            uint sum = (uint)(plane[c * cells] >> WIDE_SHIFT);
            word |= ((sum + (1u << (2 * level - 1))) >> (2 * level)) << (8 * (c & 3u));
        }
        return word;
    }
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

// A leaf's place in its square and its level, kept until the square's leaves are written side by side.
inline uint square_place(uint x, uint y, uint level) {
    return level << 12 | y << 6 | x;
}

// Collects the places and mean words `w` of the leaves of the 4x4 block at column x, row y into `slot` onward.
inline void collect_words(const uint *rows, uint flag, int whole, uint x, uint y, uint width, uint height,
                          uint slot, uint w, __local ushort *places, __local uint *means) {
    uint bx = x & ((1u << LEAF_LEVEL) - 1), by = y & ((1u << LEAF_LEVEL) - 1);
    if (flag & 16u) {
        places[slot] = square_place(bx, by, 2);
        uint n = whole ? 16u : (uint)pixels_inside(x >> 2, y >> 2, 2, width, height);
        means[w * SLOTS + slot] = whole ? block_mean(rows, 0, 0, 4, 16, w) : block_mean(rows, 0, 0, 4, n, w);
        return;
    }
    for (uint q = 0; q < 4; ++q) {
        uint qx = 2 * (q & 1u), qy = q & 2u;
        uint n = whole ? 4u : (uint)pixels_inside((x + qx) >> 1, (y + qy) >> 1, 1, width, height);
        if (n > 0 && (flag >> q & 1u)) {
            places[slot] = square_place(bx + qx, by + qy, 1);
            means[w * SLOTS + slot] = whole ? block_mean(rows, qx, qy, 2, 4, w) : block_mean(rows, qx, qy, 2, n, w);
            ++slot;
        } else if (n > 0)
            for (uint p = 0; p < 4; ++p) {
                uint px = qx + (p & 1u), py = qy + (p >> 1);
                if (whole || (x + px < width && y + py < height)) {
                    places[slot] = square_place(bx + px, by + py, 0);
                    means[w * SLOTS + slot] = block_mean(rows, px, py, 1, 1, w);
                    ++slot;
                }
            }
    }
}

// Collects the leaves of the 4x4 block at column x, row y. Word by word: with the loop over words inside the one over
// leaves, Intel's CPU compiler (2026.22) loses slots where there are two words.
inline void collect_block(const uint *rows, uint flag, int whole, uint x, uint y, uint width, uint height,
                          uint slot, __local ushort *places, __local uint *means) {
    for (uint w = 0; w < MEAN_WORDS; ++w)
        collect_words(rows, flag, whole, x, y, width, height, slot, w, places, means);
}

// Where the leaves of every square of 2^LEAF_LEVEL pixels a side begin in the list, and the level of the leaf that
// covers the square, or 0.
//
// NDRange: one work-item a square, in row order, any work-group size. width, height, nodes: as quadtree_tiles.
// last_level: the highest level in `nodes`, whose grid is one node. offsets: a pair of words a square.
__kernel void quadtree_offsets(uint width, uint height, uint last_level, __global const uint *nodes,
                               __global uint2 *offsets) {
    uint square_cols = along(width, LEAF_LEVEL), square = get_global_id(0);
    uint square_x = square % square_cols, square_y = square / square_cols;
    if (square >= square_cols * along(height, LEAF_LEVEL))
        return;
    uint offset = 0, covering = 0, base = level_base(width, height, 3, LEAF_LEVEL);
#pragma unroll 4
    for (uint level = LEAF_LEVEL; level <= last_level; ++level) {
        uint cols = along(width, level), x = square_x >> (level - LEAF_LEVEL), y = square_y >> (level - LEAF_LEVEL);
        uint stop = nodes[base + y * cols + x] >> 31;
        // What lies before within a covering leaf does not count.
        covering = stop ? level : covering;
        offset = (stop ? 0u : offset) + earlier_siblings(nodes + base, x, y, cols);
        base += cols * along(height, level);
    }
    offsets[square] = (uint2)(offset, covering);
}

#if SERIAL
#include "quadtree_leaves_serial.h"
#else
// The leaves' records: x, y, size (pixels), and the means rounded half up, a byte a channel, padded to whole words.
//
// NDRange: one work-group of GROUP work-items a square of 2^LEAF_LEVEL pixels a side, in row order.
// pixels, origin, pitch, width, height, flags, stats, nodes: as quadtree_tiles. left, top: of this subtree in the
// picture. offsets: from quadtree_offsets. upper: levels above TILE_LEVEL, 2 * BANDS planes each: sums, squares, sums,
// ... leaves: RECORD_WORDS words a leaf.
// Local memory: 2 + 4 * MEAN_WORDS bytes a pixel of the square, some 2 a block, and 256.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void quadtree_leaves(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint left, uint top,
    __global const uint2 *offsets, __global const uchar *flags, __global const ulong *stats,
    __global const ulong *upper, __global const uint *nodes, __global uint *leaves) {
    __local uint inner[BLOCKS / 3 + 1];
    __local uchar block_flags[BLOCKS];
    __local ushort places[SLOTS];
    __local uint means[MEAN_WORDS * SLOTS];
    uint lid = get_local_id(0), square_cols = along(width, LEAF_LEVEL), cols2 = along(width, 2);
    uint square_x = get_group_id(0) % square_cols, square_y = get_group_id(0) / square_cols;
    uint block_x = square_x << (LEAF_LEVEL - 2), block_y = square_y << (LEAF_LEVEL - 2);
    int whole = (square_x + 1) << LEAF_LEVEL <= width && (square_y + 1) << LEAF_LEVEL <= height;
    uint square = get_group_id(0), covering = offsets[square].y;
    uint square_leaves = nodes[level_base(width, height, 3, LEAF_LEVEL) + square] & COUNT_MASK;
    __global uint *record = leaves + (ulong)offsets[square].x * RECORD_WORDS;
    for (uint level = 3, start = 0; level < LEAF_LEVEL; start += BLOCKS >> (2 * level - 4), ++level) {
        uint cols = along(width, level), rows = along(height, level);
        __global const uint *grid = nodes + level_base(width, height, 3, level);
        for (uint j = lid; j < BLOCKS >> (2 * level - 4); j += GROUP) {
            uint x = (block_x >> (level - 2)) + even_bits(j), y = (block_y >> (level - 2)) + even_bits(j >> 1);
            inner[start + j] = whole || (x < cols && y < rows) ? grid[y * cols + x] : 0u;
        }
    }
    for (uint b = lid; b < BLOCKS; b += GROUP) {
        uint x = block_x + even_bits(b), y = block_y + even_bits(b >> 1);
        block_flags[b] = whole || (4 * x < width && 4 * y < height) ? flags[y * cols2 + x] : (uchar)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (covering > 0) {
        uint shift = covering - LEAF_LEVEL, nx = square_x >> shift, ny = square_y >> shift;
        square_leaves = 0;
        if (lid == 0 && nx << shift == square_x && ny << shift == square_y) {
            record[0] = left + (nx << covering);
            record[1] = top + (ny << covering);
            record[2] = 1u << covering;
            for (uint w = 0; w < MEAN_WORDS; ++w)
                record[3 + w] = node_mean(stats, upper, 0, nx, ny, covering, w, width, height);
        }
    }
    for (uint b = lid; b < BLOCKS && covering == 0; b += GROUP) {
        uint x = block_x + even_bits(b), y = block_y + even_bits(b >> 1), slot = 0, leaf = 0;
        if (!whole && (4 * x >= width || 4 * y >= height))
            continue;
        for (uint level = LEAF_LEVEL - 1, start = BLOCKS / 3 - 1; level >= 3 && leaf == 0; --level) {
            uint j = b >> (2 * level - 4);
            start -= BLOCKS >> (2 * level - 4);
            for (uint i = j & ~3u; i < j; ++i)
                slot += inner[start + i] & COUNT_MASK;
            leaf = inner[start + j] & STOP ? level : 0u;
        }
        if (leaf > 0) {
            if ((b & ((1u << (2 * leaf - 4)) - 1u)) == 0) {
                places[slot] = square_place(4 * even_bits(b), 4 * even_bits(b >> 1), leaf);
                for (uint w = 0; w < MEAN_WORDS; ++w)
                    means[w * SLOTS + slot] =
                        node_mean(stats, upper, whole, x >> (leaf - 2), y >> (leaf - 2), leaf, w, width, height);
            }
            continue;
        }
        for (uint i = b & ~3u; i < b; ++i) {
            uint sx = block_x + even_bits(i), sy = block_y + even_bits(i >> 1);
            slot += block_leaves(block_flags[i], whole, 4 * sx, 4 * sy, width, height);
        }
        uint rows[4 * CHANNELS];
        if (whole) {
            load_whole_block(pixels + origin + (ulong)(4 * y) * pitch + 4 * x * CHANNELS, pitch, rows);
            collect_block(rows, block_flags[b], 1, 4 * x, 4 * y, width, height, slot, places, means);
        } else {
            load_block(pixels, origin, pitch, 4 * x, 4 * y, width, height, rows);
            collect_block(rows, block_flags[b], 0, 4 * x, 4 * y, width, height, slot, places, means);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint corner_x = left + (square_x << LEAF_LEVEL), corner_y = top + (square_y << LEAF_LEVEL);
    for (uint slot = lid; slot < square_leaves; slot += GROUP) {
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
#endif
