/* The mini-batch map and its refinement of many small pictures, each by a work-group from the first step to the last.
 *
 * Sources: as neuquant/step.cl and neuquant/refine.h, whose results these are bit for bit.
 *
 * Constants from the host besides those of neuquant/small_images.h:
 *   TILE        points that a work-item searches for at once */

/* Nodes with half their square as the fourth coordinate, or beside it. */
#define SEARCHED(k) ((k) + (DIMS == 4 ? QUARTER(k) : 0))
#define HALVES_AT(k) (NETWORK_AT(k) + (k))

#include "neuquant/map.h"
#include "neuquant/small_images.h"

/* Points in the order in which a step takes them: a number's point is that of the same number, or that of the
 * pixel of a sample. Without weights each counts once. */
typedef struct {
    __global const ushort4 *points;
    __global const uint *weights;
    uint weighted, spread, start, total;
} source_t;

uint place_of(const source_t from, const uint number)
{
    return from.spread ? spread_place(number, from.start, from.total) : number;
}

void add_squares(__local uint *words, const uint4 squares)
{
    atomic_add(&words[0], squares.x);
    atomic_add(&words[1], squares.y);
    atomic_add(&words[2], squares.z);
    if (DIMS == 4)
        atomic_add(&words[3], squares.w);
}

/* Adds a kept point to what its winner has, with its squares if they are wanted. */
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
    if (value.s0 == 0)
        return;
    atomic_add(&words[4 * winner], weight);
    atomic_add(&words[4 * winner + 1], xyzw.x * weight);
    atomic_add(&words[4 * winner + 2], xyzw.y * weight);
    atomic_add(&words[4 * winner + 3], xyzw.z * weight);
    if (DIMS == 4)
        atomic_add(&words[4 * FOURTHS_AT(colors) + winner], xyzw.w * weight);
    if (squares) {
        add_squares(&words[4 * (SQUARES_AT(colors) + winner)], (WIDE ? square & LOW_MASK : square) * weight);
        if (WIDE)
            add_squares(&words[4 * (HIGH_AT(colors) + winner)], (square >> SPLIT_BITS) * weight);
    }
}

/* What a search compares: the sum of absolute differences, or |n|^2 / 2 - n.p, which orders nodes n as |n - p|^2 does.
 * Its terms are whole or half, and every partial sum lies between -|p|^2 / 2 and |n|^2 / 2, both below 2^23, so it is
 * exact in fp32. */
#if DIMS == 4
#define SCORE(n, half_square, p, q, r, s) ((half_square) - (n).x * (p) - (n).y * (q) - (n).z * (r) - (n).w * (s))
#define CITY_SCORE(n, p, q, r, s) (fabs((n).x - (p)) + fabs((n).y - (q)) + fabs((n).z - (r)) + fabs((n).w - (s)))
#else
#define SCORE(n, half_square, p, q, r, s) ((n).w - (n).x * (p) - (n).y * (q) - (n).z * (r))
#define CITY_SCORE(n, p, q, r, s) (fabs((n).x - (p)) + fabs((n).y - (q)) + fabs((n).z - (r)))
#endif

/* Adds `count` points from number `first` on to the totals of their winners: in the map by its own rules, in the
 * refinement by squared distance and with squares. */
