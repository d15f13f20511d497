/* dithering/ordered.cl's dithering in the shape that CPUs run fast (mapping/candidates_lanes.h); the same result bit
 * for bit.
 *
 * A memo's entry holds a colour and its answer.
 */
#define WORDS (1 + (2 + 2 * sizeof(INDEX) + 3) / 4)
#include "mapping/memo.h"
#include "dithering/reach.h"
#include "dithering/ordered.h"

/* A colour's whole answer: one of two entries stands at the numbers of the mask below `from`, the other from it on. */
typedef struct {
    ushort from;
    INDEX below;
    INDEX above;
} Answer;

Answer answer_of(int4 point, int4 color, int first, __global const int4 *points, __global const int4 *colors,
                 __global const Mix *mixes, int speck, int values, int strength)
{
    const Second second = second_of(point, color, first, points, colors, mixes, speck, values, strength);
    const int darker = is_darker(second.entry, first, points);
    Answer answer = {0, (INDEX)first, (INDEX)(second.often ? second.entry : first)};
    if (second.often > 0 && second.often < values) {
        answer.from = (ushort)(darker ? values - second.often : second.often);
        answer.below = (INDEX)(darker ? first : second.entry);
        answer.above = (INDEX)(darker ? second.entry : first);
    }
    return answer;
}

/* The answers for colours, into their slots. */
void answer(const uint *keys, uint n, __global uint *memo, int bits, __global const int4 *points,
            __global const int4 *colors, __global const Mix *mixes, int n_entries, int speck, int values, int strength,
            __global const int *tables, __global const uint2 *spans, __global const short *blocks, int4 grid, int shift)
{
    int point[4][CHUNK];
    uint cells[CHUNK];
    find_cells(keys, n, tables, grid, shift, point, cells);
    for (uint i = 0; i < n; i++) {
        const int4 color = unpacked_color(keys[i]);
        const int nearest = (int)nearest_in_lanes(&point[0][i], CHUNK, keys[i], spans[cells[i]], blocks);
        const int4 p = (int4)(point[0][i], point[1][i], point[2][i], point[3][i]);
        const int first = first_of(p, color, nearest, points, colors, n_entries, speck);
        __global uint *entry = memo + memo_slot(keys[i], bits);
        entry[0] = keys[i];
        *(__global Answer *)(entry + 1) = answer_of(p, color, first, points, colors, mixes, speck, values, strength);
    }
}

/* One of two entries per pixel.
 * NDRange: 1-D, any size; a work-item takes a run of rows and remembers the answers for their colours. pixels
 * (n, CHANNELS) uchar; out (n) INDEX; memo (work-items, 2^(3 memo_bits), WORDS) uint, scratch; memo_bits 1 to 8; points
 * (k, 4) int coordinates and colors (k, 4) int 8-bit values of the palette;
 * the other arguments are those of dithering/ordered.cl. */
__kernel void dither_ordered(LANE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out,
                             ulong n, __global uint *restrict memo, int memo_bits, __global const int4 *points,
                             __global const int4 *colors, __global const Mix *mixes, int n_entries, int speck,
                             uint width, uint first_row, __global const int *mask, uint side, int strength)
{
    const ulong run = (n + get_global_size(0) - 1) / get_global_size(0);
    const ulong end = min(n, run * (get_global_id(0) + 1));
    uint keys[CHUNK], unknown[CHUNK];
    memo += WORDS * get_global_id(0) << 3 * memo_bits;
    clear_memo(memo, memo_bits);
    uint count;
    for (ulong begin = run * get_global_id(0); begin < end; begin += count) {
        const uint row = first_row + (uint)(begin / width);
        const uint column = (uint)(begin % width);
        __global const int *thresholds = mask + (row & (side - 1)) * side;
        count = (uint)min(end - begin, (ulong)min(width - column, (uint)CHUNK));
        load_keys(pixels, begin, count, keys);
        uint i = 0;
        for (uint together = count; i < count; together = 1) {
            const uint unknowns = list_unknown(keys + i, together, memo, memo_bits, unknown);
            answer(unknown, unknowns, memo, memo_bits, points, colors, mixes, n_entries, speck, (int)(side * side),
                   strength, tables, LANE_CELLS);
            for (; i < count; i++) {
                __global const uint *entry = memo + memo_slot(keys[i], memo_bits);
                if (is_transparent(unpacked_color(keys[i]), transparent, missing)) {
                    out[begin + i] = (INDEX)max(transparent, 0);
                } else if (entry[0] == keys[i]) {
                    const Answer known = *(__global const Answer *)(entry + 1);
                    out[begin + i] = thresholds[(column + i) & (side - 1)] < known.from ? known.below : known.above;
                } else {
                    break;
                }
            }
        }
    }
}
