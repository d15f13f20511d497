/* Direct binary search: a halftone's pixels change levels, or places with a neighbour, where that lowers the visible
 * error.
 *
 * M. Analoui, J. P. Allebach, "Model-based halftoning using direct binary search", Proc. SPIE 1666, 1992; D. Lieberman,
 * J. P. Allebach, "A dual interpretation for direct binary search and its implications for tone reproduction and
 * texture quality", IEEE Trans. Image Processing 9, 2000. With e the error of each pixel, C the eye's kernel and G =
 * C*e, a change of the pixel p by d changes the visible error by 2 d G(p) + d^2 C(0); an exchange with q, where d is
 * q's value less p's, by 2 d (G(p) - G(q)) + 2 d^2 (C(0) - C(p - q)). Pixels of a phase are four apart, so no two
 * touch one neighbour.
 *
 * |G| < 2^24 (clquant/dithering/eye.py), so sums of floats are exact; |d| < 2^10, so 64 bits hold every change.
 */
#include "halftone/refine.h"

/* Errors and values of a halftone to begin with.
 * NDRange: 2-D, columns by rows, a work-item per pixel. pixels, starts (rows, columns, channels) uchar: the picture, and
 * level numbers; `channel` is read; tones (256) int: values of 8-bit levels; values (levels) int. */
__kernel void begin_refinement(__global const uchar *pixels, __global const uchar *starts, uint columns, uint rows,
                               uint channels, uint channel, __global const int *tones, __global const int *values,
                               __global float *errors, __global int *state, uint stride, ulong plane)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t i = ((size_t)y * columns + x) * channels + channel;
    const size_t cell = (4 * (y & 3) + (x & 3)) * plane + (size_t)((y >> 2) + MARGIN) * stride + (x >> 2) + MARGIN;
    const int value = values[starts[i]];
    errors[cell] = (float)(value - tones[pixels[i]]);
    state[cell] = value;
}

/* The best action of every pixel of one phase; none where no change lowers the visible error. Of equal ones the first:
 * levels ascending, then neighbours.
 * NDRange: 2-D, cells across by cells down, a work-item per cell. taps (n, 3) int4 from 3 first: what an error adds to G
 * of each neighbour, nine floats as they lie in memory, then where it lies relative to the cell; neighbours (9) int2
 * from 9 phase: where a neighbour lies relative to the cell, and C(0) - C of its distance; middle: C(0); actions
 * (cells) int. */
__kernel void decide_phase(__global const float *errors, __global const int *state, __global const int *values,
                           int levels, __global const int4 *taps, uint first, uint n, __global const int2 *neighbours,
                           int middle, uint phase, uint columns, uint rows, uint stride, ulong plane,
                           __global int *actions)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t cell = (size_t)(y + MARGIN) * stride + x + MARGIN;
    const int own = state[phase * plane + cell];
    actions[cell] = NONE;
    if (own == FIXED)
        return;
    float4 upper = 0, lower = 0;
    float last = 0;
    for (uint i = first; i < first + n; i++) {
        const int4 rest = taps[3 * i + 2];
        const float error = errors[cell + rest.y];
        upper += as_float4(taps[3 * i]) * error;
        lower += as_float4(taps[3 * i + 1]) * error;
        last += as_float(rest.x) * error;
    }
    const float gathered[AROUND] = {upper.x, upper.y, upper.z, upper.w, lower.x, lower.y, lower.z, lower.w, last};
    long least = 0;
    int best = NONE;
    for (int j = 0; j < levels; j++) {
        const long step = values[j] - own;
        const long change = 2 * step * (int)gathered[MIDDLE] + step * step * middle;
        if (change < least) {
            least = change;
            best = j;
        }
    }
    for (int d = 0; d < AROUND; d++) {
        const int2 neighbour = neighbours[AROUND * phase + d];
        const int other = state[cell + neighbour.x];
        if (other == FIXED)
            continue;
        const long step = other - own;
        const long apart = (int)gathered[MIDDLE] - (int)gathered[d];
        const long change = 2 * step * apart + 2 * step * step * neighbour.y;
        if (change < least) {
            least = change;
            best = SWAP + d;
        }
    }
    actions[cell] = best;
}

/* Carries out what was decided of a phase.
 * NDRange and arguments as decide_phase. */
__kernel void apply_phase(__global float *errors, __global int *state, __global const int *values,
                          __global const int2 *neighbours, uint phase, uint columns, uint rows, uint stride,
                          ulong plane, __global const int *actions)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t cell = (size_t)(y + MARGIN) * stride + x + MARGIN;
    const int action = actions[cell];
    if (action == NONE)
        return;
    const size_t own = phase * plane + cell;
    const int before = state[own];
    int after;
    if (action < SWAP) {
        after = values[action];
    } else {
        const size_t other = cell + neighbours[AROUND * phase + action - SWAP].x;
        after = state[other];
        state[other] = before;
        errors[other] += (float)(before - after);
    }
    state[own] = after;
    errors[own] += (float)(after - before);
}

/* The levels that pixels ended with.
 * NDRange: 2-D, columns by rows of what is wanted, a work-item per pixel. values (levels) int ascending; shown (levels)
 * uchar: what is written for each; out (rows, columns, channels) uchar: the band's rows from first_row. */
__kernel void store_levels(__global const int *state, uint stride, ulong plane, __global const int *values, int levels,
                           __global const uchar *shown, __global uchar *out, uint columns, uint rows, uint first_row,
                           uint channels, uint channel)
{
    const uint x = (uint)get_global_id(0), row = (uint)get_global_id(1);
    if (x >= columns || row >= rows)
        return;
    const uint y = row + first_row;
    const size_t cell = (size_t)((y >> 2) + MARGIN) * stride + (x >> 2) + MARGIN;
    const int value = state[(4 * (y & 3) + (x & 3)) * plane + cell];
    int level = 0;
    while (level < levels - 1 && values[level] != value)
        level++;
    out[((size_t)row * columns + x) * channels + channel] = shown[level];
}
