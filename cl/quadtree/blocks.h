/* Levels 1 and 2 of the quadtree: what a work-item does with 8x4 pixels, the upper or lower half of an 8x8 cell, which
 * are two 4x4 blocks side by side.
 *
 * After quadtree/quadtree.h and quadtree/pixels.h. STORE_LOW is 1 to write the statistics of these levels. One band
 * after another, so that a work-item has the words of one band in registers, no more: pixels of up to four channels
 * (three with weights) are there all the time, others and those of tiles at the picture's edge are read again for every
 * band. */

#define HALF_WORDS (2 * CHANNELS)
#define IN_REGISTERS(whole) ((whole) && CHANNELS <= (CRITERION == WEIGHTED ? 3 : 4))

/* What one work-item needs to know of the job besides its pixels. */
typedef struct {
    uint width, height, floor_level, top_level;
    ulong bound;
} params_t;

/* A half cell: its first byte, place, and the pixels of it that are inside the picture. */
typedef struct {
    __global const uchar *first;
    uint pitch, x, y, columns, rows;
} half_cell_t;

/* Sum and sum of squares of band c over the node i (0 to 3, from left to right) of level 1 in row s; pixels outside the
 * picture are 0. With the range criterion its extent, too. */
inline void reduce_quadrant(const half_cell_t *part, const uint *rows, uint s, uint i, uint c, int whole, uint zero,
                            uint *sum, uint *squares, uchar2 *extent)
{
    *sum = *squares = 0;
    *extent = NO_EXTENT;
#pragma unroll
    for (uint p = 0; p < 4; ++p) {
        uint px = 2 * i + (p & 1u), py = 2 * s + (p >> 1), v = 0;
        int inside = whole || (px < part->columns && py < part->rows);
        if (IN_REGISTERS(whole))
            v = row_value(rows, HALF_WORDS, py, px, c, zero);
        else if (inside)
            v = pixel_value(part->first + py * part->pitch + px * CHANNELS, c);
        *sum += v;
        *squares += v * v;
#if CRITERION == RANGE
        if (inside)
            *extent = join_extents(*extent, (uchar2)(v, v));
#endif
    }
}

/* What the bands seen so far say of each node of a half cell, to be compared with a limit at last: of n^2 times their
 * variances the greatest, the least, or the sum with weights, of ranges the greatest. On 4 pixels a variance times n^2
 * is below 2^18, on 16 at most 16 * 8 * 255^2 - (8 * 255)^2 = 4161600: times weights of up to four channels, 1020,
 * below 2^32, and of sixteen on 4 pixels below 2^30. */
#if CRITERION == WEIGHTED && CHANNELS > 4
typedef ulong score_t;
#else
typedef uint score_t;
#endif

typedef struct {
    uint level1[8];
    score_t level2[2];
} scores_t;

inline void clear_scores(scores_t *scores)
{
#pragma unroll
    for (uint i = 0; i < 8; ++i)
        scores->level1[i] = CRITERION == ANY ? ~0u : 0u;
    scores->level2[0] = scores->level2[1] = CRITERION == ANY ? ~0u : 0u;
}

/* A score with one band more, `value` its variance times n^2, or its range. */
inline score_t with_band(score_t score, uint value, uint c)
{
#if CRITERION == WEIGHTED
    return score + (score_t)value * WEIGHTS[c];
#elif CRITERION == ANY
    return min(score, value);
#elif CRITERION == LUMA
    return c == CHANNELS ? value : score;
#else
    return max(score, value);
#endif
}

inline uint node_bit(uint s, uint i)
{
    return 1u << ((i >> 1) * 8 + 2 * s + (i & 1u));
}

inline uint block_bit(uint b)
{
    return 16u << (8 * b);
}

/* What the score of a node of n <= 16 pixels may be at most. */
inline score_t narrow_limit(uint level, uint n, int whole, const params_t *params)
{
#if CRITERION == RANGE
    return (uint)(params->bound >> 16);
#else
    ulong limit = whole ? whole_limit(level, params->bound) : small_limit(n, params->bound);
    return (score_t)min(limit, (ulong)(score_t)~0UL);
#endif
}

