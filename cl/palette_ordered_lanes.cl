/* palette_ordered.cl's dithering in the shape that CPUs run fast (palette_lanes.h); the same result bit for bit.
 *
 * Of a colour's two entries the second stands for those thresholds that are below its share, so a colour's whole answer is
 * two entries and one number of the mask: one stands below it, the other from it on.
 */
#define WORDS (1 + (sizeof(Answer) + 3) / 4)
typedef struct {
    ushort from;
    INDEX below;
    INDEX above;
} Answer;
#include "palette_lanes.h"
#include "palette_ordered.h"

/* How many of the numbers t = 0, 1, ... satisfy share > step (2 t + 1), at most `values`. */
int thresholds_below(long share, long step, int values)
{
    return share <= step ? 0 : (int)min((share + step - 1) / (2 * step), (long)values);
}

/* The answer for a point between two entries; palette_ordered.cl has the equations, and bounds that hold here as well. */
Answer answer_of(int4 point, uint first, uint second, __global const int4 *points, int values, int strength)
{
    const int4 step = points[second] - points[first];
    const long share = (long)dot4(point - points[first], step) * strength * (2 * (long)values);
    const int often = thresholds_below(share, (long)squared(step) * 256, values);
    Answer answer = {0, (INDEX)first, (INDEX)(often ? second : first)};
    if (often > 0 && often < values) {
        const int darker = dot4(step, LIGHTNESS) < 0;
        answer.from = (ushort)(darker ? values - often : often);
        answer.below = (INDEX)(darker ? first : second);
        answer.above = (INDEX)(darker ? second : first);
    }
    return answer;
}

/* The answers for colours, into their slots. */
void answer(const uint *keys, uint n, __global uint *memo, int bits, __global const int4 *points, int4 extent,
            int values, int strength, __global const int *tables, __global const uint2 *spans,
            __global const short *blocks, int4 grid, int shift)
{
    int4 point[CHUNK];
    uint first[CHUNK], second[CHUNK], alone[CHUNK];
    uint pending = 0;
    for (uint i = 0; i < n; i++) {
        const int4 color = unpacked_color(keys[i]);
        point[i] = space_coordinates(color, tables);
        first[i] = second[i] = nearest_in_lanes(point[i], color, 1, LANE_CELLS);
        alone[pending] = i;
        pending += squared(point[i] - points[first[i]]) > 0;
    }
    for (int reach = 2; reach <= 128 && pending > 0; reach *= 4) {
        uint left = 0;
        for (uint j = 0; j < pending; j++) {
            const uint i = alone[j];
            const int4 away = point[i] + reach * (point[i] - points[first[i]]);
            second[i] = nearest_in_lanes(clamp(away, (int4)(0), extent), away, 0, LANE_CELLS);
            alone[left] = i;
            left += second[i] == first[i];
        }
        pending = left;
    }
    for (uint i = 0; i < n; i++) {
        __global uint *entry = memo + memo_slot(keys[i], bits);
        entry[0] = keys[i];
        *(__global Answer *)(entry + 1) = answer_of(point[i], first[i], second[i], points, values, strength);
    }
}

/* One of two entries a pixel.
 * NDRange: 1-D, any size; a work-item takes a run of rows and remembers the answers for their colours. pixels
 * (n, CHANNELS) uchar; out (n) INDEX; memo (work-items, 2^(3 memo_bits), WORDS) uint, scratch; memo_bits 1 to 8; points
 * (k, 4) int coordinates of the palette; the other arguments are those of palette_ordered.cl. */
__kernel void dither_ordered(LANE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out,
                             ulong n, __global uint *restrict memo, int memo_bits, __global const int4 *points,
                             uint width, uint first_row, __global const int *mask, uint side, int4 extent, int strength)
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
            answer(unknown, unknowns, memo, memo_bits, points, extent, (int)(side * side), strength, tables, LANE_CELLS);
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
