// Levels 1 to 4 of a tile by one work-item, in explicit vectors: the form for CPUs, whose compilers do not vectorize
// across work-items. Same integers as reduce_cell in quadtree_tiles.cl; TILE_LEVEL is 6, not for the range criterion.
// After quadtree_blocks.h and quadtree_planes.h.
//
// Sums and sums of squares of levels 1 to 4 fit 32 bits, and so does n^2 times the variance: at level 4, of n = 256
// pixels, n * squares <= 256^2 * 255^2 < 2^32. A row of a level is BANDS planes of a word for every node across a tile.
//
// `whole` is a constant wherever it is passed: a tile at the picture's edge takes its pixels from a copy that is 0
// outside, and counts the pixels of every node.

#include "small.h"

#define ACROSS_1 32u
#define ACROSS_2 16u
#define ACROSS_3 8u

// Nodes of eight side by side, from (x, y) of `level` on, that are in the grid.
LANES_INLINE uint lanes_inside(uint x, uint y, uint level, int whole, const rules_t *rules) {
    uint cols = along(rules->width, level);
    return whole ? 8u : y < along(rules->height, level) ? min(8u, cols - min(x, cols)) : 0u;
}

// Pixels inside the picture of eight nodes side by side, from (x, y) of `level` on.
LANES_INLINE uint8 pixels_lanes(uint x, uint y, uint level, int whole, const rules_t *rules) {
    if (whole)
        return 1u << (2 * level);
    uint side = 1u << level, top = min(y << level, rules->height);
    uint8 left = min((x + (uint8)(0, 1, 2, 3, 4, 5, 6, 7)) << level, (uint8)rules->width);
    return min((uint8)rules->width - left, (uint8)side) * min(rules->height - top, side);
}

// Writes the first `count` words of a vector of statistics; all eight past the caches where the compiler can and the
// vectors of a plane are `aligned`, for nothing on the device reads them again.
LANES_INLINE void write_words(uint8 words, __global uint *at, uint count, int aligned) {
#ifdef __clang__
    if (count == 8 && aligned) {
        __builtin_nontemporal_store(words, (__global uint8 *)at);
        return;
    }
#endif
    if (count == 8)
        vstore8(words, 0, at);
    else {
        uint each[8];
        vstore8(words, 0, each);
        FEW_TURNS
        for (uint i = 0; i < count; ++i)
            at[i] = each[i];
    }
}

