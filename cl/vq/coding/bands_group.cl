/* Bands of .clvq index tables as in vq/coding/bands.cl, each by a work-group whose items are the lanes. The lanes that read or
 * write a word in a step say so in a mask; how many of them come before a lane is where its word is.
 *
 * Three masks serve in turn: one is set and then, after a barrier, read, while the next is cleared.
 *
 * Constants: as in vq/coding/bands.cl.
 */
#define NARROW 1
#include "vq/coding/band_model.h"

#define AHEAD (4 * MAX_LANES) /* words in local memory: a step takes no more than a quarter of them */

/* The lanes that need a word, told to all; `turn` counts the calls. */
inline uint lanes_with(bool needs, uint lane, uint turn, __local uint *masks)
{
    if (needs)
        atomic_or(masks + turn % 3, 1u << lane);
    if (lane == 0)
        masks[(turn + 1) % 3] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    return masks[turn % 3];
}

/* A word of a band, 0 behind the last. */
inline ushort word_of(__global const ushort *words, uint i, uint count)
{
    return i < count ? words[i] : 0;
}

/* As vq_bands_encode of vq/coding/bands.cl. NDRange: 1-D, bands groups of `lanes` work-items. */
__kernel void vq_bands_encode(__global const uint2 *ranges, const uint rows, const uint columns, const uint band_rows,
                              const uint lanes, const uint bands, __global ushort *words, __global uint *states,
                              __global uint *counts)
{
    __local uint masks[3];
    const uint band = get_group_id(0);
    const uint lane = get_local_id(0);
    const Band here = band_at(band, rows, columns, band_rows, lanes);
    const uint capacity = 2 * band_rows * columns;
    __global ushort *out = words + (size_t)band * capacity;
    uint at = capacity, state = LOW, turn = 0;
    if (lane == 0)
        masks[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    Place place = place_at(here, (int)here.steps - 1, (int)lane);
    for (uint step = here.steps; step-- > 0; place = place_before(here, place)) {
        const bool valid = is_in(here, place);
        const uint2 both = valid ? ranges[here.first + place.row * columns + place.column] : (uint2)(0, 0);
        for (int level = 1; level >= 0; --level) {
            const uint range = level ? both.y : both.x;
            const bool full = valid && is_full(state, range);
            const uint mask = lanes_with(full, lane, turn++, masks);
            at -= popcount(mask);
            if (full) {
                out[at + popcount(mask & ((1u << lane) - 1))] = (ushort)state;
                state >>= 16;
            }
            state = valid ? pushed(state, range) : state;
        }
    }
    states[band * lanes + lane] = state;
    if (lane == 0)
        counts[band] = capacity - at;
}

/* As vq_bands_decode of vq/coding/bands.cl. NDRange: 1-D, bands groups of `lanes` work-items. */
__kernel void vq_bands_decode(__global const ushort *words, __global const uint *begins, __global const uint *states,
                              MODEL_PARAMETERS, const uint rows, const uint columns, const uint band_rows,
                              const uint lanes, const uint bands, __global INDEX *indices, __global uint *wrong)
{
    __local uint masks[3];
    __local uint lasts[MAX_LANES]; /* the lanes' last codewords */
    __local ushort near[AHEAD]; /* the words at `at` and behind it, each at its place modulo 4 * lanes */
    const uint band = get_group_id(0);
    const uint lane = get_local_id(0);
    const Band here = band_at(band, rows, columns, band_rows, lanes);
    const Model model = MODEL;
    __global INDEX *table = indices + here.first;
    const uint begin = begins[band];
    const uint count = begins[band + 1] - begin;
    const uint share = 2 * lanes; /* words that are read at once */
    __global const ushort *own = words + begin;
    uint at = 0, state = states[band * lanes + lane], turn = 0;
    uint last = 0; /* the index to the left */
    bool fine = true, due = false;
    Place place = place_at(here, -1, (int)lane);
    for (uint i = lane; i < 2 * share; i += lanes)
        near[i] = i < count ? own[i] : 0;
    /* The next share is on its way while the one before is used up. */
    uint fetched = 2 * share;
    ushort2 next = (ushort2)(word_of(own, fetched + lane, count), word_of(own, fetched + lanes + lane, count));
    if (lane == 0)
        masks[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint step = 0;
    for (; step < here.steps && at <= count; ++step) {
        place = place_after(here, place);
        const bool valid = is_in(here, place);
        const uint block = place.row * columns + place.column;
        uint a = groups, b = groups;
        if (valid && place.row > 0)
            a = (lane > 0 ? lasts[lane - 1] : (uint)table[block - columns]) >> shift;
        if (place.column > 0)
            b = last >> shift;
        uint bucket = 0;
        for (uint level = 0; level < 2; ++level) {
            if (valid) {
                const uint slot = state & (TOTAL - 1);
                const Found found = level ? codeword_at(model, a, b, bucket, slot) : bucket_at(model, a, b, slot);
                state = popped(state, found.range);
                bucket = last = found.symbol;
            }
            if (valid && level) {
                table[block] = (INDEX)last;
                lasts[lane] = last;
            }
            const bool empty = state < LOW;
            const uint mask = lanes_with(empty, lane, turn++, masks);
            if (due) { /* all have read what lay there */
                near[(fetched + lane) % (2 * share)] = next.x;
                near[(fetched + lanes + lane) % (2 * share)] = next.y;
                fetched += share;
                next = (ushort2)(word_of(own, fetched + lane, count), word_of(own, fetched + lanes + lane, count));
            }
            if (empty) {
                const uint mine = at + popcount(mask & ((1u << lane) - 1));
                fine = fine && mine < count;
                state = state << 16 | near[mine % (2 * share)];
            }
            at += popcount(mask);
            due = at + share >= fetched;
        }
        if (here.rows > lanes) /* the first lane reads what the last one wrote */
            barrier(CLK_GLOBAL_MEM_FENCE);
    }
    for (; step < here.steps; ++step) { /* no more work for what is damaged */
        place = place_after(here, place);
        if (is_in(here, place))
            table[place.row * columns + place.column] = 0;
    }
    if (!fine || state != LOW || at != count)
        *wrong = 1;
}
