// Levels 1 to 4 of a whole tile by one work-item, in explicit vectors: the form for CPUs, whose compilers do not
// vectorize across work-items. Same integers as reduce_cell in quadtree_tiles.cl; TILE_LEVEL is 6, not for the range
// criterion.
//
// Sums and sums of squares of levels 1 to 4 fit 32 bits, and so does n^2 times the variance: at level 4, n = 256 pixels,
// n * squares <= 256^2 * 255^2 < 2^32. A level's row is BANDS planes of as many words as a tile has nodes across.

#define SIDE 64u
#define ACROSS_1 32u
#define ACROSS_2 16u
#define ACROSS_3 8u

// A whole vector wherever it lies: compilers load what vload16 asks for in pieces where a shuffle follows.
typedef uchar16 __attribute__((aligned(1))) bytes_t;
#define BYTES(p, i) (((__global const bytes_t *)(p))[i])

// Writes a vector of statistics, past the caches where the compiler can and all vectors of a plane are `aligned`: nothing
// on the device reads them again.
inline void write_words(uint8 words, __global uint *at, int aligned) {
#ifdef __clang__
    if (aligned) {
        __builtin_nontemporal_store(words, (__global uint8 *)at);
        return;
    }
#endif
    vstore8(words, 0, at);
}

// 1 in the lanes of whole nodes of a level from 1 to 4 that stop a split.
inline uint8 stops_lanes(const uint8 *sum, const uint8 *squares, uint level, const rules_t *rules) {
    if (level > rules->top_level)
        return 0;
    if (level <= rules->floor_level)
        return 1;
    ulong limit = whole_limit(level, rules->bound);
#if CRITERION == WEIGHTED
    ulong8 total = 0;
#else
    uint8 limits = (uint)min(limit, 0xFFFFFFFFUL), within = CRITERION == EVERY ? ~0u : 0u;
#endif
#if CRITERION == LUMA
#pragma unroll
    for (uint c = CHANNELS; c < BANDS; ++c) {
#else
#pragma unroll
    for (uint c = 0; c < CHANNELS; ++c) {
#endif
        uint8 v = (squares[c] << (2 * level)) - sum[c] * sum[c];
#if CRITERION == WEIGHTED
        total += convert_ulong8(v) * WEIGHTS[c];
#else
        within = CRITERION == EVERY ? within & as_uint8(v <= limits) : within | as_uint8(v <= limits);
#endif
    }
#if CRITERION == WEIGHTED
    return convert_uint8(as_ulong8(total <= (ulong8)limit) & 1UL);
#else
    return within & 1u;
#endif
}

// The same from narrow words, eight from `words` on of every plane of `across` words.
inline uint8 stops_words(const uint *words, uint across, uint level, const rules_t *rules) {
    uint8 sum[BANDS], squares[BANDS];
#pragma unroll
    for (uint c = 0; c < BANDS; ++c) {
        uint8 word = vload8(0, words + c * across);
        sum[c] = word >> NARROW_SHIFT;
        squares[c] = word & NARROW_MASK;
    }
    return stops_lanes(sum, squares, level, rules);
}

// Sixteen pixels, band by band.
inline void load_planes(__global const uchar *pixel, ushort16 *plane) {
#if CHANNELS == 1
    plane[0] = convert_ushort16(BYTES(pixel, 0));
#elif CHANNELS == 3
    // Every third byte: the places of a channel in three vectors are 0, 2 and 1 apart, so that they fill one vector.
    const uchar16 m = (uchar16)(255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255);
    const uchar16 n = (uchar16)(0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0);
    const uchar16 o = ~(m | n);
    uchar16 a = BYTES(pixel, 0), b = BYTES(pixel, 1), c = BYTES(pixel, 2);
    plane[0] = convert_ushort16(((a & m) | (b & o) | (c & n)).s0369cf258be147ad);
    plane[1] = convert_ushort16(((a & n) | (b & m) | (c & o)).s147ad0369cf258be);
    plane[2] = convert_ushort16(((a & o) | (b & n) | (c & m)).s258be147ad0369cf);
#elif CHANNELS == 4
    uchar16 a = BYTES(pixel, 0), b = BYTES(pixel, 1), c = BYTES(pixel, 2), d = BYTES(pixel, 3);
    plane[0] = convert_ushort16((uchar16)(a.s048c, b.s048c, c.s048c, d.s048c));
    plane[1] = convert_ushort16((uchar16)(a.s159d, b.s159d, c.s159d, d.s159d));
    plane[2] = convert_ushort16((uchar16)(a.s26ae, b.s26ae, c.s26ae, d.s26ae));
    plane[3] = convert_ushort16((uchar16)(a.s37bf, b.s37bf, c.s37bf, d.s37bf));
#else
#pragma unroll
    for (uint c = 0; c < CHANNELS; ++c) {
        ushort values[16];
        for (uint i = 0; i < 16; ++i)
            values[i] = pixel[i * CHANNELS + c];
        plane[c] = vload16(0, values);
    }
#endif
#if BANDS > CHANNELS
    uint16 red = convert_uint16(plane[0]), green = convert_uint16(plane[1]), blue = convert_uint16(plane[2]);
    plane[CHANNELS] = convert_ushort16((red * 19595u + green * 38470u + blue * 7471u + 32768u) >> 16);
#endif
}

// A level-1 row of the tile, of two rows of pixels; stores it, and gives back 1 where its nodes stop a split.
// Neighbours are the halves of a 32-bit lane; a square is below 2^16.
inline void reduce_rows(__global const uchar *upper, __global const uchar *lower, const rules_t *rules, uint *word1,
                        uint *stop1, __global uint *low, uint cells, int aligned) {
    for (uint x = 0; x < ACROSS_1; x += 8) {
        ushort16 above[BANDS], below[BANDS];
        uint8 sum[BANDS], squares[BANDS];
        load_planes(upper + 2 * x * CHANNELS, above);
        load_planes(lower + 2 * x * CHANNELS, below);
#pragma unroll
        for (uint c = 0; c < BANDS; ++c) {
            uint8 sums = as_uint8(above[c] + below[c]);
            uint8 high = as_uint8(above[c] * above[c]), deep = as_uint8(below[c] * below[c]);
            sum[c] = (sums & 0xFFFFu) + (sums >> 16);
            squares[c] = (high & 0xFFFFu) + (high >> 16) + (deep & 0xFFFFu) + (deep >> 16);
            uint8 word = (sum[c] << NARROW_SHIFT) + squares[c];
            vstore8(word, 0, word1 + c * ACROSS_1 + x);
#if STORE_LOW
            write_words(word, low + c * cells + x, aligned);
#endif
        }
        vstore8(stops_lanes(sum, squares, 1, rules), 0, stop1 + x);
    }
}

// Sums of the two nodes side by side and of those below them: eight of the next level, of sixteen of two rows.
inline uint8 merge_rows(const uint *upper, const uint *lower) {
    uint16 both = vload16(0, upper) + vload16(0, lower);
    return both.even + both.odd;
}

// A level-2 row of the tile: four rows of pixels from `first` on. Levels 1 and 2 are stored, words and leaves of
// level 2 given back. (x, y) is the row's first pixel.
inline void reduce_strip(__global const uchar *first, uint pitch, uint x, uint y, const rules_t *rules, uint *word2,
                         uint *count2, __global uint *low, __global uchar *flags) {
    uint cols1 = along(rules->width, 1), cells1 = cols1 * along(rules->height, 1), cols2 = along(rules->width, 2);
    uint cells2 = cols2 * along(rules->height, 2), at2 = (y >> 2) * cols2 + (x >> 2);
    uint word1[2 * BANDS * ACROSS_1], stop1[2 * ACROSS_1];
    for (uint s = 0; s < 2; ++s)
        reduce_rows(first + 2 * s * pitch, first + (2 * s + 1) * pitch, rules, word1 + s * BANDS * ACROSS_1,
                    stop1 + s * ACROSS_1, low + ((y >> 1) + s) * cols1 + (x >> 1), cells1, (cols1 & 7u) == 0);
    for (uint i = 0; i < ACROSS_2; i += 8) {
#pragma unroll
        for (uint c = 0; c < BANDS; ++c) {
            const uint *upper = word1 + c * ACROSS_1 + 2 * i;
            uint8 word = merge_rows(upper, upper + BANDS * ACROSS_1);
            vstore8(word, 0, word2 + c * ACROSS_2 + i);
#if STORE_LOW
            write_words(word, low + BANDS * cells1 + c * cells2 + at2 + i, (cols2 & 7u) == 0);
#endif
        }
        uint16 upper = vload16(0, stop1 + 2 * i), lower = vload16(0, stop1 + ACROSS_1 + 2 * i);
        uint16 both = upper + lower;
        uint8 stop2 = stops_words(word2 + i, ACROSS_2, 2, rules);
        uint8 flag = upper.even | upper.odd << 1 | lower.even << 2 | lower.odd << 3 | stop2 << 4;
        vstore8(convert_uchar8(flag), 0, flags + at2 + i);
        vstore8(select(16u - 3u * (both.even + both.odd), (uint8)1u, stop2 != (uint8)0), 0, count2 + i);
    }
}

// Decides and stores eight nodes of level 3 or 4 side by side, or two rows of four; gives back the leaves under them.
inline uint8 finish_lanes(const uint8 *sum, const uint8 *squares, uint8 leaves, uint level, uint at, uint next,
                          uint cells, const rules_t *rules, __global ulong *stats, __global uint *nodes) {
    uint8 stop = stops_lanes(sum, squares, level, rules);
    leaves = select(leaves, (uint8)1u, stop != (uint8)0);
    uint8 entry = leaves | stop << 31;
    vstore4(entry.lo, 0, nodes + at);
    vstore4(entry.hi, 0, nodes + next);
#pragma unroll
    for (uint c = 0; c < BANDS; ++c) {
        ulong8 words = convert_ulong8(sum[c]) << WIDE_SHIFT | convert_ulong8(squares[c]);
        vstore4(words.lo, 0, stats + c * cells + at);
        vstore4(words.hi, 0, stats + c * cells + next);
    }
    return leaves;
}

// Levels 1 to 4 of the whole tile at (x, y): words and leaves of its nodes of level 4 at their Morton codes.
inline void reduce_whole_tile(__global const uchar *pixels, ulong origin, uint pitch, uint x, uint y,
                              const rules_t *rules, __local ulong *wide, __local uint *count, __global uint *low,
                              __global uchar *flags, __global ulong *stats, __global uint *nodes) {
    uint cols3 = along(rules->width, 3), cells3 = cols3 * along(rules->height, 3);
    uint cols4 = along(rules->width, 4), cells4 = cols4 * along(rules->height, 4);
    for (uint pair = 0; pair < 2; ++pair) {
        // Two rows of level 4: four of level 3.
        uint8 sum4[BANDS], squares4[BANDS], leaves4;
        for (uint half_row = 0; half_row < 2; ++half_row) {
            uint8 sum3[2][BANDS], squares3[2][BANDS], leaves3[2];
            for (uint r = 0; r < 2; ++r) {
                uint word2[2 * BANDS * ACROSS_2], count2[2 * ACROSS_2], row = 4 * pair + 2 * half_row + r;
                __global const uchar *first = pixels + origin + (ulong)(y + 8 * row) * pitch + x * CHANNELS;
                for (uint s = 0; s < 2; ++s)
                    reduce_strip(first + 4 * s * pitch, pitch, x, y + 8 * row + 4 * s, rules,
                                 word2 + s * BANDS * ACROSS_2, count2 + s * ACROSS_2, low, flags);
#pragma unroll
                for (uint c = 0; c < BANDS; ++c) {
                    uint16 upper = vload16(0, word2 + c * ACROSS_2), lower = vload16(0, word2 + (BANDS + c) * ACROSS_2);
                    uint16 sums = (upper >> NARROW_SHIFT) + (lower >> NARROW_SHIFT);
                    uint16 squares = (upper & NARROW_MASK) + (lower & NARROW_MASK);
                    sum3[r][c] = sums.even + sums.odd;
                    squares3[r][c] = squares.even + squares.odd;
                }
                uint at = ((y >> 3) + row) * cols3 + (x >> 3);
                leaves3[r] = finish_lanes(sum3[r], squares3[r], merge_rows(count2, count2 + ACROSS_2), 3, at, at + 4,
                                          cells3, rules, stats, nodes);
            }
            uint8 leaves = leaves3[0] + leaves3[1];
#pragma unroll
            for (uint c = 0; c < BANDS; ++c) {
                uint8 sums = sum3[0][c] + sum3[1][c], squares = squares3[0][c] + squares3[1][c];
                if (half_row == 0) {
                    sum4[c].lo = sums.even + sums.odd;
                    squares4[c].lo = squares.even + squares.odd;
                } else {
                    sum4[c].hi = sums.even + sums.odd;
                    squares4[c].hi = squares.even + squares.odd;
                }
            }
            if (half_row == 0)
                leaves4.lo = leaves.even + leaves.odd;
            else
                leaves4.hi = leaves.even + leaves.odd;
        }
        uint at = ((y >> 4) + 2 * pair) * cols4 + (x >> 4);
        leaves4 = finish_lanes(sum4, squares4, leaves4, 4, at, at + cols4, cells4, rules, stats + BANDS * cells3,
                               nodes + cells3);
        // Two rows of four nodes, in Morton order.
        vstore8(leaves4.s01452367, 0, count + 8 * pair);
#pragma unroll
        for (uint c = 0; c < BANDS; ++c) {
            ulong8 words = convert_ulong8(sum4[c]) << WIDE_SHIFT | convert_ulong8(squares4[c]);
            vstore8(words.s01452367, 0, wide + c * WIDE_NODES + 8 * pair);
        }
    }
}
