// The refinement of a trained map: a Lloyd step, with nodes of little use moved to where the error is.
//
// Sources: S. Lloyd, "Least squares quantization in PCM" (1982); moving centres by their utility after G. Patane and
// M. Russo, "The enhanced LBG algorithm" (2001), simplified; the pair's cost after J. H. Ward (1963).
//
// Constants from the host besides those of neuquant_map.h:
//   LOCAL   work-items, a power of two

#include "neuquant_map.h"

#if STAGED
#define SCRATCH __local
#else
#define SCRATCH __global
#endif
#define UNIT_BITS (NODE_BITS - SEARCH_SHIFT)
// A node without points is for the others as far away as this.
#define FAR 16000.0f
// What moving is worth is below 2^54, and has an index below it, so that no two are the same.
#define INDEX_BITS 10
#define NEVER (~0UL >> INDEX_BITS)

uint root(const uint value)  // floor of the square root
{
    uint result = 0;
    for (uint bit = 1u << 15; bit > 0; bit >>= 1)
        if ((result + bit) * (result + bit) <= value)
            result += bit;
    return result;
}

// Whole and below 2^24, so exact, unless one of the two is far away.
float squared_distance(const float4 a, const float4 b)
{
    const float4 d = a - b;
    return d.x * d.x + d.y * d.y + d.z * d.z + (DIMS == 4 ? d.w * d.w : 0.0f);
}

// Sums over a count below 2^24, in 1/2^s, rounded half up: below 2^12.
int4 centre(const ulong4 sums, const uint count)
{
    const divisor_t by = divisor_of(2 * count);
    uint left;
    int4 mean = (int4)(0);
    mean.x = (int)quotient((sums.x << (SEARCH_SHIFT + 1)) + count, by, &left);
    mean.y = (int)quotient((sums.y << (SEARCH_SHIFT + 1)) + count, by, &left);
    mean.z = (int)quotient((sums.z << (SEARCH_SHIFT + 1)) + count, by, &left);
#if DIMS == 4
    mean.w = (int)quotient((sums.w << (SEARCH_SHIFT + 1)) + count, by, &left);
#endif
    return mean;
}

// The sums of node i's points.
ulong4 sums_of(const int i, const int colors, __global const uint *slab)
{
    __global const uint *s = slab + SLAB_SUMS + i;
    return (ulong4)(s[0], s[colors], s[2 * colors], s[3 * colors]);
}

// A node as searches see it, in 1/2^s.
int4 seen(const int4 node) { return (node + (1 << (UNIT_BITS - 1))) >> UNIT_BITS; }

// The squared error of node i's points along their worst axis (the lowest of equals), and that axis.
ulong worst_error(const int i, const int colors, __global const uint *slab, SCRATCH int *axis)
{
    const ulong count = slab[SLAB_COUNTS + i];
    ulong worst = 0;
    *axis = 0;
    for (int c = 0; c < DIMS && count > 0; ++c) {
        const ulong sum = slab[SLAB_SUMS + c * colors + i];
        const ulong squares =
            slab[SLAB_LOW + c * colors + i] + ((ulong)slab[SLAB_HIGH + c * colors + i] << COORDINATE_BITS);
        const ulong error = squares - sum * sum / count;
        if (error > worst) {
            worst = error;
            *axis = c;
        }
    }
    return worst;
}

// The other node whose centre is nearest to node i's, -1 if all are far away.
int nearest_other(const int i, const int colors, SCRATCH const float4 *centres)
{
    const float4 centre = centres[i];
    float nearest = 16777216.0f;
    int partner = -1;
    for (int j = 0; j < colors; ++j) {
        const float distance = squared_distance(centre, centres[j]);
        if (distance < nearest && j != i) {
            nearest = distance;
            partner = j;
        }
    }
    return partner;
}

// What it costs to take node i away: nothing if it has no points, the growth of the squared error if it is the lesser
// of two that are each other's nearest, else NEVER (the other of a pair must stay, and so must a pinned node). The
// other of the two goes to the mean of both, unless it is pinned.
ulong removal_cost(const int i, const int colors, const int pinned, __global const uint *slab,
                   SCRATCH const float4 *centres, SCRATCH const int *partners)
{
    const ulong count = slab[SLAB_COUNTS + i];
    if (i < pinned)
        return NEVER;
    if (count == 0)
        return 0;
    const int j = partners[i];
    if (j < 0 || partners[j] != i)
        return NEVER;
    const ulong other = slab[SLAB_COUNTS + j];
    if (count > other || (count == other && i > j))
        return NEVER;
    const ulong joined = j < pinned ? count << 8 : (count * other << 8) / (count + other);
    return (ulong)squared_distance(centres[i], centres[j]) * joined >> (8 + 2 * SEARCH_SHIFT);
}

