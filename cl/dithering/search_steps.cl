/* Dithering by search: each pixel in turn takes the palette entry that lowers the visible error most.
 *
 * M. Analoui, J. P. Allebach, "Model-based halftoning using direct binary search", Proc. SPIE 1666, 1992, with toggles
 * among all entries of a palette. With e the error of each pixel in the space of the search and C the eye's kernel, the
 * visible error is E = sum over p and q of C(p - q) e(p).e(q). Changing the pixel p from the colour v to P changes it
 * by 2 (P - v).(C*e)(p) + C(0) |P - v|^2, which is least for the entry nearest to v - (C*e)(p) / C(0).
 *
 * All numbers are whole and every partial sum stays below 2^24 (`proved` of clquant/dithering/search_steps.py checks
 * it), so floats are exact in any order, contracted or not.
 */
#include "dithering/search_steps.h"
#include "dithering/search_reach.h"

/* The point of an 8-bit colour in the space of the search: a linear function of its coordinates there, rounded.
 * matrix (4, 4) int: rows of three factors times 2^16 and a constant; the last row has the factor of alpha in front. */
int4 search_point(int4 color, __global const int *tables, __constant int4 *matrix)
{
    const int4 p = space_coordinates(color, tables);
    int4 found = 0;
    const int4 x = matrix[0], y = matrix[1], z = matrix[2];
    found.x = (x.x * p.x + x.y * p.y + x.z * p.z + x.w) >> 16;
    found.y = (y.x * p.x + y.y * p.y + y.z * p.z + y.w) >> 16;
    found.z = (z.x * p.x + z.y * p.y + z.z * p.z + z.w) >> 16;
#if DIMS == 4
    found.w = (matrix[3].x * p.w + matrix[3].w) >> 16;
#endif
    return found;
}

/* The errors of pixels that show entries of `start` or, unless it is negative, `nothing`, an entry with all coordinates
 * 0, and their states. Pixels of alpha 0 are FIXED and have no error.
 * NDRange: 2-D, columns by rows of the picture, a work-item per pixel. pixels (rows, columns, CHANNELS) uchar; start
 * (rows, columns) INDEX; errors (DIMS, 17, plane) float, state (16, plane) int: 0 and FIXED before; missing (1) int: set
 * to 1 where a pixel has alpha 0 and the palette no entry of it; entries: as below. */
__kernel void begin_search(__global const uchar *pixels, uint columns, uint rows, __global const int *tables,
                           __constant int4 *matrix, __global const float4 *entries, __global const INDEX *start,
                           int nothing, int transparent, __global int *missing, __global float *errors,
                           __global int *state, uint stride, ulong plane)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t i = (size_t)y * columns + x;
    const int4 color = load_pixel(pixels, i);
    if (is_transparent(color, transparent, missing))
        return;
    const int entry = nothing < 0 ? start[i] : nothing;
    const float4 error = entries[entry] - convert_float4(search_point(color, tables, matrix));
    const size_t cell = (4 * (y & 3) + (x & 3)) * plane + (size_t)((y >> 2) + MARGIN) * stride + (x >> 2) + MARGIN;
    errors[cell] = error.x;
    errors[cell + 17 * plane] = error.y;
    errors[cell + 34 * plane] = error.z;
#if DIMS == 4
    errors[cell + 51 * plane] = error.w;
#endif
    state[cell] = entry | (color.w == 255 ? OPAQUE : 0);
}

/* Decides all pixels of one phase from the same errors.
 * NDRange: 2-D, cells across by cells down from first_row on, a work-item per cell. entries (colors + 1, 4) float:
 * coordinates, of the last one 0; norms (2, colors) float: their squared lengths, very large for an entry that is not to
 * be taken, then those for opaque pixels; taps (n_taps) int2 from first_tap: where an
 * error lies relative to the cell in the first of a channel's planes, and its weight, whose sum over all taps times
 * the error is C*e; read, write: the planes of the phase before and after; phase: that of state; shift: log2 C(0).
 * pixels (picture's rows, width, CHANNELS) uchar, palette (colors) int4 8-bit values; within, speck, penalty: where
 * BOUNDED, those of dithering/search_reach.h. */
