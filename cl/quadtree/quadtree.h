/* Shared by the quadtree kernels: geometry of the levels, packed statistics, the uniformity criteria.
 *
 * Levels are counted from the pixels: a node of level k is a square of 2^k pixels per side, clipped to the picture.
 * The grid of level k has ceil(height / 2^k) rows and ceil(width / 2^k) columns, row-major.
 *
 * Constants the host passes: CHANNELS (1..16), BANDS (CHANNELS, plus one when luma is derived), CRITERION,
 * WEIGHT_LIST (CHANNELS integers 0..255), TILE_LEVEL (4..6).
 *
 * Packed words, sums of 8-bit values x and of their squares, added as plain integers:
 *   narrow (levels 1 and 2, uint):            sum << 20 | squares.  16 * 255   < 2^12, 16 * 255^2   < 2^20.
 *   wide   (levels 3 to TILE_LEVEL, ulong):   sum << 32 | squares.  4096 * 255 < 2^20, 4096 * 255^2 < 2^28.
 * Above TILE_LEVEL a node has two ulongs: sums < 2^40 and squares < 2^48 for fewer than 2^32 pixels. */

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
__constant uint WEIGHTS[CHANNELS] = {WEIGHT_LIST};
#endif

/* Nodes of `level` along a picture of `length` pixels. */
inline uint along(uint length, uint level)
{
    return (length + (1u << level) - 1u) >> level;
}

/* First node of `level` in an array that holds the grids of the levels first, first + 1, ... one after another. */
inline uint level_base(uint width, uint height, uint first, uint level)
{
    uint base = 0;
    for (uint k = first; k < level; ++k)
        base += along(height, k) * along(width, k);
    return base;
}

/* Even bits of a Morton code of at most 8 bits: the x of a block in its tile (the y is even_bits(code >> 1)). */
inline uint even_bits(uint code)
{
    return (code & 1u) | ((code >> 1) & 2u) | ((code >> 2) & 4u) | ((code >> 3) & 8u);
}

/* The other way: bit i of a coordinate of at most 4 bits becomes bit 2i. */
inline uint spread_bits(uint v)
{
    return (v & 1u) | (v & 2u) << 1 | (v & 4u) << 2 | (v & 8u) << 3;
}

#define MEAN_WORDS ((CHANNELS + 3) / 4)

/* Mean of a channel sum over n pixels, rounded half up; in 32 bits where 2 * 255 * n + n fits. */
inline uint rounded_mean(ulong sum, ulong n)
{
    return n < 1 << 22 ? (2 * (uint)sum + (uint)n) / (2 * (uint)n) : (uint)((2 * sum + n) / (2 * n));
}

/* The same of a whole node of a level from 1 to TILE_LEVEL. */
inline uint whole_mean(uint sum, uint level)
{
    return (sum + (1u << (2 * level - 1))) >> (2 * level);
}

/* Pixels of the node (x, y) of `level` that lie inside the picture; 0 for a region wholly outside. */
inline ulong pixels_inside(uint x, uint y, uint level, uint width, uint height)
{
    ulong left = (ulong)x << level, top = (ulong)y << level, side = 1UL << level;
    if (left >= width || top >= height)
        return 0;
    return min(side, width - left) * min(side, height - top);
}

/* floor(bound * n^2 / 2^32), as is the bound (high, low): below 2^77, as n < 2^32 keeps the result under 2^109. */
inline ulong2 deviation_limit(ulong n, ulong2 bound)
{
    ulong n2 = n * n, upper = n2 * bound.x, lower = mul_hi(n2, bound.y);
    ulong low = upper << 32, part = upsample((uint)lower, (uint)(n2 * bound.y >> 32));
    ulong high = upsample((uint)mul_hi(n2, bound.x), (uint)(upper >> 32));
    return (ulong2)(high + (lower >> 32) + (ulong)(low + part < low), low + part);
}

/* n * squares - sum^2, n^2 times the variance, as (high, low): at most 255^2 * n^2 < 2^80. */
inline ulong2 scaled_variance(ulong sum, ulong squares, ulong n)
{
    ulong low = n * squares, high = mul_hi(n, squares), taken = sum * sum;
    return (ulong2)(high - mul_hi(sum, sum) - (ulong)(low < taken), low - taken);
}

