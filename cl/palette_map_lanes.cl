/* palette_map.cl's kernel in the shape that CPUs run fast (palette_lanes.h); the same result bit for bit. */
#define WORDS 2
#include "palette_memo.h"

/* The nearest entries of colours, into their slots. */
void answer(const uint *keys, uint n, __global uint *memo, int bits, __global const int *tables,
            __global const uint2 *spans, __global const short *blocks, int4 grid, int shift)
{
    int points[4][CHUNK];
    uint cells[CHUNK];
    find_cells(keys, n, tables, grid, shift, points, cells);
    for (uint i = 0; i < n; i++) {
        __global uint *entry = memo + memo_slot(keys[i], bits);
        entry[0] = keys[i];
        entry[1] = nearest_in_lanes(&points[0][i], CHUNK, keys[i], spans[cells[i]], blocks);
    }
}

/* The nearest entry of every pixel.
 * NDRange: 1-D, any size; a work-item takes a run of pixels and remembers the answers for their colours. pixels
 * (n, CHANNELS) uchar; out (n) INDEX; memo (work-items, 2^(3 memo_bits), WORDS) uint, scratch; memo_bits 1 to 8. */
__kernel void map_pixels(LANE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out, ulong n,
                         __global uint *restrict memo, int memo_bits)
{
    const ulong run = (n + get_global_size(0) - 1) / get_global_size(0);
    const ulong end = min(n, run * (get_global_id(0) + 1));
    uint keys[CHUNK], unknown[CHUNK];
    memo += WORDS * get_global_id(0) << 3 * memo_bits;
    clear_memo(memo, memo_bits);
    for (ulong begin = run * get_global_id(0); begin < end; begin += CHUNK) {
        const uint count = (uint)min(end - begin, (ulong)CHUNK);
        load_keys(pixels, begin, count, keys);
        uint i = 0;
        for (uint together = count; i < count; together = 1) {
            const uint unknowns = list_unknown(keys + i, together, memo, memo_bits, unknown);
            answer(unknown, unknowns, memo, memo_bits, tables, LANE_CELLS);
            for (; i < count; i++) {
                __global const uint *entry = memo + memo_slot(keys[i], memo_bits);
                if (is_transparent(unpacked_color(keys[i]), transparent, missing))
                    out[begin + i] = (INDEX)max(transparent, 0);
                else if (entry[0] == keys[i])
                    out[begin + i] = (INDEX)entry[1];
                else
                    break;
            }
        }
    }
}