void assign(__local uint4 *memory, const int colors, const source_t from, const uint first, const uint count,
            const int refining)
{
    __local const float4 *network = (__local const float4 *)(memory + NETWORK_AT(colors));
#if DIMS == 4
    __local const float *halves = (__local const float *)(memory + HALVES_AT(colors));
#endif
#if CONSCIENCE
    __local const float *bias = (__local const float *)(memory + BIAS_AT(colors));
    __local uint *wins = (__local uint *)(memory + WINS_AT(colors));
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

/* A node as searches see it. */
void show_node(__local uint4 *memory, const int colors, const int i, const int4 node)
{
    float4 n = search_point(node);
    const float half_square = 0.5f * (n.x * n.x + n.y * n.y + n.z * n.z + (DIMS == 4 ? n.w * n.w : 0.0f));
#if DIMS == 4
    ((__local float *)(memory + HALVES_AT(colors)))[i] = half_square;
#else
    n.w = half_square;
#endif
    ((__local float4 *)(memory + NETWORK_AT(colors)))[i] = n;
}

/* Learns a network for each of some pictures.
 *
 * NDRange: (groups * LOCAL); group g takes the pictures g, g + groups, ... of those asked for.
 *   pixels    uint (all pixels), R, G, B, alpha, the lowest byte first
 *   offsets   uint (pictures + 1): each picture's first pixel
 *   listed    uint2 (all pixels), found  uint2 (pictures): see neuquant/small_images_colors.cl
 *   which     uint (asked): pictures
 *   steps     uint4 (STEPS): a step's first sample, how many, its pulls' place, how many
 *   pulls, decay  see neuquant/map.h
 *   tables    of common/color_spaces.h
 *   nodes_in  int4 (starts, K): the first network, and others that the refinement of listed colours begins with as
 *             well; 12 fraction bits. The result is that of the least squared error, the first of equals
 *   scratch   uint (groups, 5, plane), plane even and at least 16 above every picture's pixels
 *   nodes_out int4 (asked, K)
 *   sizes     pictures asked for; plane; where samples begin, in 1/2^32 of all pixels; K
 *   refined   steps over listed colours; those over samples; the most samples; the most colours that are listed
 *   starts    networks in nodes_in
 *   extent    largest coordinate of each axis
 *   memory    see above
 * Local memory: `memory`, two ints and a ulong. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void neuquant_many(
    __global const uint *restrict pixels, __global const uint *restrict offsets, __global const uint2 *restrict listed,
    __global const uint2 *restrict found, __global const uint *restrict which, __global const uint4 *restrict steps,
    __global const int *restrict pulls, __global const uint *restrict decay, __global const int *restrict tables,
    __global const int4 *restrict nodes_in, __global uint *scratch, __global int4 *restrict nodes_out,
    const uint4 sizes, const uint4 refined, const uint starts, const int4 extent, __local uint4 *restrict memory)
{
    const int item = get_local_id(0), colors = (int)sizes.s3;
    __local uint4 *won = memory;
    __local int4 *nodes = (__local int4 *)(memory + NODES_AT(colors));
#if CONSCIENCE
    __local uint *wins = (__local uint *)(memory + WINS_AT(colors));
    __local float *bias = (__local float *)(memory + BIAS_AT(colors));
#endif
    __local int pairs, better;
    __local ulong least;
    const uint plane = sizes.s1;
    __global uint *often = scratch + (size_t)get_group_id(0) * 5 * plane;
    /* Of pixels, and of the listed colours. */
    __global ushort4 *own = (__global ushort4 *)(often + plane), *shades = own + plane;
    for (uint number = get_group_id(0); number < sizes.s0; number += get_num_groups(0)) {
        const uint picture = which[number], begin = offsets[picture], total = offsets[picture + 1] - begin;
        const uint distinct = found[picture].x;
        const bool few = distinct <= refined.s3;
        const source_t samples = {own, often, 0, 1, sizes.s2, total}, list = {shades, often, 1, 0, 0, 0};
        for (uint i = item; i < total; i += LOCAL)
            own[i] = kept_point(pixels[begin + i], tables);
        for (uint i = item; i < distinct && few; i += LOCAL)
            shades[i] = kept_point(listed[begin + i].x, tables);
        for (int i = item; i < colors; i += LOCAL) {
            nodes[i] = nodes_in[i];
            show_node(memory, colors, i, nodes[i]);
#if CONSCIENCE
            bias[i] = 0.0f;
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

        for (int t = 0; t < STEPS; ++t) {
            const uint4 step = steps[t];
            for (int i = item; i < SQUARES_AT(colors); i += LOCAL)
                memory[i] = (uint4)(0);
#if CONSCIENCE
            for (int i = item; i < colors; i += LOCAL)
                wins[i] = 0;
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
            assign(memory, colors, samples, step.s0, step.s1, 0);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = item; i < colors; i += LOCAL) {
                nodes[i] = updated_node(i, nodes[i], colors, won, pulls + step.s2, (int)step.s3, decay);
                show_node(memory, colors, i, nodes[i]);
#if CONSCIENCE
                /* As in neuquant/step.cl. */
                const long owed = ((long)step.s1 - (long)colors * wins[i]) * (1024 << SEARCH_SHIFT);
                bias[i] = (float)(int)(owed / ((long)colors * step.s1));
#endif
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        const uint count = few ? distinct : min(refined.s2, total);
        const int last = few ? (int)refined.s0 : (int)refined.s1;
        source_t refining = few ? list : samples;
        refining.spread = !few && count < total;
        for (uint i = item; i < distinct && few; i += LOCAL)
            often[i] = listed[begin + i].y;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (uint start = 0; start < (few ? starts : 1); ++start) {
            for (int i = item; i < colors && start > 0; i += LOCAL) {
                nodes[i] = nodes_in[start * colors + i];
                show_node(memory, colors, i, nodes[i]);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int t = 0; t < last; ++t) {
                const int moves = t < last - 1;
                for (int i = item; i < NODES_AT(colors); i += LOCAL)
                    memory[i] = (uint4)(0);
                if (item == 0)
                    pairs = moves ? colors : 0;
                barrier(CLK_LOCAL_MEM_FENCE);
                assign(memory, colors, refining, 0, count, 1);
                barrier(CLK_LOCAL_MEM_FENCE);
                __local const uint *totals = (__local const uint *)memory;
                find_centres(parts_of(memory, colors), item, colors, 0, nodes, totals);
                barrier(CLK_LOCAL_MEM_FENCE);
                find_partners(parts_of(memory, colors), item, colors, moves);
                barrier(CLK_LOCAL_MEM_FENCE);
                find_costs(parts_of(memory, colors), item, colors, 0, totals);
                barrier(CLK_LOCAL_MEM_FENCE);
                find_ranks(parts_of(memory, colors), item, colors, moves);
                barrier(CLK_LOCAL_MEM_FENCE);
                count_pairs(parts_of(memory, colors), item, colors, moves, &pairs);
                barrier(CLK_LOCAL_MEM_FENCE);
                place_nodes(parts_of(memory, colors), item, colors, 0, pairs, extent, nodes, totals);
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int i = item; i < colors; i += LOCAL)
                    show_node(memory, colors, i, nodes[i]);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (item == 0) {
                const ulong error = starts > 1 ? scatter(colors, (__local const uint *)memory) : 0;
                better = start == 0 || error < least;
                least = better ? error : least;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = item; i < colors && better; i += LOCAL)
                nodes_out[(size_t)number * colors + i] = nodes[i];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
