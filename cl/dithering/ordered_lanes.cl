/* dithering/ordered.cl's dithering in the shape that CPUs run fast (mapping/candidates_lanes.h); the same result bit
 * for bit. All neighbours of an entry are weighed at once, in lanes.
 *
 * A memo's entry holds a colour and its answer, with SIMPLICES a mixture. Constants: those of dithering/ordered.cl.
 */
#if SIMPLICES
#define WORDS (4 + sizeof(INDEX))
#else
#define WORDS (1 + (2 + 2 * sizeof(INDEX) + 3) / 4)
#endif
#include "mapping/memo.h"
#include "dithering/reach.h"
#define WAYS_IN_LANES
#include "dithering/simplices.h"

/* Eight neighbours b of an entry a (`mixes_in_lanes` of clquant/dithering/mixes.py): what dithering/ordered.cl has of
 * each; whether b is darker than a, `least` and the index in bits 0, 1 to 13 and 14 to 29 of `entry`; the gap to a;
 * values over black, packed. Where a has fewer neighbours, always in the last lane of the last eight, weights are 0. */
typedef struct {
    int8 weights[DIMS];
    int8 square;
    int8 spread;
    int8 entry;
    int8 gap;
    uint8 values;
} Mixes;
#define BLOCKS ((NEIGHBOURS + LANES - 1) / LANES)

/* The shares f of neighbours, in 1/2^16, rounded down: below 2^30, as errors are below 2^12 and weights below 2^26. */
int8 shares(const int *error, __global const Mixes *mixes)
{
    long8 sum = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        sum += (long)error[d] * convert_long8(mixes->weights[d]);
    return convert_int8(sum >> (long8)8);
}

/* What orders neighbours of such shares: the cost times 16, plus `number` + 0, 1, ... Factors fit 32 bits, which CPUs
 * multiply at once. */
long8 costs(int8 share, __global const Mixes *mixes, int number)
{
    const int8 h = share >> 8, beyond = 512 * h - 65536;
    const int8 one = share < 65536 ? 256 * h : beyond, two = share < 65536 ? h * h : beyond;
    const long8 cost = convert_long8(one) * convert_long8(mixes->spread) -
                       convert_long8(two) * convert_long8(mixes->square + mixes->spread);
    return cost * 16 + ((long8)(0, 1, 2, 3, 4, 5, 6, 7) + (long)number);
}

#define ABS(x) max(x, -(x))

/* The gaps of a colour to neighbours. */
int8 gaps(int4 color, __global const Mixes *mixes)
{
#if SPACE_ALPHA
    const int4 over_black = (int4)(convert_int3(OVER_WHITE(convert_uint3(color.xyz * color.w))), color.w);
#else
    const int4 over_black = color;
#endif
    const int8 red = as_int8(mixes->values & 255) - over_black.x;
    const int8 green = as_int8(mixes->values >> 8 & 255) - over_black.y;
    const int8 blue = as_int8(mixes->values >> 16 & 255) - over_black.z;
    int8 off = max(max(ABS(red), ABS(green)), ABS(blue));
#if SPACE_ALPHA
    const int8 alpha = as_int8(mixes->values >> 24) - over_black.w;
    off = max(max(off, ABS(alpha)), max(max(ABS(red - alpha), ABS(green - alpha)), ABS(blue - alpha)));
#endif
    return off;
}

/* A colour's whole answer: one of two entries stands at the numbers of the mask below `from`, the other from it on. */
typedef struct {
    ushort from;
    INDEX below;
    INDEX above;
} Answer;

/* The answer for a colour whose first entry has the gap `off` to it; is_opaque: both are. */
Answer answer_of(int4 error, int4 color, int first, int is_opaque, int off, __global const Mixes *mixes, int speck,
                 int values, int strength)
{
    const int errors[4] = {error.x, error.y, error.z, error.w};
    int8 share[BLOCKS];
    long8 cost = LONG_MAX;
    mixes += BLOCKS * first;
    for (int b = 0; b < BLOCKS; b++) {
        share[b] = shares(errors, mixes + b);
        if (off <= speck && any(speck - off - mixes[b].gap)) {
            const long8 gain = convert_long8(min(share[b], (int8)(65536))) * convert_long8(mixes[b].square);
            const int8 is_small = convert_int8((gain - PENALTY * 65536L) >> 63L);
            share[b] = ((speck - gaps(color, mixes + b)) & is_small) < 0 ? 0 : share[b];
        }
#if SPACE_ALPHA
        share[b] = is_opaque && as_int8(mixes[b].values >> 24) < WHITE ? 0 : share[b];
#endif
        const long8 order = convert_long8(share[b]) > 0 ? costs(share[b], mixes + b, LANES * b) : (long8)LONG_MAX;
        cost = order < cost ? order : cost;
    }
    const long4 four = cost.lo < cost.hi ? cost.lo : cost.hi;
    const long2 two = four.lo < four.hi ? four.lo : four.hi;
    const int number = (int)min(two.x, two.y) & (BLOCKS * LANES - 1), lane = number % LANES;
    mixes += number / LANES;
    const int packed = ((__global const int *)&mixes->entry)[lane], least = packed >> 1 & 0x1fff;
    const uint f = (uint)max(min(((int *)share)[number], 65536) - least, 0);
    const long shown = least ? (f << 16) / (uint)(65536 - least) : f;
    const int often = (int)((shown * strength * values + (1 << 23) - 1) >> 24);
    const INDEX second = (INDEX)(often > 0 ? packed >> 14 : first);
    const int last = (packed & 1) | (often == values);
    const Answer answer = {(ushort)(last ? values - often : often), last ? (INDEX)first : second,
                           last ? second : (INDEX)first};
    return answer;
}

