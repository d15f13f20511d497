/* Side-match vector quantization (T. Kim, "Side match and overlap match vector quantizers for images", 1992) on the
 * contexts of .clvq files: a block may take another codeword than the nearest, if that is among the STATE likeliest
 * between the blocks above and to the left, its state codebook, and not much worse. The decoder needs to know nothing
 * of it.
 *
 * One launch looks at the blocks of one anti-diagonal of every band, which do not depend on each other; a group works
 * on one block.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h, 0), BUCKET, MOST_BUCKETS (vq/coding/buckets.h), INDEX (uchar or
 * ushort), PAIRS (vq/coding/band_model.h), STATE (1..255).
 */
#include "training/block.h"
#include "vq/coding/band_model.h"

inline uint squared_error(__local const uchar *block, __global const uchar *codeword)
{
    uint sum = 0; /* at most 65025 * 1024 < 2^26 */
    for (uint k = 0; k < K; ++k) {
        const int difference = (int)block[k] - (int)codeword[k];
        sum += (uint)(difference * difference);
    }
    return sum;
}

/* Whether a codeword of likelihood `value` and that error comes before the best one found so far; of equal ones the one
 * that was found first stays. */
inline bool is_better(uint value, uint error, uint best_value, uint best_error)
{
    return value > best_value || (value == best_value && error < best_error);
}

/* Takes the likeliest codeword whose error is allowed, if it belongs to the state codebook; on ties the one of least
 * error, then of lowest index.
 *
 * NDRange: 1-D, one group of any size per block: `across` groups per band; group g of a band works on the block of its
 * row first_row + g and of column diagonal - row, if there is one. codebook: size x K bytes. image: height x width x C
 * bytes. rows, columns, band_rows: of blocks (vq/coding/bands.cl). above, left, shift, groups: the model, as in
 * vq_block_ranges. tolerance: what the squared error may be larger by than that of the nearest codeword, itself not
 * included. chosen: rows x columns INDEX; the nearest codewords on entry. Local memory: block, K bytes; values, errors
 * and places, one uint each per work-item.
 */
__kernel void vq_side_choose(__global const uchar *codebook, __global const uchar *image, const uint height,
                             const uint width, const uint size, const uint groups, const uint shift,
                             __global const uchar *above, __global const uchar *left, const uint rows,
                             const uint columns, const uint band_rows, const uint across, const uint first_row,
                             const uint diagonal, const uint tolerance, __global INDEX *chosen, __local uchar *block,
                             __local uint *values, __local uint *errors, __local uint *places)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const Band band = band_at(get_group_id(0) / across, rows, columns, band_rows, 1);
    const uint row = first_row + get_group_id(0) % across;
    const bool valid = row < band.rows && row <= diagonal && diagonal - row < columns; /* the same for the group */
    const uint here = valid ? row * columns + (diagonal - row) : 0;
    __global INDEX *table = chosen + band.first;
    const uint table_row = (uint)(band.first / columns) + row;
    for (uint k = lane; k < K; k += lanes)
        block[k] = valid ? block_component(image, height, width, table_row, diagonal - row, k) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    __global const uchar *a = above + (size_t)group_above(table, columns, here, groups, shift) * STRIDE;
    __global const uchar *b = left + (size_t)group_left(table, columns, here, groups, shift) * STRIDE;
    const uint nearest = table[here];
    const uint bound = squared_error(block, codebook + (size_t)nearest * K) + tolerance;
    const uint share = (size + lanes - 1) / lanes;
    const uint begin = min(lane * share, size);
    const uint end = min(begin + share, size);
    uint best_value = 0, best_error = UINT_MAX, place = nearest;
    for (uint j = begin; j < end; ++j) {
        const uint value = (uint)a[j] + b[j];
        if (value < best_value)
            continue;
        const uint error = squared_error(block, codebook + (size_t)j * K);
        if ((error < bound || j == nearest) && is_better(value, error, best_value, best_error)) {
            best_value = value;
            best_error = error;
            place = j;
        }
    }
    values[lane] = best_value;
    errors[lane] = best_error;
    places[lane] = place;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* all have read table[here] */
    uint best = 0; /* lanes have ascending codewords, so the first of the best is the lowest index */
    for (uint i = 1; i < lanes; ++i)
        best = is_better(values[i], errors[i], values[best], errors[best]) ? i : best;
    best_value = values[best];
    place = places[best];
    barrier(CLK_LOCAL_MEM_FENCE);
    uint ahead = 0;
    for (uint j = begin; j < end; ++j) {
        const uint value = (uint)a[j] + b[j];
        ahead += value > best_value || (value == best_value && j < place);
    }
    values[lane] = ahead;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0 && valid) {
        for (uint i = 1; i < lanes; ++i)
            ahead += values[i];
        if (ahead < STATE)
            table[here] = (INDEX)place;
    }
}
