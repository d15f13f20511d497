/* The refinement of a trained map, by one work-group; neuquant/refine.h says how, and names the sources.
 *
 * Constants from the host besides those of neuquant/map.h:
 *   LOCAL   work-items, a power of two */

#include "neuquant/map.h"

#if STAGED
#define SCRATCH __local
#else
#define SCRATCH __global
#endif
#define NODES __global int4 *
#define REFINED __global const uint *
#define COUNT_OF(totals, i) (totals)[SLAB_COUNTS + (i)]
#define SUM_OF(totals, k, i, c) (totals)[SLAB_SUMS(k) + (c) * (k) + (i)]
#define SQUARES_OF(totals, k, i, c)                                                                                    \
    ((totals)[SLAB_LOW(k) + (c) * (k) + (i)] + ((ulong)(totals)[SLAB_HIGH(k) + (c) * (k) + (i)] << COORDINATE_BITS))

#include "neuquant/refine.h"

/* New nodes from the slab of an assignment of every point to its nearest node.
 *
 * NDRange: (LOCAL), one group.
 *   nodes      int4 (K), in and out; 12 fraction bits
 *   slabs, at  totals of the assignment, with squares: slab `at`
 *   moves      0: means alone
 *   counts     K, and how many of the nodes, the first ones, win points and never move
 *   extent     largest coordinate of each axis
 *   the others are scratch, (K) each, in local memory if STAGED
 * Local memory: one int, and the scratch. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void neuquant_refine(
    __global int4 *restrict nodes, __global const uint *restrict slabs, const uint at, const int moves,
    const int2 counts, const int4 extent, SCRATCH float4 *restrict centres, SCRATCH ulong2 *restrict worth,
    SCRATCH int *restrict axes, SCRATCH int *restrict partners, SCRATCH int2 *restrict ranks,
    SCRATCH int *restrict leaving, SCRATCH int *restrict split)
{
    const int colors = counts.x, pinned = counts.y;
    __global const uint *totals = slabs + at * SLAB_SIZE(colors);
    const refined_t r = {centres, worth, axes, partners, ranks, leaving, split};
    __local int pairs;
    const int item = get_local_id(0);
    if (item == 0)
        pairs = moves ? colors : 0;
    find_centres(r, item, colors, pinned, nodes, totals);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    find_partners(r, item, colors, moves);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    find_costs(r, item, colors, pinned, totals);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    find_ranks(r, item, colors, moves);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    count_pairs(r, item, colors, moves, &pairs);
    barrier(CLK_LOCAL_MEM_FENCE);
    place_nodes(r, item, colors, pinned, pairs, extent, nodes, totals);
}