// New nodes from the slab of an assignment of every point to its nearest node.
//
// Every node becomes the mean of its points. With `moves`, nodes that are worth least are moved first: a node that may
// leave at a cost R (`removal_cost`) goes to a node that gains G (`worst_error`) by being split in two, each one
// standard deviation from the mean along the worst axis. The k-th cheapest is paired with the k-th largest gain; the
// first pair with 4 R >= 5 G, or with a node of an earlier pair in the other part, ends the list. A pinned node that is
// split stays, and its points' mean takes its part in the rule. Ties go to the lowest index. Counts, below 2^24, times
// 2^8 and squared distances stay below 2^57; sums squared below 2^64; R below 2^49, G below 2^48.
//
// NDRange: (LOCAL), one group.
//   nodes      int4 (K), in and out; 12 fraction bits
//   slabs, at  totals of the assignment, with squares: slab `at`
//   moves      0: means alone
//   counts     K, and how many of the nodes, the first ones, win points and never move
//   extent     largest coordinate of each axis
//   centres float4, worth ulong2 (R above the index, G above its complement), axes, partners int, ranks int2, leaving,
//   split int: scratch, (K) each, in local memory if STAGED
// Local memory: one int, and the scratch.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
neuquant_refine(__global int4 *restrict nodes, __global const uint *restrict slabs, const uint at, const int moves,
                const int2 counts, const int4 extent, SCRATCH float4 *restrict centres, SCRATCH ulong2 *restrict worth,
                SCRATCH int *restrict axes, SCRATCH int *restrict partners, SCRATCH int2 *restrict ranks,
                SCRATCH int *restrict leaving, SCRATCH int *restrict split)
{
    const int colors = counts.x, pinned = counts.y;
    __global const uint *slab = slabs + at * SLAB_SIZE;
    __local int pairs;
    const int item = get_local_id(0);
    if (item == 0)
        pairs = moves ? colors : 0;
    for (int i = item; i < colors; i += LOCAL) {
        const uint count = slab[SLAB_COUNTS + i];
        const int4 middle = i < pinned || count == 0 ? seen(nodes[i]) : centre(sums_of(i, colors, slab), count);
        centres[i] = count > 0 ? convert_float4(middle) : (float4)(FAR);
        worth[i].y = worst_error(i, colors, slab, axes + i) << INDEX_BITS | (ulong)(colors - 1 - i);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int i = item; i < colors; i += LOCAL)
        partners[i] = moves ? nearest_other(i, colors, centres) : -1;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int i = item; i < colors; i += LOCAL)
        worth[i].x = removal_cost(i, colors, pinned, slab, centres, partners) << INDEX_BITS | (ulong)i;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int i = item; i < colors; i += LOCAL) {
        const ulong2 own = worth[i];
        int cheaper = 0, larger = 0;
        for (int j = 0; j < colors && moves; ++j) {
            const ulong2 other = worth[j];
            cheaper += other.x < own.x;
            larger += other.y > own.y;
        }
        ranks[i] = (int2)(cheaper, larger);
        if (moves) {
            leaving[cheaper] = i;
            split[larger] = i;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (int k = item; k < colors && moves; k += LOCAL) {
        const int from = leaving[k], to = split[k];
        const ulong cost = worth[from].x >> INDEX_BITS, gain = worth[to].y >> INDEX_BITS;
        const bool apart = ranks[to].x > k && ranks[from].y > k;
        if (cost == NEVER || gain == 0 || 4 * cost >= 5 * gain || !apart)
            atomic_min(&pairs, k);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int i = item; i < colors; i += LOCAL) {
        const int2 rank = ranks[i];
        const int j = partners[i];
        const uint own = slab[SLAB_COUNTS + i];
        const bool leaves = rank.x < pairs;
        int4 to = own > 0 ? convert_int4(centres[i]) : seen(nodes[i]);
        if (leaves || rank.y < pairs) {
            const int target = leaves ? split[rank.x] : i;
            const uint count = slab[SLAB_COUNTS + target];
            const uint variance = (uint)(((worth[target].y >> INDEX_BITS) << (2 * SEARCH_SHIFT)) / count);
            const int deviation = max((int)root(variance), 1) * (leaves ? 1 : -1);
            const int axis = axes[target];
            const int4 step = deviation * (int4)(axis == 0, axis == 1, axis == 2, axis == 3);
            const int4 middle =
                target < pinned ? centre(sums_of(target, colors, slab), count) : convert_int4(centres[target]);
            to = clamp(middle + step, (int4)(0), extent << SEARCH_SHIFT);
        } else if (j >= 0 && partners[j] == i && own > 0 && ranks[j].x < pairs) {
            to = centre(sums_of(i, colors, slab) + sums_of(j, colors, slab), own + slab[SLAB_COUNTS + j]);
        }
        if (i >= pinned)
            nodes[i] = to << UNIT_BITS;
    }
}
