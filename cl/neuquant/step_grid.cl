/* All steps of the mini-batch map in one launch, and all steps of the refinement in another, by work-groups that meet
 * once a step: for NVIDIA, whose dependent launches cost more than that.
 *
 * Sources: as neuquant/step.cl and neuquant/refine.h, whose results these are bit for bit. Every group computes the
 * whole network for itself, so that they meet only when totals are complete.
 *
 * Constants from the host besides those of neuquant/map.h (STAGED is 1), neuquant/search.h (PACKED and CONSCIENCE are
 * 0, TOTALS is 1) and common/grid_barrier.h:
 *   REFINE  1: a step ends with the refinement of the network, and no batch before it moves that */

#include "neuquant/map.h"
#include "neuquant/search.h"
#include "common/grid_barrier.h"

#if REFINE
#define SCRATCH __local
#define NODES __local int4 *
#define REFINED __local const uint *
#define COUNT_OF(totals, i) (totals)[SLAB_COUNTS + (i)]
#define SUM_OF(totals, k, i, c) (totals)[SLAB_SUMS(k) + (c) * (k) + (i)]
#define SQUARES_OF(totals, k, i, c)                                                                                    \
    ((totals)[SLAB_LOW(k) + (c) * (k) + (i)] + ((ulong)(totals)[SLAB_HIGH(k) + (c) * (k) + (i)] << COORDINATE_BITS))
#include "neuquant/refine.h"
#endif

/* NDRange: (groups * LOCAL), as many groups as are there at the same time.
 *   points     ushort4 per point; x = 65535 marks one that is passed over
 *   steps      uint8 (steps of all): each as neuquant/step.cl takes it
 *   which      of these the first, how many; K; how many nodes are pinned
 *   extent     largest coordinate of each axis
 *   nodes      int4 (K), before the first step; 12 fraction bits
 *   nodes_out  int4 (K), in the map before the update by the last step's batch
 *   slabs      uint (any, SLAB_SIZE): a step's is zero before the launch
 *   pulls, decay, weights  see neuquant/step.cl
 *   words      see common/grid_barrier.h
 *   memory     nodes, K vectors; the network, PADDED; STAGED_WORDS words in whole vectors; if REFINE 56 bytes per node
 * Local memory: `memory`, TILE keys per work-item, two words. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void neuquant_grid(
    __global const ushort4 *restrict points, __global const uint8 *restrict steps, const uint4 which, const int4 extent,
    __global const int4 *restrict nodes_in, __global int4 *restrict nodes_out, __global uint *slabs,
    __global const int *restrict pulls, __global const uint *restrict decay, __global const uint *restrict weights,
    __global uint *words, __local int4 *restrict memory)
{
    __local contest_t keys[LOCAL * TILE];
    __local uint told;
    __local int pairs;
    const int item = get_local_id(0), lane = item % LANES, slot = item / LANES;
    const int colors = (int)which.s2, pinned = (int)which.s3;
    __local int4 *nodes = memory;
    __local float4 *network = (__local float4 *)(memory + colors);
    __local uint4 *staged = (__local uint4 *)(memory + colors + PADDED(colors));
    __local uint *totals = (__local uint *)staged;
#if REFINE
    __local int4 *scratch = memory + colors + PADDED(colors) + (STAGED_WORDS(colors) + 3) / 4;
    __local int *rest = (__local int *)(scratch + 2 * colors);
    const refined_t r = {(__local float4 *)scratch, (__local ulong2 *)(scratch + colors),
                         rest + 2 * colors,         rest + 3 * colors,
                         (__local int2 *)rest,      rest + 4 * colors,
                         rest + 5 * colors};
#endif
    GridBarrier grid = grid_enter(words, &told);
#pragma unroll 1
    for (int i = item; i < colors; i += LOCAL)
        nodes[i] = nodes_in[i];
    const uint last = grid.groups > 0 ? which.s1 : 0;
#pragma unroll 1
    for (uint t = 0; t < last; ++t) {
        const uint8 step = steps[which.s0 + t];
        const uint first = step.s0, batch = step.s1;
        __global uint *slab = slabs + step.s2 * SLAB_SIZE(colors);
        ushort4 next[TILE];
        read_tile(next, points, first, grid.index * AT_ONCE + slot * TILE, batch);
#if !REFINE
        const int reach = (int)step.s5;
        if (reach > 0)
            stage(staged, slab - SLAB_SIZE(colors), colors, item, LOCAL);
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
#pragma unroll 1
        for (int i = item; i < colors; i += LOCAL) {
#if !REFINE
            if (reach > 0)
                nodes[i] = updated_node(i, nodes[i], colors, staged, pulls + step.s4, reach, decay);
#endif
            network[i] = search_point(nodes[i]);
        }
        for (int i = colors + item; i < PADDED(colors); i += LOCAL)
            network[i] = (float4)(FAR);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (int k = item; k < WORDS(colors); k += LOCAL)
            totals[k] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint base = grid.index * AT_ONCE; base < batch; base += grid.groups * AT_ONCE) {
            const uint at = base + slot * TILE;
            ushort4 tile[TILE];
            for (int i = 0; i < TILE; ++i)
                tile[i] = next[i];
            read_tile(next, points, first, at + grid.groups * AT_ONCE, batch);
            search_tile(tile, network, colors, lane, keys + item * TILE);
            barrier(CLK_LOCAL_MEM_FENCE);
            add_tile(tile, totals, colors, lane, first, at, batch, weights, keys + slot * LANES * TILE);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#pragma unroll 1
        for (int k = item; k < WORDS(colors); k += LOCAL)
            if (totals[k] > 0)
                atomic_add(&slab[k], totals[k]);
        grid_sync(&grid);
#if REFINE
        const int moves = t + 1 < last;
#pragma unroll 1
        for (int k = item; k < SLAB_SIZE(colors); k += LOCAL)
            totals[k] = slab[k];
        if (item == 0)
            pairs = moves ? colors : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        find_centres(r, item, colors, pinned, nodes, totals);
        barrier(CLK_LOCAL_MEM_FENCE);
        find_partners(r, item, colors, moves);
        barrier(CLK_LOCAL_MEM_FENCE);
        find_costs(r, item, colors, pinned, totals);
        barrier(CLK_LOCAL_MEM_FENCE);
        find_ranks(r, item, colors, moves);
        barrier(CLK_LOCAL_MEM_FENCE);
        count_pairs(r, item, colors, moves, &pairs);
        barrier(CLK_LOCAL_MEM_FENCE);
        place_nodes(r, item, colors, pinned, pairs, extent, nodes, totals);
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    if (grid.groups > 0 && grid.index == 0)
        for (int i = item; i < colors; i += LOCAL)
            nodes_out[i] = nodes[i];
    grid_exit(&grid, &told);
}
