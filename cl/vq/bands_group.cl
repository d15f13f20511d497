/* Bands of .clvq index tables as in vq/bands.cl, each by a work-group whose items are the lanes. The lanes that read or
 * write a word in a step say so in a mask; how many of them come before a lane is where its word is.
 *
 * Three masks serve in turn: one is set and then, after a barrier, read, while the next is cleared.
 *
 * Constants: as in vq/bands.cl.
 */
#include "vq/band_model.h"

/* Where a lane is in its band. */
typedef struct {
    uint row, column;
    bool valid;
} Place;

/* The place of `lane` in a step, from that in the step before (forward) or after (backward). */
inline Place place_at(Band band, uint step, uint lane)
{
    Place place;
    const uint since = step - lane;
    place.row = step < lane ? 0 : since / band.stride * band.lanes + lane;
    place.column = step < lane ? 0 : since % band.stride;
    place.valid = step >= lane && place.row < band.rows && place.column < band.columns;
    return place;
}

/* The lanes that need a word, told to all; `turn` counts the calls. */
inline uint lanes_with(bool needs, uint lane, uint turn, __local uint *masks)
{
    if (needs)
        atomic_or(masks + turn % 3, 1u << lane);
    if (lane == 0)
        masks[(turn + 1) % 3] = 0;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return masks[turn % 3];
}

/* As vq_bands_encode of vq/bands.cl. NDRange: 1-D, bands groups of `lanes` work-items. */
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
    for (uint step = here.steps; step-- > 0;) {
        const Place place = place_at(here, step, lane);
        const uint2 both = place.valid ? ranges[here.first + place.row * columns + place.column] : (uint2)(0, 0);
        for (int level = 1; level >= 0; --level) {
            const uint range = level ? both.y : both.x;
            const bool full = place.valid && is_full(state, range);
            const uint mask = lanes_with(full, lane, turn++, masks);
            at -= popcount(mask);
            if (full) {
                out[at + popcount(mask & ((1u << lane) - 1))] = (ushort)state;
                state >>= 16;
            }
            state = place.valid ? pushed(state, range) : state;
        }
    }
    states[band * lanes + lane] = state;
    if (lane == 0)
        counts[band] = capacity - at;
}

/* As vq_bands_decode of vq/bands.cl. NDRange: 1-D, bands groups of `lanes` work-items. */
__kernel void vq_bands_decode(__global const ushort *words, __global const uint *begins, __global const uint *states,
                              MODEL_PARAMETERS, const uint rows, const uint columns, const uint band_rows,
                              const uint lanes, const uint bands, __global INDEX *indices, __global uint *wrong)
{
    __local uint masks[3];
    const uint band = get_group_id(0);
    const uint lane = get_local_id(0);
    const Band here = band_at(band, rows, columns, band_rows, lanes);
    const Model model = MODEL;
    __global INDEX *table = indices + here.first;
    const uint end = begins[band + 1];
    uint at = begins[band], state = states[band * lanes + lane], turn = 0;
    uint last = 0; /* the index to the left */
    bool fine = true;
    if (lane == 0)
        masks[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 0; step < here.steps; ++step) {
        const Place place = place_at(here, step, lane);
        const uint block = place.row * columns + place.column;
        const uint a = place.row && place.valid ? table[block - columns] >> shift : groups;
        const uint b = place.column ? last >> shift : groups;
        uint bucket = 0;
        for (uint level = 0; level < 2; ++level) {
            if (place.valid && level == 0)
                bucket = next_bucket(model, a, b, &state);
            else if (place.valid) {
                last = next_codeword(model, a, b, bucket, &state);
                table[block] = (INDEX)last;
            }
            const bool empty = state < LOW;
            const uint mask = lanes_with(empty, lane, turn++, masks);
            if (empty) {
                const uint mine = at + popcount(mask & ((1u << lane) - 1));
                fine = fine && mine < end;
                state = state << 16 | (mine < end ? words[mine] : 0);
            }
            at += popcount(mask);
        }
    }
    if (!fine || state != LOW || at != end)
        *wrong = 1;
}
