/* Bins of a histogram, one a 24-bit colour: emptied, and the occupied ones collected in Z-order.
 *
 * Constants: CELL_BINS bins of a cell.
 */
#include "common/z_order.h"

#ifndef CELL_BINS
#define CELL_BINS 4096
#endif

/* Empties bins. NDRange: 1-D, a work-item four bins, guarded by fours. bins (4 fours) uint. */
__kernel void clear_bins(__global uint4 *bins, uint fours)
{
    if (get_global_id(0) < fours)
        bins[get_global_id(0)] = 0;
}

/* Where the bins of eight consecutive codes are, from 8 * eight on, counted in fours. */
size_t bins_of_eight(uint eight)
{
    return 2 * (size_t)eight;
}

/* How many of eight bins are occupied. Neither by comparing vectors nor by min with a scalar: Oclgrind 21.10 makes 255
 * of the 1 that compilers take from a comparison's mask, and reads beyond the scalar. */
uint occupied_of_eight(__global const uint4 *bins)
{
    const uint4 found = min(bins[0], (uint4)(1)) + min(bins[1], (uint4)(1));
    return found.x + found.y + found.z + found.w;
}

/* How many bins of each cell are occupied.
 * NDRange: 1-D, a work-group per cell. bins (cells * CELL_BINS) uint; occupied (cells) uint. */
__kernel void count_occupied(__global const uint4 *bins, __global uint *occupied)
{
    __local uint sum;
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint first = (uint)get_group_id(0) * (CELL_BINS / 8);
    if (lid == 0)
        sum = 0;
    uint found = 0;
    for (uint i = lid; i < CELL_BINS / 8; i += size)
        found += occupied_of_eight(bins + bins_of_eight(first + i));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (found)
        atomic_add(&sum, found);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        occupied[get_group_id(0)] = sum;
}

/* Adds up the numbers of 16 work-items, for `sum_before`, so that none adds up more than 16 and a 16th of them. sums:
 * two uint per work-item, of which the first ones are the numbers. Between the two, and before this one, there is a
 * barrier. */
void sum_sixteens(__local uint *sums, uint lid, uint size)
{
    uint sum = 0;
    for (uint i = lid; i < (lid % 16 == 0 ? min(lid + 16, size) : 0); i++)
        sum += sums[i];
    if (lid % 16 == 0)
        sums[size + lid / 16] = sum;
}

/* The sum of the numbers of the work-items before this one. */
uint sum_before(__local const uint *sums, uint lid, uint size)
{
    uint before = 0;
    for (uint i = 0; i < lid / 16; i++)
        before += sums[size + i];
    for (uint i = lid / 16 * 16; i < lid; i++)
        before += sums[i];
    return before;
}

/* Where each cell's colours go: the sums of `occupied` before each, and at the end that of all, and then the notes.
 * NDRange: one work-group of any size. occupied (cells) uint; notes (count) uint, left 0; starts (cells + 1 + count)
 * uint; sums: two uint per work-item. */
__kernel void place_cells(__global const uint *occupied, uint cells, __global uint *notes, uint count,
                          __global uint *starts, __local uint *sums)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint run = (cells + size - 1) / size;
    const uint begin = min(cells, lid * run);
    const uint end = min(cells, begin + run);
    uint own = 0;
#pragma unroll 8
    for (uint cell = begin; cell < end; cell++)
        own += occupied[cell];
    sums[lid] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum_sixteens(sums, lid, size);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint sum = sum_before(sums, lid, size);
    for (uint cell = begin; cell < end; cell++) {
        starts[cell] = sum;
        sum += occupied[cell];
    }
    if (lid == size - 1)
        starts[cells] = sum;
    for (uint i = lid; i < count; i += size) {
        starts[cells + 1 + i] = notes[i];
        notes[i] = 0;
    }
}

/* Collects the occupied bins in ascending order.
 * NDRange: 1-D, a work-group per cell; its size divides CELL_BINS / 8. bins (cells * CELL_BINS) uint, from Z-order code
 * first_bin on, all left 0; starts (cells + 1) uint: where each cell's colours go; colors (starts[cells]) uint, packed;
 * counts likewise; offsets: two uint per work-item; codes (room) ushort and sums (room) uint: colours that wait there
 * until they are written side by side. */
__kernel void collect_occupied(__global uint4 *bins, uint first_bin, __global const uint *starts, __global uint *colors,
                               __global uint *counts, __local uint *offsets, __local ushort *codes, __local uint *sums,
                               uint room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint cell = get_group_id(0);
    const uint run = CELL_BINS / 8 / size;
    const uint first = cell * (CELL_BINS / 8) + lid * run;
    const uint begin = starts[cell];
    const uint n = starts[cell + 1] - begin;
    uint found = 0;
    for (uint i = 0; i < (n ? run : 0); i++)
        found += occupied_of_eight(bins + bins_of_eight(first + i));
    offsets[lid] = found;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum_sixteens(offsets, lid, size);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint before = sum_before(offsets, lid, size);
    /* The same for all work-items, so that all reach the barriers. */
    for (uint done = 0; done < n; done += room) {
        uint out = before - done;
        const int is_now = before < done + room && before + found > done;
        for (uint i = 0; i < (is_now ? run : 0); i++) {
            uint eight[8];
            vstore4(bins[bins_of_eight(first + i)], 0, eight);
            vstore4(bins[bins_of_eight(first + i) + 1], 1, eight);
#pragma unroll
            for (uint j = 0; j < 8; j++) {
                if (eight[j] && out < room) {
                    codes[out] = (ushort)(8 * (lid * run + i) + j);
                    sums[out] = eight[j];
                }
                out += eight[j] > 0;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = lid; i < min(room, n - done); i += size) {
            colors[begin + done + i] = packed_rgb(first_bin + cell * CELL_BINS + codes[i]);
            counts[begin + done + i] = sums[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = 0; i < (found ? run : 0); i++)
        bins[bins_of_eight(first + i)] = bins[bins_of_eight(first + i) + 1] = 0;
}
