/* Where a band's blocks are, in which order they are coded, and the frequencies of each.
 *
 * Constants: BUCKET, MOST_BUCKETS (vq/coding/buckets.h), INDEX (uchar or ushort), PAIRS (1: the buckets' ranges are those of
 * vq_pair_buckets; 2: the same, found anew for every block; 0: they follow from values of buckets).
 */
#include "vq/coding/buckets.h"

#define MAX_LANES 32

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

/* Where a lane is in its band; before the step in which it begins, `column` is less than 0. */
typedef struct {
    int row, column;
} Place;

/* The place of a lane in a step; `step` -1 is the one before the first. */
inline Place place_at(Band band, int step, int lane)
{
    const int since = step - lane, stride = (int)band.stride;
    Place place = {lane, since};
    if (since >= 0) {
        place.row = since / stride * (int)band.lanes + lane;
        place.column = since % stride;
    }
    return place;
}

/* The place a step later. */
inline Place place_after(Band band, Place place)
{
    ++place.column;
    if (place.column == (int)band.stride) {
        place.column = 0;
        place.row += (int)band.lanes;
    }
    return place;
}

/* The place a step before. */
inline Place place_before(Band band, Place place)
{
    --place.column;
    if (place.column < 0 && place.row >= (int)band.lanes) {
        place.column = (int)band.stride - 1;
        place.row -= (int)band.lanes;
    }
    return place;
}

/* Whether a block is there. */
inline bool is_in(Band band, Place place)
{
    return place.column >= 0 && place.column < (int)band.columns && place.row < (int)band.rows;
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

/* What blocks are coded by (cl/vq/coding/contexts.cl): values of codewords above and to the left; begins of buckets' ranges by
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

/* The bucket whose range between these neighbours holds a slot. */
inline Found bucket_at(Model model, uint a, uint b, uint slot)
{
#if PAIRS == 2
    __global const uchar *row_above = model.above + (size_t)a * STRIDE, *row_left = model.left + (size_t)b * STRIDE;
    const uint buckets = buckets_of(model.size);
    uint before[MOST_BUCKETS + 1];
    before[0] = 0;
    for (uint bucket = 0; bucket < buckets; ++bucket) {
        const uint first = bucket * BUCKET, members = min((uint)BUCKET, model.size - first);
        before[bucket + 1] = before[bucket] + sum_of_weights(row_above + first, row_left + first, members);
    }
    const Spread spread = spread_of(before[buckets], buckets);
    Found found = {0, 0};
    while (found.symbol + 1 < buckets && spread_to(spread, before[found.symbol + 1], found.symbol + 1) <= slot)
        ++found.symbol;
    const uint own = before[found.symbol + 1] - before[found.symbol];
    found.range = range_from(spread, before[found.symbol], own, found.symbol, buckets);
    return found;
#elif PAIRS
    __global const ushort *begins = model.pairs + ((size_t)a * (model.groups + 1) + b) * PAIR_STRIDE;
    /* Two begins a word, TOTAL where there is no bucket: the highest bits of (TOTAL + slot) - begin tell begin <= slot,
       and no half borrows from the other, as begins are at most TOTAL. */
    const uint4 slots = (uint4)((TOTAL + slot) * 0x10001u);
    uint4 hits = 0;
#pragma unroll
    for (uint i = 0; i < PAIR_STRIDE; i += 8)
        hits += ((slots - *(__global const uint4 *)(begins + i)) >> 15) & 0x10001u;
    const uint all = hits.x + hits.y + hits.z + hits.w;
    Found found;
    found.symbol = (all & 0xffff) + (all >> 16) - 1;
    const uint end = found.symbol + 1 < PAIR_STRIDE ? begins[found.symbol + 1] : TOTAL;
    found.range = begins[found.symbol] | (end - begins[found.symbol]) << 16;
    return found;
#else
    return symbol_at(model.above_buckets + a * BUCKET_STRIDE, model.left_buckets + b * BUCKET_STRIDE,
                     buckets_of(model.size), slot);
#endif
}

/* The codeword of a bucket whose range between these neighbours holds a slot. */
inline Found codeword_at(Model model, uint a, uint b, uint bucket, uint slot)
{
    const uint first = bucket * BUCKET;
    Found found = symbol_at(model.above + (size_t)a * STRIDE + first, model.left + (size_t)b * STRIDE + first,
                            min((uint)BUCKET, model.size - first), slot);
    found.symbol += first;
    return found;
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

/* Codewords' places in the coding order instead of their indices.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. indices: count INDEX, changed. ranks: ushort,
 * of every codeword.
 */
__kernel void vq_rank_indices(__global INDEX *indices, const uint count, __global const ushort *ranks)
{
    const size_t i = get_global_id(0);
    if (i < count)
        indices[i] = (INDEX)ranks[indices[i]];
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
