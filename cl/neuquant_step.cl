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
//   SHORT_KEYS  1: no conscience, and at most 256 nodes a lane, so that keys of a contest are 32-bit

#include "neuquant_map.h"

#define AT_ONCE (LOCAL / LANES * TILE)

// The network in local memory is filled up with nodes that are farther from every point than any other.
#define PADDED ((colors + LANES - 1) / LANES * LANES)
#define FAR 16000

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

// Distance above index: the least key is the nearest node, the lowest index among equals. Where a lane has few nodes, and
// distances are below 2^24, its number among the lane's nodes will do: of equal keys the first lane's is that of the
// lowest index. Nodes that fill up the network are farther than all others, here too.
#if SHORT_KEYS
typedef uint contest_t;
#define NO_KEY 0xffffffffu
#define NODE_OF(key, lane) ((int)((key) & 255) * LANES + (lane))
contest_t contest_key(const float distance, const int node)
{
    return (uint)min(distance, 16777215.0f) << 8 | (uint)node / LANES;
}
#else
typedef ulong contest_t;
#define NO_KEY 0xffffffffffffffffUL
#define NODE_OF(key, lane) ((int)((key) & 0xffff))
// Biases are below 2^14.
contest_t contest_key(const float distance, const int node)
{
    return (ulong)((int)distance + 16384) << 32 | (ulong)node;
}
#endif

// The winner of a point by its lanes' keys, `TILE` apart.
int winner_of(__local const contest_t *keys)
{
    contest_t least = keys[0];
    int from = 0;
    for (int lane = 1; lane < LANES; ++lane) {
        const contest_t key = keys[lane * TILE];
        if (key < least) {
            least = key;
            from = lane;
        }
    }
    return NODE_OF(least, from);
}

#if TOTALS
#define TOTALS_MEMORY __local
#else
#define TOTALS_MEMORY __global
#endif
// Words of a slab that a batch adds to, and those of local memory that hold what an update reads or these.
#define WORDS (SQUARES ? SLAB_SIZE : CONSCIENCE ? 6 * colors : WON_WORDS)
#define STAGED_WORDS (TOTALS ? WORDS : WON_WORDS)

// Adds one word of a point to its winner's totals: 0 its weight, then its coordinates, then low and high parts of their
// squares.
void add_word(TOTALS_MEMORY uint *slab, const int colors, const int word, const int winner, const uint4 value,
              const uint weight)
{
    const uint values[4] = {value.x, value.y, value.z, value.w};
    if (word == 0) {
        atomic_add(&slab[SLAB_COUNTS + winner], weight);
    } else if (word <= DIMS) {
        atomic_add(&slab[SLAB_SUMS + (word - 1) * colors + winner], weight * values[word - 1]);
    } else {
        const int c = (word - DIMS - 1) >> 1;
        const uint square = values[c] * values[c];
        if ((word - DIMS) & 1)
            atomic_add(&slab[SLAB_LOW + c * colors + winner], weight * (square & LOW_MASK));
        else
            atomic_add(&slab[SLAB_HIGH + c * colors + winner], weight * (square >> COORDINATE_BITS));
    }
}

// A point of the batch, the last one for all after it.
uint point_at(const uint at, const uint batch) { return min(at, max(batch, 1u) - 1); }

