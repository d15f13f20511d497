/* Bands of .clvq index tables (docs/clvq-format.md): a band's rows are shared out to `lanes` rANS states in turn, which
 * go along their rows one column behind each other, so that the codewords above and to the left are known; their words
 * are interleaved in the order in which they are read. Here one work-item codes a whole band.
 *
 * Block (row, column) of a band is coded in step row / lanes * stride + row % lanes + column, by lane row % lanes,
 * where stride is the greater of the columns and lanes. In each step the lanes in order read what they need for the
 * bucket, then those in order what they need for the codeword in the bucket.
 *
 * Constants: BUCKET, MOST_BUCKETS, INDEX, PAIRS (vq/coding/band_model.h).
 */
#include "vq/coding/band_model.h"

#define RECENT 64 /* pairs of neighbours of which is known what was last found between them; a power of two */

/* What was found between two neighbours. */
typedef struct {
    uint above, left;
    Found found;
} Recent;

/* The place of two neighbours among the recent ones. */
inline uint recent_at(uint above, uint left)
{
    return (above * 5 + left) % RECENT;
}

inline bool is_found(Recent recent, uint above, uint left, uint slot)
{
    return recent.above == above && recent.left == left &&
           slot - (recent.found.range & 0xffff) < recent.found.range >> 16;
}

/* Words and states of bands.
 *
 * NDRange: 1-D, a work-item per band, rounded up to whole groups of any size. ranges: rows x columns uint2 of
 * vq_block_ranges. rows: of all bands together. band_rows: of every band but the last. lanes: 1..32. words: bands x 2 *
 * band_rows * columns ushort; a band's fill the end of its part. states: bands x lanes uint. counts: bands uint, words
 * written.
 */
__kernel void vq_bands_encode(__global const uint2 *ranges, const uint rows, const uint columns, const uint band_rows,
                              const uint lanes, const uint bands, __global ushort *words, __global uint *states,
                              __global uint *counts)
{
    const uint band = get_global_id(0);
    if (band >= bands)
        return;
    const Band here = band_at(band, rows, columns, band_rows, lanes);
    const uint capacity = 2 * band_rows * columns;
    __global ushort *out = words + (size_t)band * capacity;
    uint at = capacity;
    uint state[MAX_LANES];
    Place place[MAX_LANES];
    for (uint lane = 0; lane < lanes; ++lane) {
        state[lane] = LOW;
        place[lane] = place_at(here, (int)here.steps - 1, (int)lane);
    }
    for (uint step = here.steps; step-- > 0;) {
        for (int level = 1; level >= 0; --level)
            for (uint lane = lanes; lane-- > 0;) {
                if (!is_in(here, place[lane]))
                    continue;
                const uint2 both = ranges[here.first + place[lane].row * columns + place[lane].column];
                const uint range = level ? both.y : both.x;
                if (is_full(state[lane], range)) {
                    out[--at] = (ushort)state[lane];
                    state[lane] >>= 16;
                }
                state[lane] = pushed(state[lane], range);
            }
        for (uint lane = 0; lane < lanes; ++lane)
            place[lane] = place_before(here, place[lane]);
    }
    for (uint lane = 0; lane < lanes; ++lane)
        states[band * lanes + lane] = state[lane];
    counts[band] = capacity - at;
}

/* Indices of bands.
 *
 * NDRange: 1-D, a work-item per band, rounded up to whole groups of any size. words: ushort, all bands'. begins: bands
 * + 1 uint, where each band's begin. states: bands x lanes uint, at least LOW each. size to left_buckets: the model, as
 * in vq_block_ranges. rows, columns, band_rows: as in vq_bands_encode. indices: rows x columns INDEX, written. wrong:
 * one uint, set to 1 if a band's words are too few or too many, or its states do not end where encoders begin.
 */
__kernel void vq_bands_decode(__global const ushort *words, __global const uint *begins, __global const uint *states,
                              MODEL_PARAMETERS, const uint rows, const uint columns, const uint band_rows,
                              const uint lanes, const uint bands, __global INDEX *indices, __global uint *wrong)
{
    const uint band = get_global_id(0);
    if (band >= bands)
        return;
    const Band here = band_at(band, rows, columns, band_rows, lanes);
    const Model model = MODEL;
    __global INDEX *table = indices + here.first;
    const uint end = begins[band + 1];
    uint at = begins[band];
    bool fine = true;
    uint state[MAX_LANES], bucket[MAX_LANES];
    Place place[MAX_LANES];
    Recent buckets[RECENT], codewords[RECENT];
    for (uint i = 0; i < RECENT; ++i)
        buckets[i].above = codewords[i].above = UINT_MAX;
    for (uint lane = 0; lane < lanes; ++lane) {
        state[lane] = states[band * lanes + lane];
        place[lane] = place_at(here, -1, (int)lane);
    }
    for (uint step = 0; step < here.steps; ++step) {
        for (uint lane = 0; lane < lanes; ++lane)
            place[lane] = place_after(here, place[lane]);
        const uint levels = fine ? 2 : 0; /* no more work for what is damaged */
        for (uint lane = 0; lane < lanes && levels == 0; ++lane)
            if (is_in(here, place[lane]))
                table[place[lane].row * columns + place[lane].column] = 0;
        for (uint level = 0; level < levels; ++level)
            for (uint lane = 0; lane < lanes; ++lane) {
                if (!is_in(here, place[lane]))
                    continue;
                const uint block = place[lane].row * columns + place[lane].column;
                const uint a = group_above(table, columns, block, groups, shift);
                const uint b = place[lane].column ? table[block - 1] >> shift : groups;
                const uint slot = state[lane] & (TOTAL - 1);
                Recent *recent = (level ? codewords : buckets) + recent_at(a, b);
                const bool known = is_found(*recent, a, b, slot);
                if (!known || (level && recent->found.symbol / BUCKET != bucket[lane])) {
                    recent->above = a;
                    recent->left = b;
                    recent->found = level ? codeword_at(model, a, b, bucket[lane], slot) : bucket_at(model, a, b, slot);
                }
                if (level)
                    table[block] = (INDEX)recent->found.symbol;
                else
                    bucket[lane] = recent->found.symbol;
                state[lane] = popped(state[lane], recent->found.range);
                if (state[lane] < LOW) {
                    fine = fine && at < end;
                    state[lane] = state[lane] << 16 | (at < end ? words[at] : 0);
                    ++at;
                }
            }
    }
    for (uint lane = 0; lane < lanes; ++lane)
        fine = fine && state[lane] == LOW;
    if (!fine || at != end)
        *wrong = 1;
}
