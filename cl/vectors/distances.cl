/* Squared distances of rows to codewords, all of them.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h).
 */
#include "training/block.h"

/* NDRange: 1-D, count * size work-items rounded up to whole groups of any size. rows: count x K. codebook: size x K.
 * distances: count x size ulong.
 */
__kernel void row_distances(__global const value_t *rows, const uint count, __global const value_t *codebook,
                            const uint size, __global ulong *distances)
{
    const size_t item = get_global_id(0);
    if (item >= (size_t)count * size)
        return;
    __global const value_t *row = rows + item / size * K, *codeword = codebook + item % size * K;
    squares_t sum = 0;
    for (uint k = 0; k < K; ++k)
        sum += square_of((int)row[k] - (int)codeword[k]);
    distances[item] = sum;
}
