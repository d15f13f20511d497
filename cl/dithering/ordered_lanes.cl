/* dithering/ordered.cl's dithering in the shape that CPUs run fast (mapping/candidates_lanes.h); the same result bit
 * for bit.
 *
 * A memo's entry holds a colour and its answer.
 */
#define WORDS (1 + (2 + 2 * sizeof(INDEX) + 3) / 4)
#include "mapping/memo.h"
#include "dithering/ordered.h"

/* One coordinate of n points moved away from their first entries, eight at once; lanes beyond n are not looked at. */
void step_away(const int *point, const int *first, uint n, int reach, int extent, int *away)
{
    for (uint i = 0; i < n; i += LANES) {
        const int8 p = vload8(0, point + i);
        vstore8(clamp(p + reach * (p - vload8(0, first + i)), (int8)0, (int8)extent), 0, away + i);
    }
}

/* The cells of n points, eight at once as well. */
void cells_of(int (*points)[CHUNK], uint n, int4 grid, int shift, uint *cells)
{
    for (uint i = 0; i < n; i += LANES) {
        int8 cell = vload8(0, points[3] + i) >> shift;
        cell = cell * grid.z + (vload8(0, points[2] + i) >> shift);
        cell = cell * grid.y + (vload8(0, points[1] + i) >> shift);
        cell = cell * grid.x + (vload8(0, points[0] + i) >> shift);
        vstore8(as_uint8(cell), 0, cells + i);
    }
}

/* The answers for colours, into their slots. */
void answer(const uint *keys, uint n, __global uint *memo, int bits, __global const int4 *points, int4 extent,
            int values, int strength, __global const int *tables, __global const uint2 *spans,
            __global const short *blocks, int4 grid, int shift)
{
    int point[4][CHUNK], near[4][CHUNK], away[4][CHUNK];
    uint first[CHUNK], second[CHUNK], alone[CHUNK], cells[CHUNK];
    const int most[4] = {extent.x, extent.y, extent.z, extent.w};
    find_cells(keys, n, tables, grid, shift, point, cells);
    for (uint i = 0; i < n; i++) {
        first[i] = nearest_in_lanes(&point[0][i], CHUNK, keys[i], spans[cells[i]], blocks);
        const int4 entry = points[first[i]];
        near[0][i] = entry.x;
        near[1][i] = entry.y;
        near[2][i] = entry.z;
        near[3][i] = entry.w;
    }
    for (int d = 0; d < 4; d++)
        step_away(point[d], near[d], n, 2, most[d], away[d]);
    cells_of(away, n, grid, shift, cells);
    uint pending = 0;
    for (uint i = 0; i < n; i++) {
        const uint found = nearest_in_lanes(&away[0][i], CHUNK, 0, spans[cells[i]], blocks);
        const int exact = point[0][i] == near[0][i] & point[1][i] == near[1][i] & point[2][i] == near[2][i] &
                          point[3][i] == near[3][i];
        second[i] = exact ? first[i] : found;
        alone[pending] = i;
        pending += !exact & (found == first[i]);
    }
    for (int reach = 8; reach <= 128 && pending > 0; reach *= 4) {
        uint left = 0;
        for (uint j = 0; j < pending; j++) {
            const uint i = alone[j];
            const int4 p = (int4)(point[0][i], point[1][i], point[2][i], point[3][i]);
            const int4 error = p - (int4)(near[0][i], near[1][i], near[2][i], near[3][i]);
            const int4 farther = clamp(p + reach * error, (int4)(0), extent);
            const int at[4] = {farther.x, farther.y, farther.z, farther.w};
            second[i] = nearest_in_lanes(at, 1, 0, spans[cell_of(farther, grid, shift)], blocks);
            alone[left] = i;
            left += second[i] == first[i];
        }
        pending = left;
    }
    for (uint i = 0; i < n; i++) {
        const int4 p = (int4)(point[0][i], point[1][i], point[2][i], point[3][i]);
        __global uint *entry = memo + memo_slot(keys[i], bits);
        entry[0] = keys[i];
        *(__global Answer *)(entry + 1) = answer_of(p, first[i], second[i], points, values, strength);
    }
}

/* One of two entries per pixel.
 * NDRange: 1-D, any size; a work-item takes a run of rows and remembers the answers for their colours. pixels
 * (n, CHANNELS) uchar; out (n) INDEX; memo (work-items, 2^(3 memo_bits), WORDS) uint, scratch; memo_bits 1 to 8; points
 * (k, 4) int coordinates of the palette; the other arguments are those of dithering/ordered.cl. */
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
            answer(unknown, unknowns, memo, memo_bits, points, extent, (int)(side * side), strength, tables,
                   LANE_CELLS);
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
