/* Nearest palette entries in the shape that CPUs run fast: candidates in the lanes of a vector, answers remembered by
 * colour. Equal bit for bit to palette_nearest.h, whose constants it takes.
 *
 * A candidate list is made of blocks of LANES entries (palette_cells_lanes.cl). A block has PLANES rows of LANES 16-bit
 * numbers: DIMS coordinates; where EXACT_TIES, DIMS 8-bit values; the palette index. The last block of a list is filled
 * with copies of one of its entries, which change no minimum.
 *
 * Every kernel that chooses entries begins with the same arguments (LaneGrid.arguments of clquant/palette/lanes.py):
 *   tables (Space.tables()) int; spans (cells) uint2: where in blocks each cell's candidates begin and end; blocks
 *   (any, PLANES, LANES) short; grid: cells along each axis; shift: log2 of a cell's side; transparent: first entry of
 *   alpha 0 or -1; missing (1) int: set to 1 where that entry is wanting.
 */
#include "palette_nearest.h"

/* Constants: those of palette_nearest.h; WORDS of a memo's entry. */
#define LANES 8
#define DIMS (3 + SPACE_ALPHA)
#define PLANES (DIMS * (1 + EXACT_TIES) + 1)

#define LANE_PARAMETERS                                                                                              \
    __global const int *tables, __global const uint2 *spans, __global const short *blocks, int4 grid, int shift,     \
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

/* What palette_nearest.h calls separation. */
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

/* The nearest of a cell's candidates to a point, its coordinates `stride` apart. One number orders them: the distance
 * (at most 2^24) in bits 34 to 58; in bits 16 to 33 that of plain values from the colour `key` (at most 4 * 255^2 <
 * 2^18), if it is not 0; the index in bits 0 to 15. */
uint nearest_in_lanes(const int *point, uint stride, uint key, uint2 span, __global const short *blocks)
{
#if EXACT_TIES
    const int plain[4] = {(int)(key & 255), (int)(key >> 8 & 255), (int)(key >> 16 & 255), (int)(key >> 24)};
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

/* Pixels that are looked up together: first those that are not known are listed, then answered, so that one search need
 * not wait for another. */
#define CHUNK 256

/* A memo has 2^(3 bits) entries of WORDS uint: a colour as `load_keys` packs it, then its answer. 0 is no colour's key
 * but that of transparent black, which is never looked up. */
uint memo_slot(uint key, int bits)
{
    const uint low = (1u << bits) - 1;
    const uint slot = (key & low) | (key >> 8 & low) << bits | (key >> 16 & low) << 2 * bits;
#if CHANNELS == 4
    return WORDS * (slot ^ ((255 - (key >> 24)) * 173 & ((1u << 3 * bits) - 1)));
#else
    return WORDS * slot;
#endif
}

int4 unpacked_color(uint key)
{
    return (int4)((int)(key & 255), (int)(key >> 8 & 255), (int)(key >> 16 & 255), (int)(key >> 24));
}

/* The points of colours, and their cells. */
void find_cells(const uint *keys, uint n, __global const int *tables, int4 grid, int shift, int (*points)[CHUNK],
                uint *cells)
{
    for (uint i = 0; i < n; i++) {
        const int4 point = space_coordinates(unpacked_color(keys[i]), tables);
        points[0][i] = point.x;
        points[1][i] = point.y;
        points[2][i] = point.z;
        points[3][i] = point.w;
        cells[i] = (uint)cell_of(point, grid, shift);
    }
}

void clear_memo(__global uint *memo, int bits)
{
    for (uint i = 0; i < WORDS << 3 * bits; i++)
        memo[i] = 0;
}

/* The colours of pixels begin to begin + n - 1, n at most CHUNK. */
void load_keys(__global const uchar *pixels, ulong begin, uint n, uint *keys)
{
    for (uint i = 0; i < n; i++) {
        const int4 c = load_pixel(pixels, begin + i);
        keys[i] = (uint)c.x | (uint)c.y << 8 | (uint)c.z << 16 | (uint)c.w << 24;
    }
}

/* Lists the colours that the memo does not have, and claims their slots; returns how many. Each must get a whole entry
 * afterwards, in order, so that every entry's answer is its key's. A colour may lose its slot to a later one of the
 * chunk; alone in a chunk it does not. */
uint list_unknown(const uint *keys, uint n, __global uint *memo, int bits, uint *unknown)
{
    uint count = 0;
    for (uint i = 0; i < n; i++) {
        const uint slot = memo_slot(keys[i], bits);
        unknown[count] = keys[i];
#if CHANNELS == 4
        count += (memo[slot] != keys[i]) & (keys[i] >> 24 != 0);
#else
        count += memo[slot] != keys[i];
#endif
        memo[slot] = keys[i];
    }
    return count;
}
