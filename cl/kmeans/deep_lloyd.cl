/* A step of Lloyd's algorithm over weighted colours of 16 bits a value: the sums of each center's colours.
 *
 * S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982). Colours find their
 * nearest center as pixels find their entry (mapping/nearest.h): by candidate lists, and ties go to the lowest index.
 *
 * Exactness. Weights add up to at most 2^39, coordinates are below 2^17 and squared distances d below 2^36. So sums of
 * weights and of weighted coordinates stay below 2^56. Weighted distances are summed in two parts, of d mod 2^18 and of
 * d / 2^18, each below 2^57: all fit 64 bits, in any order.
 *
 * Constants: SPACE, SPACE_ALPHA and BITS (16) of common/color_spaces.h; WIDE_WEIGHTS of weights.h; RUN: colours that follow
 * each other and are one work-item's; ALONE 1 if no two work-items add to one copy of the sums.
 */
#ifndef ALONE
#define ALONE 0
#endif
#ifndef RUN
#define RUN 1
#endif
#define CHANNELS 4
#define CITY_BLOCK 0
#define EXACT_TIES 0
#define INDEX ushort
#include "mapping/nearest.h"
#include "kmeans/weights.h"

#define DIMS (3 + SPACE_ALPHA)
#define LOW_BITS 18

/* Adds a 64-bit value to two words, the low one first, by 32-bit atomics; a carry goes with what the high word gets. */
void add_wide(__global volatile uint *sum, ulong value)
{
    const uint low = (uint)value;
    uint high = (uint)(value >> 32);
    if (low)
        high += (uint)(atomic_add(&sum[0], low) + low) < low;
    if (high)
        atomic_add(&sum[1], high);
}

/* The same to one of the copies of the sums. */
void add_to_copy(__global uint *sum, ulong value)
{
#if ALONE
    *(__global ulong *)sum += value;
#else
    add_wide(sum, value);
#endif
}

/* Points of colours.
 * NDRange: 1-D, a work-item a colour, guarded by n. colors (n) ulong as histogram/deep_counting.cl leaves them; tables as
 * common/color_spaces.h wants; where (n) is written. */
__kernel void points_of_colors(__global const ulong *colors, uint n, __global const int *tables, __global int4 *where)
{
    const size_t i = get_global_id(0);
    if (i >= n)
        return;
    const ulong c = colors[i];
    const int4 color = (int4)((int)(c & 65535), (int)(c >> 16 & 65535), (int)(c >> 32 & 65535), (int)(c >> 48));
    where[i] = space_coordinates(color, tables);
}

/* Adds every colour to its center's sums.
 * NDRange: 1-D, any size; work-items stride over runs of colours. The first arguments are those of mapping/nearest.h, with
 * the k centers as points; where (n) the colours' points; weights (n) Weight. sums (copies, k,
 * 1 + DIMS) 64-bit numbers, each as low and high word: weight and weighted coordinates, added to; each work-group adds to
 * one copy. spread (2) 64-bit numbers alike: the two parts of the weighted squared distances, added to. */
__kernel void sum_colors(PALETTE_PARAMETERS, __global const int4 *where, __global const Weight *weights, uint n, uint k,
                         uint copies, __global uint *sums, __global uint *spread)
{
    __global uint *own = sums + (size_t)2 * (1 + DIMS) * k * (get_group_id(0) % copies);
    ulong low = 0;
    ulong high = 0;
    const size_t skipped = (get_global_size(0) - 1) * RUN;
    for (size_t i = get_global_id(0) * RUN; i < n; i += (i + 1) % RUN ? 1 : 1 + skipped) {
        const ulong weight = weights[i];
        const int4 point = where[i];
        const int center = nearest_to_color(point, point, points, colors, PALETTE_CELLS);
        const ulong distance = (ulong)squared(point - points[center]);
        low += weight * (distance & ((1 << LOW_BITS) - 1));
        high += weight * (distance >> LOW_BITS);
        __global uint *sum = own + (size_t)2 * (1 + DIMS) * center;
        add_to_copy(sum, weight);
        add_to_copy(sum + 2, weight * (ulong)point.x);
        add_to_copy(sum + 4, weight * (ulong)point.y);
        add_to_copy(sum + 6, weight * (ulong)point.z);
#if SPACE_ALPHA
        add_to_copy(sum + 8, weight * (ulong)point.w);
#endif
    }
    add_wide(spread, low);
    add_wide(spread + 2, high);
}
