/* Lloyd's algorithm over weighted points, exact and pruned.
 *
 * S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982). Points come in
 * tiles: runs of neighbouring points with the box around them. Before a tile's points are assigned, every center is
 * discarded that loses everywhere in the box to the one nearest to the box's middle: the difference of two squared
 * distances is linear in the point, so its greatest value is at a corner (T. Kanungo et al., "An efficient k-means
 * clustering algorithm", IEEE TPAMI 24 (2002), the filtering criterion). What remains, in ascending index, holds every
 * nearest center, ties included.
 *
 * Exactness. Coordinates of points and centers are integers from 0 to an extent with the sum of squared extents below
 * 2^24 (asserted on the host), so squared distances, their partial sums and the differences of partial sums are
 * integers below 2^24: exact in fp32, fused or not. Weights add up to less than 2^32, so sums of coordinates stay below
 * 2^44 and of squared distances below 2^56: exact in 64 bits, in any order.
 *
 * Constants: DIMS 3 or 4.
 * Layout: points (DIMS, stride) float planes; centers (DIMS, k_stride) float planes; tiles: starts (n_tiles + 1) uint
 * into the points, boxes (2 * DIMS, n_tiles) float planes, lowest coordinates then highest. A center's statistics are
 * STATS 64-bit numbers, each as low and high word: weight, sums of coordinates, sums of squared differences by axis;
 * or, where `by_axis` is 0, the sum of squared distances in place of the first of the latter and 0 in the others.
 */
#include "kmeans/lloyd.h"
#include "kmeans/lloyd_tiles.h"

/* Assigns every point to its nearest center, ties to the lowest index, and adds up each center's statistics.
 * NDRange: 1-D, groups of a power of two; a work-group strides over tiles. Does nothing where state[DONE], unless
 * `by_axis`. weights (n) uint; lists: k ushort a work-group, scratch; sums (k, STATS) 64-bit, added to. Local: keys, a
 * ulong a work-item; local_sums SLOTS * STATS 64-bit; DIMS * SHORTLIST floats and SHORTLIST ushort besides. */
__kernel void assign_tiles(__global const float *points, uint stride, __global const uint *weights,
                           __global const uint *starts, __global const float *boxes, uint n_tiles,
                           __global const float *centers, uint k, uint k_stride, uint by_axis,
                           __global const uint *state, __global ushort *lists, __global uint *sums,
                           __local ulong *keys, __local uint *local_sums)
{
    __local float shortlist[DIMS * SHORTLIST];
    __local ushort names[SHORTLIST];
    const uint tiles = state[DONE] && !by_axis ? 0 : n_tiles;
    assign_share(points, stride, weights, starts, boxes, tiles, centers, k, k_stride, by_axis, lists, sums, keys,
                 local_sums, shortlist, names);
}
