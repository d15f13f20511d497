/* Squared distances of rows to codewords.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h).
 */
#include "training/block.h"

/* The bits of a double: a whole number below 2^53 times 2^exponent, infinite if need be; devices need not have doubles.
 * 
 */
inline ulong double_of(ulong whole, int exponent)
{
    if (whole == 0)
        return 0;
    const int place = 63 - (int)clz(whole);
    if (place + exponent > 1023)
        return 0x7ffUL << 52;
    return ((whole << (52 - place)) & 0xfffffffffffffUL) | (ulong)(1023 + place + exponent) << 52;
}

/* Those to all codewords, times 2^exponent.
 *
 * NDRange: 1-D, count * size work-items rounded up to whole groups of any size. rows: count x K. codebook: size x K.
 * distances: count x size double, as their bits, written from `offset` on.
 */
__kernel void row_distances(__global const value_t *rows, const uint count, __global const value_t *codebook,
                            const uint size, const int exponent, __global ulong *distances, const ulong offset)
{
    const size_t item = get_global_id(0);
    if (item < (size_t)count * size)
        distances[offset + item] = double_of(row_distance(rows, item / size, codebook, item % size), exponent);
}

/* That of each row to the codeword of its label.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. labels: count int. errors: count ulong.
 */
__kernel void row_errors(__global const value_t *rows, const uint count, __global const value_t *codebook,
                         __global const int *labels, __global ulong *errors)
{
    const uint which = get_global_id(0);
    if (which < count)
        errors[which] = row_distance(rows, which, codebook, labels[which]);
}