// All ones in the lanes of nodes of a level from 1 to 4, of n pixels each, that stop a split.
LANES_INLINE uint8 stops_lanes(const uint8 *sum, const uint8 *squares, uint8 n, uint level, int whole,
                               const rules_t *rules) {
    if (level > rules->top_level)
        return 0;
    uint8 there = whole ? (uint8)~0u : as_uint8(n > 0u);
    if (level <= rules->floor_level)
        return there;
    // Of n pixels: floor(bound * n^2 / 2^32), n^2 <= 2^16.
    ulong same = whole_limit(level, rules->bound);
    ulong8 n2 = convert_ulong8(n * n);
    ulong8 each = n2 * (rules->bound >> 32) + (n2 * (rules->bound & 0xFFFFFFFFUL) >> 32);
#if CRITERION == WEIGHTED
    ulong8 total = 0, limits = whole ? (ulong8)same : each;
#else
    uint8 limits = whole ? (uint8)(uint)min(same, 0xFFFFFFFFUL) : convert_uint8(min(each, (ulong8)0xFFFFFFFFUL));
    uint8 within = CRITERION == EVERY ? ~0u : 0u;
#endif
#if CRITERION == LUMA
#pragma unroll UNROLLED
    for (uint c = CHANNELS; c < BANDS; ++c) {
#else
#pragma unroll UNROLLED
    for (uint c = 0; c < CHANNELS; ++c) {
#endif
        uint8 v = (whole ? squares[c] << (2 * level) : squares[c] * n) - sum[c] * sum[c];
#if CRITERION == WEIGHTED
        total += convert_ulong8(v) * WEIGHTS[c];
#else
        within = CRITERION == EVERY ? within & as_uint8(v <= limits) : within | as_uint8(v <= limits);
#endif
    }
#if CRITERION == WEIGHTED
    return convert_uint8(as_ulong8(total <= limits)) & there;
#else
    return within & there;
#endif
}

// The level-1 row y of the tile, from node x on, of two rows of pixels; stores it, and gives back its words, which
// nodes stop a split and the leaves under them. Neighbours are the halves of a 32-bit lane; a square is below 2^16.
LANES_INLINE void reduce_rows(__global const uchar *first, uint pitch, const uchar *rows, uint x, uint y, int whole,
                              const rules_t *rules, uint *word1, uint *stop1, uint *count1, __global uint *low) {
    uint cols = along(rules->width, 1), cells = cols * along(rules->height, 1);
    for (uint i = 0; i < ACROSS_1; i += 8) {
        ushort16 above[BANDS], below[BANDS];
        uint8 sum[BANDS], squares[BANDS], n = pixels_lanes(x + i, y, 1, whole, rules);
        load_planes(first + 2 * i * CHANNELS, rows + 2 * i * CHANNELS, whole, above);
        load_planes(first + pitch + 2 * i * CHANNELS, rows + (SIDE + 2 * i) * CHANNELS, whole, below);
#pragma unroll UNROLLED
        for (uint c = 0; c < BANDS; ++c) {
            uint8 sums = as_uint8(above[c] + below[c]);
            uint8 high = as_uint8(above[c] * above[c]), deep = as_uint8(below[c] * below[c]);
            sum[c] = (sums & 0xFFFFu) + (sums >> 16);
            squares[c] = (high & 0xFFFFu) + (high >> 16) + (deep & 0xFFFFu) + (deep >> 16);
            uint8 word = (sum[c] << NARROW_SHIFT) + squares[c];
            vstore8(word, 0, word1 + c * ACROSS_1 + i);
#if STORE_LOW
            write_words(word, low + c * cells + y * cols + x + i, lanes_inside(x + i, y, 1, whole, rules),
                        (cols & 7u) == 0);
#endif
        }
        uint8 stop = stops_lanes(sum, squares, n, 1, whole, rules);
        vstore8(stop & 1u, 0, stop1 + i);
        vstore8(select(n, (uint8)1u, stop), 0, count1 + i);
    }
}

// Sums of the two nodes side by side and of those below them: eight of the next level, of sixteen of two rows.
LANES_INLINE uint8 merge_rows(const uint *upper, const uint *lower) {
    uint16 both = vload16(0, upper) + vload16(0, lower);
    return both.even + both.odd;
}

// The level-2 row y of the tile, from node x on: four rows of pixels from `first` on. Levels 1 and 2 are stored, words
// and leaves of level 2 given back.
LANES_INLINE void reduce_strip(__global const uchar *first, uint pitch, uint x, uint y, int whole, const rules_t *rules,
                               uint *word2, uint *count2, __global uint *low, __global uchar *flags) {
    uint cells1 = along(rules->width, 1) * along(rules->height, 1);
    uint cols2 = along(rules->width, 2), cells2 = cols2 * along(rules->height, 2);
    uint word1[2 * BANDS * ACROSS_1], stop1[2 * ACROSS_1], count1[2 * ACROSS_1];
    uchar rows[4 * SIDE * CHANNELS];
    if (!whole)
        copy_rows(first, pitch, 4 * x, 4 * y, rules->width, rules->height, rows);
    for (uint s = 0; s < 2; ++s)
        reduce_rows(first + 2 * s * pitch, pitch, rows + 2 * s * SIDE * CHANNELS, 2 * x, 2 * y + s, whole, rules,
                    word1 + s * BANDS * ACROSS_1, stop1 + s * ACROSS_1, count1 + s * ACROSS_1, low);
    for (uint i = 0; i < ACROSS_2; i += 8) {
        uint8 sum[BANDS], squares[BANDS], n = pixels_lanes(x + i, y, 2, whole, rules);
        uint at = y * cols2 + x + i, inside = lanes_inside(x + i, y, 2, whole, rules);
#pragma unroll UNROLLED
        for (uint c = 0; c < BANDS; ++c) {
            const uint *upper = word1 + c * ACROSS_1 + 2 * i;
            uint8 word = merge_rows(upper, upper + BANDS * ACROSS_1);
            sum[c] = word >> NARROW_SHIFT;
            squares[c] = word & NARROW_MASK;
            vstore8(word, 0, word2 + c * ACROSS_2 + i);
#if STORE_LOW
            write_words(word, low + BANDS * cells1 + c * cells2 + at, inside, ((cells1 | cols2) & 7u) == 0);
#endif
        }
        uint16 upper = vload16(0, stop1 + 2 * i), lower = vload16(0, stop1 + ACROSS_1 + 2 * i);
        uint8 stop = stops_lanes(sum, squares, n, 2, whole, rules);
        uchar8 flag = convert_uchar8(upper.even | upper.odd << 1 | lower.even << 2 | lower.odd << 3 | (stop & 16u));
        if (inside == 8)
            vstore8(flag, 0, flags + at);
        else {
            uchar each[8];
            vstore8(flag, 0, each);
            FEW_TURNS
            for (uint j = 0; j < inside; ++j)
                flags[at + j] = each[j];
        }
        uint8 leaves = merge_rows(count1 + 2 * i, count1 + ACROSS_1 + 2 * i);
        vstore8(select(leaves, (uint8)1u, stop), 0, count2 + i);
    }
}

// Stores four nodes side by side, from (x, y) of `level` on, whose words are sum and squares.
LANES_INLINE void store_four(const uint8 *sum, const uint8 *squares, uint4 entry, int high, uint x, uint y, uint level,
                             int whole, const rules_t *rules, __global ulong *stats, __global uint *nodes) {
    uint cols = along(rules->width, level), cells = cols * along(rules->height, level);
    uint inside = min(4u, lanes_inside(x, y, level, whole, rules)), at = y * cols + x;
    uint entries[4];
    ulong words[4];
    if (inside == 4)
        vstore4(entry, 0, nodes + at);
    else {
        vstore4(entry, 0, entries);
        FEW_TURNS
        for (uint i = 0; i < inside; ++i)
            nodes[at + i] = entries[i];
    }
    for (uint c = 0; c < BANDS; ++c) {
        uint4 sums = high ? sum[c].hi : sum[c].lo, totals = high ? squares[c].hi : squares[c].lo;
        ulong4 word = convert_ulong4(sums) << WIDE_SHIFT | convert_ulong4(totals);
        if (inside == 4)
            vstore4(word, 0, stats + c * cells + at);
        else {
            vstore4(word, 0, words);
            FEW_TURNS
            for (uint i = 0; i < inside; ++i)
                stats[c * cells + at + i] = words[i];
        }
    }
}

// Decides and stores eight nodes of level 3 or 4: four from (x, y) on, four from (next_x, next_y) on; gives back the
// leaves under them.
LANES_INLINE uint8 finish_lanes(const uint8 *sum, const uint8 *squares, uint8 leaves, uint x, uint y, uint next_x,
                                uint next_y, uint level, int whole, const rules_t *rules, __global ulong *stats,
                                __global uint *nodes) {
    uint8 n = (uint8)(pixels_lanes(x, y, level, whole, rules).lo, pixels_lanes(next_x, next_y, level, whole, rules).lo);
    uint8 stop = stops_lanes(sum, squares, n, level, whole, rules);
    leaves = select(leaves, (uint8)1u, stop);
    uint8 entry = leaves | (stop & STOP);
    store_four(sum, squares, entry.lo, 0, x, y, level, whole, rules, stats, nodes);
    store_four(sum, squares, entry.hi, 1, next_x, next_y, level, whole, rules, stats, nodes);
    return leaves;
}

// The level-3 row y of the tile, from node x on: its sums, squares and leaves.
LANES_INLINE uint8 reduce_row_3(__global const uchar *first, uint pitch, uint x, uint y, int whole,
                                const rules_t *rules, uint8 *sum, uint8 *squares, __global uint *low,
                                __global uchar *flags, __global ulong *stats, __global uint *nodes) {
    uint word2[2 * BANDS * ACROSS_2], count2[2 * ACROSS_2];
    for (uint s = 0; s < 2; ++s)
        reduce_strip(first + 4 * s * pitch, pitch, 2 * x, 2 * y + s, whole, rules, word2 + s * BANDS * ACROSS_2,
                     count2 + s * ACROSS_2, low, flags);
    for (uint c = 0; c < BANDS; ++c) {
        uint16 upper = vload16(0, word2 + c * ACROSS_2), lower = vload16(0, word2 + (BANDS + c) * ACROSS_2);
        uint16 sums = (upper >> NARROW_SHIFT) + (lower >> NARROW_SHIFT);
        uint16 totals = (upper & NARROW_MASK) + (lower & NARROW_MASK);
        sum[c] = sums.even + sums.odd;
        squares[c] = totals.even + totals.odd;
    }
    return finish_lanes(sum, squares, merge_rows(count2, count2 + ACROSS_2), x, y, x + 4, y, 3, whole, rules, stats,
                        nodes);
}

// Levels 1 to 4 of the tile at (x, y): words and leaves of its nodes of level 4 at their Morton codes.
LANES_INLINE void reduce_tile(__global const uchar *pixels, ulong origin, uint pitch, uint x, uint y, int whole,
                              const rules_t *rules, __local ulong *wide, __local uint *count, __global uint *low,
                              __global uchar *flags, __global ulong *stats, __global uint *nodes) {
    uint cells3 = along(rules->width, 3) * along(rules->height, 3);
    for (uint pair = 0; pair < 2; ++pair) {
        // Two rows of level 4, of four rows of level 3.
        uint sums[2 * BANDS * ACROSS_2], squares[2 * BANDS * ACROSS_2], leaves[2 * ACROSS_2];
        for (uint r = 0; r < 4; ++r) {
            uint8 sum3[BANDS], squares3[BANDS];
            uint row = 4 * pair + r, at = (r & 1u) * ACROSS_2 + (r >> 1) * ACROSS_3;
            __global const uchar *first = pixels + origin + (ulong)(y + 8 * row) * pitch + x * CHANNELS;
            uint8 leaves3 = reduce_row_3(first, pitch, x >> 3, (y >> 3) + row, whole, rules, sum3, squares3, low, flags,
                                         stats, nodes);
            vstore8(leaves3, 0, leaves + at);
            for (uint c = 0; c < BANDS; ++c) {
                vstore8(sum3[c], 0, sums + 2 * c * ACROSS_2 + at);
                vstore8(squares3[c], 0, squares + 2 * c * ACROSS_2 + at);
            }
        }
        uint8 sum4[BANDS], squares4[BANDS];
        for (uint c = 0; c < BANDS; ++c) {
            sum4[c] = merge_rows(sums + 2 * c * ACROSS_2, sums + (2 * c + 1) * ACROSS_2);
            squares4[c] = merge_rows(squares + 2 * c * ACROSS_2, squares + (2 * c + 1) * ACROSS_2);
            ulong8 words = convert_ulong8(sum4[c]) << WIDE_SHIFT | convert_ulong8(squares4[c]);
            vstore8(words.s01452367, 0, wide + c * WIDE_NODES + 8 * pair);
        }
        uint8 leaves4 = finish_lanes(sum4, squares4, merge_rows(leaves, leaves + ACROSS_2), x >> 4, (y >> 4) + 2 * pair,
                                     x >> 4, (y >> 4) + 2 * pair + 1, 4, whole, rules, stats + BANDS * cells3,
                                     nodes + cells3);
        vstore8(leaves4.s01452367, 0, count + 8 * pair);
    }
}
