/* The blocks of training pictures as rows of components.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h).
 */
#include "training/block.h"

/* Some blocks of a picture as rows.
 *
 * NDRange: 1-D, count * WORDS work-items rounded up to whole groups of any size. image: height x width x C values.
 * columns: blocks in a block row. first: the first block, count of them. chosen: written from row `offset` on.
 */
__kernel void vq_blocks(__global const value_t *image, const uint height, const uint width, const uint columns,
                        const uint first, const uint count, __global value_t *chosen, const uint offset)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / WORDS);
    const uint w = (uint)(item % WORDS);
    if (which >= count)
        return;
    const uint row = (first + which) / columns, column = (first + which) % columns;
    for (uint k = 4 * w; k < min(4 * w + 4, (uint)K); ++k)
        chosen[((size_t)offset + which) * K + k] = block_component(image, height, width, row, column, k);
}

/* Some of the rows.
 *
 * NDRange: 1-D, count * K work-items rounded up to whole groups of any size. places: count uint, the rows' numbers.
 * chosen: written from row `offset` on.
 */
__kernel void vq_gather(__global const value_t *blocks, __global const uint *places, const uint count,
                        __global value_t *chosen, const uint offset)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / K);
    if (which < count)
        chosen[(size_t)offset * K + item] = blocks[(size_t)places[which] * K + item % K];
}

/* Rows at regular distances: number i is row i * distance + (i + turn) % distance.
 *
 * NDRange: 1-D, count * K work-items rounded up to whole groups of any size. blocks: a piece that begins with row
 * `base`. first: the first number. chosen: written from row `offset` on.
 */
__kernel void vq_gather_every(__global const value_t *blocks, const ulong base, const ulong first, const uint distance,
                              const uint turn, const uint count, __global value_t *chosen, const uint offset)
{
    const size_t item = get_global_id(0);
    const uint which = (uint)(item / K);
    if (which >= count)
        return;
    const ulong number = first + which;
    const ulong row = number * distance + (number + turn) % distance - base;
    chosen[(size_t)offset * K + item] = blocks[(size_t)row * K + item % K];
}
