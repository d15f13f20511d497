// One dependent step of the mini-batch map, and the assignment of the refinement after it: the portable form.
//
// Source: T. Kohonen, "Self-Organizing Maps" (1995), the batch map, with the closed form of sequential moves that is
// described in docs/neuquant.md; contest and conscience after A. H. Dekker (1994).
//
// Constants from the host besides those of neuquant_map.h:
//   LOCAL       work-items of a group, a power of two
//   LANES       work-items that share the search for a point, a power of two up to LOCAL
//   TILE        points that a work-item searches for at once
//   CITY_BLOCK  0: squared Euclidean distance; 1: sum of absolute differences
//   CONSCIENCE  1: a node's distance is less its bias, gamma (1/K - its share of the last batch's plain wins)
//   PACKED      1: the network lies in local memory as 16-bit integers (else as floats, twice as long)
//   SQUARES     1: sums of squares too, for the refinement
//   TOTALS      1: a group adds up its own totals in local memory first (else K is so large that they do not fit)
//   WEIGHTED    1: points count as often as their weight says

#include "neuquant_map.h"

#define AT_ONCE (LOCAL / LANES * TILE)

// The network in local memory is filled up with nodes that are farther from every point than any other.
#define PADDED ((COLORS + LANES - 1) / LANES * LANES)
#define FAR 16000
#define NO_KEY 0xffffffffffffffffUL

#if PACKED
typedef ushort4 packed_t;
#define PACK convert_ushort4
#else
typedef float4 packed_t;
#define PACK
#endif

// The distance that a contest is about: whole, and below 2^24, so exact.
float separation(const float4 d)
{
#if CITY_BLOCK
    return fabs(d.x) + fabs(d.y) + fabs(d.z) + (DIMS == 4 ? fabs(d.w) : 0.0f);
#else
    return d.x * d.x + d.y * d.y + d.z * d.z + (DIMS == 4 ? d.w * d.w : 0.0f);
#endif
}

// Distance above index: the least key is the nearest node, the lowest index among equals. Biases are below 2^14.
ulong contest_key(const float distance, const int node) { return (ulong)((int)distance + 16384) << 32 | (ulong)node; }

#if TOTALS
#define TOTALS_MEMORY __local
#else
#define TOTALS_MEMORY __global
#endif
// Words of a slab that an update reads, and that a batch adds to.
#define READ ((1 + DIMS) * COLORS)
#define WORDS (SQUARES ? SLAB_SIZE : CONSCIENCE ? 6 * COLORS : READ)

