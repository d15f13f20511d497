/* Levels 1 to 4 of tiles side by side by one work-item, in explicit vectors: the form for CPUs, whose compilers do not
 * vectorize across work-items. Same integers as reduce_cell in quadtree/tiles.cl; TILE_LEVEL is 6, not for the range
 * criterion. After quadtree/blocks.h and quadtree/planes.h.
 *
 * Sums and sums of squares of levels 1 to 4 fit 32 bits, and so does n^2 times the variance: at level 4, of n = 256
 * pixels, n * squares <= 256^2 * 255^2 < 2^32. A row of a level is BANDS planes of a word for every node across a tile.
 *
 * `whole` is a constant wherever it is passed for levels 1 to 3: a tile at the picture's edge takes its pixels from a
 * copy that is 0 outside, and counts the pixels of every node. */

#include "common/compile_hints.h"

#define ACROSS_1 32u
#define ACROSS_2 16u
#define ACROSS_3 8u

/* Nodes of `across` side by side, from (x, y) of `level` on, that are in the grid. */
LANES_INLINE uint nodes_inside(uint x, uint y, uint level, uint across, int whole, const params_t *params)
{
    uint cols = along(params->width, level);
    return whole ? across : y < along(params->height, level) ? min(across, cols - min(x, cols)) : 0u;
}

/* Pixels inside the picture of eight nodes side by side, from (x, y) of `level` on. */
LANES_INLINE uint8 pixels_lanes(uint x, uint y, uint level, int whole, const params_t *params)
{
    if (whole)
        return 1u << (2 * level);
    uint side = 1u << level, top = min(y << level, params->height);
    uint8 left = min((x + (uint8)(0, 1, 2, 3, 4, 5, 6, 7)) << level, (uint8)params->width);
    return min((uint8)params->width - left, (uint8)side) * min(params->height - top, side);
}

/* Asks for pixels before they are needed: the rows of a picture lie too far apart for processors to foresee that. On
 * PoCL alone: compilers on their way to SPIR-V may know no such thing. */
LANES_INLINE void fetch_ahead(__global const uchar *pixel)
{
#ifdef COMPILED_AT_LAUNCH
    __builtin_prefetch((const void *)(size_t)pixel, 0, 2);
#endif
}

/* Writes the first `count` words of a vector. Between other work: rows written at once keep pixels waiting. */
LANES_INLINE void write_words(uint8 words, __global uint *at, uint count)
{
    uint each[8];
    *(words_t *)each = words;
    if (count == 8)
        *(__global words_t *)at = words;
    else {
        FEW_TURNS
        for (uint i = 0; i < count; ++i)
            at[i] = each[i];
    }
}

/* What the bands of eight nodes of a level from 1 to 4 say together: of n^2 times their variances the greatest, the
 * least, or the sum with weights, below 2^52. */
#if CRITERION == WEIGHTED
typedef ulong8 lane_scores_t;
#else
typedef uint8 lane_scores_t;
#endif

/* Scores of bands up to c, of n pixels per node, from those of the bands before. */
LANES_INLINE lane_scores_t with_lanes(lane_scores_t scores, uint c, uint8 sum, uint8 squares, uint8 n, uint level,
                                      int whole)
{
    uint8 v = (whole ? squares << (2 * level) : squares * n) - sum * sum;
#if CRITERION == WEIGHTED
    return (c > 0 ? scores : (ulong8)0) + convert_ulong8(v) * WEIGHTS[c];
#elif CRITERION == ANY
    return c > 0 ? min(scores, v) : v;
#elif CRITERION == LUMA
    return v;
#else
    return c > 0 ? max(scores, v) : v;
#endif
}

/* All ones in the lanes of nodes of n pixels that stop a split: scores are compared with the least that does not, which
 * is 0 above the root and beyond all of them at levels that always stop. */
LANES_INLINE uint8 stops_lanes(lane_scores_t scores, uint8 n, uint level, int whole, const params_t *params)
{
    int never = level > params->top_level, always = level <= params->floor_level;
    ulong same = never ? 0UL : always ? ~0UL : whole_limit(level, params->bound) + 1;
    ulong8 limits = same;
    if (!whole) {
        /* Of n pixels: floor(bound * n^2 / 2^32), n^2 <= 2^16. */
        ulong8 n2 = convert_ulong8(n * n);
        ulong8 each = n2 * (params->bound >> 32) + (n2 * (params->bound & 0xFFFFFFFFUL) >> 32) + 1UL;
        limits = never || always ? same : each;
        limits = n2 > 0UL ? limits : 0UL;
    }
#if CRITERION == WEIGHTED
    return convert_uint8(as_ulong8(scores < limits));
#else
    return as_uint8(scores <
                    (whole ? (uint8)(uint)min(same, 0xFFFFFFFFUL) : convert_uint8(min(limits, (ulong8)0xFFFFFFFFUL))));
#endif
}

