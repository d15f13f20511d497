/* Nearest palette entries in the shape that CPUs run fast: candidates in the lanes of a vector. Equal bit for bit to
 * mapping/nearest.h, whose constants it takes.
 *
 * A candidate list is made of blocks of LANES entries (mapping/candidates_lanes.cl). A block has PLANES rows of LANES
 * 16-bit numbers: DIMS coordinates; where EXACT_TIES, DIMS 8-bit values; the palette index. The last block of a list is
 * filled with copies of one of its entries, which change no minimum.
 *
 * Every kernel that chooses entries begins with the same arguments (LaneGrid.arguments of
 * clquant/mapping/candidates_lanes.py):
 *   tables (Space.tables()) int; spans (cells) uint2: where in blocks each cell's candidates begin and end; blocks
 *   (any, PLANES, LANES) short; grid: cells along each axis; shift: log2 of a cell's side; transparent: first entry of
 *   alpha 0 or -1; missing (1) int: set to 1 where that entry is wanting.
 */
#define FOR_CPUS
#include "mapping/nearest.h"

#define LANES 8
#define DIMS (3 + SPACE_ALPHA)
#define PLANES (DIMS * (1 + EXACT_TIES) + 1)

#define LANE_PARAMETERS                                                                                                \
    __global const int *tables, __global const uint2 *spans, __global const short *blocks, int4 grid, int shift,       \
        int transparent, __global int *missing
#define LANE_CELLS spans, blocks, grid, shift

/* Blocks are aligned to their rows' size, which vload8 does not say. */
int8 plane(__global const short *block, int row)
{
    return convert_int8(((__global const short8 *)block)[row]);
}

/* Squared distances from a point, its coordinates `stride` apart, to DIMS planes. */
int8 squared_lanes(const int *p, uint stride, __global const short *block, int row)
{
    int8 sum = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
        const int8 difference = plane(block, row + d) - p[d * stride];
        sum += difference * difference;
    }
    return sum;
}

/* What mapping/nearest.h calls separation. */
int8 separation_lanes(const int *p, uint stride, __global const short *block)
{
#if CITY_BLOCK
    uint8 sum = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        sum += abs(plane(block, d) - p[d * stride]);
    return as_int8(sum);
#else
    return squared_lanes(p, stride, block, 0);
#endif
}

/* The nearest of a cell's candidates to a point, its coordinates `stride` apart. One number orders them. Where it fits
 * 32 bits, that is the distance (below 2^18) and the index in bits 0 to 7. Else it is the distance (at most 2^24) in
 * bits 34 to 58; in bits 16 to 33 that of plain values from the colour `key` (at most 4 * 255^2 < 2^18), if it is not
 * 0; the index in bits 0 to 15. */
uint nearest_in_lanes(const int *point, uint stride, uint key, uint2 span, __global const short *blocks)
{
#if EXACT_TIES
    const int plain[4] = {(int)(key & 255), (int)(key >> 8 & 255), (int)(key >> 16 & 255), (int)(key >> 24)};
#else
    if (sizeof(INDEX) == 1) {
        uint8 nearest = UINT_MAX;
        for (uint b = span.x; b < span.y; b++) {
            __global const short *block = blocks + (size_t)b * (PLANES * LANES);
            const uint8 distance = as_uint8(separation_lanes(point, stride, block));
            nearest = min(nearest, distance << 8u | as_uint8(plane(block, PLANES - 1)));
        }
        const uint4 four = min(nearest.lo, nearest.hi);
        const uint2 two = min(four.lo, four.hi);
        return min(two.x, two.y) & 0xff;
    }
#endif
    ulong8 best = ULONG_MAX;
    for (uint b = span.x; b < span.y; b++) {
        __global const short *block = blocks + (size_t)b * (PLANES * LANES);
        ulong8 order = convert_ulong8(separation_lanes(point, stride, block)) << (ulong8)34;
        order |= convert_ulong8(((__global const ushort8 *)block)[PLANES - 1]);
#if EXACT_TIES
        if (key)
            order |= convert_ulong8(squared_lanes(plain, 1, block, DIMS)) << (ulong8)16;
#endif
        best = order < best ? order : best;
    }
    const ulong4 four = best.lo < best.hi ? best.lo : best.hi;
    const ulong2 two = four.lo < four.hi ? four.lo : four.hi;
    return (uint)min(two.x, two.y) & 0xffff;
}
