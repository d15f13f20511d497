/* What the steps of Lloyd's algorithm over colours of 16 bits a value share: cells of points, and the centers that can
 * be nearest to some point of a cell.
 *
 * kmeans/lloyd.cl has the sources; that whole cells go to one center is the filtering of T. Kanungo et al.
 *
 * A segment is a run of at most 1024 points of one cell: (cell, first, end, unused). Points are as
 * kmeans/deep_points.cl leaves them. With the cell's middle m as origin, p a point and c0 the pivot, the center nearest
 * to about the middle, a center c is nearer than c0 by |c - m|^2 - |c0 - m|^2 - 2 (c - c0).(p - m), which is what
 * centers are compared by.
 *
 * Exactness. Weights add up to at most 2^39, coordinates are below 2^17 and squared distances below 2^36. So sums of
 * weights and of weighted coordinates stay below 2^56, and both parts of sums of squares below 2^57. Sums of 1024
 * places within cells, each below 2^16, fit 32 bits. Comparisons are made in 32 bits where the bound in `keep_near`
 * shows that they fit, else in 64.
 */
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

/* A point's place within its cell; the fourth is 0 where alpha is no axis. */
int4 within_cell(ulong point)
{
    return (int4)((int)(point & 65535), (int)(point >> 16 & 65535), (int)(point >> 32 & 65535),
                  SPACE_ALPHA ? (int)(point >> 48) : 0);
}
