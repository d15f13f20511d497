// Shared by the quadtree kernels: geometry of the levels, packed statistics, the uniformity criteria.
//
// Levels are counted from the pixels: a node of level k is a square of 2^k pixels a side, clipped to the picture.
// The grid of level k has ceil(height / 2^k) rows and ceil(width / 2^k) columns, row-major.
//
// Constants the host passes: CHANNELS (1..16), BANDS (CHANNELS, plus one when luma is derived), CRITERION,
// WEIGHT_LIST (CHANNELS integers 0..255), TILE_LEVEL (4..6).
//
// Packed words, sums of 8-bit values x and of their squares, added as plain integers:
//   narrow (levels 1 and 2, uint):            sum << 20 | squares.  16 * 255   < 2^12, 16 * 255^2   < 2^20.
//   wide   (levels 3 to TILE_LEVEL, ulong):   sum << 32 | squares.  4096 * 255 < 2^20, 4096 * 255^2 < 2^28.
// Above TILE_LEVEL a node has two ulongs: sums < 2^40 and squares < 2^48 for fewer than 2^32 pixels.

#define EVERY 0
#define ANY 1
#define WEIGHTED 2
#define LUMA 3
#define RANGE 4

#define NARROW_SHIFT 20
#define NARROW_MASK 0xFFFFFu
#define WIDE_SHIFT 32
#define WIDE_MASK 0xFFFFFFFFUL
#define STOP 0x80000000u
#define COUNT_MASK 0x7FFFFFFFu

#if CRITERION == WEIGHTED
#define WHOLE_LEVELS 6
__constant uint WEIGHTS[CHANNELS] = {WEIGHT_LIST};
#else
#define WHOLE_LEVELS 12
#endif

// Nodes of `level` along a picture of `length` pixels.
inline uint along(uint length, uint level) {
    return (length + (1u << level) - 1u) >> level;
}

// First node of `level` in an array that holds the grids of the levels first, first + 1, ... one after another.
inline uint level_base(uint width, uint height, uint first, uint level) {
    uint base = 0;
    for (uint k = first; k < level; ++k)
        base += along(height, k) * along(width, k);
    return base;
}

// Even bits of a Morton code of at most 8 bits: the x of a block in its tile (the y is even_bits(code >> 1)).
inline uint even_bits(uint code) {
    return (code & 1u) | ((code >> 1) & 2u) | ((code >> 2) & 4u) | ((code >> 3) & 8u);
}

// The other way: bit i of a coordinate of at most 4 bits becomes bit 2i.
inline uint spread_bits(uint v) {
    return (v & 1u) | (v & 2u) << 1 | (v & 4u) << 2 | (v & 8u) << 3;
}

// A narrow word as a wide one.
inline ulong widened(uint word) {
    return (ulong)(word >> NARROW_SHIFT) << WIDE_SHIFT | (word & NARROW_MASK);
}

// Pixels of the node (x, y) of `level` that lie inside the picture; 0 for a region wholly outside.
inline ulong pixels_inside(uint x, uint y, uint level, uint width, uint height) {
    ulong left = (ulong)x << level, top = (ulong)y << level, side = 1UL << level;
    if (left >= width || top >= height)
        return 0;
    return min(side, width - left) * min(side, height - top);
}

// floor(bound * n^2 / 2^32) as (high, low); bound < 2^60 and n < 2^32 keep the product under 2^124.
inline ulong2 deviation_limit(ulong n, ulong bound) {
    ulong n2 = n * n, low = n2 * bound, high = mul_hi(n2, bound);
    return (ulong2)(high >> 32, upsample((uint)high, (uint)(low >> 32)));
}

// n * squares - sum^2, n^2 times the variance, as (high, low): at most 255^2 * n^2 < 2^80.
inline ulong2 scaled_variance(ulong sum, ulong squares, ulong n) {
    ulong low = n * squares, high = mul_hi(n, squares), taken = sum * sum;
    return (ulong2)(high - mul_hi(sum, sum) - (ulong)(low < taken), low - taken);
}

inline int at_most(ulong2 value, ulong2 limit) {
    return value.x < limit.x || (value.x == limit.x && value.y <= limit.y);
}

// deviation_limit of a whole node (4^level pixels) of a level up to WHOLE_LEVELS, in 64 bits.
inline ulong whole_limit(uint level, ulong bound) {
    return level <= 8 ? bound >> (32 - 4 * level) : bound << (4 * level - 32);
}