/* The level-1 row y of the tile, from node x on, of two rows of pixels, which is row s of its parents: its words and
 * marks, which are the leaves under a node in the low byte, and in the next one its bit among its parent's children if
 * it stops a split. */
LANES_INLINE void reduce_rows(__global const uchar *first, uint pitch, const uchar *rows, uint x, uint y, uint s,
                              int whole, const params_t *params, uint *word1, uint *marks, __global uint *low)
{
    uint cols = along(params->width, 1), cells = cols * along(params->height, 1);
    const uint8 bits = (uint8)(0x101, 0x201, 0x101, 0x201, 0x101, 0x201, 0x101, 0x201);
    for (uint i = 0; i < ACROSS_1; i += 8) {
        ushort16 above[BANDS], below[BANDS];
        uint8 n = pixels_lanes(x + i, y, 1, whole, params);
        lane_scores_t scores = 0;
        fetch_ahead(first + (SIDE + 2 * i) * CHANNELS);
        fetch_ahead(first + pitch + (SIDE + 2 * i) * CHANNELS);
        load_planes(first + 2 * i * CHANNELS, rows + 2 * i * CHANNELS, whole, above);
        load_planes(first + pitch + 2 * i * CHANNELS, rows + (SIDE + 2 * i) * CHANNELS, whole, below);
#pragma unroll UNROLLED
        for (uint c = 0; c < BANDS; ++c) {
            uint8 sum = dot_lanes(above[c] + below[c], 1);
            uint8 squares = dot_lanes(above[c], above[c]) + dot_lanes(below[c], below[c]);
            uint8 word = (sum << NARROW_SHIFT) + squares;
            *(words_t *)(word1 + c * ACROSS_1 + i) = word;
#if STORE_LOW
            write_words(word, low + c * cells + y * cols + x + i, nodes_inside(x + i, y, 1, 8, whole, params));
#endif
            scores = with_lanes(scores, c, sum, squares, n, 1, whole);
        }
        uint8 stop = stops_lanes(scores, n, 1, whole, params);
        *(words_t *)(marks + i) = select(n, s > 0 ? (bits << 2) - 3u : bits, stop);
    }
}

/* Sums of two words side by side, of sixteen. */
LANES_INLINE uint8 merge_pairs(const uint *words)
{
    uint8 left = ((const words_t *)words)[0], right = ((const words_t *)words)[1];
    return (uint8)(left.even, right.even) + (uint8)(left.odd, right.odd);
}

/* Sums of the two nodes side by side and of those below them: eight of the next level, of sixteen of two rows. */
LANES_INLINE uint8 merge_rows(const uint *upper, const uint *lower)
{
    uint8 left = ((const words_t *)upper)[0] + ((const words_t *)lower)[0];
    uint8 right = ((const words_t *)upper)[1] + ((const words_t *)lower)[1];
    return (uint8)(left.even, right.even) + (uint8)(left.odd, right.odd);
}

/* The level-2 row y of the tile, from node x on: four rows of pixels from `first` on. Levels 1 and 2 are stored, words
 * and leaves of level 2 given back. */
