/* The mini-batch map and its refinement of many small pictures: the form for CPUs, one work-item per picture.
 *
 * Sources: as neuquant/step.cl and neuquant/refine.h, whose results these are bit for bit.
 *
 * Constants from the host: see neuquant/small_images.h; LOCAL is 1. */

#include "neuquant/small_images_lanes.h"

/* The points of a picture in the order in which they are searched for. `scratch` is that of its group. */
SMALL picture_t picture_of(__global const uint *restrict pixels, __global const uint2 *restrict listed,
                           const uint distinct, const int few, const int colors, __global const ushort *restrict places,
                           __global const int *restrict tables, const uint start, const uint total,
                           __global uint *scratch, const uint plane)
{
    __global uint *often = scratch, *order = scratch + plane;
    __global ushort4 *points = (__global ushort4 *)(order + plane), *unordered = points + plane;
    __global ushort *own = (__global ushort *)(unordered + plane), *ranks = own + plane;
    const int ordered = colors > FEW_NODES;
    const picture_t picture = {points, often, own, few || ordered, few ? distinct : total, start, total};
    __global ushort4 *first = ordered ? unordered : points;
    FEW_TURNS
    for (uint i = 0; i < picture.count; ++i)
        first[i] = kept_point(few ? listed[i].x : pixels[i], tables);
    if (ordered) {
        order_points(unordered, picture.count, order, often);
        FEW_TURNS
        for (uint k = 0; k < picture.count; ++k) {
            const uint i = order[k] & 65535;
            points[k] = unordered[i];
            ranks[i] = (ushort)k;
        }
    }
    FEW_TURNS
    for (uint i = 0; i < 16; ++i)
        points[picture.count + i] = (ushort4)(0);
    FEW_TURNS
    for (uint i = 0; i < picture.count + 16; ++i)
        often[i] = 0;
    FEW_TURNS
    for (uint i = 0; i < total && picture.placed; ++i) {
        const uint place = few ? places[i] : i;
        own[i] = few && pixels[i] >> 24 == 0 ? (ushort)(picture.count + 15) : ordered ? ranks[place] : (ushort)place;
    }
    return picture;
}

/* Notes how often the refinement has each point. */
void weigh_points(const picture_t picture, __global const uint2 *restrict listed, const int few, const int colors,
                  __global const uint *restrict order, const uint most)
{
    if (!few && most < picture.total) {
        count_samples(picture, 0, most);
        return;
    }
    FEW_TURNS
    for (uint i = 0; i < picture.count; ++i)
        picture.often[i] = few ? listed[colors > FEW_NODES ? order[i] & 65535 : i].y : 1;
}

/* Learns a network for each of some pictures.
 *
 * NDRange: (groups), groups of 1; group g takes the pictures g, g + groups, ... of those asked for.
 *   places    see neuquant/small_images_colors.cl
 *   scratch   uint (groups, 7, plane), plane even and at least 16 above every picture's pixels
 *   the others as in neuquant/small_images.cl
 * Local memory: `memory`, an int. */
