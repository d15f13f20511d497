/* One dependent step of the mini-batch map, and the assignment of the refinement: the form for CPUs, with 16
 * points in the lanes of a vector. Squared Euclidean distance, no conscience.
 *
 * Source and constants: see neuquant/step.cl; LOCAL is 1. */

#include "neuquant/map.h"
#include "neuquant/search_lanes.h"

/* A group's totals in local memory, in vectors: how many points each node won and the sums of three coordinates; the
 * low and the high parts of sums of squares; in words, the fourth sums. */
#define LOW_AT(k) (k)
#define HIGH_AT(k) (2 * (k))
#define FOURTHS_AT(k) (SQUARES ? 3 * (k) : (k))
#define TOTALS_SIZE(k) (FOURTHS_AT(k) + (DIMS == 4 ? ((k) + 3) / 4 : 0))

/* Adds a block's points to the totals of their winners, and empties it. */
void assign_block(block_t *block, const uint count, const int colors, __local float *network,
                  __local uint4 *restrict totals)
{
    __local float *list = network + (DIMS + 1) * PADDED(colors);
    block->count = count;
    find_winners(block, colors, network, list, (__local int *)(list + (DIMS + 2) * PADDED(colors)));
    FEW_TURNS
    for (uint k = 0; k < count; ++k) {
        const int winner = block->winners[k];
        const uint weight = WEIGHTED ? block->weights[k] : 1;
        uint4 value = convert_uint4(as_ushort4(block->points[k]));
        const uint4 xyzw = (uint4)(value.s123, DIMS == 4 ? value.s0 : 0);
        value.s0 = 1;
        totals[winner] += value * weight;
#if DIMS == 4
        ((__local uint *)(totals + FOURTHS_AT(colors)))[winner] += xyzw.w * weight;
#endif
#if SQUARES
        const uint4 square = xyzw * xyzw;
        totals[LOW_AT(colors) + winner] += (square & LOW_MASK) * weight;
        totals[HIGH_AT(colors) + winner] += (square >> COORDINATE_BITS) * weight;
#endif
    }
}

void add_total(__global uint *total, const uint value)
{
    if (value > 0)
        atomic_add(total, value);
}

/* Adds three or four coordinates' totals of node i to those of a slab. */
void add_coordinates(__global uint *slab, const int colors, const int i, const uint4 values)
{
    add_total(&slab[i], values.x);
    add_total(&slab[colors + i], values.y);
    add_total(&slab[2 * colors + i], values.z);
    if (DIMS == 4)
        add_total(&slab[3 * colors + i], values.w);
}

/* As neuquant_step, with the same arguments and the same totals.
 *
 * NDRange: (groups), groups of 1, any number.
 *   network  2 DIMS + 4 planes: see find_winners
 *   present  int4 (K): the nodes as they are searched
 *   totals   TOTALS_SIZE vectors
 * Local memory: these three. */
__kernel SMALL __attribute__((reqd_work_group_size(1, 1, 1))) void neuquant_step(
    __global const ushort4 *restrict points, const uint8 step, __global const int4 *restrict nodes,
    __global int4 *restrict nodes_out, __global uint *slabs, __global const int *restrict pulls,
    __global const uint *restrict weights, __local float *network, __local int4 *present,
    __local uint4 *restrict totals)
{
    const uint first = step.s0, batch = step.s1;
    const int colors = (int)step.s6;
    __global uint *slab = slabs + step.s2 * SLAB_SIZE(colors);
    __global const uint *before = slab - (step.s2 > 0 ? SLAB_SIZE(colors) : 0);
    __global const int *pull = pulls + step.s4;
    __global const uint *decay = (__global const uint *)pulls;
    const int reach = (int)step.s5;

    FEW_TURNS
    for (int k = 0; k < TOTALS_SIZE(colors); ++k)
        totals[k] = (uint4)(0);
    FEW_TURNS
    for (int i = 0; i < colors; ++i)
        present[i] = nodes[i];
    if (reach > 0) {
        __local uint *won = (__local uint *)network;
        clear_margins(won, colors);
        for (int c = 0; c <= DIMS; ++c)
            FEW_TURNS
        for (int i = 0; i < colors; ++i)
            won[c * WON_PLANE(colors) + MARGIN(colors) + i] =
                before[(c ? SLAB_SUMS(colors) + (c - 1) * colors : SLAB_COUNTS) + i];
        update_nodes(won, colors, pull, reach, decay, present);
    }
    FEW_TURNS
    for (int i = 0; i < colors; ++i) {
        show_in_planes(network, colors, i, present[i]);
        if (get_group_id(0) == 0)
            nodes_out[i] = present[i];
    }
    show_no_nodes(network, colors);

    const uint share = (batch + 16 * get_num_groups(0) - 1) / (16 * get_num_groups(0)) * 16;
    const uint end = min((uint)(get_group_id(0) + 1) * share, batch);
    block_t block;
    uint taken = 0;
    FEW_TURNS
    for (uint k = get_group_id(0) * share; k < end; ++k) {
        const ushort4 point = points[first + k];
        block.points[taken] = as_ulong((ushort4)(DIMS == 4 ? point.w : 1, point.xyz));
        if (WEIGHTED)
            block.weights[taken] = weights[first + k];
        taken += point.x != 65535;
        if (taken == BLOCK) {
            assign_block(&block, taken, colors, network, totals);
            taken = 0;
        }
    }
    if (taken > 0)
        assign_block(&block, taken, colors, network, totals);

    FEW_TURNS
    for (int i = 0; i < colors; ++i) {
        const uint4 won = totals[i];
        if (won.x == 0)
            continue;
        const uint fourth = DIMS == 4 ? ((__local uint *)(totals + FOURTHS_AT(colors)))[i] : 0;
        atomic_add(&slab[SLAB_COUNTS + i], won.x);
        add_coordinates(slab + SLAB_SUMS(colors), colors, i, (uint4)(won.yzw, fourth));
#if SQUARES
        add_coordinates(slab + SLAB_LOW(colors), colors, i, totals[LOW_AT(colors) + i]);
        add_coordinates(slab + SLAB_HIGH(colors), colors, i, totals[HIGH_AT(colors) + i]);
#endif
    }
}
