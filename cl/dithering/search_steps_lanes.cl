/* search_steps.cl's toggle_phase for CPUs: sixteen cells of a row in the lanes of a vector; the same result bit for
 * bit. */
#define FOR_CPUS
#include "dithering/search_steps.h"
#include "dithering/search_reach.h"

#define LANES 16

/* NDRange: 2-D, groups of LANES cells across by cells down from first_row on; rows of cells have a whole number of
 * groups between their margins. All else as in search_steps.cl. */
__kernel void toggle_phase(__global float *restrict errors, __global int *restrict state,
                           __global const float4 *restrict entries, __global const float *restrict norms, int colors,
                           __global const int2 *restrict taps, uint first_tap, uint n_taps, uint read, uint write,
                           uint phase, int shift, uint columns, uint first_row, uint rows, uint stride, ulong plane,
                           __global const uchar *restrict pixels, uint width, __global const int4 *restrict palette,
                           __global const uint *restrict within, int speck, float penalty)
{
    const uint group = (uint)get_global_id(0), y = first_row + (uint)get_global_id(1);
    if (group * LANES >= columns || y >= rows)
        return;
    const size_t cell = (size_t)(y + MARGIN) * stride + group * LANES + MARGIN;
    __global int *states = state + phase * plane + cell;
    const int16 before = vload16(0, states);
    float16 gathered[DIMS];
    for (int c = 0; c < DIMS; c++)
        gathered[c] = 0;
    __global const float *at = errors + cell;
    for (uint i = first_tap; i < first_tap + n_taps; i++) {
        const int2 tap = taps[i];
        const float weight = (float)tap.y;
        for (int c = 0; c < DIMS; c++)
            gathered[c] += weight * vload16(0, at + 17 * c * plane + tap.x);
    }
    const int16 fixed = before == FIXED;
    int indices[LANES];
    vstore16(fixed ? 0 : before & INDEX_MASK, 0, indices);
    float shown[4][LANES];
    for (int i = 0; i < LANES; i++) {
        const float4 e = entries[indices[i]];
        shown[0][i] = e.x;
        shown[1][i] = e.y;
        shown[2][i] = e.z;
        shown[3][i] = e.w;
    }
    float16 point[DIMS];
    for (int c = 0; c < DIMS; c++) {
        const int16 moved = (convert_int16(gathered[c]) + (1 << shift >> 1)) >> shift;
        const int16 wanted = convert_int16(vload16(0, shown[c])) - moved;
        point[c] = -2.0f * convert_float16(clamp(wanted, (int16)(-FARTHEST), (int16)(FARTHEST)));
    }
    int16 best = 0;
    float16 least = FLT_MAX;
    for (int j = 0; j < colors; j++) {
        const float4 e = entries[j];
        float16 score = point[0] * e.x + (point[1] * e.y + (point[2] * e.z + norms[j]));
#if DIMS == 4
        score += point[3] * e.w;
#endif
        int16 better = score < least;
        if (norms[colors + j] != norms[j])
            better &= (before & OPAQUE) == 0;
        least = better ? score : least;
        best = better ? (int16)j : best;
    }
    vstore16(best, 0, indices);
    __global const float *old = errors + read * plane + cell;
#if BOUNDED
    float points[4][LANES] = {{0}}, leasts[LANES];
    vstore16(least, 0, leasts);
    for (int c = 0; c < DIMS; c++)
        vstore16(point[c], 0, points[c]);
    for (uint i = 0; i < LANES && 4 * (group * LANES + i) + phase % 4 < width; i++) {
        const int was = states[i];
        if (was == FIXED)
            continue;
        const uint x = 4 * (group * LANES + i) + phase % 4;
        const int4 color = load_pixel(pixels, (size_t)(4 * y + phase / 4) * width + x);
        if (gap(color, palette[indices[i]]) <= speck)
            continue;
        const float4 wanted = (float4)(points[0][i], points[1][i], points[2][i], points[3][i]);
        __global const float *own = norms + (was & OPAQUE ? colors : 0);
        indices[i] = entry_in_reach(color, wanted, entries, own, colors, within, indices[i], leasts[i], penalty);
    }
    best = vload16(0, indices);
#endif
    float change[4][LANES];
    for (int i = 0; i < LANES; i++) {
        const float4 e = entries[indices[i]];
        change[0][i] = e.x - shown[0][i];
        change[1][i] = e.y - shown[1][i];
        change[2][i] = e.z - shown[2][i];
        change[3][i] = e.w - shown[3][i];
    }
    __global float *written = errors + write * plane + cell;
    for (int c = 0; c < DIMS; c++) {
        const float16 kept = fixed ? 0.0f : vload16(0, change[c]);
        vstore16(vload16(0, old + 17 * c * plane) + kept, 0, written + 17 * c * plane);
    }
    vstore16(fixed ? before : best | (before & OPAQUE), 0, states);
}