#if CRITERION != RANGE
// Whether a region of n pixels is uniform; any level. Sums of at most 4080 weights keep the total under 2^92.
inline int uniform_region(const ulong *sum, const ulong *squares, ulong n, ulong bound) {
    ulong2 limit = deviation_limit(n, bound);
#if CRITERION == WEIGHTED
    ulong2 total = (ulong2)(0, 0);
    for (uint c = 0; c < CHANNELS; ++c) {
        ulong2 v = scaled_variance(sum[c], squares[c], n);
        ulong low = v.y * WEIGHTS[c];
        total.x += v.x * WEIGHTS[c] + mul_hi(v.y, (ulong)WEIGHTS[c]);
        total.y += low;
        total.x += (ulong)(total.y < low);
    }
    return at_most(total, limit);
#elif CRITERION == LUMA
    return at_most(scaled_variance(sum[CHANNELS], squares[CHANNELS], n), limit);
#else
    int within = 0;
    for (uint c = 0; c < CHANNELS; ++c)
        within += at_most(scaled_variance(sum[c], squares[c], n), limit);
    return CRITERION == ANY ? within > 0 : within == CHANNELS;
#endif
}

// The same for a whole node (4^level pixels) of a level up to WHOLE_LEVELS, in 64 bits. Level 12: sums below 2^32, n
// times the squares at most 255^2 * 2^48 < 2^64, the limit below 2^48 * 2^16. With weights, level 6: variances below
// 2^40, their total below 2^52, the limit at most 2^60 / 2^8.
inline int uniform_whole(const ulong *sum, const ulong *squares, uint level, ulong bound) {
    ulong limit = whole_limit(level, bound);
#if CRITERION == WEIGHTED
    ulong total = 0;
#else
    int within = 0;
#endif
#if CRITERION == LUMA
    for (uint c = CHANNELS; c < BANDS; ++c) {
#else
    for (uint c = 0; c < CHANNELS; ++c) {
#endif
        ulong v = (squares[c] << (2 * level)) - (ulong)(uint)sum[c] * (uint)sum[c];
#if CRITERION == WEIGHTED
        total += v * WEIGHTS[c];
#else
        within += v <= limit;
#endif
    }
#if CRITERION == WEIGHTED
    return total <= limit;
#elif CRITERION == EVERY
    return within == CHANNELS;
#else
    return within > 0;
#endif
}

// The same for n <= 16 pixels in 32 bits: n * squares <= 16 * 16 * 255^2 < 2^24. `limit` is that of n pixels.
inline int uniform_narrow(const uint *word, uint n, ulong limit) {
#if CRITERION == WEIGHTED
    ulong total = 0;
#else
    uint limit32 = (uint)min(limit, 0xFFFFFFFFUL);
    int within = 0;
#endif
#if CRITERION == LUMA
    for (uint c = CHANNELS; c < BANDS; ++c) {
#else
    for (uint c = 0; c < CHANNELS; ++c) {
#endif
        uint sum = word[c] >> NARROW_SHIFT;
        uint v = n * (word[c] & NARROW_MASK) - sum * sum;
#if CRITERION == WEIGHTED
        total += (ulong)v * WEIGHTS[c];
#else
        within += v <= limit32;
#endif
    }
#if CRITERION == WEIGHTED
    return total <= limit;
#elif CRITERION == EVERY
    return within == CHANNELS;
#else
    return within > 0;
#endif
}
#else
// Whether the greatest less the least value of every channel is at most bound / 2^16; extents are (least, greatest).
inline int uniform_extent(const uchar2 *extent, ulong bound) {
    int within = 1;
    for (uint c = 0; c < CHANNELS; ++c)
        within &= (ulong)(extent[c].y - extent[c].x) << 16 <= bound;
    return within;
}

inline uchar2 join_extents(uchar2 a, uchar2 b) {
    return (uchar2)(min(a.x, b.x), max(a.y, b.y));
}
#endif

#define NO_EXTENT ((uchar2)(255, 0))

// Whether a node of level 3 or more with n > 0 pixels inside the picture is uniform.
inline int uniform_node(const ulong *sum, const ulong *squares, const uchar2 *extent, uint level, ulong n,
                        ulong bound) {
#if CRITERION == RANGE
    return uniform_extent(extent, bound);
#else
    if (level <= WHOLE_LEVELS && n == 1UL << (2 * level))
        return uniform_whole(sum, squares, level, bound);
    return uniform_region(sum, squares, n, bound);
#endif
}