__kernel void toggle_phase(__global float *errors, __global int *state, __global const float4 *entries,
                           __global const float *norms, int colors, __global const int2 *taps, uint first_tap,
                           uint n_taps, uint read, uint write, uint phase, int shift, uint columns, uint first_row,
                           uint rows, uint stride, ulong plane, __global const uchar *pixels, uint width,
                           __global const int4 *palette, __global const uint *within, int speck, float penalty)
{
    const uint x = (uint)get_global_id(0), y = first_row + (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t cell = (size_t)(y + MARGIN) * stride + x + MARGIN;
    const int before = state[phase * plane + cell];
    __global float *written = errors + write * plane + cell;
    if (before == FIXED) {
        for (int c = 0; c < DIMS; c++)
            written[17 * c * plane] = 0; /* the plane held another phase's errors */
        return;
    }
    float4 gathered = 0;
    __global const float *at = errors + cell;
    for (uint i = first_tap; i < first_tap + n_taps; i++) {
        const int2 tap = taps[i];
        const float weight = (float)tap.y;
        gathered.x += weight * at[tap.x];
        gathered.y += weight * at[17 * plane + tap.x];
        gathered.z += weight * at[34 * plane + tap.x];
#if DIMS == 4
        gathered.w += weight * at[51 * plane + tap.x];
#endif
    }
    const float4 shown = entries[before & INDEX_MASK];
    const int4 wanted = convert_int4(shown) - ((convert_int4(gathered) + (1 << shift >> 1)) >> shift);
    const float4 point = -2.0f * convert_float4(clamp(wanted, (int4)(-FARTHEST), (int4)(FARTHEST)));
    norms += before & OPAQUE ? colors : 0;
    int best = 0;
    float least = FLT_MAX;
#pragma unroll 8
    for (int j = 0; j < colors; j++) {
        const float4 e = entries[j];
        float score = norms[j] + e.x * point.x + e.y * point.y + e.z * point.z;
#if DIMS == 4
        score += e.w * point.w;
#endif
        if (score < least) {
            least = score;
            best = j;
        }
    }
    __global const float *old = errors + read * plane + cell;
#if BOUNDED
    const int4 color = load_pixel(pixels, (size_t)(4 * y + phase / 4) * width + 4 * x + phase % 4);
    if (gap(color, palette[best]) > speck)
        best = entry_in_reach(color, point, entries, norms, colors, within, best, least, penalty);
#endif
    const float4 change = entries[best] - shown;
    written[0] = old[0] + change.x;
    written[17 * plane] = old[17 * plane] + change.y;
    written[34 * plane] = old[34 * plane] + change.z;
#if DIMS == 4
    written[51 * plane] = old[51 * plane] + change.w;
#endif
    state[phase * plane + cell] = best | (before & OPAQUE);
}

/* The entries that pixels ended with.
 * NDRange: 2-D, columns by rows of what is wanted, a work-item per pixel. out (rows, columns) INDEX: the picture's rows
 * from first_row, behind `offset` others. */
__kernel void store_indices(__global const int *state, uint stride, ulong plane, int transparent, __global INDEX *out,
                            uint columns, uint rows, uint first_row, ulong offset)
{
    const uint x = (uint)get_global_id(0), row = (uint)get_global_id(1);
    if (x >= columns || row >= rows)
        return;
    const uint y = row + first_row;
    const size_t cell = (size_t)((y >> 2) + MARGIN) * stride + (x >> 2) + MARGIN;
    const int found = state[(4 * (y & 3) + (x & 3)) * plane + cell];
    out[offset + (size_t)row * columns + x] = (INDEX)(found == FIXED ? max(transparent, 0) : found & INDEX_MASK);
}
