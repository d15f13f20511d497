// The refinement of a trained map: a Lloyd step, with nodes of little use moved to where the error is.
//
// Sources: S. Lloyd, "Least squares quantization in PCM" (1982); moving centres by their utility after G. Patane and
// M. Russo, "The enhanced LBG algorithm" (2001), simplified; the pair's cost after J. H. Ward (1963).
//
// Constants from the host besides those of neuquant_map.h:
//   LOCAL   work-items, a power of two
//   PINNED  the first nodes, which win points and never move

#include "neuquant_map.h"

#if STAGED
#define SCRATCH __local
#else
#define SCRATCH __global
#endif
#define NEVER 0xffffffffffffffffUL
#define UNIT_BITS (NODE_BITS - SEARCH_SHIFT)

uint root(const uint value)  // floor of the square root
{
    uint result = 0;
    for (uint bit = 1u << 15; bit > 0; bit >>= 1)
        if ((result + bit) * (result + bit) <= value)
            result += bit;
    return result;
}

uint squared_distance(const int4 a, const int4 b)
{
    const int4 d = a - b;
    return (uint)(d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w);
}

// Sums over a count, in 1/2^s, rounded half up.
int4 centre(const ulong4 sums, const ulong count)
{
    return convert_int4(((sums << (SEARCH_SHIFT + 1)) + count) / (2 * count));
}

// The sums of node i's points.
ulong4 sums_of(const int i, __global const uint *slab)
{
    __global const uint *s = slab + SLAB_SUMS + i;
    return (ulong4)(s[0], s[COLORS], s[2 * COLORS], s[3 * COLORS]);
}

// A node as searches see it, in 1/2^s.
int4 seen(const int4 node) { return (node + (1 << (UNIT_BITS - 1))) >> UNIT_BITS; }

// The mean of node i's points, in 1/2^s; where it has none, the node itself.
int4 mean_of(const int i, __global const uint *slab, __global const int4 *nodes)
{
    const ulong count = slab[SLAB_COUNTS + i];
    return count > 0 ? centre(sums_of(i, slab), count)
                     : seen(nodes[i]);
}

// The squared error of node i's points along their worst axis (the lowest of equals), and that axis.
ulong worst_error(const int i, __global const uint *slab, SCRATCH int *axis)
{
    const ulong count = slab[SLAB_COUNTS + i];
    ulong worst = 0;
    *axis = 0;
    for (int c = 0; c < DIMS && count > 0; ++c) {
        const ulong sum = slab[SLAB_SUMS + c * COLORS + i];
        const ulong squares =
            slab[SLAB_LOW + c * COLORS + i] + ((ulong)slab[SLAB_HIGH + c * COLORS + i] << COORDINATE_BITS);
        const ulong error = squares - sum * sum / count;
        if (error > worst) {
            worst = error;
            *axis = c;
        }
    }
    return worst;
}

// The node with points whose mean is nearest to node i's, -1 if there is none.
int nearest_other(const int i, __global const uint *slab, SCRATCH const int4 *centres)
{
    uint nearest = 0xffffffffu;
    int partner = -1;
    for (int j = 0; j < COLORS; ++j) {
        const uint distance = squared_distance(centres[i], centres[j]);
        if (distance < nearest && j != i && slab[SLAB_COUNTS + j] > 0) {
            nearest = distance;
            partner = j;
        }
    }
    return partner;
}

// What it costs to take node i away: nothing if it has no points, the growth of the squared error if it is the lesser
// of two that are each other's nearest, else NEVER (the other of a pair must stay, and so must a pinned node). The
// other of the two goes to the mean of both, unless it is pinned.
ulong removal_cost(const int i, __global const uint *slab, SCRATCH const int4 *centres, SCRATCH const int *partners)
{
    const ulong count = slab[SLAB_COUNTS + i];
    if (i < PINNED)
        return NEVER;
    if (count == 0)
        return 0;
    const int j = partners[i];
    if (j < 0 || partners[j] != i)
        return NEVER;
    const ulong other = slab[SLAB_COUNTS + j];
    if (count > other || (count == other && i > j))
        return NEVER;
    const ulong joined = j < PINNED ? count << 8 : (count * other << 8) / (count + other);
    return squared_distance(centres[i], centres[j]) * joined >> (8 + 2 * SEARCH_SHIFT);
}

