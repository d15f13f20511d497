/* Rows of numbers as whole numbers, and their ends.
 *
 * A number times a power of two is exact in fp32, or so small that it rounds to 0, or so large that it is cut either
 * way; numbers of up to 16 bits are exact as well. So the device's words are those of the host.
 *
 * Constants: SOURCE (the type of the numbers), IS_HALF (whether they are the bits of half floats), WORD (uchar or
 * ushort), TOP (the largest word).
 */
#define HALF_EVEN 12582912.0f /* 1.5 * 2^23: what is added to it and below 2^22 is rounded half to even */

inline float number_at(__global const SOURCE *rows, size_t place)
{
#if IS_HALF
    const int bits = rows[place], exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float number = (float)(exponent > 0 ? 1024 + fraction : fraction) * as_float((max(exponent, 1) + 102) << 23);
    return exponent == 31 ? as_float(0x7f800000) : bits >> 15 ? -number : number;
#else
    return (float)rows[place];
#endif
}

inline bool is_finite(float number)
{
    return (as_uint(number) & 0x7f800000u) != 0x7f800000u;
}

/* The least and the largest number that each work-item sees, joined to those it saw before.
 *
 * NDRange: 1-D, any number of work-items, n of them, each for every n-th number. rows: read from place `first` on.
 * count: numbers. columns: of a row. anew: whether nothing was seen before. ends: two float per work-item. bad: one
 * uint, the first row that is not finite, counted from row0, if it is before the one that is there.
 */
__kernel void row_ends(__global const SOURCE *rows, const ulong first, const ulong count, const uint columns,
                       const uint anew, __global float2 *ends, __global uint *bad, const uint row0)
{
    const uint item = get_global_id(0);
    float2 own = anew ? (float2)(as_float(0x7f800000), as_float(0xff800000)) : ends[item];
    for (ulong i = item; i < count; i += get_global_size(0)) {
        const float number = number_at(rows, first + i);
        if (!is_finite(number))
            atomic_min(bad, row0 + (uint)(i / columns));
        own.x = number < own.x ? number : own.x;
        own.y = number > own.y ? number : own.y;
    }
    ends[item] = own;
}

/* Words: numbers times a power of two, rounded half to even, plus an offset, cut to 0 .. TOP.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. rows, first, count, columns, bad, row0: as in
 * row_ends. words: written from `offset` on.
 */
__kernel void row_words(__global const SOURCE *rows, const ulong first, const ulong count, const uint columns,
                        const float factor, const float zero, __global WORD *words, const ulong offset,
                        __global uint *bad, const uint row0)
{
    const size_t item = get_global_id(0);
    if (item >= count)
        return;
    const float number = number_at(rows, first + item);
    if (!is_finite(number))
        atomic_min(bad, row0 + (uint)(item / columns));
    const float near = clamp(number * factor, -262144.0f, 262144.0f);
    words[offset + item] = (WORD)clamp(near + HALF_EVEN - HALF_EVEN + zero, 0.0f, (float)TOP);
}
