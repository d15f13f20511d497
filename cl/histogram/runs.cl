/* Counting colours with alpha in the shape that CPUs run fast: runs of equal pixels are partitioned by cell of the RGBA
 * cube, and each cell is sorted and added up. The result equals that of counting.cl.
 *
 * A colour's Z-order code (common/z_order.h) has its cell in the high 16 bits and its place within the cell in the low
 * 16. Work-groups have one work-item, each with a share of the pixels or cells, so nothing needs an atomic. A run ends
 * with its share, so that counting and placing find the same runs. Sums are below 2^32, as all pixels together are.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels.
 */
#include "common/z_order.h"

#ifndef CHANNELS
#define CHANNELS 4
#endif
#define CELLS 65536
/* Runs of a cell up to which moving each to its place one by one is faster than sorting by digits. */
#define FEW_RUNS 48
#define DIGITS 256
#define PARTIAL 1
#define CLEAR 2

/* Pixel i as R | G << 8 | B << 16 | alpha << 24. */
uint packed_pixel(__global const uchar *pixels, size_t i)
{
#if CHANNELS == 1
    return pixels[i] * 0x010101u | 0xFF000000u;
#elif CHANNELS == 3
    return pixels[3 * i] | (uint)pixels[3 * i + 1] << 8 | (uint)pixels[3 * i + 2] << 16 | 0xFF000000u;
#else
    return ((__global const uint *)pixels)[i];
#endif
}

/* spread: spread_by_4 of 0..255. */
uint code_of(uint color, __global const uint *spread)
{
    return (spread[color & 255] << 3) | (spread[color >> 8 & 255] << 2) | (spread[color >> 16 & 255] << 1) |
           spread[color >> 24];
}

/* How many runs of its share each work-group has in each cell.
 * NDRange: 1-D, work-groups of one work-item. pixels (n, CHANNELS) uchar; spread (256) uint; histograms (groups, CELLS)
 * uint from row `first_row` on, zero before; notes[0]: pixels of alpha 0, added to; notes[1]: gets the bits PARTIAL and
 * CLEAR. */
__kernel void count_runs(__global const uchar *pixels, uint n, __global const uint *spread, uint first_row,
                         __global uint *histograms, __global uint *notes)
{
    const uint group = get_group_id(0);
    __global uint *own = histograms + (size_t)CELLS * (first_row + group);
    const size_t end = (size_t)n * (group + 1) / get_num_groups(0);
    uint held = 0;
    uint transparent = 0;
    uint alphas = 0;
    for (size_t i = (size_t)n * group / get_num_groups(0); i < end; i++) {
        const uint color = packed_pixel(pixels, i);
        const uint alpha = color >> 24;
        if (alpha && color != held) {
            own[code_of(color, spread) >> 16]++;
            alphas |= alpha < 255 ? PARTIAL : 0;
        }
        transparent += alpha == 0;
        held = color;
    }
    if (transparent)
        atomic_add(&notes[0], transparent);
    if (alphas || transparent)
        atomic_or(&notes[1], alphas | (transparent ? CLEAR : 0));
}

/* Writes the place of each run within its cell, and its pixels, to the cell's part of `places` and `lengths`.
 * As count_runs; cursors (groups, CELLS) uint from row `first_row` on: where each group's runs of each cell go, moved
 * on. */
__kernel void place_runs(__global const uchar *pixels, uint n, __global const uint *spread, uint first_row,
                         __global uint *cursors, __global ushort *places, __global uint *lengths)
{
    const uint group = get_group_id(0);
    __global uint *own = cursors + (size_t)CELLS * (first_row + group);
    const size_t begin = (size_t)n * group / get_num_groups(0);
    const size_t end = (size_t)n * (group + 1) / get_num_groups(0);
    uint held = 0;
    size_t first = begin;
    for (size_t i = begin; i <= end; i++) {
        const uint color = i < end ? packed_pixel(pixels, i) : 0;
        if (color == held && i < end)
            continue;
        if (held >> 24) {
            const uint code = code_of(held, spread);
            const uint at = own[code >> 16]++;
            places[at] = (ushort)code;
            lengths[at] = (uint)(i - first);
        }
        held = color;
        first = i;
    }
}

/* Sorts runs by moving each before those of a higher place. */
void sort_few(__global ushort *places, __global uint *lengths, uint n)
{
    for (uint i = 1; i < n; i++) {
        const ushort place = places[i];
        const uint length = lengths[i];
        uint j = i;
        for (; j > 0 && places[j - 1] > place; j--) {
            places[j] = places[j - 1];
            lengths[j] = lengths[j - 1];
        }
        places[j] = place;
        lengths[j] = length;
    }
}

/* Moves runs, in order, to where one digit of their places belongs. */
void sort_digit(__global const ushort *places, __global const uint *lengths, uint n, uint shift, __local uint *begins,
                __global ushort *to_places, __global uint *to_lengths)
{
    for (uint d = 0; d < DIGITS; d++)
        begins[d] = 0;
    for (uint i = 0; i < n; i++)
        begins[places[i] >> shift & (DIGITS - 1)]++;
    uint sum = 0;
    for (uint d = 0; d < DIGITS; d++) {
        const uint own = begins[d];
        begins[d] = sum;
        sum += own;
    }
    for (uint i = 0; i < n; i++) {
        const uint at = begins[places[i] >> shift & (DIGITS - 1)]++;
        to_places[at] = places[i];
        to_lengths[at] = lengths[i];
    }
}

/* Sorts the runs of each cell, and adds up those of one colour: what is left stands first.
 * NDRange: 1-D, work-groups of one work-item; a group strides over cells. begins (CELLS + 1) uint into places and
 * lengths; spare_places, spare_lengths: as large, scratch; occupied (CELLS) uint: the colours of each cell; digits:
 * DIGITS uint. */
__kernel void sort_runs(__global const uint *begins, __global ushort *places, __global uint *lengths,
                        __global ushort *spare_places, __global uint *spare_lengths, __global uint *occupied,
                        __local uint *digits)
{
    for (uint cell = get_group_id(0); cell < CELLS; cell += get_num_groups(0)) {
        const uint first = begins[cell];
        const uint n = begins[cell + 1] - first;
        __global ushort *own = places + first;
        __global uint *pixels = lengths + first;
        if (n <= FEW_RUNS)
            sort_few(own, pixels, n);
        else {
            sort_digit(own, pixels, n, 0, digits, spare_places + first, spare_lengths + first);
            sort_digit(spare_places + first, spare_lengths + first, n, 8, digits, own, pixels);
        }
        uint found = 0;
        for (uint i = 0; i < n; i++) {
            if (found && own[found - 1] == own[i])
                pixels[found - 1] += pixels[i];
            else {
                own[found] = own[i];
                pixels[found] = pixels[i];
                found++;
            }
        }
        occupied[cell] = found;
    }
}

/* Collects the colours of each cell in Z-order.
 * As sort_runs, after it; starts (CELLS + 1) uint: where each cell's colours go; colors (starts[CELLS]) uint, packed;
 * counts likewise. */
__kernel void collect_runs(__global const uint *begins, __global const ushort *places, __global const uint *lengths,
                           __global const uint *starts, __global uint *colors, __global uint *counts)
{
    for (uint cell = get_group_id(0); cell < CELLS; cell += get_num_groups(0)) {
        const uint n = starts[cell + 1] - starts[cell];
        for (uint i = 0; i < n; i++) {
            colors[starts[cell] + i] = packed_rgba((cell << 16) | places[begins[cell] + i]);
            counts[starts[cell] + i] = lengths[begins[cell] + i];
        }
    }
}
