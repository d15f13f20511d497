/* What a palette's best colours depend on while every pixel keeps its entry.
 *
 * J. Puzicha, M. Held, J. Ketterer, J. M. Buhmann, D. W. Fellner, "On spatial quantization of color images", IEEE
 * Trans. Image Processing 9, 2000, section IV: with the kernel C, the visible error is a quadratic function of the
 * entries' colours, whose matrix is A(j, l), the sum of C(p - q) over pixels p of the entry j and q of the entry l,
 * and whose slope at the present colours is 2 S(j), the sum over pixels of the entry j of G = C*e.
 *
 * A slice of the sums, uint: pairs (colors, colors), the sum of C over the pairs whose second pixel is one of the half
 * of the taps that come after the first, row by row; counts (colors); low (colors, DIMS), the sum of G mod 4096; high
 * (colors, DIMS), as int, that of the floor of G / 4096. A slice has at most 2^17 pixels, sums of C are at most 2^24 /
 * 1020 and |G| < 2^24, so no sum leaves 32 bits.
 */
#include "dithering/search_steps.h"

/* Adds the pixels of one phase.
 * NDRange: 2-D, cells across by cells down, a work-item per cell; the group number g adds to slice g mod slices. errors,
 * state, taps: as in dithering/search_steps.cl; pairs (n_pairs) int2 from first_pair: where a state lies relative to the cell,
 * and the weight; sums (slices, (colors + 1 + 2 DIMS) colors) uint. */
__kernel void add_phase(__global const float *errors, __global const int *state, __global const int2 *taps,
                        uint first_tap, uint n_taps, __global const int2 *pairs, uint first_pair, uint n_pairs,
                        uint colors, uint phase, uint columns, uint rows, uint stride, ulong plane, uint slices,
                        __global volatile uint *sums)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t cell = (size_t)(y + MARGIN) * stride + x + MARGIN;
    const int own = state[phase * plane + cell];
    if (own == FIXED)
        return;
    const size_t group = get_group_id(1) * get_num_groups(0) + get_group_id(0);
    const uint entry = own & INDEX_MASK;
    sums += (group % slices) * ((size_t)(colors + 1 + 2 * DIMS) * colors);
    for (uint i = first_pair; i < first_pair + n_pairs; i++) {
        const int2 pair = pairs[i];
        const int other = state[cell + pair.x];
        if (other != FIXED)
            atomic_add(sums + entry * colors + (other & INDEX_MASK), (uint)pair.y);
    }
    sums += (size_t)colors * colors;
    atomic_add(sums + entry, 1u);
    sums += colors + entry * DIMS;
    for (int c = 0; c < DIMS; c++) {
        float gathered = 0;
        for (uint i = first_tap; i < first_tap + n_taps; i++)
            gathered += (float)taps[i].y * errors[17 * c * plane + cell + taps[i].x];
        const int whole = (int)gathered;
        atomic_add(sums + c, (uint)(whole & 4095));
        atomic_add(sums + colors * DIMS + c, (uint)(whole >> 12));
    }
}

/* The totals of all slices.
 * NDRange: 1-D, a work-item a sum. Slices begin `stride` numbers after each other. Sums from `signed_from` on are
 * int. totals (n) long. */
__kernel void add_slices(__global const uint *sums, uint n, uint stride, uint slices, uint signed_from,
                         __global long *totals)
{
    const size_t i = get_global_id(0);
    if (i >= n)
        return;
    long total = 0;
    for (uint s = 0; s < slices; s++) {
        const uint part = sums[(size_t)s * stride + i];
        total += i >= signed_from ? (long)(int)part : (long)part;
    }
    totals[i] = total;
}
