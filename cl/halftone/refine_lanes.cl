/* refine.cl's decide_phase for CPUs: sixteen cells of a row in the lanes of a vector; the same result bit for bit. */
#include "halftone/refine.h"

#define LANES 16

/* NDRange: 2-D, groups of LANES cells across by cells down; rows of cells have a whole number of groups between their
 * margins. All else as in refine.cl. */
__kernel void decide_phase(__global const float *restrict errors, __global const int *restrict state,
                           __global const int *restrict values, int levels, __global const int4 *restrict taps,
                           uint first, uint n, __global const int2 *restrict neighbours, int middle, uint phase,
                           uint columns, uint rows, uint stride, ulong plane, __global int *restrict actions)
{
    const uint group = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (group * LANES >= columns || y >= rows)
        return;
    const size_t cell = (size_t)(y + MARGIN) * stride + group * LANES + MARGIN;
    const int16 own = vload16(0, state + phase * plane + cell);
    float16 gathered[AROUND];
    for (int d = 0; d < AROUND; d++)
        gathered[d] = 0;
    for (uint i = first; i < first + n; i++) {
        __global const int *tap = (__global const int *)(taps + 3 * i);
        const float16 error = vload16(0, errors + cell + tap[AROUND]);
        for (int d = 0; d < AROUND; d++)
            gathered[d] += as_float(tap[d]) * error;
    }
    const int16 here = convert_int16(gathered[MIDDLE]);
    long16 least = 0;
    int16 best = NONE;
    for (int j = 0; j < levels; j++) {
        const long16 step = convert_long16(values[j] - own);
        const long16 change = step * (2 * convert_long16(here) + step * (long)middle);
        const long16 better = change < least;
        least = better ? change : least;
        best = convert_int16(better) ? (int16)j : best;
    }
    for (int d = 0; d < AROUND; d++) {
        const int2 neighbour = neighbours[AROUND * phase + d];
        const int16 other = vload16(0, state + cell + neighbour.x);
        const long16 step = convert_long16(other == FIXED ? 0 : other - own);
        const long16 apart = convert_long16(here - convert_int16(gathered[d]));
        const long16 change = 2 * step * (apart + step * (long)neighbour.y);
        const long16 better = change < least;
        least = better ? change : least;
        best = convert_int16(better) ? (int16)(SWAP + d) : best;
    }
    vstore16(own == FIXED ? NONE : best, 0, actions + cell);
}
