/* What the steps of Lloyd's algorithm over colours of 16 bits a value share: cells of points, and the centers that can be
 * nearest to some point of a cell.
 *
 * S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982). That whole cells go
 * to one center is the filtering of T. Kanungo et al., "An efficient k-means clustering algorithm: analysis and
 * implementation", IEEE Transactions on Pattern Analysis and Machine Intelligence 24 (2002).
 *
 * A segment is a run of at most 1024 points of one cell: (cell, first, end, unused). Points are as kmeans/deep_points.cl
 * leaves them. With the cell's middle m as origin, p a point and c0 the pivot, the center nearest to about the middle, a
 * center c is nearer than c0 by |c - m|^2 - |c0 - m|^2 - 2 (c - c0).(p - m), which is what centers are compared by.
 *
 * Exactness. Weights add up to at most 2^39, coordinates are below 2^17 and squared distances below 2^36. So sums of weights
 * and of weighted coordinates stay below 2^56, and both parts of sums of squares below 2^57. Sums of 1024 places within
 * cells, each below 2^16, fit 32 bits. Comparisons are made in 32 bits if the bound in `comparison_fits` shows that they
 * fit, else in 64.
 */
#ifndef WEIGHTED
#define WEIGHTED 0
#endif
#ifndef CHANNELS
#define CHANNELS 4
#endif
#define CITY_BLOCK 0
#define EXACT_TIES 0
#define INDEX ushort
#include "mapping/nearest.h"
#include "mapping/candidates.h"
#include "common/wide_sums.h"
#include "kmeans/weights.h"

#define DIMS (3 + SPACE_ALPHA)
#define LOW_BITS 18
/* Centers of a cell that are compared in 32 bits. */
#define MOST_KEPT 64

/* A point's place within its cell; the fourth is 0 where alpha is no axis. */
int4 within_cell(ulong point)
{
    return (int4)((int)(point & 65535), (int)(point >> 16 & 65535), (int)(point >> 32 & 65535),
                  SPACE_ALPHA ? (int)(point >> 48) : 0);
}

typedef struct {
    int4 low;
    int4 high;
    int4 middle;
} Box;

Box box_of(uint cell, int4 grid, int shift, int4 extent)
{
    Box box;
    box.low = place_of((int)cell, grid) << shift;
    box.high = min(box.low + ((1 << shift) - 1), extent);
    box.middle = box.low + (1 << (shift - 1));
    return box;
}

/* What a center is compared by: scale.(p - m) + offset. */
typedef struct {
    int4 scale;
    long offset;
} Comparison;

Comparison comparison_of(int4 center, int4 pivot, int4 middle)
{
    Comparison found;
    found.scale = 2 * (pivot - center);
    found.offset = squared(center - middle) - squared(pivot - middle);
    return found;
}

/* Whether no partial sum of a comparison leaves 32 bits: places are at most half a side from the middle. */
int comparison_fits(Comparison given, int shift)
{
    const uint4 scale = abs(given.scale);
    const long most = ((long)scale.x + scale.y + scale.z + scale.w) << (shift - 1);
    /* Oclgrind does not know the function that compilers make of the offset's magnitude. */
    return most + given.offset <= INT_MAX && most - given.offset <= INT_MAX;
}

/* The nearest of listed centers, which are in ascending order; ties go to the first. */
uint nearest_listed(int4 point, __global const int4 *centers, __global const ushort *list, uint first, uint end)
{
    uint nearest = list[first];
    Squared least = squared(point - centers[nearest]);
    for (uint j = first + 1; j < end; j++) {
        const Squared distance = squared(point - centers[list[j]]);
        nearest = distance < least ? list[j] : nearest;
        least = min(least, distance);
    }
    return nearest;
}

/* Parameters of the kernels of a step: segments (n_segments) uint4; points (n) ulong; weights (n) Weight, read if WEIGHTED;
 * segment_sums (n_segments, 1 + DIMS) ulong; grid, shift: the points' cells; extent: largest coordinate of each axis; centers
 * (k, 4) int; starts, list, list_grid, list_shift: candidate lists as mapping/nearest.h takes them, whose cells hold whole
 * cells of points; sums (copies, k, 1 + DIMS) 64-bit numbers, each as low and high word: weight and weighted
 * coordinates of each center's points, added to; each work-group adds to one copy. */
#define STEP_PARAMETERS                                                                                                \
    __global const uint4 *segments, uint n_segments, __global const ulong *points, __global const Weight *weights,     \
        __global const ulong *segment_sums, int4 grid, int shift, int4 extent, __global const int4 *centers, uint k,   \
        __global const uint *starts, __global const ushort *list, int4 list_grid, int list_shift, uint copies,         \
        __global uint *sums