// Updates the network by the totals of the batch before, then finds the winner of every point of this batch and adds
// the point to the winner's totals. Every group computes the whole network for itself; group 0 also writes it out. So
// one launch a step is enough, and integer totals make the result independent of how points are dealt to groups.
//
// NDRange: (groups * LOCAL), groups of LOCAL, any number of groups.
//   points     ushort4 a point; x = 65535 marks one that is passed over
//   step       this batch's first point, its points, its slab; the points of the batch before, where that has its L(d),
//              and how many (0: no update); K
//   nodes      int4 (K), before the update; 12 fraction bits
//   nodes_out  int4 (K), after it (another buffer)
//   slabs      uint (any, SLAB_SIZE): the batch before has the slab before; this batch's is zero before the launch
//   pulls      int, L(d) of all batches (see neuquant_map.h)
//   decay      uint (512), the two tables of exp(-E)
//   weights    uint a point, if WEIGHTED
//   network    PADDED nodes
//   staged     if STAGED: a slab's part that is read, then the group's totals; STAGED_WORDS, in whole vectors
//   bias       PADDED, if CONSCIENCE
// Local memory: these three, TILE keys a work-item.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
neuquant_step(__global const ushort4 *restrict points, const uint8 step, __global const int4 *restrict nodes,
              __global int4 *restrict nodes_out, __global uint *slabs, __global const int *restrict pulls,
              __global const uint *restrict decay, __global const uint *restrict weights,
              __local packed_t *restrict network
#if STAGED
              , __local uint4 *restrict staged
#endif
#if CONSCIENCE
              , __local float *restrict bias
#endif
)
{
    const uint first = step.s0, batch = step.s1;
    const int colors = (int)step.s6;
    __global uint *slab = slabs + step.s2 * SLAB_SIZE;
    __global const uint *before = slab - (step.s2 > 0 ? SLAB_SIZE : 0);
    __global const int *pull = pulls + step.s4;
    const int reach = (int)step.s5;
    __local contest_t keys[LOCAL * TILE];
#if CONSCIENCE
    __local contest_t plain_keys[LOCAL * TILE];
#endif
    const int item = get_local_id(0), lane = item % LANES, slot = item / LANES;

    // On their way while the network is updated.
    int4 node = nodes[min(item, colors - 1)];
    ushort4 next[TILE];
    for (int t = 0; t < TILE; ++t)
        next[t] = points[first + point_at(get_group_id(0) * AT_ONCE + slot * TILE + t, batch)];
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
        // 1024 (1/K - wins / points of the batch before) in 1/2^s of a coordinate, truncated; below 2^14.
        const uint batch_before = step.s3;
        const long owed = ((long)batch_before - (long)colors * before[SLAB_WINS + i]) * (1024 << SEARCH_SHIFT);
        bias[i] = reach > 0 ? (float)(int)(owed / ((long)colors * batch_before)) : 0.0f;
#endif
    }
    for (int i = colors + item; i < PADDED; i += LOCAL) {
        network[i] = (packed_t)(FAR);
#if CONSCIENCE
        bias[i] = 0.0f;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if TOTALS
    __local uint *totals = (__local uint *)staged;
    for (int k = item; k < WORDS; k += LOCAL)
        totals[k] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global uint *totals = slab;
#endif

    for (uint base = get_group_id(0) * AT_ONCE; base < batch; base += get_num_groups(0) * AT_ONCE) {
        ushort4 point[TILE];
        float4 p[TILE];
#if CONSCIENCE
        contest_t plain[TILE];
#endif
        float best[TILE];
        int winner[TILE];
        for (int t = 0; t < TILE; ++t) {
            point[t] = next[t];
            next[t] = points[first + point_at(base + get_num_groups(0) * AT_ONCE + slot * TILE + t, batch)];
            p[t] = convert_float4(point[t]) * (float)(1 << SEARCH_SHIFT);
            best[t] = MAXFLOAT;
            winner[t] = 0;
#if CONSCIENCE
            plain[t] = NO_KEY;
#endif
        }
        for (int i = lane; i < PADDED; i += LANES) {
            const float4 there = convert_float4(network[i]);
            for (int t = 0; t < TILE; ++t) {
                float distance = separation(there - p[t]);
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
            if (at >= batch || point[t].x == 65535)
                continue;
            // The lanes of a point share its additions.
            const int won_by = winner_of(keys + slot * LANES * TILE + t);
            const uint weight = WEIGHTED ? weights[first + at] : 1;
            for (int word = lane; word < (SQUARES ? 3 : 1) * DIMS + 1; word += LANES)
                add_word(totals, colors, word, won_by, convert_uint4(point[t]), weight);
#if CONSCIENCE
            if (lane == 0)
                atomic_inc(&totals[SLAB_WINS + winner_of(plain_keys + slot * LANES * TILE + t)]);
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
