// One dependent step of the mini-batch map, and the assignment of the refinement after it: the portable form.
//
// Source: T. Kohonen, "Self-Organizing Maps" (1995), the batch map, with the closed form of sequential moves that is
// described in docs/neuquant.md; contest and conscience after A. H. Dekker (1994).
//
// Constants from the host besides those of neuquant_map.h:
//   LOCAL       work-items of a group, a power of two
//   LANES       work-items that share the search for one point, a power of two up to LOCAL
//   CITY_BLOCK  0: squared Euclidean distance; 1: sum of absolute differences
//   CONSCIENCE  1: a node's distance is less its bias, gamma (1/K - its share of the last batch's plain wins)
//   PACKED      1: the network lies in local memory as 16-bit integers (else as floats, twice as long)
//   SQUARES     1: sums of squares too, for the refinement
//   WEIGHTED    1: points count as often as their weight says

#include "neuquant_map.h"

#define AT_ONCE (LOCAL / LANES)

#if PACKED
typedef ushort4 packed_t;
#define PACK convert_ushort4
#else
typedef float4 packed_t;
#define PACK
#endif

// Updates the network by the totals of the batch before, then finds the winner of every point of this batch and adds
// the point to the winner's totals. Every group computes the whole network for itself; group 0 also writes it out. So
// one launch a step is enough, and integer totals make the result independent of how points are dealt to groups.
//
// NDRange: (groups * LOCAL), groups of LOCAL, any number of groups.
//   points     ushort4 a point; x = 65535 marks one that is passed over
//   span       this batch's first point, its points, its slab; the points of the batch before
//   nodes      int4 (K), before the update; 12 fraction bits
//   nodes_out  int4 (K), after it (another buffer)
//   slabs      uint (any, SLAB_SIZE): the batch before has the slab before; this batch's is zero before the launch
//   pulls      int, L(d) of all batches (see neuquant_map.h)
//   kernel_of  where the batch before has its L(d), and how many; 0: no update
//   decay      uint (512), the two tables of exp(-E)
//   weights    uint a point, if WEIGHTED
// Local memory: the network, the staged slab, a distance and an index a work-item.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
neuquant_step(__global const ushort4 *restrict points, const uint4 span, __global const int4 *restrict nodes,
              __global int4 *restrict nodes_out, __global uint *slabs, __global const int *restrict pulls,
              const int2 kernel_of, __global const uint *restrict decay, __global const uint *restrict weights)
{
    const uint first = span.x, batch = span.y, last_batch = span.w;
    __global uint *slab = slabs + span.z * SLAB_SIZE;
    __global const uint *before = slab - (span.z > 0 ? SLAB_SIZE : 0);
    __global const int *pull = pulls + kernel_of.x;
    const int reach = kernel_of.y;
    __local packed_t network[COLORS];
    __local float distances[LOCAL];
    __local int indices[LOCAL];
#if STAGED
    __local uint staged[5 * COLORS];
#endif
#if CONSCIENCE
    __local float bias[COLORS];
    __local float plain_distances[LOCAL];
    __local int plain_indices[LOCAL];
#endif
    const int item = get_local_id(0);

#if STAGED
    for (int k = item; k < 5 * COLORS; k += LOCAL)
        staged[k] = reach > 0 ? before[k] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global const uint *staged = before;
#endif
    for (int i = item; i < COLORS; i += LOCAL) {
        const int4 node = reach > 0 ? updated_node(i, nodes[i], staged, pull, reach, decay) : nodes[i];
        network[i] = PACK(search_point(node));
        if (get_group_id(0) == 0)
            nodes_out[i] = node;
#if CONSCIENCE
        // 1024 (1/K - wins / last_batch) in 1/2^s of a coordinate, truncated; below 2^14.
        const long owed = ((long)last_batch - (long)COLORS * before[SLAB_WINS + i]) * (1024 << SEARCH_SHIFT);
        bias[i] = reach > 0 ? (float)(int)(owed / ((long)COLORS * last_batch)) : 0.0f;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    const int lane = item % LANES, slot = item / LANES;
    for (uint base = get_group_id(0) * AT_ONCE; base < batch; base += get_num_groups(0) * AT_ONCE) {
        const uint at = base + slot;
        const ushort4 point = points[first + min(at, batch - 1)];
        const float4 p = convert_float4(point) * (float)(1 << SEARCH_SHIFT);
        float best = MAXFLOAT;
        int winner = 0;
#if CONSCIENCE
        float plain_best = MAXFLOAT;
        int plain_winner = 0;
#endif
        for (int i = lane; i < COLORS; i += LANES) {
            const float4 d = convert_float4(network[i]) - p;
#if CITY_BLOCK
            float distance = fabs(d.x) + fabs(d.y) + fabs(d.z);
#if DIMS == 4
            distance += fabs(d.w);
#endif
#else
            float distance = d.x * d.x + d.y * d.y + d.z * d.z;  // whole and below 2^24: exact
#if DIMS == 4
            distance += d.w * d.w;
#endif
#endif
#if CONSCIENCE
            if (distance < plain_best) {
                plain_best = distance;
                plain_winner = i;
            }
            distance -= bias[i];
#endif
            if (distance < best) {
                best = distance;
                winner = i;
            }
        }
#if LANES > 1
        distances[item] = best;
        indices[item] = winner;
#if CONSCIENCE
        plain_distances[item] = plain_best;
        plain_indices[item] = plain_winner;
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = slot * LANES; k < (slot + 1) * LANES; ++k) {
            if (distances[k] < best || (distances[k] == best && indices[k] < winner)) {
                best = distances[k];
                winner = indices[k];
            }
#if CONSCIENCE
            if (plain_distances[k] < plain_best || (plain_distances[k] == plain_best && plain_indices[k] < plain_winner)) {
                plain_best = plain_distances[k];
                plain_winner = plain_indices[k];
            }
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        if (at < batch && point.x != 65535) {
            // The lanes of a point share its additions.
#if WEIGHTED
            const uint weight = weights[first + at];
#else
            const uint weight = 1;
#endif
            const uint4 value = convert_uint4(point);
            if (lane == 0)
                atomic_add(&slab[SLAB_COUNTS + winner], weight);
            if (lane == 1 % LANES)
                atomic_add(&slab[4 * winner], weight * value.x);
            if (lane == 2 % LANES)
                atomic_add(&slab[4 * winner + 1], weight * value.y);
            if (lane == 3 % LANES)
                atomic_add(&slab[4 * winner + 2], weight * value.z);
#if DIMS == 4
            if (lane == 4 % LANES)
                atomic_add(&slab[4 * winner + 3], weight * value.w);
#endif
#if CONSCIENCE
            if (lane == 0)
                atomic_inc(&slab[SLAB_WINS + plain_winner]);
#endif
#if SQUARES
            const uint squares[4] = {value.x * value.x, value.y * value.y, value.z * value.z, value.w * value.w};
            for (int k = lane; k < 2 * DIMS; k += LANES) {
                const uint square = squares[k >> 1];
                const uint part = k & 1 ? square >> COORDINATE_BITS : square & LOW_MASK;
                atomic_add(&slab[(k & 1 ? SLAB_HIGH : SLAB_LOW) + 4 * winner + (k >> 1)], weight * part);
            }
#endif
        }
    }
}
