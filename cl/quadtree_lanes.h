// Levels 1 to 3 of a whole tile by one work-item, in explicit vectors: the form for CPUs, whose compilers do not
// vectorize across work-items. Same integers as reduce_cell in quadtree_tiles.cl; TILE_LEVEL >= 5, not for the range
// criterion.

#define SIDE (1u << TILE_LEVEL)
#define HALF (SIDE / 2)
#define QUARTER (SIDE / 4)

inline uint8 square_words(uint8 v) {
    return v * (v + (1u << NARROW_SHIFT));
}

// 1 in the lanes of whole nodes of level 1 or 2 that stop a split; `words` are BANDS rows of `stride` words.
inline uint8 stops_lanes(const uint *words, uint stride, uint level, const rules_t *rules) {
    if (level > rules->top_level)
        return 0;
    if (level <= rules->floor_level)
        return 1;
    ulong limit = whole_limit(level, rules->bound);
#if CRITERION == WEIGHTED
    ulong8 total = 0;
#else
    uint8 limits = (uint)min(limit, 0xFFFFFFFFUL), within = 0;
#endif
#if CRITERION == LUMA
    for (uint c = CHANNELS; c < BANDS; ++c) {
#else
    for (uint c = 0; c < CHANNELS; ++c) {
#endif
        uint8 word = vload8(0, words + c * stride), sum = word >> NARROW_SHIFT;
        uint8 v = ((word & NARROW_MASK) << (2 * level)) - sum * sum;
#if CRITERION == WEIGHTED
        total += convert_ulong8(v) * WEIGHTS[c];
#else
        within -= as_uint8(v <= limits);
#endif
    }
#if CRITERION == WEIGHTED
    return convert_uint8(as_ulong8(total <= (ulong8)limit) & 1UL);
#elif CRITERION == EVERY
    return as_uint8(within == (uint8)CHANNELS) & 1u;
#else
    return as_uint8(within > (uint8)0) & 1u;
#endif
}

// Words of eight bytes of two rows, added.
inline uint8 column_words(__global const uchar *upper, __global const uchar *lower) {
    return square_words(convert_uint8(vload8(0, upper))) + square_words(convert_uint8(vload8(0, lower)));
}

// Words of the HALF nodes of level 1 on two rows of pixels: BANDS rows of HALF words.
inline void reduce_rows(__global const uchar *upper, __global const uchar *lower, uint *word1) {
#if CHANNELS == 3
    for (uint x = 0; x < HALF; x += 4) {
        uint8 a = column_words(upper + 6 * x, lower + 6 * x);
        uint8 b = column_words(upper + 6 * x + 8, lower + 6 * x + 8);
        uint8 c = column_words(upper + 6 * x + 16, lower + 6 * x + 16);
        vstore4((uint4)(a.s0, a.s6, b.s4, c.s2) + (uint4)(a.s3, b.s1, b.s7, c.s5), 0, word1 + x);
        vstore4((uint4)(a.s1, a.s7, b.s5, c.s3) + (uint4)(a.s4, b.s2, c.s0, c.s6), 0, word1 + HALF + x);
        vstore4((uint4)(a.s2, b.s0, b.s6, c.s4) + (uint4)(a.s5, b.s3, c.s1, c.s7), 0, word1 + 2 * HALF + x);
    }
#else
    uint columns[SIDE * CHANNELS];
    for (uint i = 0; i < SIDE * CHANNELS; i += 8)
        vstore8(column_words(upper + i, lower + i), 0, columns + i);
    for (uint c = 0; c < CHANNELS; ++c)
        for (uint x = 0; x < HALF; ++x)
            word1[c * HALF + x] = columns[2 * x * CHANNELS + c] + columns[(2 * x + 1) * CHANNELS + c];
#endif
#if BANDS > CHANNELS
    for (uint x = 0; x < HALF; ++x) {
        uint total = 0;
        for (uint p = 0; p < 4; ++p) {
            __global const uchar *pixel = (p & 2u ? lower : upper) + (2 * x + (p & 1u)) * CHANNELS;
            uint v = luma(pixel[0], pixel[1], pixel[2]);
            total += v * (v + (1u << NARROW_SHIFT));
        }
        word1[CHANNELS * HALF + x] = total;
    }
#endif
}

// Words of the QUARTER nodes of level 2 from two rows of level 1.
inline void merge_rows(const uint *upper, const uint *lower, uint *word2) {
    for (uint c = 0; c < BANDS; ++c)
        for (uint x = 0; x < QUARTER; x += 8) {
            uint16 both = vload16(0, upper + c * HALF + 2 * x) + vload16(0, lower + c * HALF + 2 * x);
            vstore8(both.even + both.odd, 0, word2 + c * QUARTER + x);
        }
}

// Eight rows of pixels from (x, y) on, a tile wide: levels 1 and 2 stored, words and leaves of level 2 given back
// (two rows of BANDS * QUARTER words, two rows of QUARTER counts).
inline void reduce_strip(__global const uchar *first, uint pitch, uint x, uint y, const rules_t *rules, uint *word2,
                         uint *count2, __global uint *low, __global uchar *flags) {
    uint cols1 = along(rules->width, 1), cells1 = cols1 * along(rules->height, 1), cols2 = along(rules->width, 2);
    for (uint r = 0; r < 2; ++r) {
        uint word1[2 * BANDS * HALF], stop1[2 * HALF], stop2[QUARTER];
        uint *row2 = word2 + r * BANDS * QUARTER;
        for (uint s = 0; s < 2; ++s) {
            uint *row1 = word1 + s * BANDS * HALF;
            reduce_rows(first + (4 * r + 2 * s) * pitch, first + (4 * r + 2 * s + 1) * pitch, row1);
            for (uint i = 0; i < HALF; i += 8)
                vstore8(stops_lanes(row1 + i, HALF, 1, rules), 0, stop1 + s * HALF + i);
#if STORE_LOW
            for (uint c = 0; c < BANDS; ++c)
                for (uint i = 0; i < HALF; i += 8)
                    vstore8(vload8(0, row1 + c * HALF + i), 0,
                            low + c * cells1 + ((y >> 1) + 2 * r + s) * cols1 + (x >> 1) + i);
#endif
        }
        merge_rows(word1, word1 + BANDS * HALF, row2);
        for (uint i = 0; i < QUARTER; i += 8)
            vstore8(stops_lanes(row2 + i, QUARTER, 2, rules), 0, stop2 + i);
        uint at2 = ((y >> 2) + r) * cols2 + (x >> 2);
        for (uint i = 0; i < QUARTER; ++i) {
            uint flag = stop1[2 * i] | stop1[2 * i + 1] << 1 | stop1[HALF + 2 * i] << 2 | stop1[HALF + 2 * i + 1] << 3;
            flags[at2 + i] = (uchar)(flag | stop2[i] << 4);
            count2[r * QUARTER + i] = stop2[i] ? 1u : 16u - 3u * popcount(flag);
        }
#if STORE_LOW
        uint cells2 = cols2 * along(rules->height, 2);
        for (uint c = 0; c < BANDS; ++c)
            for (uint i = 0; i < QUARTER; i += 8)
                vstore8(vload8(0, row2 + c * QUARTER + i), 0, low + BANDS * cells1 + c * cells2 + at2 + i);
#endif
    }
}

// Levels 1 to 3 of the whole tile at (x, y): words and leaves of its cells at their Morton codes.
inline void reduce_whole_tile(__global const uchar *pixels, ulong origin, uint pitch, uint x, uint y,
                              const rules_t *rules, __local ulong *wide, __local uint *count, __global uint *low,
                              __global uchar *flags, __global ulong *stats, __global uint *nodes) {
    for (uint cy = 0; cy < SIDE / 8; ++cy) {
        uint word2[2 * BANDS * QUARTER], count2[2 * QUARTER];
        __global const uchar *first = pixels + origin + (ulong)(y + 8 * cy) * pitch + x * CHANNELS;
        reduce_strip(first, pitch, x, y + 8 * cy, rules, word2, count2, low, flags);
        for (uint cx = 0; cx < SIDE / 8; ++cx) {
            uint j = spread_bits(cx) | spread_bits(cy) << 1, leaves = 0;
            ulong words[BANDS];
            uchar2 none[BANDS];
            for (uint c = 0; c < BANDS; ++c) {
                const uint *pair = word2 + c * QUARTER + 2 * cx, *next = pair + BANDS * QUARTER;
                words[c] = widened(pair[0]) + widened(pair[1]) + widened(next[0]) + widened(next[1]);
                wide[c * WIDE_NODES + j] = words[c];
            }
            for (uint i = 2 * cx; i < 2 * cx + 2; ++i)
                leaves += count2[i] + count2[QUARTER + i];
            count[j] = finish_node(words, none, leaves, 3, (x >> 3) + cx, (y >> 3) + cy, 0, 1, rules, stats, nodes);
        }
    }
}