LANES_INLINE void reduce_strip(__global const uchar *first, uint pitch, uint x, uint y, int whole,
                               const params_t *params, uint *word2, uint *count2, __global uint *low,
                               __global uchar *flags)
{
    uint cells1 = along(params->width, 1) * along(params->height, 1);
    uint cols2 = along(params->width, 2), cells2 = cols2 * along(params->height, 2);
    uint word1[2 * BANDS * ACROSS_1], marks[2 * ACROSS_1];
    uchar rows[4 * SIDE * CHANNELS];
    if (!whole)
        copy_rows(first, pitch, 4 * x, 4 * y, params->width, params->height, rows);
    for (uint s = 0; s < 2; ++s)
        reduce_rows(first + 2 * s * pitch, pitch, rows + 2 * s * SIDE * CHANNELS, 2 * x, 2 * y + s, s, whole, params,
                    word1 + s * BANDS * ACROSS_1, marks + s * ACROSS_1, low);
    for (uint i = 0; i < ACROSS_2; i += 8) {
        uint8 n = pixels_lanes(x + i, y, 2, whole, params);
        lane_scores_t scores = 0;
        uint at = y * cols2 + x + i, inside = nodes_inside(x + i, y, 2, 8, whole, params);
#pragma unroll UNROLLED
        for (uint c = 0; c < BANDS; ++c) {
            const uint *upper = word1 + c * ACROSS_1 + 2 * i;
            uint8 word = merge_rows(upper, upper + BANDS * ACROSS_1);
            *(words_t *)(word2 + c * ACROSS_2 + i) = word;
#if STORE_LOW
            write_words(word, low + BANDS * cells1 + c * cells2 + at, inside);
#endif
            scores = with_lanes(scores, c, word >> NARROW_SHIFT, word & NARROW_MASK, n, 2, whole);
        }
        uint8 marked = merge_rows(marks + 2 * i, marks + ACROSS_1 + 2 * i);
        uint8 stop = stops_lanes(scores, n, 2, whole, params);
        uchar8 flag = convert_uchar8(marked >> 8 | (stop & 16u));
        if (inside == 8)
            *(__global flags_t *)(flags + at) = flag;
        else {
            uchar each[8];
            *(flags_t *)each = flag;
            FEW_TURNS
            for (uint j = 0; j < inside; ++j)
                flags[at + j] = each[j];
        }
        *(words_t *)(count2 + i) = select(marked & 0xFFu, (uint8)1u, stop);
    }
}

