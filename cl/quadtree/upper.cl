/* A level of the quadtree from the level below it: above the tiles, and every level of 16-bit pictures. Masina and
 * Stedile, section 5.2; the paper finishes these levels on the host.
 *
 * Sums have 64 bits: fewer than 2^32 pixels of 16 bits keep sums below 2^48 and squares below 2^64.
 * Constants besides those of quadtree/quadtree.h: BELOW, what lies below: 16-bit pixels (0), packed wide words (1), or
 * sums and squares (2); DEEP 1 for 16-bit pictures.
 */
#include "quadtree/quadtree.h"

#define PIXELS 0
#define PACKED 1
#define PAIRS 2

#if DEEP
typedef ushort2 extent_t;
#define LAST_VALUE 65535u
#else
typedef uchar2 extent_t;
#define LAST_VALUE 255u
#endif

/* What a band of a node adds up to. */
typedef struct {
    ulong sum, squares;
    uint least, greatest;
} totals_t;

/* Value of a band of a pixel: a channel, or luma. */
inline uint band_value(__global const ushort *pixel, uint band)
{
    return band < CHANNELS ? pixel[band]
                           : (19595u * pixel[0] + 38470u * pixel[CHANNELS > 2 ? 1 : 0] +
                              7471u * pixel[CHANNELS > 2 ? 2 : 0] + 32768u) >>
                                 16;
}

/* A level's nodes: as sums and squares (BANDS pairs of planes), leaves under each and STOP, extents (CHANNELS planes of
 * (least, greatest), with the range criterion). */
typedef struct {
    __global ulong *stats;
    __global uint *nodes;
    __global extent_t *extents;
    uint rows, columns;
} level_t;

/* Adds band `band` of the child `at` in a level that is of a kind like BELOW, to sums `times` times, 0 or 1. */
inline void add_child(totals_t *totals, const level_t *below, int kind, size_t at, uint band, uint times)
{
    const size_t cells = (size_t)below->rows * below->columns;
    if (kind == PIXELS) {
        const ulong value = band_value((__global const ushort *)below->stats + at * CHANNELS, band);
        totals->sum += times * value;
        totals->squares += times * value * value;
        totals->least = min(totals->least, (uint)value);
        totals->greatest = max(totals->greatest, (uint)value);
        return;
    }
    if (kind == PACKED) {
        const ulong word = below->stats[band * cells + at];
        totals->sum += times * (word >> WIDE_SHIFT);
        totals->squares += times * (word & WIDE_MASK);
    } else {
        totals->sum += times * below->stats[2 * band * cells + at];
        totals->squares += times * below->stats[(2 * band + 1) * cells + at];
    }
#if CRITERION == RANGE
    const extent_t extent = below->extents[band * cells + at];
    totals->least = min(totals->least, (uint)extent.x);
    totals->greatest = max(totals->greatest, (uint)extent.y);
#endif
}

/* Makes the node (x, y) of n pixels from those below; stops a split where it is uniform, or `is_floor`. */
inline void make_node(const level_t *below, int kind, const level_t *level, uint x, uint y, ulong n, int is_floor,
                      ulong2 bound, __global uchar *means)
{
    const size_t node = (size_t)y * level->columns + x, cells = (size_t)level->rows * level->columns;
    /* In place of a child outside the picture the first one is loaded, so that no load waits for another. */
    uint children[4], inside[4], leaves = 0;
#pragma unroll
    for (uint q = 0; q < 4; ++q) {
        const uint u = 2 * x + (q & 1u), v = 2 * y + (q >> 1);
        inside[q] = u < below->columns && v < below->rows;
        children[q] = inside[q] ? v * below->columns + u : 2 * y * below->columns + 2 * x;
        leaves += inside[q] * (kind == PIXELS ? 1u : below->nodes[children[q]] & COUNT_MASK);
    }
    const ulong2 limit = deviation_limit(n, bound);
    verdict_t verdict = no_verdict();
    for (uint band = 0; band < BANDS; ++band) {
        totals_t totals = {0, 0, LAST_VALUE, 0};
#pragma unroll
        for (uint q = 0; q < 4; ++q)
            add_child(&totals, below, kind, children[q], band, inside[q]);
        level->stats[2 * band * cells + node] = totals.sum;
        level->stats[(2 * band + 1) * cells + node] = totals.squares;
#if CRITERION == RANGE
        level->extents[band * cells + node] = (extent_t)(totals.least, totals.greatest);
        verdict.within &= (ulong)(totals.greatest - totals.least) << 16 <= bound.y;
#else
        add_wide_band(&verdict, band, totals.sum, totals.squares, n, limit);
#endif
#if DEEP
        if (band < CHANNELS)
            means[node * CHANNELS + band] = (uchar)((2 * totals.sum + 257 * n) / (2 * 257 * n));
#endif
    }
    level->nodes[node] = is_floor || is_uniform_wide(&verdict, limit) ? STOP | 1u : leaves & COUNT_MASK;
}

/* `levels` levels from `first` on; with DEEP one.
 *
 * NDRange: 1-D; one work-group, or for one level any number. below: level first - 1 of the height x width pixels;
 * stats, nodes, extents: those of the levels, one after another; *_at: places of the first there, in elements.
 * floor_level: nodes up to it stop a split. bound: of n^2 times the variance over 2^32 n^2, high and low word; of
 * ranges over 2^16. means, with DEEP: (rows, columns, CHANNELS), in 8 bits, rounded half up. */
__kernel void quadtree_upper(__global ulong *below, uint below_at, __global uint *below_nodes, uint below_nodes_at,
                             __global extent_t *below_extents, uint below_extents_at, __global ulong *stats,
                             uint stats_at, __global uint *nodes, uint nodes_at, __global extent_t *extents,
                             uint extents_at, uint width, uint height, uint first, uint levels, uint floor_level,
                             ulong2 bound, __global uchar *means)
{
    level_t lower = {below + below_at, below_nodes + below_nodes_at, below_extents + below_extents_at,
                     along(height, first - 1), along(width, first - 1)};
    level_t level = {stats + stats_at, nodes + nodes_at, extents + extents_at, along(height, first),
                     along(width, first)};
#if DEEP
    const uint k = first;
#else
    for (uint k = first; k < first + levels; ++k)
#endif
    {
        const uint cells = level.rows * level.columns;
        for (uint i = get_global_id(0); i < cells; i += get_global_size(0)) {
            const uint x = i % level.columns, y = i / level.columns;
            make_node(&lower, DEEP || k == first ? BELOW : PAIRS, &level, x, y, pixels_inside(x, y, k, width, height),
                      k <= floor_level, bound, means);
        }
#if !DEEP
        barrier(CLK_GLOBAL_MEM_FENCE);
        lower = level;
        level.stats += 2 * BANDS * cells;
        level.nodes += cells;
        level.extents += CHANNELS * cells;
        level.rows = along(height, k + 1);
        level.columns = along(width, k + 1);
#endif
    }
}
