/* One dependent step of the mini-batch map, and the assignment of the refinement after it: the portable form.
 *
 * Source: T. Kohonen, "Self-Organizing Maps" (1995), the batch map, with the closed form of sequential moves that is
 * described in docs/neuquant.md; contest and conscience after A. H. Dekker (1994).
 *
 * Constants from the host: see neuquant/search.h. */

#include "neuquant/map.h"
#include "neuquant/search.h"

/* Updates the network by the totals of the batch before, then finds the winner of every point of this batch and adds
 * the point to the winner's totals. Every group computes the whole network for itself; group 0 also writes it out. So
 * one launch per step is enough, and integer totals make the result independent of how points are dealt to groups.
 *
 * NDRange: (groups * LOCAL), groups of LOCAL, any number of groups.
 *   points     ushort4 per point; x = 65535 marks one that is passed over
 *   step       this batch's first point, its points, its slab; the points of the batch before, where that has its L(d),
 *              and how many (0: no update); K
 *   nodes      int4 (K), before the update; 12 fraction bits
 *   nodes_out  int4 (K), after it (another buffer)
 *   slabs      uint (any, SLAB_SIZE): the batch before has the slab before; this batch's is zero before the launch
 *   pulls      int (512), the two tables of exp(-E); then L(d) of all batches (see neuquant/map.h)
 *   weights    uint per point, if WEIGHTED
 *   network    PADDED nodes
 *   staged     if STAGED: a slab's part that is read, then the group's totals; STAGED_WORDS, in whole vectors
 *   bias       PADDED, if CONSCIENCE
 * Local memory: these three, TILE keys per work-item. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void neuquant_step(
    __global const ushort4 *restrict points, const uint8 step, __global const int4 *restrict nodes,
    __global int4 *restrict nodes_out, __global uint *slabs, __global const int *restrict pulls,
    __global const uint *restrict weights, __local packed_t *restrict network
#if STAGED
    ,
    __local uint4 *restrict staged
#endif
#if CONSCIENCE
    ,
    __local float *restrict bias
#endif
)
{
    const uint first = step.s0, batch = step.s1;
    const int colors = (int)step.s6;
    __global uint *slab = slabs + step.s2 * SLAB_SIZE(colors);
    __global const uint *before = slab - (step.s2 > 0 ? SLAB_SIZE(colors) : 0);
    __global const int *pull = pulls + step.s4;
    __global const uint *decay = (__global const uint *)pulls;
    const int reach = (int)step.s5;
    __local contest_t keys[LOCAL * TILE];
#if CONSCIENCE
    __local contest_t plain_keys[LOCAL * TILE];
#endif
    const int item = get_local_id(0), lane = item % LANES, slot = item / LANES;

    /* On their way while the network is updated. */
    int4 node = nodes[min(item, colors - 1)];
    ushort4 next[TILE];
    read_tile(next, points, first, get_group_id(0) * AT_ONCE + slot * TILE, batch);
#if STAGED
    if (reach > 0)
        stage(staged, before, colors, item, LOCAL);
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global const uint *staged = before;
#endif
    for (int i = item; i < colors; i += LOCAL) {
        const int4 to = reach > 0 ? updated_node(i, node, colors, staged, pull, reach, decay) : node;
        node = nodes[min(i + LOCAL, colors - 1)];
        network[i] = PACK(search_point(to));
        if (get_group_id(0) == 0)
            nodes_out[i] = to;
#if CONSCIENCE
        /* 1024 (1/K - wins / points of the batch before) in 1/2^s of a coordinate, truncated; below 2^14. */
        const uint batch_before = step.s3;
        const long owed = ((long)batch_before - (long)colors * before[SLAB_WINS(colors) + i]) * (1024 << SEARCH_SHIFT);
        bias[i] = reach > 0 ? (float)(int)(owed / ((long)colors * batch_before)) : 0.0f;
#endif
    }
    for (int i = colors + item; i < PADDED(colors); i += LOCAL) {
        network[i] = (packed_t)(FAR);
#if CONSCIENCE
        bias[i] = 0.0f;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if TOTALS
    __local uint *totals = (__local uint *)staged;
    for (int k = item; k < WORDS(colors); k += LOCAL)
        totals[k] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global uint *totals = slab;
#endif

    for (uint base = get_group_id(0) * AT_ONCE; base < batch; base += get_num_groups(0) * AT_ONCE) {
        const uint at = base + slot * TILE;
        ushort4 tile[TILE];
        for (int t = 0; t < TILE; ++t)
            tile[t] = next[t];
        read_tile(next, points, first, at + get_num_groups(0) * AT_ONCE, batch);
#if CONSCIENCE
        search_tile(tile, network, colors, lane, keys + item * TILE, bias, plain_keys + item * TILE);
        barrier(CLK_LOCAL_MEM_FENCE);
        add_tile(tile, totals, colors, lane, first, at, batch, weights, keys + slot * LANES * TILE,
                 plain_keys + slot * LANES * TILE);
#else
        search_tile(tile, network, colors, lane, keys + item * TILE);
        barrier(CLK_LOCAL_MEM_FENCE);
        add_tile(tile, totals, colors, lane, first, at, batch, weights, keys + slot * LANES * TILE);
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if TOTALS
    for (int k = item; k < WORDS(colors); k += LOCAL)
        if (totals[k] > 0)
            atomic_add(&slab[k], totals[k]);
#endif
}
