/* Answers remembered by colour, for kernels that search in lanes (mapping/candidates_lanes.h).
 *
 * Constants: those of mapping/nearest.h; WORDS of a memo's entry.
 */
#include "mapping/candidates_lanes.h"

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

/* The points of colours, and their cells. */
void find_cells(const uint *keys, uint n, __global const int *tables, int4 grid, int shift, int (*points)[CHUNK],
                uint *cells)
{
    for (uint i = 0; i < n; i++) {
        const int4 color = unpacked_color(keys[i]), point = space_coordinates(color, tables);
        points[0][i] = point.x;
        points[1][i] = point.y;
        points[2][i] = point.z;
        points[3][i] = point.w;
        cells[i] = (uint)cell_of(point, color, grid, shift);
    }
}

void clear_memo(__global uint *memo, int bits)
{
    for (uint i = 0; i < WORDS << 3 * bits; i += 8)
        vstore8((uint8)0, 0, memo + i);
}

/* The colours of pixels begin to begin + n - 1, n at most CHUNK. */
void load_keys(__global const uchar *pixels, ulong begin, uint n, uint *keys)
{
    for (uint i = 0; i < n; i++)
        keys[i] = packed_color(load_pixel(pixels, begin + i));
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
