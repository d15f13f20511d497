/* statistics.cl's add_phase for CPUs: a slice has one work-item, so that sums need no atomics, and sixteen cells of a
 * row gather their errors in the lanes of a vector; the same sums in all. */
#include "dithering/search_steps.h"

#define LANES 16

/* NDRange: 1-D, groups of one work-item, a work-item a slice, which takes every slices-th run of LANES cells. A slice
 * has one number more, which is not looked at. All else as in statistics.cl. */
__kernel void add_phase(__global const float *restrict errors, __global const int *restrict state,
                        __global const int2 *restrict taps, uint first_tap, uint n_taps,
                        __global const int2 *restrict pairs, uint first_pair, uint n_pairs, uint colors, uint phase,
                        uint columns, uint rows, uint stride, ulong plane, uint slices, __global uint *restrict sums)
{
    const uint slice = (uint)get_global_id(0);
    if (slice >= slices)
        return;
    sums += slice * ((size_t)(colors + 1 + 2 * DIMS) * colors + 1);
    __global uint *counts = sums + (size_t)colors * colors, *low = counts + colors, *high = low + colors * DIMS;
    const uint across = (columns + LANES - 1) / LANES;
    for (uint run = slice; run < across * rows; run += slices) {
        const size_t cell = (size_t)(run / across + MARGIN) * stride + run % across * LANES + MARGIN;
        float16 gathered[DIMS];
        for (int c = 0; c < DIMS; c++)
            gathered[c] = 0;
        for (uint i = first_tap; i < first_tap + n_taps; i++)
            for (int c = 0; c < DIMS; c++)
                gathered[c] += (float)taps[i].y * vload16(0, errors + 17 * c * plane + cell + taps[i].x);
        int whole[DIMS][LANES];
        for (int c = 0; c < DIMS; c++)
            vstore16(convert_int16(gathered[c]), 0, whole[c]);
        const int16 own = vload16(0, state + phase * plane + cell);
        const int16 entry = own & INDEX_MASK;
        /* Where one of the two pixels is FIXED, what is added goes behind the sums. */
        const uint16 nowhere = (uint16)((colors + 1 + 2 * DIMS) * colors);
        for (uint i = first_pair; i < first_pair + n_pairs; i++) {
            const int16 other = vload16(0, state + cell + pairs[i].x);
            const uint16 place = convert_uint16(entry * (int)colors + (other & INDEX_MASK));
            uint places[LANES];
            vstore16((own | other) < 0 ? nowhere : place, 0, places);
            for (uint lane = 0; lane < LANES; lane++)
                sums[places[lane]] += (uint)pairs[i].y;
        }
        int owners[LANES];
        vstore16(own, 0, owners);
        for (uint lane = 0; lane < LANES; lane++) {
            if (owners[lane] == FIXED)
                continue;
            const uint place = owners[lane] & INDEX_MASK;
            counts[place]++;
            for (int c = 0; c < DIMS; c++) {
                low[place * DIMS + c] += (uint)(whole[c][lane] & 4095);
                high[place * DIMS + c] += (uint)(whole[c][lane] >> 12);
            }
        }
    }
}