/* Pixels inside the picture of the node `i` in row `s` of nodes of `side` pixels. */
inline uint narrow_pixels(const half_cell_t *part, uint side, uint s, uint i, int whole)
{
    uint columns = part->columns - min(part->columns, side * i);
    return whole ? side * side : min(side, columns) * min(side, part->rows - min(part->rows, side * s));
}

/* Writes the words of band c of four nodes of level 1 side by side: `s` rows below the first. */
inline void store_level1(__global uint *low, const half_cell_t *part, const uint *word, uint s, uint c, int whole,
                         const params_t *params)
{
    uint cols = along(params->width, 1), cells = cols * along(params->height, 1);
    __global uint *at = low + c * cells + ((part->y >> 1) + s) * cols + (part->x >> 1);
    if (whole && (cols & 3u) == 0) {
        *(__global uint4 *)at = (uint4)(word[0], word[1], word[2], word[3]);
        return;
    }
#pragma unroll
    for (uint i = 0; i < 4; ++i)
        if (whole || (2 * i < part->columns && 2 * s < part->rows))
            at[i] = word[i];
}

/* The same of the two blocks. */
inline void store_level2(__global uint *low, const half_cell_t *part, const uint *word, uint c, int whole,
                         const params_t *params)
{
    uint cols = along(params->width, 2), cells = cols * along(params->height, 2);
    uint first = BANDS * along(params->width, 1) * along(params->height, 1);
    __global uint *at = low + first + c * cells + (part->y >> 2) * cols + (part->x >> 2);
    if (whole && ((cols | first) & 1u) == 0) {
        *(__global uint2 *)at = (uint2)(word[0], word[1]);
        return;
    }
#pragma unroll
    for (uint b = 0; b < 2; ++b)
        if (whole || (4 * b < part->columns && part->rows > 0))
            at[b] = word[b];
}

/* Band c of the half cell: levels 1 and 2 are scored and stored; gives back the wide word of all its pixels. */
inline ulong reduce_band(const half_cell_t *part, const uint *rows, uint c, int whole, const params_t *params,
                         scores_t *scores, uchar2 *extent, __global uint *low)
{
    uint sum2[2] = {0, 0}, squares2[2] = {0, 0}, zero = (uint)(params->bound >> 60);
    uchar2 extent2[2];
    extent2[0] = extent2[1] = NO_EXTENT; /* rusticl of Mesa 22.3 crashes on a list of constant vectors */
#pragma unroll
    for (uint s = 0; s < 2; ++s) {
        uint word1[4];
#pragma unroll
        for (uint i = 0; i < 4; ++i) {
            uint sum, squares, n = narrow_pixels(part, 2, s, i, whole);
            uchar2 extent1;
            reduce_quadrant(part, rows, s, i, c, whole, zero, &sum, &squares, &extent1);
            sum2[i >> 1] += sum;
            squares2[i >> 1] += squares;
            word1[i] = (sum << NARROW_SHIFT) + squares;
#if CRITERION == RANGE
            extent2[i >> 1] = join_extents(extent2[i >> 1], extent1);
            uint value = extent_width(extent1);
#else
            uint value = n * squares - sum * sum;
#endif
            scores->level1[4 * s + i] = (uint)with_band(scores->level1[4 * s + i], value, c);
        }
#if STORE_LOW
        store_level1(low, part, word1, s, c, whole, params);
#endif
    }
    uint word2[2];
#pragma unroll
    for (uint b = 0; b < 2; ++b) {
        uint n = narrow_pixels(part, 4, 0, b, whole);
        word2[b] = (sum2[b] << NARROW_SHIFT) + squares2[b];
#if CRITERION == RANGE
        *extent = join_extents(*extent, extent2[b]);
        uint value = extent_width(extent2[b]);
#else
        uint value = n * squares2[b] - sum2[b] * sum2[b];
#endif
        scores->level2[b] = with_band(scores->level2[b], value, c);
    }
#if STORE_LOW
    store_level2(low, part, word2, c, whole, params);
#endif
    return (ulong)(sum2[0] + sum2[1]) << WIDE_SHIFT | (squares2[0] + squares2[1]);
}

