/* mapping/nearest.cl's kernel in the shape that CPUs run fast (mapping/candidates_lanes.h); the same result bit for
 * bit. */
#define WORDS 2
#include "common/rgb_planes.h"
#include "mapping/memo.h"

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

#define SEARCHES (CHANNELS != 4 && !EXACT_TIES)
#if SEARCHES
/* Pixels that are searched together, and blocks of a list of all entries up to which that may pay. */
#define TOGETHER 8
#define FEW_BLOCKS 4
/* Where more than one colour in so many is unknown, SEARCHED - PROBED chunks are searched and none remembered; then
 * PROBED are looked up again, of which the last one decides. */
#define MANY_UNKNOWN 5
#define SEARCHED 16
#define PROBED 2

/* The least of each of eight vectors. */
inline uint8 least_of_each(const uint8 *v)
{
    uint8 four[4], two[2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        four[i] = min((uint8)(v[2 * i].lo, v[2 * i + 1].lo), (uint8)(v[2 * i].hi, v[2 * i + 1].hi));
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint8 a = four[2 * i], b = four[2 * i + 1];
        two[i] = min((uint8)(a.s0145, b.s0145), (uint8)(a.s2367, b.s2367));
    }
    return min((uint8)(two[0].even, two[1].even), (uint8)(two[0].odd, two[1].odd));
}

#define WIDE 16

/* The channels of WIDE pixels. */
inline void load_wide(__global const uchar *pixel, int (*points)[CHUNK], uint at)
{
    __global const bytes_t *from = (__global const bytes_t *)pixel;
#if CHANNELS == 1
    for (int c = 0; c < 3; c++)
        vstore16(convert_int16(from[0]), 0, points[c] + at);
#else
    uchar16 channels[3];
    split_channels(from[0], from[1], from[2], channels);
    for (int c = 0; c < 3; c++)
        vstore16(convert_int16(channels[c]), 0, points[c] + at);
#endif
}

/* What orders a block's entries by nearness to a point: the distance, and the index in bits 0 to 7. */
inline uint8 order_lanes(const int *point, __global const short *blocks, uint at)
{
    __global const short *block = blocks + (size_t)at * (PLANES * LANES);
    return as_uint8(separation_lanes(point, CHUNK, block)) << 8u | as_uint8(plane(block, PLANES - 1));
}

/* The nearest entries of CHUNK colours at most, by a search for each: eight at once go through as many blocks as the
 * longest list of theirs has, short ones through their last block again. Indices of 8 bits. */
inline void search_chunk(__global const uchar *pixels, ulong begin, uint count, __global const uint2 *spans,
                         __global const short *blocks, int4 grid, int shift, __global INDEX *out)
{
    int points[3][CHUNK];
    uint loaded = 0;
    for (; loaded + WIDE <= count; loaded += WIDE)
        load_wide(pixels + (begin + loaded) * CHANNELS, points, loaded);
    for (; loaded < count || loaded % TOGETHER; loaded++) {
        const int4 color = loaded < count ? load_pixel(pixels, begin + loaded) : (int4)0;
        points[0][loaded] = color.x;
        points[1][loaded] = color.y;
        points[2][loaded] = color.z;
    }
    for (uint first = 0; first < count; first += TOGETHER) {
        uint8 best[TOGETHER];
        uint2 span[TOGETHER];
        uint longest = 0, cells[TOGETHER];
        int8 cell = vload8(0, points[2] + first) >> shift;
        cell = cell * grid.y + (vload8(0, points[1] + first) >> shift);
        cell = cell * grid.x + (vload8(0, points[0] + first) >> shift);
        vstore8(as_uint8(cell), 0, cells);
#pragma unroll
        for (uint j = 0; j < TOGETHER; j++) {
            span[j] = spans[cells[j]];
            longest = max(longest, span[j].y - span[j].x);
            best[j] = order_lanes(&points[0][first + j], blocks, span[j].x);
        }
        for (uint b = 1; b < longest; b++) {
#pragma unroll
            for (uint j = 0; j < TOGETHER; j++)
                best[j] = min(best[j], order_lanes(&points[0][first + j], blocks, min(span[j].x + b, span[j].y - 1)));
        }
        const uchar8 found = convert_uchar8(least_of_each(best) & 255u);
        if (first + TOGETHER <= count)
            vstore8(found, 0, (__global uchar *)out + begin + first);
        else {
            uchar each[TOGETHER];
            vstore8(found, 0, each);
            for (uint j = 0; first + j < count; j++)
                out[begin + first + j] = each[j];
        }
    }
}
#endif

/* The nearest entry of every pixel.
 * NDRange: 1-D, any size; a work-item takes a run of pixels and remembers the answers for their colours. pixels
 * (n, CHANNELS) uchar; out (n) INDEX; memo (work-items, 2^(3 memo_bits), WORDS) uint, scratch; memo_bits 1 to 8. */
__kernel void map_pixels(LANE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out, ulong n,
                         __global uint *restrict memo, int memo_bits)
{
    const ulong run = (n + get_global_size(0) - 1) / get_global_size(0);
    const ulong end = min(n, run * (get_global_id(0) + 1));
#if SEARCHES
    const bool may_search = sizeof(INDEX) == 1 && (grid.x > 1 || spans[0].y - spans[0].x <= FEW_BLOCKS);
    uint left = PROBED;
#endif
    uint keys[CHUNK], unknown[CHUNK];
    memo += WORDS * get_global_id(0) << 3 * memo_bits;
    clear_memo(memo, memo_bits);
    for (ulong begin = run * get_global_id(0); begin < end; begin += CHUNK) {
        const uint count = (uint)min(end - begin, (ulong)CHUNK);
#if SEARCHES
        if (left > PROBED) {
            search_chunk(pixels, begin, count, spans, blocks, grid, shift, out);
            left--;
            continue;
        }
#endif
        load_keys(pixels, begin, count, keys);
        uint i = 0;
        for (uint together = count; i < count; together = 1) {
            const uint unknowns = list_unknown(keys + i, together, memo, memo_bits, unknown);
#if SEARCHES
            if (i == 0) {
                left -= left > 0;
                left = left == 0 && may_search && unknowns > count / MANY_UNKNOWN ? SEARCHED : left;
            }
#endif
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
