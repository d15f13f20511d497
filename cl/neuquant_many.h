// The search for many small pictures, by a work-group each: its local memory, its points, and what is added to totals.
//
// Constants from the host besides those of neuquant_map.h (STAGED is 1) and spaces.h:
//   LOCAL       work-items of a group, a power of two; 1 where LANES is 16
//   LANES       points side by side: 16, in the lanes of two vectors, for processors; else 1
//   TILE        points that a work-item searches for at once, where LANES is 1
//   CITY_BLOCK, CONSCIENCE  as in neuquant_step.cl
//   WIDE        1 where a sum of squares may exceed 32 bits, for which it is split as in a slab
//
// A picture has at most 2^16 pixels; without WIDE, 2^16 times the square of the largest coordinate is below 2^32.

#include "neuquant_map.h"
#include "spaces.h"

// Local memory in vectors: what points each node won (a vector: how many, and the sums of three coordinates), the
// fourth sums; sums of squares (a vector: all coordinates), their high bits; the nodes; what a search reads, nodes with
// half their square as the fourth coordinate, or beside it, biases and plain wins; what the refinement needs besides.
#define QUARTER ((colors + 3) / 4)
#define FOURTHS_AT colors
#define SQUARES_AT (FOURTHS_AT + (DIMS == 4 ? QUARTER : 0))
#define HIGH_AT (SQUARES_AT + colors)
#define NODES_AT (HIGH_AT + (WIDE ? colors : 0))
#define NETWORK_AT (NODES_AT + colors)
#define HALVES_AT (NETWORK_AT + colors)
#define BIAS_AT (HALVES_AT + (DIMS == 4 ? QUARTER : 0))
#define WINS_AT (BIAS_AT + (CONSCIENCE ? QUARTER : 0))
#define WORTH_AT (WINS_AT + (CONSCIENCE ? QUARTER : 0))
// Of 24 QUARTER words.
#define REST_AT (WORTH_AT + colors)
// Where LANES is 16, the other half of the sums: what is added to a node must not wait for the addition just before.
#define BANK_AT (REST_AT + 6 * QUARTER)

#if WIDE
#define SPLIT_BITS COORDINATE_BITS
#else
#define SPLIT_BITS 31
#endif

#define SCRATCH __local
#define NODES __local int4 *
#define REFINED __local const uint *
#define COUNT_OF(i) totals[4 * (i)]
#define SUM_OF(i, c) totals[(c) < 3 ? 4 * (i) + 1 + (c) : 4 * FOURTHS_AT + (i)]
#if WIDE
#define SQUARES_OF(i, c)                                                                                               \
    (totals[4 * (SQUARES_AT + (i)) + (c)] + ((ulong)totals[4 * (HIGH_AT + (i)) + (c)] << COORDINATE_BITS))
#else
#define SQUARES_OF(i, c) (ulong) totals[4 * (SQUARES_AT + (i)) + (c)]
#endif

#include "neuquant_refine.h"

// Points in the order in which a step takes them: a number's point is that of the same number, or, of those that are
// spread, that of pixel floor(total * frac(number * phi + start)), as in neuquant_sample.cl. Where they have no weights
// each counts once.
typedef struct {
    __global const ushort4 *points;
    __global const uint *weights;
    uint weighted, spread, start, total;
} source_t;

uint place_of(const source_t from, const uint number)
{
    return from.spread ? (uint)((ulong)(number * 2654435769u + from.start) * from.total >> 32) : number;
}

// A point as it is kept: its fourth coordinate, or 1, and the others; all are 0 where it is passed over. Where there is
// a fourth coordinate, alpha, it is above 0 in all other points.
ushort4 kept_point(const uint color, __global const int *tables)
{
    if (color >> 24 == 0)
        return (ushort4)(0);
    const int4 c = (int4)(color & 255, color >> 8 & 255, color >> 16 & 255, color >> 24);
    const ushort4 p = convert_ushort4(space_coordinates(c, tables));
    return (ushort4)(DIMS == 4 ? p.w : 1, p.x, p.y, p.z);
}

#if LANES == 16
#define ADD(address, value) (*(address) += (value))
#else
#define ADD(address, value) atomic_add(address, value)
#endif

#if LANES == 1
void add_squares(__local uint *words, const uint4 squares)
{
    atomic_add(&words[0], squares.x);
    atomic_add(&words[1], squares.y);
    atomic_add(&words[2], squares.z);
    if (DIMS == 4)
        atomic_add(&words[3], squares.w);
}
#endif

