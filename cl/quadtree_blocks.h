// Levels 1 and 2 of the quadtree: what a work-item does with the 16 pixels of a 4x4 block.
//
// After quadtree.h and quadtree_pixels.h. STORE_LOW is 1 to write the statistics of these levels.

// What one work-item needs to know of the job besides its pixels.
typedef struct {
    uint width, height, floor_level, top_level;
    ulong bound;
} rules_t;

// Whether a node of level 1 or 2 with n > 0 pixels inside the picture stops a split.
inline uint stops_narrow(const uint *word, const uchar2 *extent, uint level, uint n, int whole, const rules_t *rules) {
    if (level > rules->top_level)
        return 0;
    if (level <= rules->floor_level)
        return 1;
#if CRITERION == RANGE
    return uniform_extent(extent, rules->bound);
#else
    return uniform_narrow(word, n, whole ? whole_limit(level, rules->bound) : deviation_limit(n, rules->bound).y);
#endif
}

#if DP4A
// Four bytes of one band, those of a quadrant, in one word: bytes i and i + CHANNELS of two rows.
inline uint quadrant_bytes(const uint *rows, uint r, uint i) {
    uint second = i + CHANNELS, pick = (i & 3u) | (4u + (second & 3u)) << 4, upper, lower, all;
    const uint *row = rows + r * CHANNELS;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(upper) : "r"(row[i >> 2]), "r"(row[second >> 2]), "r"(pick));
    row += CHANNELS;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(lower) : "r"(row[i >> 2]), "r"(row[second >> 2]), "r"(pick));
    __asm__("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(all) : "r"(upper), "r"(lower));
    return all;
}

inline uint dot_bytes(uint a, uint b, uint more) {
    uint total;
    __asm__("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(total) : "r"(a), "r"(b), "r"(more));
    return total;
}
#endif

// Sums and extents of the quadrant q of a block, all bands; pixels outside the picture are 0 in `rows`.
inline void reduce_quadrant(const uint *rows, uint q, uint inside_x, uint inside_y, uint *word, uchar2 *extent) {
    for (uint c = 0; c < BANDS; ++c) {
        uint total = 0;
#if CRITERION == RANGE
        extent[c] = NO_EXTENT;
#endif
#if DP4A
        if (c < CHANNELS && CRITERION != RANGE) {
            uint bytes = quadrant_bytes(rows, q & 2u, 2 * (q & 1u) * CHANNELS + c);
            word[c] = dot_bytes(bytes, bytes, dot_bytes(bytes, 0x01010101u, 0) << NARROW_SHIFT);
            continue;
        }
#endif
        for (uint p = 0; p < 4; ++p) {
            uint px = 2 * (q & 1u) + (p & 1u), py = (q & 2u) + (p >> 1);
            uint v = block_value(rows, py, px, c);
            total += v * (v + (1u << NARROW_SHIFT));
#if CRITERION == RANGE
            if (px < inside_x && py < inside_y)
                extent[c] = join_extents(extent[c], (uchar2)(v, v));
#endif
        }
        word[c] = total;
    }
}

// Levels 1 and 2 of one 4x4 block: its words, its flags (0 outside the picture), and the leaves under it, were none of
// its ancestors a leaf.
inline uint reduce_block(const uint *rows, int whole, uint x, uint y, const rules_t *rules, uint *word1, uint *word2,
                         uchar2 *extent2, uint *flags) {
    uint width = rules->width, height = rules->height, flag = 0, count = 0;
    uint inside_x = whole ? 4u : min(4u, width - min(x, width));
    uint inside_y = whole ? 4u : min(4u, height - min(y, height));
    uchar2 extent[BANDS];
    for (uint c = 0; c < BANDS; ++c) {
        word2[c] = 0;
        extent2[c] = NO_EXTENT;
    }
    for (uint q = 0; q < 4; ++q) {
        uint n = whole ? 4u : (uint)pixels_inside((x >> 1) + (q & 1u), (y >> 1) + (q >> 1), 1, width, height);
        reduce_quadrant(rows, q, inside_x, inside_y, word1 + q * BANDS, extent);
        for (uint c = 0; c < BANDS; ++c) {
            word2[c] += word1[q * BANDS + c];
#if CRITERION == RANGE
            extent2[c] = join_extents(extent2[c], extent[c]);
#endif
        }
        uint stop = n > 0 ? stops_narrow(word1 + q * BANDS, extent, 1, n, whole, rules) : 0u;
        flag |= stop << q;
        count += stop ? 1u : n;
    }
    uint n = inside_x * inside_y, stop = n > 0 ? stops_narrow(word2, extent2, 2, n, whole, rules) : 0u;
    *flags = flag | stop << 4;
    return stop ? 1u : count;
}

// Writes what is known of two blocks side by side, the first at (x, y): their flags and, with STORE_LOW, the statistics
// of their nodes of levels 1 and 2. word1: two times 4 * BANDS words; word2: two times BANDS.
inline void store_blocks(__global uint *low, __global uchar *flags, const uint *word1, const uint *word2,
                         const uint *flag, int whole, uint x, uint y, uint width, uint height) {
    uint cols1 = along(width, 1), cells1 = cols1 * along(height, 1);
    uint cols2 = along(width, 2), cells2 = cols2 * along(height, 2);
    uint at2 = (y >> 2) * cols2 + (x >> 2);
    int vectors = whole && (cols1 & 3u) == 0;
    if (vectors)
        *(__global uchar2 *)(flags + at2) = (uchar2)(flag[0], flag[1]);
    else
        for (uint b = 0; b < 2; ++b)
            if (whole || (x + 4 * b < width && y < height))
                flags[at2 + b] = (uchar)flag[b];
#if STORE_LOW
    __global uint *cell1 = low + (y >> 1) * cols1 + (x >> 1), *cell2 = low + BANDS * cells1 + at2;
    for (uint c = 0; c < BANDS; ++c) {
        const uint *left = word1 + c, *right = word1 + 4 * BANDS + c;
        if (vectors) {
            *(__global uint4 *)(cell1 + c * cells1) = (uint4)(left[0], left[BANDS], right[0], right[BANDS]);
            *(__global uint4 *)(cell1 + c * cells1 + cols1) =
                (uint4)(left[2 * BANDS], left[3 * BANDS], right[2 * BANDS], right[3 * BANDS]);
            *(__global uint2 *)(cell2 + c * cells2) = (uint2)(word2[c], word2[BANDS + c]);
            continue;
        }
        for (uint i = 0; i < 8; ++i) {
            uint nx = i & 3u, ny = i >> 2;
            if (whole || (x + 2 * nx < width && y + 2 * ny < height))
                cell1[c * cells1 + ny * cols1 + nx] = word1[((nx >> 1) * 4 + 2 * ny + (nx & 1u)) * BANDS + c];
        }
        for (uint b = 0; b < 2; ++b)
            if (whole || (x + 4 * b < width && y < height))
                cell2[c * cells2 + b] = word2[b * BANDS + c];
    }
#endif
}