// New nodes from the slab of an assignment of every point to its nearest node.
//
// Every node becomes the mean of its points. With `moves`, nodes that are worth least are moved first: a node that may
// leave at a cost R (`removal_cost`) goes to a node that gains G (`worst_error`) by being split in two, each one
// standard deviation from the mean along the worst axis. The k-th cheapest is paired with the k-th largest gain; the
// first pair with 4 R >= 5 G, or with a node of an earlier pair in the other part, ends the list. A pinned node that is
// split stays, and its points' mean takes its part in the rule. Ties go to the lowest index. Counts, below 2^24, times
// 2^8 and squared distances stay below 2^57; sums squared below 2^64.
//
// NDRange: (LOCAL), one group.
//   nodes      int4 (K), in and out; 12 fraction bits
//   slabs, at  totals of the assignment, with squares: slab `at`
//   moves      0: means alone
//   extent     largest coordinate of each axis
//   centres int4, gains, costs ulong, axes, partners int, ranks int2, leaving, split int: scratch, (K) each, in local
//   memory if STAGED
// Local memory: one int, and the scratch.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
neuquant_refine(__global int4 *restrict nodes, __global const uint *restrict slabs, const uint at, const int moves,
                const int4 extent, SCRATCH int4 *restrict centres, SCRATCH ulong *restrict gains,
                SCRATCH ulong *restrict costs, SCRATCH int *restrict axes, SCRATCH int *restrict partners,
                SCRATCH int2 *restrict ranks, SCRATCH int *restrict leaving, SCRATCH int *restrict split)
{
    __global const uint *slab = slabs + at * SLAB_SIZE;
    __local int pairs;
    const int item = get_local_id(0);
    if (item == 0)
        pairs = moves ? COLORS : 0;
    for (int i = item; i < COLORS; i += LOCAL) {
        centres[i] = i < PINNED ? seen(nodes[i]) : mean_of(i, slab, nodes);
        gains[i] = worst_error(i, slab, axes + i);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int i = item; i < COLORS; i += LOCAL)
        partners[i] = moves ? nearest_other(i, slab, centres) : -1;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int i = item; i < COLORS; i += LOCAL)
        costs[i] = removal_cost(i, slab, centres, partners);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int i = item; i < COLORS; i += LOCAL) {
        int cheaper = 0, larger = 0;
        for (int j = 0; j < COLORS && moves; ++j) {
            cheaper += costs[j] < costs[i] || (costs[j] == costs[i] && j < i);
            larger += gains[j] > gains[i] || (gains[j] == gains[i] && j < i);
        }
        ranks[i] = (int2)(cheaper, larger);
        if (moves) {
            leaving[cheaper] = i;
            split[larger] = i;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int k = item; k < COLORS && moves; k += LOCAL) {
        const int from = leaving[k], to = split[k];
        const bool apart = ranks[to].x > k && ranks[from].y > k;
        if (costs[from] == NEVER || gains[to] == 0 || 4 * costs[from] >= 5 * gains[to] || !apart)
            atomic_min(&pairs, k);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int i = item; i < COLORS; i += LOCAL) {
        const int2 rank = ranks[i];
        const int j = partners[i];
        const bool leaves = rank.x < pairs;
        int4 to = centres[i];
        if (leaves || rank.y < pairs) {
            const int target = leaves ? split[rank.x] : i;
            const ulong count = slab[SLAB_COUNTS + target];
            const uint variance = (uint)((gains[target] << (2 * SEARCH_SHIFT)) / count);
            const int deviation = max((int)root(variance), 1) * (leaves ? 1 : -1);
            const int axis = axes[target];
            const int4 step = deviation * (int4)(axis == 0, axis == 1, axis == 2, axis == 3);
            const int4 middle = target < PINNED ? centre(sums_of(target, slab), count) : centres[target];
            to = clamp(middle + step, (int4)(0), extent << SEARCH_SHIFT);
        } else if (j >= 0 && partners[j] == i && slab[SLAB_COUNTS + i] > 0 && ranks[j].x < pairs) {
            to = centre(sums_of(i, slab) + sums_of(j, slab),
                        (ulong)slab[SLAB_COUNTS + i] + slab[SLAB_COUNTS + j]);
        }
        if (i >= PINNED)
            nodes[i] = to << UNIT_BITS;
    }
}
