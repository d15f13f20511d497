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
    distances[item] = row_distance(rows, item / size, codebook, item % size);
}