// Adds a kept point to what its winner has, with its squares where those are asked for.
void add_point(__local uint4 *memory, const int colors, const int winner, const ushort4 point, const uint weight,
               const int squares)
{
    __local uint *words = (__local uint *)memory;
    uint4 value = convert_uint4(point);
    const uint4 xyzw = (uint4)(value.s123, DIMS == 4 ? value.s0 : 0);
#if DIMS == 4
    value.s0 = min(value.s0, 1u);
#endif
    const uint4 square = xyzw * xyzw;
#if LANES == 16
    memory[winner] += value * weight;
    if (squares) {
        memory[SQUARES_AT + winner] += (WIDE ? square & LOW_MASK : square) * weight;
        if (WIDE)
            memory[HIGH_AT + winner] += (square >> SPLIT_BITS) * weight;
    }
    if (DIMS == 4)
        words[4 * FOURTHS_AT + winner] += xyzw.w * weight;
#else
    if (value.s0 == 0)
        return;
    atomic_add(&words[4 * winner], weight);
    atomic_add(&words[4 * winner + 1], xyzw.x * weight);
    atomic_add(&words[4 * winner + 2], xyzw.y * weight);
    atomic_add(&words[4 * winner + 3], xyzw.z * weight);
    if (DIMS == 4)
        atomic_add(&words[4 * FOURTHS_AT + winner], xyzw.w * weight);
    if (squares) {
        add_squares(&words[4 * (SQUARES_AT + winner)], (WIDE ? square & LOW_MASK : square) * weight);
        if (WIDE)
            add_squares(&words[4 * (HIGH_AT + winner)], (square >> SPLIT_BITS) * weight);
    }
#endif
}

// What a search compares: the sum of absolute differences, or |n|^2 / 2 - n.p, which orders nodes n as |n - p|^2 does.
// Its terms are whole or half, and every partial sum lies between -|p|^2 / 2 and |n|^2 / 2, both below 2^23, so it is
// exact in fp32.
#if DIMS == 4
#define SCORE(n, half_square, p, q, r, s) ((half_square) - (n).x * (p) - (n).y * (q) - (n).z * (r) - (n).w * (s))
#define CITY_SCORE(n, p, q, r, s)                                                                                      \
    (fabs((n).x - (p)) + fabs((n).y - (q)) + fabs((n).z - (r)) + fabs((n).w - (s)))
#else
#define SCORE(n, half_square, p, q, r, s) ((n).w - (n).x * (p) - (n).y * (q) - (n).z * (r))
#define CITY_SCORE(n, p, q, r, s) (fabs((n).x - (p)) + fabs((n).y - (q)) + fabs((n).z - (r)))
#endif

// Adds `count` points from number `first` on to the totals of their winners: in the map by its own rules, in the
// refinement by squared distance and with squares.
#if LANES == 16
#define COMPARE(score, best, winner)                                                                                   \
    {                                                                                                                  \
        const int8 less = (score) < best;                                                                              \
        best = select(best, score, less);                                                                              \
        winner = select(winner, (int8)(i), less);                                                                      \
    }
#define POINT(k) as_ulong(from.points[place_of(from, number + (k))])
// Coordinates of eight points, from the low or the high halves of words.
#define LOW(words) (convert_float8(as_int8((words) & 65535)) * (float)(1 << SEARCH_SHIFT))
#define HIGH(words) (convert_float8(as_int8((words) >> 16)) * (float)(1 << SEARCH_SHIFT))