inline int at_most(ulong2 value, ulong2 limit)
{
    return value.x < limit.x || (value.x == limit.x && value.y <= limit.y);
}

/* floor(bound * n^2 / 2^32) for n <= 2^16 in 64 bits: bound / 2^32 < 2^28, and what is left of it times n^2 is below
 * 2^64. */
inline ulong small_limit(uint n, ulong bound)
{
    ulong n2 = (ulong)n * n;
    return n2 * (bound >> 32) + (n2 * (bound & 0xFFFFFFFFUL) >> 32);
}

/* The same of a whole node (4^level pixels) of a level up to TILE_LEVEL. */
inline ulong whole_limit(uint level, ulong bound)
{
    return bound >> (32 - 4 * level);
}

/* What the bands of a node say together, one band after another: with weights the sum of n^2 times their variances,
 * else whether they are within the limit. */
typedef struct {
#if CRITERION == WEIGHTED
    ulong high, total;
#else
    int within;
#endif
} verdict_t;

inline verdict_t no_verdict(void)
{
    verdict_t verdict;
#if CRITERION == WEIGHTED
    verdict.high = verdict.total = 0;
#else
    verdict.within = CRITERION == EVERY || CRITERION == RANGE;
#endif
    return verdict;
}

#define DECIDES(c) (CRITERION != LUMA || (c) == CHANNELS)

#if CRITERION == RANGE
inline uchar2 join_extents(uchar2 a, uchar2 b)
{
    return (uchar2)(min(a.x, b.x), max(a.y, b.y));
}

/* The greatest less the least value, 0 of no values; an extent is (least, greatest). */
inline uint extent_width(uchar2 extent)
{
    return extent.y - min(extent.x, extent.y);
}

/* Adds a band of a node with that extent. */
inline void add_extent(verdict_t *verdict, uchar2 extent, ulong bound)
{
    verdict->within &= (ulong)extent_width(extent) << 16 <= bound;
}
#else
inline void add_outcome(verdict_t *verdict, int within)
{
#if CRITERION == EVERY
    verdict->within &= within;
#elif CRITERION != WEIGHTED
    verdict->within |= within;
#endif
}

/* Adds band c of a node of n <= 2^12 pixels, whose n^2 times the variance is `scaled`: below 2^40, with weights their
 * total below 2^52. */
inline void add_band(verdict_t *verdict, uint c, ulong scaled, ulong limit)
{
#if CRITERION == WEIGHTED
    verdict->total += scaled * WEIGHTS[c];
#else
    if (DECIDES(c))
        add_outcome(verdict, scaled <= limit);
#endif
}

/* The same of a node of n <= 4^TILE_LEVEL pixels whose wide word is `word`. */
inline void add_word(verdict_t *verdict, uint c, ulong word, uint n, ulong limit)
{
    uint sum = (uint)(word >> WIDE_SHIFT);
    add_band(verdict, c, (word & WIDE_MASK) * n - (ulong)sum * sum, limit);
}

/* The same for any node, in 128 bits. Sums of at most 4080 weights keep the total under 2^92. */
inline void add_wide_band(verdict_t *verdict, uint c, ulong sum, ulong squares, ulong n, ulong2 limit)
{
    ulong2 v = scaled_variance(sum, squares, n);
#if CRITERION == WEIGHTED
    ulong low = v.y * WEIGHTS[c];
    verdict->high += v.x * WEIGHTS[c] + mul_hi(v.y, (ulong)WEIGHTS[c]);
    verdict->total += low;
    verdict->high += (ulong)(verdict->total < low);
#else
    if (DECIDES(c))
        add_outcome(verdict, at_most(v, limit));
#endif
}

#endif

/* What the bands that were added say. For limits of 64 bits. */
inline int is_uniform(const verdict_t *verdict, ulong limit)
{
#if CRITERION == WEIGHTED
    return verdict->total <= limit;
#else
    return verdict->within;
#endif
}

inline int is_uniform_wide(const verdict_t *verdict, ulong2 limit)
{
#if CRITERION == WEIGHTED
    return at_most((ulong2)(verdict->high, verdict->total), limit);
#else
    return verdict->within;
#endif
}

#define NO_EXTENT ((uchar2)(255, 0))