// Adds one word of a point to its winner's totals: 0 its weight, then its coordinates, then low and high parts of their
// squares.
void add_word(TOTALS_MEMORY uint *slab, const int word, const int winner, const uint4 value, const uint weight)
{
    const uint values[4] = {value.x, value.y, value.z, value.w};
    if (word == 0) {
        atomic_add(&slab[SLAB_COUNTS + winner], weight);
    } else if (word <= DIMS) {
        atomic_add(&slab[SLAB_SUMS + (word - 1) * COLORS + winner], weight * values[word - 1]);
    } else {
        const int c = (word - DIMS - 1) >> 1;
        const uint square = values[c] * values[c];
        if ((word - DIMS) & 1)
            atomic_add(&slab[SLAB_LOW + c * COLORS + winner], weight * (square & LOW_MASK));
        else
            atomic_add(&slab[SLAB_HIGH + c * COLORS + winner], weight * (square >> COORDINATE_BITS));
    }
}

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
// Local memory: the network, the staged slab, TILE keys a work-item.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
neuquant_step(__global const ushort4 *restrict points, const uint4 span, __global const int4 *restrict nodes,
              __global int4 *restrict nodes_out, __global uint *slabs, __global const int *restrict pulls,
              const int2 kernel_of, __global const uint *restrict decay, __global const uint *restrict weights)
{
    const uint first = span.x, batch = span.y;
    __global uint *slab = slabs + span.z * SLAB_SIZE;
    __global const uint *before = slab - (span.z > 0 ? SLAB_SIZE : 0);
    __global const int *pull = pulls + kernel_of.x;
    const int reach = kernel_of.y;
    __local packed_t network[PADDED];
    __local ulong keys[LOCAL * TILE];
#if STAGED
    __local uint staged[TOTALS ? WORDS : READ];  // later the group's totals
#endif
#if CONSCIENCE
    __local float bias[PADDED];
    __local ulong plain_keys[LOCAL * TILE];
#endif
    const int item = get_local_id(0);

#if STAGED
    for (int k = item; k < READ && reach > 0; k += LOCAL)
        staged[k] = before[k];
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
        // 1024 (1/K - wins / points of the batch before) in 1/2^s of a coordinate, truncated; below 2^14.
        const long owed = ((long)span.w - (long)COLORS * before[SLAB_WINS + i]) * (1024 << SEARCH_SHIFT);
        bias[i] = reach > 0 ? (float)(int)(owed / ((long)COLORS * span.w)) : 0.0f;
#endif
    }
    for (int i = COLORS + item; i < PADDED; i += LOCAL) {
        network[i] = (packed_t)(FAR);
#if CONSCIENCE
        bias[i] = 0.0f;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if TOTALS
    __local uint *totals = staged;
    for (int k = item; k < WORDS; k += LOCAL)
        totals[k] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global uint *totals = slab;
#endif

    const int lane = item % LANES, slot = item / LANES;
    for (uint base = get_group_id(0) * AT_ONCE; base < batch; base += get_num_groups(0) * AT_ONCE) {
        float4 p[TILE];
#if CONSCIENCE
        ulong plain[TILE];
#endif
        float best[TILE];
        int winner[TILE];
        for (int t = 0; t < TILE; ++t) {
            const uint at = min(base + slot * TILE + t, batch - 1);
            p[t] = convert_float4(points[first + at]) * (float)(1 << SEARCH_SHIFT);
            best[t] = MAXFLOAT;
            winner[t] = 0;
#if CONSCIENCE
            plain[t] = NO_KEY;
#endif
        }
        for (int i = lane; i < PADDED; i += LANES) {
            const float4 node = convert_float4(network[i]);
            for (int t = 0; t < TILE; ++t) {
                float distance = separation(node - p[t]);
#if CONSCIENCE
                plain[t] = min(plain[t], contest_key(distance, i));
                distance -= bias[i];
#endif
                if (distance < best[t]) {
                    best[t] = distance;
                    winner[t] = i;
                }
            }
        }
        for (int t = 0; t < TILE; ++t) {
            keys[item * TILE + t] = contest_key(best[t], winner[t]);
#if CONSCIENCE
            plain_keys[item * TILE + t] = plain[t];
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = 0; t < TILE; ++t) {
            const uint at = base + slot * TILE + t;
            ulong key = NO_KEY;
            for (int k = 0; k < LANES; ++k)
                key = min(key, keys[(slot * LANES + k) * TILE + t]);
            const ushort4 point = points[first + min(at, batch - 1)];
            if (at >= batch || point.x == 65535)
                continue;
            // The lanes of a point share its additions.
            const uint weight = WEIGHTED ? weights[first + at] : 1;
            for (int word = lane; word < (SQUARES ? 3 : 1) * DIMS + 1; word += LANES)
                add_word(totals, word, (int)(key & 0xffff), convert_uint4(point), weight);
#if CONSCIENCE
            key = NO_KEY;
            for (int k = 0; k < LANES; ++k)
                key = min(key, plain_keys[(slot * LANES + k) * TILE + t]);
            if (lane == 0)
                atomic_inc(&totals[SLAB_WINS + (int)(key & 0xffff)]);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if TOTALS
    for (int k = item; k < WORDS; k += LOCAL)
        if (totals[k] > 0)
            atomic_add(&slab[k], totals[k]);
#endif
}