void assign(__local uint4 *memory, const int colors, const source_t from, const uint first, const uint count,
            const int refining)
{
    __local const float4 *network = (__local const float4 *)(memory + NETWORK_AT);
#if DIMS == 4
    __local const float *halves = (__local const float *)(memory + HALVES_AT);
#endif
#if CONSCIENCE
    __local const float *bias = (__local const float *)(memory + BIAS_AT);
    __local uint *wins = (__local uint *)(memory + WINS_AT);
#endif
    for (uint base = 0; base < count; base += 16) {
        const uint number = first + base;
        const uint16 words0 =
            as_uint16((ulong8)(POINT(0), POINT(1), POINT(2), POINT(3), POINT(4), POINT(5), POINT(6), POINT(7)));
        const uint16 words1 =
            as_uint16((ulong8)(POINT(8), POINT(9), POINT(10), POINT(11), POINT(12), POINT(13), POINT(14), POINT(15)));
        const float8 x0 = HIGH(words0.even), y0 = LOW(words0.odd), z0 = HIGH(words0.odd);
        const float8 x1 = HIGH(words1.even), y1 = LOW(words1.odd), z1 = HIGH(words1.odd);
#if DIMS == 4
        const float8 w0 = LOW(words0.even), w1 = LOW(words1.even);
#endif
        float8 best0 = (float8)(MAXFLOAT), best1 = best0;
        int8 winner0 = (int8)(0), winner1 = winner0;
#if CONSCIENCE
        float8 least0 = best0, least1 = best0;
        int8 plain0 = winner0, plain1 = winner0;
#endif
        for (int i = 0; i < colors; ++i) {
            const float4 n = network[i];
#if CITY_BLOCK
            if (!refining) {
                float8 city0 = CITY_SCORE(n, x0, y0, z0, w0), city1 = CITY_SCORE(n, x1, y1, z1, w1);
#if CONSCIENCE
                COMPARE(city0, least0, plain0)
                COMPARE(city1, least1, plain1)
                city0 -= bias[i];
                city1 -= bias[i];
#endif
                COMPARE(city0, best0, winner0)
                COMPARE(city1, best1, winner1)
                continue;
            }
#endif
#if DIMS == 4
            const float half_square = halves[i];
#endif
            const float8 score0 = SCORE(n, half_square, x0, y0, z0, w0), score1 = SCORE(n, half_square, x1, y1, z1, w1);
            COMPARE(score0, best0, winner0)
            COMPARE(score1, best1, winner1)
        }
        int winners[16];
        vstore8(winner0, 0, winners);
        vstore8(winner1, 1, winners);
#if CONSCIENCE
        int plain[16];
        vstore8(plain0, 0, plain);
        vstore8(plain1, 1, plain);
#endif
        const uint points = min(count - base, 16u);
        for (uint k = 0; k < points; ++k) {
            const uint at = place_of(from, number + k);
            const ushort4 point = from.points[at];
            const uint weight = from.weighted ? from.weights[at] : 1;
            add_point(memory + (k & 1 ? BANK_AT : 0), colors, winners[k], point, weight, refining);
#if CONSCIENCE
            if (!refining)
                wins[plain[k]] += min((uint)point.s0, 1u) * weight;
#endif
        }
    }
    for (int i = 0; i < (refining ? NODES_AT : SQUARES_AT); ++i) {
        memory[i] += memory[BANK_AT + i];
        memory[BANK_AT + i] = (uint4)(0);
    }
}
#else
void assign(__local uint4 *memory, const int colors, const source_t from, const uint first, const uint count,
            const int refining)
{
    __local const float4 *network = (__local const float4 *)(memory + NETWORK_AT);
#if DIMS == 4
    __local const float *halves = (__local const float *)(memory + HALVES_AT);
#endif
#if CONSCIENCE
    __local const float *bias = (__local const float *)(memory + BIAS_AT);
    __local uint *wins = (__local uint *)(memory + WINS_AT);
#endif
    for (uint base = get_local_id(0); base < count; base += LOCAL * TILE) {
        ushort4 point[TILE];
        float4 p[TILE];
        uint at[TILE];
        float best[TILE];
        int winner[TILE];
#if CONSCIENCE
        float least[TILE];
        int plain[TILE];
#endif
        for (int t = 0; t < TILE; ++t) {
            at[t] = place_of(from, first + min(base + t * LOCAL, count - 1));
            point[t] = from.points[at[t]];
            p[t] = convert_float4(point[t]) * (float)(1 << SEARCH_SHIFT);
            best[t] = MAXFLOAT;
            winner[t] = 0;
#if CONSCIENCE
            least[t] = MAXFLOAT;
            plain[t] = 0;
#endif
        }
        for (int i = 0; i < colors; ++i) {
            const float4 n = network[i];
            #if DIMS == 4
            const float half_square = halves[i];
#endif
            for (int t = 0; t < TILE; ++t) {
                float score = SCORE(n, half_square, p[t].s1, p[t].s2, p[t].s3, p[t].s0);
#if CITY_BLOCK
                if (!refining)
                    score = CITY_SCORE(n, p[t].s1, p[t].s2, p[t].s3, p[t].s0);
#endif
#if CONSCIENCE
                if (!refining) {
                    if (score < least[t]) {
                        least[t] = score;
                        plain[t] = i;
                    }
                    score -= bias[i];
                }
#endif
                if (score < best[t]) {
                    best[t] = score;
                    winner[t] = i;
                }
            }
        }
        for (int t = 0; t < TILE; ++t) {
            if (base + t * LOCAL >= count)
                continue;
            add_point(memory, colors, winner[t], point[t], from.weighted ? from.weights[at[t]] : 1, refining);
#if CONSCIENCE
            if (!refining && point[t].s0 > 0)
                atomic_inc(&wins[plain[t]]);
#endif
        }
    }
}
#endif

#if LANES == 16
// How often `count` samples from number `first` on take each of a picture's colours.
void count_samples(__global const ushort *restrict places, const source_t from, const uint first, const uint count,
                   const uint distinct, __global const uint *restrict pixels, __global uint *restrict often)
{
    for (uint i = 0; i < distinct; ++i)
        often[i] = 0;
    for (uint k = 0; k < count; ++k) {
        const uint pixel = place_of(from, first + k);
        if (pixels[pixel] >> 24)
            ++often[places[pixel]];
    }
}
#endif

// A node as searches see it.
void show_node(__local uint4 *memory, const int colors, const int i, const int4 node)
{
    float4 n = search_point(node);
    const float half_square = 0.5f * (n.x * n.x + n.y * n.y + n.z * n.z + (DIMS == 4 ? n.w * n.w : 0.0f));
#if DIMS == 4
    ((__local float *)(memory + HALVES_AT))[i] = half_square;
#else
    n.w = half_square;
#endif
    ((__local float4 *)(memory + NETWORK_AT))[i] = n;
}