/* Stores four nodes side by side, from (x, y) of `level` on, whose words are sum and squares. */
LANES_INLINE void store_four(const uint8 *sum, const uint8 *squares, uint4 entry, int high, uint x, uint y, uint level,
                             int whole, const params_t *params, __global ulong *stats, __global uint *nodes)
{
    uint cols = along(params->width, level), cells = cols * along(params->height, level);
    uint inside = nodes_inside(x, y, level, 4, whole, params), at = y * cols + x;
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

/* Decides and stores eight nodes of level 3 or 4: four from (x, y) on, four from (next_x, next_y) on; gives back the
 * leaves under them. */
LANES_INLINE uint8 finish_lanes(const uint8 *sum, const uint8 *squares, uint8 leaves, uint x, uint y, uint next_x,
                                uint next_y, uint level, int whole, const params_t *params, __global ulong *stats,
                                __global uint *nodes)
{
    uint8 n =
        (uint8)(pixels_lanes(x, y, level, whole, params).lo, pixels_lanes(next_x, next_y, level, whole, params).lo);
    lane_scores_t scores = 0;
#pragma unroll UNROLLED
    for (uint c = 0; c < BANDS; ++c)
        scores = with_lanes(scores, c, sum[c], squares[c], n, level, whole);
    uint8 stop = stops_lanes(scores, n, level, whole, params);
    leaves = select(leaves, (uint8)1u, stop);
    uint8 entry = leaves | (stop & STOP);
    store_four(sum, squares, entry.lo, 0, x, y, level, whole, params, stats, nodes);
    store_four(sum, squares, entry.hi, 1, next_x, next_y, level, whole, params, stats, nodes);
    return leaves;
}

/* The level-3 row y of the tile, from node x on: its sums, squares and leaves. */
LANES_INLINE uint8 reduce_row_3(__global const uchar *first, uint pitch, uint x, uint y, int whole,
                                const params_t *params, uint8 *sum, uint8 *squares, __global uint *low,
                                __global uchar *flags, __global ulong *stats, __global uint *nodes)
{
    uint word2[2 * BANDS * ACROSS_2], count2[2 * ACROSS_2];
    for (uint s = 0; s < 2; ++s)
        reduce_strip(first + 4 * s * pitch, pitch, 2 * x, 2 * y + s, whole, params, word2 + s * BANDS * ACROSS_2,
                     count2 + s * ACROSS_2, low, flags);
    for (uint c = 0; c < BANDS; ++c) {
        const uint *row = word2 + c * ACROSS_2;
        uint sums[ACROSS_2], totals[ACROSS_2];
        for (uint i = 0; i < ACROSS_2; i += 8) {
            uint8 upper = *(const words_t *)(row + i), lower = *(const words_t *)(row + BANDS * ACROSS_2 + i);
            *(words_t *)(sums + i) = (upper >> NARROW_SHIFT) + (lower >> NARROW_SHIFT);
            *(words_t *)(totals + i) = (upper & NARROW_MASK) + (lower & NARROW_MASK);
        }
        sum[c] = merge_pairs(sums);
        squares[c] = merge_pairs(totals);
    }
    return finish_lanes(sum, squares, merge_rows(count2, count2 + ACROSS_2), x, y, x + 4, y, 3, whole, params, stats,
                        nodes);
}

/* What is known of a tile while its rows are worked off: two rows of level 4, of four of level 3. */
typedef struct {
    uint sums[2 * BANDS * ACROSS_2], squares[2 * BANDS * ACROSS_2], leaves[2 * ACROSS_2];
} rows_t;

/* Row r of four of level 3 of the tile at (x, y), the first of them row y >> 3 of that level. */
LANES_INLINE void reduce_row(__global const uchar *first, uint pitch, uint x, uint y, uint r, int whole,
                             const params_t *params, rows_t *found, __global uint *low, __global uchar *flags,
                             __global ulong *stats, __global uint *nodes)
{
    uint8 sum3[BANDS], squares3[BANDS];
    uint at = (r & 1u) * ACROSS_2 + (r >> 1) * ACROSS_3;
    uint8 leaves3 = reduce_row_3(first + 8 * r * pitch, pitch, x >> 3, (y >> 3) + r, whole, params, sum3, squares3, low,
                                 flags, stats, nodes);
    *(words_t *)(found->leaves + at) = leaves3;
    for (uint c = 0; c < BANDS; ++c) {
        *(words_t *)(found->sums + 2 * c * ACROSS_2 + at) = sum3[c];
        *(words_t *)(found->squares + 2 * c * ACROSS_2 + at) = squares3[c];
    }
}

/* The two rows of level 4 under those, which begin at (x, y): words and leaves at their Morton codes. */
LANES_INLINE void reduce_pair(const rows_t *found, uint x, uint y, int whole, const params_t *params,
                              __local ulong *wide, __local uint *count, __global ulong *stats, __global uint *nodes)
{
    uint8 sum4[BANDS], squares4[BANDS];
    for (uint c = 0; c < BANDS; ++c) {
        const uint *sums = found->sums + 2 * c * ACROSS_2, *squares = found->squares + 2 * c * ACROSS_2;
        sum4[c] = merge_rows(sums, sums + ACROSS_2);
        squares4[c] = merge_rows(squares, squares + ACROSS_2);
        ulong8 words = convert_ulong8(sum4[c]) << WIDE_SHIFT | convert_ulong8(squares4[c]);
        vstore8(words.s01452367, 0, wide + c * WIDE_NODES);
    }
    uint8 leaves4 = merge_rows(found->leaves, found->leaves + ACROSS_2);
    leaves4 =
        finish_lanes(sum4, squares4, leaves4, x >> 4, y >> 4, x >> 4, (y >> 4) + 1, 4, whole, params, stats, nodes);
    vstore8(leaves4.s01452367, 0, count);
}

/* Levels 1 to 4 of `many` tiles side by side, the first of them at (x, y). Row by row across all of them: the longer
 * the pieces of a picture's rows that are read, the sooner processors foresee what comes next. */
LANES_INLINE void reduce_tiles(__global const uchar *pixels, ulong origin, uint pitch, uint x, uint y, uint many,
                               const params_t *params, __local ulong *wide, __local uint *count, __global uint *low,
                               __global uchar *flags, __global ulong *stats, __global uint *nodes)
{
    uint cells3 = along(params->width, 3) * along(params->height, 3);
    rows_t found[MAX_TILES];
    for (uint top = y; top < y + SIDE; top += SIDE / 2) {
        __global const uchar *first = pixels + origin + (ulong)top * pitch + x * CHANNELS;
        for (uint r = 0; r < 4; ++r)
            for (uint t = 0; t < many; ++t) {
                uint left = x + SIDE * t;
                if (left + SIDE <= params->width && y + SIDE <= params->height)
                    reduce_row(first + SIDE * CHANNELS * t, pitch, left, top, r, 1, params, found + t, low, flags,
                               stats, nodes);
                else
                    reduce_row(first + SIDE * CHANNELS * t, pitch, left, top, r, 0, params, found + t, low, flags,
                               stats, nodes);
            }
        uint slot = top > y ? 8 : 0;
        for (uint t = 0; t < many; ++t) {
            int whole = x + SIDE * (t + 1) <= params->width && y + SIDE <= params->height;
            reduce_pair(found + t, x + SIDE * t, top, whole, params, wide + t * BANDS * WIDE_NODES + slot,
                        count + t * WIDE_NODES + slot, stats + BANDS * cells3, nodes + cells3);
        }
    }
}
