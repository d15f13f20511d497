/* Rows of numbers as whole numbers, and their ends.
 *
 * A number times a power of two is exact in fp32, or so small that it rounds to 0, or so large that it is cut either
 * way; numbers of up to 16 bits are exact as well. So the device's words are those of the host.
 *
 * Constants: SOURCE (the type of the numbers), IS_HALF (whether they are the bits of half floats), WORD (uchar or
 * ushort), TOP (the largest word), SHIFT (of errors).
 */
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

#define WHOLE 8388608.0f /* 2^23: numbers from here on are whole; a smaller one added to it is rounded half to even */

inline float round_even(float number)
{
    const float size = number < 0 ? -number : number, near = size < WHOLE ? size + WHOLE - WHOLE : size;
    return number < 0 ? -near : near;
}

inline bool is_finite(float number)
{
    return (as_uint(number) & 0x7f800000u) != 0x7f800000u;
}

/* The least and the largest number of a column that each work-item sees, joined to those it saw before.
 *
 * NDRange: 1-D, at least `stride` work-items, a multiple of `columns`, each for every stride-th number. rows: read from
 * place `first` on. count: numbers. columns: of a row. anew: whether nothing was seen before. ends: two float per
 * work-item. bad: uint, the first row that is not finite, counted from row0, if it is before the one that is there.
 */
__kernel void row_ends(__global const SOURCE *rows, const ulong first, const ulong count, const uint columns,
                       const uint stride, const uint anew, __global float2 *ends, __global uint *bad, const uint row0)
{
    const uint item = get_global_id(0);
    if (item >= stride)
        return;
    float2 own = anew ? (float2)(as_float(0x7f800000), as_float(0xff800000)) : ends[item];
    for (ulong i = item; i < count; i += stride) {
        const float number = number_at(rows, first + i);
        if (!is_finite(number))
            atomic_min(bad, row0 + (uint)(i / columns));
        own.x = number < own.x ? number : own.x;
        own.y = number > own.y ? number : own.y;
    }
    ends[item] = own;
}

/* Words: numbers times a power of two, rounded half to even, less their column's origin, plus an offset, cut to 0 .. TOP.
 * Both terms of the difference are whole numbers, so it is exact wherever it is not cut.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. rows, first, count, columns, row0: as in
 * row_ends. origins: a float per column. words: written from `offset` on. bad: two uint, as in row_ends, the other one
 * the first row of which a number is cut.
 */
__kernel void row_words(__global const SOURCE *rows, const ulong first, const ulong count, const uint columns,
                        const float factor, __global const float *origins, const float zero, __global WORD *words,
                        const ulong offset, __global uint *bad, const uint row0)
{
    const size_t item = get_global_id(0);
    if (item >= count)
        return;
    const float number = number_at(rows, first + item);
    if (!is_finite(number))
        atomic_min(bad, row0 + (uint)(item / columns));
    const float whole = round_even(number * factor) - origins[item % columns] + zero,
                cut = clamp(whole, 0.0f, (float)TOP);
    if (whole != cut)
        atomic_min(bad + 1, row0 + (uint)(item / columns));
    words[offset + item] = (WORD)cut;
}

/* Squared errors of rows, in squares of 2^-SHIFT of a unit of words.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. rows, first, columns: as in row_ends. count:
 * rows. factor, origins, zero: as in row_words, of numbers that are 2^SHIFT times as fine. codebook: words. labels:
 * int per row. errors: ulong per row; of rows that row_words cuts they have no meaning.
 */
__kernel void row_errors(__global const SOURCE *rows, const ulong first, const uint count, const uint columns,
                         const float factor, __global const float *origins, const float zero,
                         __global const WORD *codebook, __global const int *labels, __global ulong *errors)
{
    const size_t row = get_global_id(0);
    if (row >= count)
        return;
    const size_t word = (size_t)labels[row] * columns;
    ulong error = 0;
    for (uint k = 0; k < columns; ++k) {
        const float whole = round_even(number_at(rows, first + row * columns + k) * factor) - origins[k] + zero;
        const long off = (long)clamp(whole, -67108864.0f, 67108864.0f) - ((long)codebook[word + k] << SHIFT);
        error += (ulong)(off * off);
    }
    errors[row] = error;
}
