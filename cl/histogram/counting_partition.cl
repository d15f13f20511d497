/* Counting opaque colours in the shape that CPUs run fast: pixels are first partitioned by cell of the colour cube,
 * then each cell is counted in a histogram that fits a cache. The result equals that of histogram/counting.cl.
 *
 * A colour's Z-order code (common/z_order.h) has its cell in the high 12 bits and its place within the cell in the low
 * 12. Work-groups have one work-item, each with a share of the pixels or cells, so nothing needs an atomic.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels.
 */
#include "common/z_order.h"

#ifndef CHANNELS
#define CHANNELS 3
#endif
#define CELLS 4096
#define CELL_BINS 4096

/* The code of pixel i, or a number from 2^24 on where its alpha is 0 (2^24) or another below 255 (2^24 + 1).
 * spread: spread_by_3 of 0..255. */
uint code_of_pixel(__global const uchar *pixels, size_t i, __global const uint *spread)
{
#if CHANNELS == 1
    return 7 * spread[pixels[i]];
#else
#if CHANNELS == 4
    const uint alpha = pixels[4 * i + 3];
    if (alpha < 255)
        return (1u << 24) + (alpha > 0);
#endif
    __global const uchar *p = pixels + CHANNELS * i;
    return (spread[p[0]] << 2) | (spread[p[1]] << 1) | spread[p[2]];
#endif
}

/* How many pixels of its share each work-group has in each cell.
 * NDRange: 1-D, work-groups of one work-item. pixels (n, CHANNELS) uchar; spread (256) uint; histograms (groups, CELLS)
 * uint from row `first_row` on, zero before; notes[0]: pixels of alpha 0, added to; notes[1]: set to 1 where a pixel
 * has alpha 1..254. */
__kernel void count_cells(__global const uchar *pixels, uint n, __global const uint *spread, uint first_row,
                          __global uint *histograms, __global uint *notes)
{
    const uint group = get_group_id(0);
    __global uint *own = histograms + (size_t)CELLS * (first_row + group);
    const size_t end = (size_t)n * (group + 1) / get_num_groups(0);
    uint transparent = 0;
    uint partial = 0;
    for (size_t i = (size_t)n * group / get_num_groups(0); i < end; i++) {
        const uint code = code_of_pixel(pixels, i, spread);
#if CHANNELS == 4
        if (code >> 24) {
            transparent += !(code & 1);
            partial |= code & 1;
            continue;
        }
#endif
        own[code >> 12]++;
    }
    if (transparent)
        atomic_add(&notes[0], transparent);
    if (partial)
        atomic_or(&notes[1], 1u);
}

/* Writes the place of each pixel within its cell to the cell's part of `places`.
 * As count_cells; cursors (groups, CELLS) uint from row `first_row` on: where each group's pixels of each cell go,
 * moved on. */
__kernel void place_pixels(__global const uchar *pixels, uint n, __global const uint *spread, uint first_row,
                           __global uint *cursors, __global ushort *places)
{
    const uint group = get_group_id(0);
    __global uint *own = cursors + (size_t)CELLS * (first_row + group);
    const size_t end = (size_t)n * (group + 1) / get_num_groups(0);
    for (size_t i = (size_t)n * group / get_num_groups(0); i < end; i++) {
        const uint code = code_of_pixel(pixels, i, spread);
#if CHANNELS == 4
        if (code >> 24)
            continue;
#endif
        places[own[code >> 12]++] = (ushort)(code & (CELL_BINS - 1));
    }
}

/* The histogram of one cell, in bins. */
void count_cell(__global const ushort *places, uint first, uint end, __local uint *bins)
{
    for (uint b = 0; b < CELL_BINS; b++)
        bins[b] = 0;
    for (uint i = first; i < end; i++)
        bins[places[i]]++;
}

/* How many colours each cell has.
 * NDRange: 1-D, work-groups of one work-item; a group strides over cells. begins (CELLS + 1) uint into places; occupied
 * (CELLS) uint is written; bins: CELL_BINS uint. */
__kernel void count_colors(__global const ushort *places, __global const uint *begins, __global uint *occupied,
                           __local uint *bins)
{
    for (uint cell = get_group_id(0); cell < CELLS; cell += get_num_groups(0)) {
        uint found = 0;
        if (begins[cell] < begins[cell + 1]) {
            count_cell(places, begins[cell], begins[cell + 1], bins);
            for (uint b = 0; b < CELL_BINS; b++)
                found += bins[b] != 0;
        }
        occupied[cell] = found;
    }
}

/* Collects the colours of each cell in Z-order.
 * As count_colors; starts (CELLS + 1) uint: where each cell's colours go; colors (starts[CELLS]) uint, packed; counts
 * likewise. */
__kernel void collect_colors(__global const ushort *places, __global const uint *begins, __global const uint *starts,
                             __global uint *colors, __global uint *counts, __local uint *bins)
{
    for (uint cell = get_group_id(0); cell < CELLS; cell += get_num_groups(0)) {
        if (begins[cell] == begins[cell + 1])
            continue;
        count_cell(places, begins[cell], begins[cell + 1], bins);
        uint out = starts[cell];
        for (uint b = 0; b < CELL_BINS; b++) {
            if (bins[b]) {
                colors[out] = packed_rgb((cell << 12) | b);
                counts[out] = bins[b];
                out++;
            }
        }
    }
}
