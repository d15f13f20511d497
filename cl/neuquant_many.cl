// The mini-batch map and its refinement of many small pictures, each by a work-group from the first step to the last.
//
// Sources: as neuquant_step.cl and neuquant_refine.h, whose results these are bit for bit.
//
// Constants from the host: see neuquant_many.h.

#include "neuquant_many.h"

// The network is not read while the refinement has its centres in its place.
refined_t parts_of(__local uint4 *memory, const int colors)
{
    __local int *rest = (__local int *)(memory + REST_AT);
    const refined_t r = {
        (__local float4 *)(memory + NETWORK_AT), (__local ulong2 *)(memory + WORTH_AT), rest, rest + 4 * QUARTER,
        (__local int2 *)(rest + 8 * QUARTER), rest + 16 * QUARTER, rest + 20 * QUARTER};
    return r;
}

// Learns a network for each of some pictures.
//
// NDRange: (groups * LOCAL); group g takes the pictures g, g + groups, ... of those asked for.
//   pixels    uint (all pixels), R, G, B, alpha, the lowest byte first
//   offsets   uint (pictures + 1): each picture's first pixel
//   listed    uint2 (all pixels), found  uint2 (pictures): see neuquant_many_colors.cl
//   which     uint (asked): pictures
//   steps     uint4 (STEPS): a step's first sample, how many, its pulls' place, how many
//   pulls, decay  see neuquant_map.h
//   tables    of spaces.h
//   nodes_in  int4 (K), the first network; 12 fraction bits
//   scratch   uint (groups, 5, plane), plane even and at least 16 above every picture's pixels
//   nodes_out int4 (asked, K)
//   sizes     pictures asked for; plane; where samples begin, in 1/2^32 of all pixels; K
//   refined   steps over listed colours; those over samples; the most samples; the most colours that are listed
//   extent    largest coordinate of each axis
//   memory    see above
//   places    see neuquant_many_colors.cl, if LANES is 16
// Local memory: `memory` and one int.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
neuquant_many(__global const uint *restrict pixels, __global const uint *restrict offsets,
              __global const uint2 *restrict listed, __global const uint2 *restrict found,
              __global const uint *restrict which, __global const uint4 *restrict steps,
              __global const int *restrict pulls, __global const uint *restrict decay,
              __global const int *restrict tables, __global const int4 *restrict nodes_in, __global uint *scratch,
              __global int4 *restrict nodes_out, const uint4 sizes, const uint4 refined, const int4 extent,
              __local uint4 *restrict memory
#if LANES == 16
              , __global const ushort *restrict places
#endif
)
{
    const int item = get_local_id(0), colors = (int)sizes.s3;
    __local uint4 *won = memory;
    __local int4 *nodes = (__local int4 *)(memory + NODES_AT);
#if CONSCIENCE
    __local uint *wins = (__local uint *)(memory + WINS_AT);
    __local float *bias = (__local float *)(memory + BIAS_AT);
#endif
    __local int pairs;
    const uint plane = sizes.s1;
    __global uint *often = scratch + (size_t)get_group_id(0) * 5 * plane;
    // Of pixels, and of the listed colours.
    __global ushort4 *own = (__global ushort4 *)(often + plane), *shades = own + plane;
    for (uint number = get_group_id(0); number < sizes.s0; number += get_num_groups(0)) {
        const uint picture = which[number], begin = offsets[picture], total = offsets[picture + 1] - begin;
        const uint distinct = found[picture].x;
        const bool few = distinct <= refined.s3;
        const source_t samples = {own, often, 0, 1, sizes.s2, total}, list = {shades, often, 1, 0, 0, 0};
#if LANES == 16
        for (int i = 0; i < NODES_AT; ++i)
            memory[BANK_AT + i] = (uint4)(0);
#endif
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
            for (int i = item; i < SQUARES_AT; i += LOCAL)
                memory[i] = (uint4)(0);
#if CONSCIENCE
            for (int i = item; i < colors; i += LOCAL)
                wins[i] = 0;
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
#if LANES == 16
            // Where a step takes colours more than once, it is quicker to count them first.
            if (few && 4 * step.s1 > 5 * distinct) {
                count_samples(places + begin, samples, step.s0, step.s1, distinct, pixels + begin, often);
                assign(memory, colors, list, 0, distinct, 0);
            } else {
                assign(memory, colors, samples, step.s0, step.s1, 0);
            }
#else
            assign(memory, colors, samples, step.s0, step.s1, 0);
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = item; i < colors; i += LOCAL) {
                nodes[i] = updated_node(i, nodes[i], colors, won, pulls + step.s2, (int)step.s3, decay);
                show_node(memory, colors, i, nodes[i]);
#if CONSCIENCE
                // As in neuquant_step.cl.
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
        for (int t = 0; t < last; ++t) {
            const int moves = t < last - 1;
            for (int i = item; i < NODES_AT; i += LOCAL)
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
        for (int i = item; i < colors; i += LOCAL)
            nodes_out[(size_t)number * colors + i] = nodes[i];
    }
}
