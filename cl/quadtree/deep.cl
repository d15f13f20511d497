/* Quadtrees of 16-bit pictures: one level of a band of rows from the level below, or from the pixels.
 *
 * Nodes have 64-bit sums: fewer than 2^32 pixels keep sums below 2^48 and squares below 2^64. What decides is compared
 * in 128 bits with limits that the host computes: there are four sizes of nodes in a level.
 *
 * Constants: those of quadtree/quadtree.h; FROM_PIXELS 1 for level 1.
 */
#include "quadtree/quadtree.h"

/* n, high and low word of the limit, unused: by whether the node is in the last column (1) and the last row (2). */
typedef struct {
    ulong n;
    ulong2 limit;
} node_size;

inline node_size size_of(__global const ulong4 *sizes, uint x, uint y, uint columns, uint rows)
{
    const ulong4 found = sizes[(x == columns - 1) + 2 * (y == rows - 1)];
    const node_size size = {found.s0, (ulong2)(found.s1, found.s2)};
    return size;
}

/* Value of a band of a pixel: a channel, or luma. */
inline uint band_value(__global const ushort *pixel, uint band)
{
    return band < CHANNELS ? pixel[band]
                           : (19595u * pixel[0] + 38470u * pixel[CHANNELS > 2 ? 1 : 0] +
                              7471u * pixel[CHANNELS > 2 ? 2 : 0] + 32768u) >>
                                 16;
}

/* A level's nodes.
 * NDRange: 2-D, columns by rows, guarded. Below lie `below_rows` by `below_columns` nodes, or pixels of pixels (rows,
 * columns, CHANNELS) ushort: their sums and squares (BANDS, rows, columns) ulong, and with RANGE extents (CHANNELS, rows,
 * columns) of least and greatest value. sizes (4) ulong4, see size_of. The same arrays are written for rows by columns
 * nodes; means (rows, columns, CHANNELS) uchar, in 8 bits, rounded half up; stops (rows, columns) uchar: 1 if uniform. */
__kernel void deep_level(__global const ushort *pixels, __global const ulong *below_sums,
                         __global const ulong *below_squares, __global const ushort2 *below_extents, uint below_rows,
                         uint below_columns, uint rows, uint columns, __global const ulong4 *sizes, ulong range_bound,
                         __global ulong *sums, __global ulong *squares, __global ushort2 *extents,
                         __global uchar *means, __global uchar *stops)
{
    const uint x = (uint)get_global_id(0);
    const uint y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const node_size size = size_of(sizes, x, y, columns, rows);
    const size_t node = (size_t)y * columns + x;
    const uint x_end = min(2 * x + 2, below_columns);
    const uint y_end = min(2 * y + 2, below_rows);
    verdict_t verdict = no_verdict();
    for (uint band = 0; band < BANDS; band++) {
        ulong sum = 0, square = 0;
        ushort least = 65535, greatest = 0;
        for (uint v = 2 * y; v < y_end; v++)
            for (uint u = 2 * x; u < x_end; u++) {
                const size_t at = (size_t)v * below_columns + u;
#if FROM_PIXELS
                const ulong value = band_value(pixels + at * CHANNELS, band);
                sum += value;
                square += value * value;
                least = min(least, (ushort)value);
                greatest = max(greatest, (ushort)value);
#else
                const size_t below = (size_t)band * below_rows * below_columns + at;
                sum += below_sums[below];
                square += below_squares[below];
#if CRITERION == RANGE
                least = min(least, below_extents[below].x);
                greatest = max(greatest, below_extents[below].y);
#endif
#endif
            }
        const size_t place = (size_t)band * rows * columns + node;
        sums[place] = sum;
        squares[place] = square;
#if CRITERION == RANGE
        extents[place] = (ushort2)(least, greatest);
        verdict.within &= (ulong)(greatest - least) << 16 <= range_bound;
#else
        add_wide_band(&verdict, band, sum, square, size.n, size.limit);
#endif
        if (band < CHANNELS)
            means[node * CHANNELS + band] = (uchar)((2 * sum + 257 * size.n) / (2 * 257 * size.n));
    }
#if CRITERION == RANGE
    stops[node] = (uchar)verdict.within;
#else
    stops[node] = (uchar)is_uniform_wide(&verdict, size.limit);
#endif
}