/* Which nodes of the half cell stop a split, a bit each: the flags of the left block (see quadtree/tiles.cl) from bit 0
 * on, those of the right one from bit 8 on. */
inline uint half_flags(const half_cell_t *part, const scores_t *scores, int whole, const params_t *params)
{
    uint flags = 0;
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
        uint n = narrow_pixels(part, 2, i >> 2, i & 3u, whole);
        int within = params->floor_level >= 1 || scores->level1[i] <= narrow_limit(1, n, whole, params);
        flags |= n > 0 && params->top_level >= 1 && within ? node_bit(i >> 2, i & 3u) : 0u;
    }
#pragma unroll
    for (uint b = 0; b < 2; ++b) {
        uint n = narrow_pixels(part, 4, 0, b, whole);
        int within = params->floor_level >= 2 || scores->level2[b] <= narrow_limit(2, n, whole, params);
        flags |= n > 0 && params->top_level >= 2 && within ? block_bit(b) : 0u;
    }
    return flags;
}

/* Leaves under the half cell, were none of its ancestors a leaf. */
inline uint half_leaves(const half_cell_t *part, uint flags, int whole)
{
    uint leaves = 0;
#pragma unroll
    for (uint b = 0; b < 2; ++b) {
        uint flag = flags >> (8 * b) & 31u;
        uint below = 16u - 3u * popcount(flag & 15u);
        if (!whole) {
            below = 0;
#pragma unroll
            for (uint q = 0; q < 4; ++q)
                below += (flag >> q & 1u) ? 1u : narrow_pixels(part, 2, q >> 1, 2 * b + (q & 1u), 0);
        }
        leaves += flag & 16u ? 1u : below;
    }
    return leaves;
}

inline void store_flags(__global uchar *flags, const half_cell_t *part, uint flag, int whole, const params_t *params)
{
    uint cols = along(params->width, 2);
    __global uchar *at = flags + (part->y >> 2) * cols + (part->x >> 2);
    if (whole && (cols & 1u) == 0) {
        *(__global uchar2 *)at = (uchar2)(flag & 255u, flag >> 8);
        return;
    }
#pragma unroll
    for (uint b = 0; b < 2; ++b)
        if (whole || (4 * b < part->columns && part->rows > 0))
            at[b] = (uchar)(flag >> (8 * b));
}

/* Band c of a half cell, added to the words and extents of its cell's slot `at`, WIDE_NODES a band. */
inline void add_to_cell(const half_cell_t *part, const uint *rows, uint c, int lower, int whole, const params_t *params,
                        scores_t *scores, __local ulong *wide, __local uchar2 *reach, uint at, __global uint *low)
{
    uint slot = c * WIDE_NODES + at;
    uchar2 extent = NO_EXTENT;
    ulong word = reduce_band(part, rows, c, whole, params, scores, &extent, low);
    wide[slot] = lower ? wide[slot] + word : word;
#if CRITERION == RANGE
    reach[slot] = lower ? join_extents(reach[slot], extent) : extent;
#endif
}

/* Levels 1 and 2 of an 8x8 cell's upper or `lower` half, which is added to the cell's slot `at`; gives back the
 * leaves. */
inline uint reduce_half(const half_cell_t *part, int lower, int whole, const params_t *params, __local ulong *wide,
                        __local uchar2 *reach, uint at, __global uint *low, __global uchar *flags)
{
    scores_t scores;
    clear_scores(&scores);
    if (IN_REGISTERS(whole)) {
        uint rows[4 * HALF_WORDS];
        load_whole_rows(part->first, part->pitch, HALF_WORDS, rows);
#pragma unroll
        for (uint c = 0; c < BANDS; ++c)
            add_to_cell(part, rows, c, lower, whole, params, &scores, wide, reach, at, low);
    } else {
#pragma unroll 1
        for (uint c = 0; c < BANDS; ++c)
            add_to_cell(part, 0, c, lower, whole, params, &scores, wide, reach, at, low);
    }
    uint flag = half_flags(part, &scores, whole, params);
    store_flags(flags, part, flag, whole, params);
    return half_leaves(part, flag, whole);
}
