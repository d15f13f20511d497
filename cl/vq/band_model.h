/* Where a band's blocks are, in which order they are coded, and the frequencies of each.
 *
 * Constants: BUCKET, MOST_BUCKETS (vq/buckets.h), INDEX (uchar or ushort), PAIRS (whether the buckets' ranges are those
 * of vq_pair_buckets; else they follow from values of buckets).
 */
#include "vq/buckets.h"

#define MAX_LANES 32
#define NO_BLOCK 0xffffffffu

typedef struct {
    size_t first; /* the band's first block, in raster order */
    uint rows, columns, lanes;
    uint stride; /* steps from a lane's row to its next one */
    uint steps;
} Band;

inline Band band_at(uint band, uint rows, uint columns, uint band_rows, uint lanes)
{
    Band here;
    here.first = (size_t)band * band_rows * columns;
    here.rows = min(band_rows, rows - band * band_rows);
    here.columns = columns;
    here.lanes = lanes;
    here.stride = max(columns, lanes);
    here.steps = (here.rows - 1) / lanes * here.stride + (here.rows - 1) % lanes + columns;
    return here;
}

/* The block of the band that a lane codes in a step, or NO_BLOCK. */
inline uint block_at(Band band, uint step, uint lane)
{
    const uint since = step - lane;
    const uint row = since / band.stride * band.lanes + lane;
    const uint column = since % band.stride;
    return step < lane || row >= band.rows || column >= band.columns ? NO_BLOCK : row * band.columns + column;
}

/* The groups of a block's neighbours in a band's table; `groups` stands for none. */
inline uint group_above(__global const INDEX *table, uint columns, uint block, uint groups, uint shift)
{
    return block < columns ? groups : table[block - columns] >> shift;
}

inline uint group_left(__global const INDEX *table, uint columns, uint block, uint groups, uint shift)
{
    return block % columns == 0 ? groups : table[block - 1] >> shift;
}

/* What blocks are coded by (cl/vq/contexts.cl): values of codewords above and to the left; begins of buckets' ranges by
 * pairs of neighbours, or values of buckets above and to the left. */
typedef struct {
    uint size, groups, shift;
    __global const uchar *above, *left;
    __global const ushort *pairs;
    __global const uchar *above_buckets, *left_buckets;
} Model;

#define MODEL_PARAMETERS                                                                                               \
    const uint size, const uint groups, const uint shift, __global const uchar *above, __global const uchar *left,     \
        __global const ushort *pairs, __global const uchar *above_buckets, __global const uchar *left_buckets
#define MODEL ((Model){size, groups, shift, above, left, pairs, above_buckets, left_buckets})

/* The bucket that a state tells, between these neighbours, and the state after it, before renormalization. */
inline uint next_bucket(Model model, uint a, uint b, uint *state)
{
#if PAIRS
    __global const ushort *begins = model.pairs + ((size_t)a * (model.groups + 1) + b) * PAIR_STRIDE;
    const ushort8 slot = (ushort8)(*state & (TOTAL - 1));
    const ushort8 places = (ushort8)(0, 1, 2, 3, 4, 5, 6, 7);
    const uint buckets = buckets_of(model.size);
    ushort8 hits = 0;
#pragma unroll
    for (uint i = 0; i < MOST_BUCKETS; i += 8) {
        const ushort8 eight = as_ushort8(*(__global const uint4 *)(begins + i));
        hits += select((ushort8)0, (ushort8)1, (eight <= slot) & (places + (ushort)i < (ushort8)buckets));
    }
    const ushort4 four = hits.lo + hits.hi;
    const uint symbol = (uint)(four.x + four.y + four.z + four.w) - 1;
    const uint end = symbol + 1 < buckets ? begins[symbol + 1] : TOTAL;
    *state = popped(*state, begins[symbol] | (end - begins[symbol]) << 16);
    return symbol;
#else
    return next_symbol(model.above_buckets + a * BUCKET_STRIDE, model.left_buckets + b * BUCKET_STRIDE,
                       buckets_of(model.size), state);
#endif
}

/* The codeword of a bucket that a state tells, and the state after it, before renormalization. */
inline uint next_codeword(Model model, uint a, uint b, uint bucket, uint *state)
{
    const uint first = bucket * BUCKET;
    return first + next_symbol(model.above + (size_t)a * STRIDE + first, model.left + (size_t)b * STRIDE + first,
                               min((uint)BUCKET, model.size - first), state);
}

inline uint bucket_range(Model model, uint a, uint b, uint bucket)
{
#if PAIRS
    __global const ushort *begins = model.pairs + ((size_t)a * (model.groups + 1) + b) * PAIR_STRIDE;
    const uint end = bucket + 1 < buckets_of(model.size) ? begins[bucket + 1] : TOTAL;
    return begins[bucket] | (end - begins[bucket]) << 16;
#else
    return range_of(model.above_buckets + a * BUCKET_STRIDE, model.left_buckets + b * BUCKET_STRIDE,
                    buckets_of(model.size), bucket);
#endif
}

/* The frequencies of all blocks (range_of): of the bucket, and of the codeword in its bucket.
 *
 * NDRange: 1-D, rows * columns work-items rounded up to whole groups of any size. indices: rows x columns INDEX. size:
 * codewords. groups: of neighbours, of 2^shift codewords. above, left, above_buckets, left_buckets: of vq_side_values.
 * pairs: of vq_pair_buckets (unused without PAIRS). rows, columns, band_rows: as in vq_bands_encode. ranges: rows x
 * columns uint2.
 */
__kernel void vq_block_ranges(__global const INDEX *indices, MODEL_PARAMETERS, const uint rows, const uint columns,
                              const uint band_rows, __global uint2 *ranges)
{
    const size_t block = get_global_id(0);
    if (block >= (size_t)rows * columns)
        return;
    const size_t first = block / ((size_t)band_rows * columns) * ((size_t)band_rows * columns);
    const uint a = group_above(indices + first, columns, (uint)(block - first), groups, shift);
    const uint b = group_left(indices + first, columns, (uint)(block - first), groups, shift);
    const uint index = indices[block];
    const uint bucket = index / BUCKET;
    const uint start = bucket * BUCKET;
    ranges[block] = (uint2)(bucket_range(MODEL, a, b, bucket),
                            range_of(above + (size_t)a * STRIDE + start, left + (size_t)b * STRIDE + start,
                                     min((uint)BUCKET, size - start), index - start));
}