__kernel SMALL __attribute__((reqd_work_group_size(1, 1, 1))) void neuquant_many(
    __global const uint *restrict pixels, __global const uint *restrict offsets, __global const uint2 *restrict listed,
    __global const uint2 *restrict found, __global const uint *restrict which, __global const uint4 *restrict steps,
    __global const int *restrict pulls, __global const uint *restrict decay, __global const int *restrict tables,
    __global const int4 *restrict nodes_in, __global uint *scratch, __global int4 *restrict nodes_out,
    const uint4 sizes, const uint4 refined, const uint starts, const int4 extent, __local uint4 *restrict memory,
    __global const ushort *restrict places)
{
    const int colors = (int)sizes.s3;
    __local int4 *nodes = (__local int4 *)(memory + NODES_AT(colors));
    __local float *network = (__local float *)(memory + NETWORK_AT(colors));
#if CONSCIENCE
    __local uint *wins = (__local uint *)(memory + WINS_AT(colors));
    __local float *bias = (__local float *)(memory + BIAS_AT(colors));
#endif
    __local int pairs;
    const uint plane = sizes.s1;
    __global uint *own = scratch + (size_t)get_group_id(0) * 7 * plane;
    for (uint number = get_group_id(0); number < sizes.s0; number += get_num_groups(0)) {
        const uint at = which[number], begin = offsets[at], total = offsets[at + 1] - begin;
        const uint distinct = found[at].x;
        const int few = distinct <= refined.s3;
        const picture_t picture = picture_of(pixels + begin, listed + begin, distinct, few, colors, places + begin,
                                             tables, sizes.s2, total, own, plane);
        FEW_TURNS
        for (int i = 0; i < NODES_AT(colors); ++i)
            memory[BANK_AT(colors) + i] = (uint4)(0);
        FEW_TURNS
        for (int i = 0; i < colors; ++i) {
            nodes[i] = nodes_in[i];
            show_in_planes(network, colors, i, nodes[i]);
#if CONSCIENCE
            bias[i] = 0.0f;
#endif
        }
        show_no_nodes(network, colors);

        for (int t = 0; t < STEPS; ++t) {
            const uint4 step = steps[t];
            FEW_TURNS
            for (int i = 0; i < SQUARES_AT(colors); ++i)
                memory[i] = (uint4)(0);
#if CONSCIENCE
            for (int i = 0; i < colors; ++i)
                wins[i] = 0;
#endif
            /* Counted first, samples come in order, and if a step takes points more than once, they are fewer. */
            if (colors > FEW_NODES || (few && 4 * step.s1 > 5 * distinct)) {
                count_samples(picture, step.s0, step.s1);
                assign_counted(memory, colors, picture, 0);
            } else {
                assign_samples(memory, colors, picture, step.s0, step.s1);
            }
            spread_won(memory, colors);
            update_nodes((__local uint *)network, colors, pulls + step.s2, (int)step.s3, decay, nodes);
            FEW_TURNS
            for (int i = 0; i < colors; ++i) {
                show_in_planes(network, colors, i, nodes[i]);
#if CONSCIENCE
                /* As in neuquant/step.cl. */
                const long owed = ((long)step.s1 - (long)colors * wins[i]) * (1024 << SEARCH_SHIFT);
                bias[i] = (float)(int)(owed / ((long)colors * step.s1));
#endif
            }
            show_no_nodes(network, colors);
        }

        const int last = few ? (int)refined.s0 : (int)refined.s1;
        weigh_points(picture, listed + begin, few, colors, own + plane, refined.s2);
        const refined_t r = parts_of(memory, colors);
        __local const uint *totals = (__local const uint *)memory;
        ulong least = 0;
        for (uint start = 0; start < (few ? starts : 1); ++start) {
            FEW_TURNS
            for (int i = 0; i < colors && start > 0; ++i) {
                nodes[i] = nodes_in[start * colors + i];
                show_in_planes(network, colors, i, nodes[i]);
            }
            show_no_nodes(network, colors);
            for (int t = 0; t < last; ++t) {
                const int moves = t < last - 1;
                FEW_TURNS
                for (int i = 0; i < NODES_AT(colors); ++i)
                    memory[i] = (uint4)(0);
                assign_counted(memory, colors, picture, 1);
                find_centres(r, 0, colors, 0, nodes, totals);
                find_partners_in_lanes(r, colors, moves, LIST_AT(memory, colors));
                find_costs(r, 0, colors, 0, totals);
                find_ranks(r, 0, colors, moves);
                pairs = moves ? colors : 0;
                count_pairs(r, 0, colors, moves, &pairs);
                place_nodes(r, 0, colors, 0, pairs, extent, nodes, totals);
                FEW_TURNS
                for (int i = 0; i < colors; ++i)
                    show_in_planes(network, colors, i, nodes[i]);
                show_no_nodes(network, colors);
            }
            const ulong error = starts > 1 ? scatter(colors, totals) : 0;
            if (start > 0 && error >= least)
                continue;
            least = error;
            FEW_TURNS
            for (int i = 0; i < colors; ++i)
                nodes_out[(size_t)number * colors + i] = nodes[i];
        }
    }
}
