/* refine.cl's decide_phase for GPUs: a work-item decides cells of several rows, which share the reading of the weights;
 * the same result bit for bit. */
#include "halftone/refine.h"

/* NDRange: 2-D, cells across by runs of ROWS rows of cells down, the last run as long as it comes. offsets (n) int from
 * `first`: where an error lies relative to the cell; weights (TAPS, 9) float: what it adds to G of each neighbour. All
 * else as in refine.cl.
 * Constants: ROWS; TAPS: errors around a pixel. */
__kernel void decide_phase(__global const float *restrict errors, __global const int *restrict state,
                           __global const int *restrict values, int levels, __global const int *restrict offsets,
                           __constant float *weights, uint first, __global const int2 *restrict neighbours, int middle,
                           uint phase, uint columns, uint rows, uint stride, ulong plane,
                           __global int *restrict actions)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1) * ROWS;
    if (x >= columns || y >= rows)
        return;
    uint cells[ROWS];
    float gathered[ROWS][AROUND];
    for (int r = 0; r < ROWS; r++) {
        cells[r] = (min(y + r, rows - 1) + MARGIN) * stride + x + MARGIN;
        for (int d = 0; d < AROUND; d++)
            gathered[r][d] = 0;
    }
#pragma unroll 4
    for (int i = 0; i < TAPS; i++) {
        const int offset = offsets[first + i];
        for (int r = 0; r < ROWS; r++) {
            const float error = errors[cells[r] + offset];
            for (int d = 0; d < AROUND; d++)
                gathered[r][d] += weights[AROUND * i + d] * error;
        }
    }
    for (int r = 0; r < ROWS && y + r < rows; r++) {
        const int own = state[phase * plane + cells[r]];
        const int here = (int)gathered[r][MIDDLE];
        long least = 0;
        int best = NONE;
        for (int j = 0; j < levels && own != FIXED; j++) {
            const long step = values[j] - own;
            const long change = 2 * step * here + step * step * middle;
            best = change < least ? j : best;
            least = min(change, least);
        }
        for (int d = 0; d < AROUND; d++) {
            const int2 neighbour = neighbours[AROUND * phase + d];
            const int other = state[cells[r] + neighbour.x];
            const long step = other == FIXED || own == FIXED ? 0 : other - own;
            const long apart = here - (int)gathered[r][d];
            const long change = 2 * step * apart + 2 * step * step * neighbour.y;
            best = change < least ? SWAP + d : best;
            least = min(change, least);
        }
        actions[cells[r]] = best;
    }
}