#if SIMPLICES
typedef Mixture Known;

Known known_of(Answer answer)
{
    const Known known = {{answer.below, answer.above, answer.above, answer.above}, {answer.from, INT_MAX, INT_MAX}};
    return known;
}
#else
typedef Answer Known;
#define known_of(answer) answer

int entry_at(const Known *known, int number)
{
    return number < known->from ? known->below : known->above;
}
#endif

/* The answers for colours, into their slots. Loops are short so that searches of several colours overlap. */
void answer(const uint *keys, uint n, __global uint *memo, int bits, __global const int4 *points,
            __global const int4 *colors, __global const Mixes *mixes, __global const uint *within, int n_entries,
            int speck, int values, int strength, __global const int *tables, __global const uint2 *spans,
            __global const short *blocks, int4 grid, int shift SIMPLEX_PARAMETERS)
{
    int point[4][CHUNK], first[CHUNK], off[CHUNK];
    uint cells[CHUNK];
    find_cells(keys, n, tables, grid, shift, point, cells);
    for (uint i = 0; i < n; i++)
        first[i] = WITHOUT_NEAREST(keys[i] >> 24, strength)
                       ? 0
                       : (int)nearest_in_lanes(&point[0][i], CHUNK, keys[i], spans[cells[i]], blocks);
    for (uint i = 0; i < n; i++) {
        const int4 color = unpacked_color(keys[i]);
        const int4 p = (int4)(point[0][i], point[1][i], point[2][i], point[3][i]);
        off[i] = gap(color, colors[first[i]]);
        if (off[i] > speck) {
            first[i] = entry_in_reach(p, color, points, colors, within, n_entries, speck);
            off[i] = gap(color, colors[first[i]]);
        }
    }
    for (uint i = 0; i < n; i++) {
        const int4 color = unpacked_color(keys[i]);
        const int4 p = (int4)(point[0][i], point[1][i], point[2][i], point[3][i]);
        __global uint *entry = memo + memo_slot(keys[i], bits);
        entry[0] = keys[i];
        __global Known *known = (__global Known *)(entry + 1);
#if SIMPLICES
        if (IS_MIXED(color.w)) {
            *known = mixture_of(point_to_mix(p, points[first[i]], strength), points, simplices, walks, values);
            continue;
        }
#endif
        const int is_opaque = color.w == WHITE && colors[first[i]].w == WHITE;
        *known = known_of(
            answer_of(p - points[first[i]], color, first[i], is_opaque, off[i], mixes, speck, values, strength));
    }
}

/* One of two entries per pixel.
 * NDRange: 1-D, any size; a work-item takes a run of rows and remembers the answers for their colours. pixels
 * (n, CHANNELS) uchar; out (n) INDEX; memo (work-items, 2^(3 memo_bits), WORDS) uint, scratch; memo_bits 1 to 8; points
 * (k, 4) int coordinates and colors (k, 4) int 8-bit values of the palette; mixes (k, BLOCKS);
 * the other arguments are those of dithering/ordered.cl. */
__kernel void dither_ordered(LANE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out,
                             ulong n, __global uint *restrict memo, int memo_bits, __global const int4 *points,
                             __global const int4 *colors, __global const Mixes *mixes, __global const uint *within,
                             int n_entries, int speck, uint width, uint first_row, __global const int *mask, uint side,
                             int strength SIMPLEX_PARAMETERS)
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
            answer(unknown, unknowns, memo, memo_bits, points, colors, mixes, within, n_entries, speck,
                   (int)(side * side), strength, tables, LANE_CELLS SIMPLEX_ARGUMENTS);
            for (; i < count; i++) {
                __global const uint *entry = memo + memo_slot(keys[i], memo_bits);
                if (is_transparent(unpacked_color(keys[i]), transparent, missing)) {
                    out[begin + i] = (INDEX)max(transparent, 0);
                } else if (entry[0] == keys[i]) {
                    const Known known = *(__global const Known *)(entry + 1);
                    out[begin + i] = (INDEX)entry_at(&known, thresholds[(column + i) & (side - 1)]);
                } else {
                    break;
                }
            }
        }
    }
}
