// One dependent step of the mini-batch map, and the assignment of the refinement: the form for processors, with 16
// points in the lanes of two vectors. Squared Euclidean distance, no conscience.
//
// Source and constants: see neuquant_step.cl; LOCAL is 1.

#include "neuquant_map.h"

// Twice eight points' running best: the least score so far and its node.
#define COMPARE(score, best, winner)                                                                                   \
    {                                                                                                                  \
        const int8 less = score < best;                                                                                \
        best = select(best, score, less);                                                                              \
        winner = select(winner, (int8)(i), less);                                                                      \
    }

// As neuquant_step, with the same arguments and the same totals. The search takes the least |n|^2 / 2 - n.p, which
// orders nodes n as |n - p|^2 does. Its terms are whole or half, and every partial sum lies between -|p|^2 / 2 and
// |n|^2 / 2, both below 2^23, so it is exact in fp32.
//
// NDRange: (groups), groups of 1, any number.
// Local memory: the network and its halved squares, the staged slab, the group's totals.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
neuquant_step(__global const ushort4 *restrict points, const uint8 step, __global const int4 *restrict nodes,
              __global int4 *restrict nodes_out, __global uint *slabs, __global const int *restrict pulls,
              __global const uint *restrict decay, __global const uint *restrict weights,
              __local float4 *restrict network, __local uint4 *restrict staged, __local uint *restrict totals,
              __local float *restrict halves)
{
    const uint first = step.s0, batch = step.s1;
    const int colors = (int)step.s6;
    __global uint *slab = slabs + step.s2 * SLAB_SIZE;
    __global const uint *before = slab - (step.s2 > 0 ? SLAB_SIZE : 0);
    __global const int *pull = pulls + step.s4;
    const int reach = (int)step.s5;

    if (reach > 0)
        stage(staged, before, colors, 0, 1);
    for (int k = 0; k < (SQUARES ? SLAB_SIZE : WON_WORDS); ++k)
        totals[k] = 0;
    for (int i = 0; i < colors; ++i) {
        const int4 node = reach > 0 ? updated_node(i, nodes[i], colors, staged, pull, reach, decay) : nodes[i];
        const float4 n = search_point(node);
        network[i] = n;
        halves[i] = 0.5f * (n.x * n.x + n.y * n.y + n.z * n.z + n.w * n.w);
        if (get_group_id(0) == 0)
            nodes_out[i] = node;
    }

    const uint share = (batch + 16 * get_num_groups(0) - 1) / (16 * get_num_groups(0)) * 16;
    const uint end = min((uint)(get_group_id(0) + 1) * share, batch);
    for (uint base = get_group_id(0) * share; base < end; base += 16) {
        float x[16], y[16], z[16], w[16];
        for (int k = 0; k < 16; ++k) {
            const float4 p = convert_float4(points[first + min(base + k, batch - 1)]) * (float)(1 << SEARCH_SHIFT);
            x[k] = p.x;
            y[k] = p.y;
            z[k] = p.z;
            w[k] = p.w;
        }
        const float8 x0 = vload8(0, x), y0 = vload8(0, y), z0 = vload8(0, z);
        const float8 x1 = vload8(1, x), y1 = vload8(1, y), z1 = vload8(1, z);
#if DIMS == 4
        const float8 w0 = vload8(0, w), w1 = vload8(1, w);
#endif
        float8 best0 = (float8)(MAXFLOAT), best1 = best0;
        int8 winner0 = (int8)(0), winner1 = winner0;
        for (int i = 0; i < colors; ++i) {
            const float4 n = network[i];
            float8 score0 = halves[i] - n.x * x0 - n.y * y0 - n.z * z0;
            float8 score1 = halves[i] - n.x * x1 - n.y * y1 - n.z * z1;
#if DIMS == 4
            score0 -= n.w * w0;
            score1 -= n.w * w1;
#endif
            COMPARE(score0, best0, winner0)
            COMPARE(score1, best1, winner1)
        }
        int winners[16];
        vstore8(winner0, 0, winners);
        vstore8(winner1, 1, winners);

        for (uint k = 0; k < 16 && base + k < end; ++k) {
            const ushort4 point = points[first + base + k];
            if (point.x == 65535)
                continue;
            const int winner = winners[k];
#if WEIGHTED
            const uint weight = weights[first + base + k];
#else
            const uint weight = 1;
#endif
            const uint values[4] = {point.x, point.y, point.z, point.w};
            totals[SLAB_COUNTS + winner] += weight;
            for (int c = 0; c < DIMS; ++c)
                totals[SLAB_SUMS + c * colors + winner] += weight * values[c];
#if SQUARES
            for (int c = 0; c < DIMS; ++c) {
                const uint square = values[c] * values[c];
                totals[SLAB_LOW + c * colors + winner] += weight * (square & LOW_MASK);
                totals[SLAB_HIGH + c * colors + winner] += weight * (square >> COORDINATE_BITS);
            }
#endif
        }
    }

    for (int k = 0; k < (SQUARES ? SLAB_SIZE : WON_WORDS); ++k)
        if (totals[k] > 0)
            atomic_add(&slab[k], totals[k]);
}
