/* dithering/ordered_table.cl's answers of all colours, the same, where points are colours: by what each two entries say
 * of the colours between them. For masks of at most 4096 numbers, whose mixes' shares are in 32 bits.
 *
 * Constants: those of mapping/nearest.h, with CHANNELS 3 and INDEX uchar.
 */
#include "mapping/nearest.h"
#include "dithering/ordered.h"
#define COLUMNS 128
#define ALIGNED 0
#include "mapping/full_table.h"

/* What two entries say of the colours between them, in 32 bytes, so that a colour's answer takes no division:
 * c.xyz . a.xyz + a.w is the share's numerator and half a unit less 1; that, at least 0, times b.x, over 2^(32 + b.y)
 * is how many numbers of the mask are below the share; this times b.z, plus b.w, is the answer of dithering/ordered.h
 * in one word. A table has them by 256 * first + second.
 *
 * As in answer_of, both sides of share > threshold are divided by what strength and 256 leave of 2 values: all sums are
 * below 195075 * (256 * 32 + 1) < 2^31, also those on the way. For n < 2^31 and l the bits of d - 1, n / d is
 * n * m >> 31 + l with m = 2^(31 + l) / d + 1 < 2^32, rounded down (Granlund and Montgomery, "Division by Invariant
 * Integers using Multiplication", 1994).
 *
 * NDRange: 1-D, a work-item a pair, guarded by 256 * k. points (k, 4) int, the palette, k 1 to 256; pairs (256 k, 2).
 * */
__kernel void mix_pairs(__global const int4 *restrict points, uint k, __global uint4 *restrict pairs, int values,
                        int strength)
{
    const uint pair = (uint)get_global_id(0);
    const uint first = pair >> 8;
    const uint second = pair & 255u;
    if (first >= k || second >= k)
        return;
    const int4 from = points[first];
    const int4 step = points[second] - from;
    const int4 scaled = step * (strength * max(values / 128, 1));
    const uint unit = (uint)max(squared(step) * max(128 / values, 1), 1);
    const uint bits = 32 - clz(2 * unit - 1);
    const uint inverse = (uint)((1UL << (31 + bits)) / (2 * unit)) + 1;
    const int start = (int)(unit - 1) - (from.x * scaled.x + from.y * scaled.y + from.z * scaled.z);
    const int darker = dot4(step, LIGHTNESS) < 0;
    const uint base = darker ? (uint)values << 16 | second << 8 | first : first << 8 | second;
    pairs[2 * pair] = as_uint4((int4)(scaled.xyz, start));
    pairs[2 * pair + 1] = (uint4)(inverse, bits - 1, darker ? 0xFFFF0000u : 0x10000u, base);
}

uint answer_of_pair(int3 color, uint first, uint second, __global const uint4 *pairs, uint values)
{
    const uint pair = first << 8 | second;
    const int4 a = as_int4(pairs[2 * pair]);
    const uint4 b = pairs[2 * pair + 1];
    const uint share = (uint)max(color.x * a.x + (color.y * a.y + (color.z * a.z + a.w)), 0);
    return min(mul_hi(share, b.x) >> b.y, values) * b.z + b.w;
}

/* Where in the table a colour is that was moved so many times its error away from its nearest entry. */
uint place_moved(int3 color, int3 entry, int reach)
{
    const int3 p = clamp(color + reach * (color - entry), (int3)(0), (int3)(255));
    return table_place((uint)(p.x + (p.y << 8) + (p.z << 16)));
}

/* The second entries of four colours that differ in red alone, from `color` on, whose nearest ones are not all the
 * same. All four of a reach are read at once, as mostly no farther one is asked for. */
void seconds_of_four(int3 color, const uint *first, uint *second, __global const uchar *nearest,
                     __global const int4 *points)
{
    int3 entry[4];
#pragma unroll
    for (uint j = 0; j < 4; j++) {
        entry[j] = points[first[j]].xyz;
        second[j] = nearest[place_moved(color + (int3)((int)j, 0, 0), entry[j], 2)];
    }
#pragma unroll 1
    for (int reach = 8; reach <= 128; reach *= 4) {
        if (second[0] != first[0] && second[1] != first[1] && second[2] != first[2] && second[3] != first[3])
            break;
#pragma unroll
        for (uint j = 0; j < 4; j++)
            if (second[j] == first[j])
                second[j] = nearest[place_moved(color + (int3)((int)j, 0, 0), entry[j], reach)];
    }
}

/* The same of four whose nearest entry is `first`: they move alike in green and blue. */
void seconds_of_one(int3 color, uint first, uint *second, __global const uchar *nearest, __global const int4 *points)
{
    const int3 entry = points[first].xyz;
#pragma unroll 1
    for (int reach = 2; reach <= 128; reach *= 4) {
        const int3 p = clamp(color + reach * (color - entry), (int3)(0), (int3)(255));
        const uint beside = table_place((uint)((p.y << 8) + (p.z << 16)));
        const int red = color.x + reach * (color.x - entry.x);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (reach == 2 || second[j] == first)
                second[j] = nearest[beside | table_place((uint)clamp(red + j * (reach + 1), 0, 255))];
        if (second[0] != first && second[1] != first && second[2] != first && second[3] != first)
            break;
    }
}

/* The answers of all colours.
 * NDRange: 1-D, a work-item four neighbours of the table, guarded by `quads`, its length in fours. points (k, 4) int,
 * the palette; nearest (4 quads) uchar as mapping/full_table.cl's map_colors leaves it; pairs as mix_pairs leaves them;
 * answers (4 quads) uint; values: numbers of the mask. */
__kernel void dither_colors(__global const int4 *restrict points, __global const uchar *restrict nearest,
                            __global const uint4 *restrict pairs, __global uint4 *restrict answers, uint quads,
                            uint values)
{
    const uint quad = (uint)get_global_id(0);
    if (quad >= quads)
        return;
    const int3 color = table_color(4 * quad).xyz;
    const uint word = ((__global const uint *)nearest)[quad];
    uint first[4] = {word & 255u, word >> 8 & 255u, word >> 16 & 255u, word >> 24};
    uint second[4];
    uint words[4];
    if (word == first[0] * 0x01010101u)
        seconds_of_one(color, first[0], second, nearest, points);
    else
        seconds_of_four(color, first, second, nearest, points);
#pragma unroll
    for (uint j = 0; j < 4; j++)
        words[j] = answer_of_pair(color + (int3)((int)j, 0, 0), first[j], second[j], pairs, values);
    answers[quad] = vload4(0, words);
}
