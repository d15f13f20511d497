/* The refinement of a trained map, by one work-group: a Lloyd step, with nodes of little use moved to where the error is.
 *
 * Sources: S. Lloyd, "Least squares quantization in PCM" (1982); moving centres by their utility after G. Patane and
 * M. Russo, "The enhanced LBG algorithm" (2001), simplified; the pair's cost after J. H. Ward (1963).
 *
 * Every node becomes the mean of its points. With `moves`, nodes that are worth least are moved first: a node that may
 * leave at a cost R (`removal_cost`) goes to a node that gains G (`worst_error`) by being split in two, each one
 * standard deviation from the mean along the worst axis. The k-th cheapest is paired with the k-th largest gain; the
 * first pair with 4 R >= 5 G, or with a node of an earlier pair in the other part, ends the list. Pinned nodes win
 * points and stay: G of a pinned node is the squared error about the node itself, and the other node of its pair goes to the
 * mean of its points. Ties go to the lowest index. Counts, below 2^24, times 2^8 and squared distances stay below 2^57;
 * sums squared below 2^64; R below 2^49, G below 2^48.
 *
 * Constants from the host besides those of neuquant/map.h:
 *   LOCAL   work-items, a power of two
 * Of the points of node i of k in `totals`, COUNT_OF, SUM_OF and SQUARES_OF read number, sums and sums of squares
 * (uint, uint, ulong); c is a coordinate. */

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

#define UNIT_BITS (NODE_BITS - SEARCH_SHIFT)
/* A node without points is for the others as far away as this. */
#define FAR_AWAY 16000.0f
/* What moving is worth is below 2^54, and has an index below it, so that no two are the same. */
#define INDEX_BITS 10
#define NEVER (~0UL >> INDEX_BITS)

uint root(const uint value) /* floor of the square root */
{
    uint result = 0;
#pragma unroll 1
    for (uint bit = 1u << 15; bit > 0; bit >>= 1)
        if ((result + bit) * (result + bit) <= value)
            result += bit;
    return result;
}

/* Whole and below 2^24, so exact, unless one of the two is far away. */
float squared_distance(const float4 a, const float4 b)
{
    const float4 d = a - b;
    return d.x * d.x + d.y * d.y + d.z * d.z + (DIMS == 4 ? d.w * d.w : 0.0f);
}

/* Sums over a count below 2^24, in 1/2^s, rounded half up: below 2^12. */
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

/* The sums of node i's points. */
ulong4 sums_of(const int i, const int colors, REFINED totals)
{
    return (ulong4)(SUM_OF(totals, colors, i, 0), SUM_OF(totals, colors, i, 1), SUM_OF(totals, colors, i, 2),
                    DIMS == 4 ? SUM_OF(totals, colors, i, 3) : 0);
}

/* A node as searches see it, in 1/2^s. */
int4 seen(const int4 node)
{
    return (node + (1 << (UNIT_BITS - 1))) >> UNIT_BITS;
}

/* The squared error of `count` points (not 0) with these sums about their mean. */
ulong error_about_mean(const ulong squares, const ulong sum, const ulong count)
{
    return squares - sum * sum / count;
}

/* The squared error about a whole coordinate. */
ulong error_about(const ulong squares, const ulong sum, const ulong count, const ulong place)
{
    return squares + count * place * place - 2 * place * sum;
}

/* The squared error of node i's points along their worst axis (the lowest of equals), and that axis: about their mean,
 * of a pinned node about the node. */
ulong worst_error(const int i, const int colors, const int pinned, const int4 node, REFINED totals, SCRATCH int *axis)
{
    const int4 place = node >> NODE_BITS;
    const int places[4] = {place.x, place.y, place.z, place.w};
    const ulong count = COUNT_OF(totals, i);
    ulong worst = 0;
    *axis = 0;
#pragma unroll 1
    for (int c = 0; c < DIMS && count > 0; ++c) {
        const ulong sum = SUM_OF(totals, colors, i, c), squares = SQUARES_OF(totals, colors, i, c);
        const ulong error =
            i < pinned ? error_about(squares, sum, count, (ulong)places[c]) : error_about_mean(squares, sum, count);
        if (error > worst) {
            worst = error;
            *axis = c;
        }
    }
    return worst;
}

/* The other node whose centre is nearest to node i's, -1 if all are far away. */
int nearest_other(const int i, const int colors, SCRATCH const float4 *centres)
{
    const float4 own = centres[i];
    float nearest = 16777216.0f;
    int partner = -1;
    for (int j = 0; j < colors; ++j) {
        const float distance = squared_distance(own, centres[j]);
        if (distance < nearest && j != i) {
            nearest = distance;
            partner = j;
        }
    }
    return partner;
}

/* What it costs to take node i away: nothing if it has no points, the growth of the squared error if its nearest is a
 * pinned node or if it is the lesser of two that are each other's nearest, else NEVER (the other of a pair must stay,
 * and so must a pinned node). The other of two goes to the mean of both, unless it is pinned. */
ulong removal_cost(const int i, const int colors, const int pinned, REFINED totals, SCRATCH const float4 *centres,
                   SCRATCH const int *partners)
{
    const ulong count = COUNT_OF(totals, i);
    if (i < pinned)
        return NEVER;
    if (count == 0)
        return 0;
    const int j = partners[i];
    if (j < 0 || (j >= pinned && partners[j] != i))
        return NEVER;
    const ulong other = COUNT_OF(totals, j);
    if (j >= pinned && (count > other || (count == other && i > j)))
        return NEVER;
    const ulong joined = j < pinned ? count << 8 : (count * other << 8) / (count + other);
    return (ulong)squared_distance(centres[i], centres[j]) * joined >> (8 + 2 * SEARCH_SHIFT);
}

/* What the parts leave for each other, of every node. */
typedef struct {
    SCRATCH float4 *centres;
    SCRATCH ulong2 *worth; /* the cost R above the index, the gain G above its complement */
    SCRATCH int *axes, *partners;
    SCRATCH int2 *ranks;
    SCRATCH int *leaving, *split;
} refined_t;

/* `pinned` of the nodes, the first ones, win points and never move. */
void find_centres(const refined_t r, const int item, const int colors, const int pinned, NODES nodes, REFINED totals)
{
#pragma unroll 1
    for (int i = item; i < colors; i += LOCAL) {
        const uint count = COUNT_OF(totals, i);
        const int4 middle = i < pinned || count == 0 ? seen(nodes[i]) : centre(sums_of(i, colors, totals), count);
        r.centres[i] = count > 0 || i < pinned ? convert_float4(middle) : (float4)(FAR_AWAY);
        r.worth[i].y =
            worst_error(i, colors, pinned, nodes[i], totals, r.axes + i) << INDEX_BITS | (ulong)(colors - 1 - i);
    }
}

void find_partners(const refined_t r, const int item, const int colors, const int moves)
{
#pragma unroll 1
    for (int i = item; i < colors; i += LOCAL)
        r.partners[i] = moves ? nearest_other(i, colors, r.centres) : -1;
}

void find_costs(const refined_t r, const int item, const int colors, const int pinned, REFINED totals)
{
#pragma unroll 1
    for (int i = item; i < colors; i += LOCAL)
        r.worth[i].x = removal_cost(i, colors, pinned, totals, r.centres, r.partners) << INDEX_BITS | (ulong)i;
}

void find_ranks(const refined_t r, const int item, const int colors, const int moves)
{
    /* Not a condition of the loop: LLVM 14, under PoCL 3.0, then made wrong code of it, seen with groups of 16 to 64.
     */
    const int others = moves ? colors : 0;
#pragma unroll 1
    for (int i = item; i < colors; i += LOCAL) {
        const ulong2 own = r.worth[i];
        int cheaper = 0, larger = 0;
        for (int j = 0; j < others; ++j) {
            const ulong2 other = r.worth[j];
            cheaper += other.x < own.x;
            larger += other.y > own.y;
        }
        r.ranks[i] = (int2)(cheaper, larger);
        if (moves) {
            r.leaving[cheaper] = i;
            r.split[larger] = i;
        }
    }
}

/* The first `pairs` move; before, that is all nodes, or none. */
void count_pairs(const refined_t r, const int item, const int colors, const int moves, __local int *pairs)
{
#pragma unroll 1
    for (int k = item; k < colors && moves; k += LOCAL) {
        const int from = r.leaving[k], to = r.split[k];
        const ulong cost = r.worth[from].x >> INDEX_BITS, gain = r.worth[to].y >> INDEX_BITS;
        const bool apart = r.ranks[to].x > k && r.ranks[from].y > k;
        if (cost == NEVER || gain == 0 || 4 * cost >= 5 * gain || !apart)
            atomic_min(pairs, k);
    }
}

/* `extent` is the largest coordinate of each axis. */
void place_nodes(const refined_t r, const int item, const int colors, const int pinned, const int pairs,
                 const int4 extent, NODES nodes, REFINED totals)
{
#pragma unroll 1
    for (int i = item; i < colors; i += LOCAL) {
        const int2 rank = r.ranks[i];
        const int j = r.partners[i];
        const uint own = COUNT_OF(totals, i);
        const bool leaves = rank.x < pairs;
        int4 to = own > 0 ? convert_int4(r.centres[i]) : seen(nodes[i]);
        if (leaves || rank.y < pairs) {
            const int target = leaves ? r.split[rank.x] : i;
            const uint count = COUNT_OF(totals, target);
            const uint variance = (uint)(((r.worth[target].y >> INDEX_BITS) << (2 * SEARCH_SHIFT)) / count);
            const int deviation = max((int)root(variance), 1) * (leaves ? 1 : -1);
            const int axis = r.axes[target];
            const int4 step = deviation * (int4)(axis == 0, axis == 1, axis == 2, axis == 3);
            if (target < pinned)
                to = centre(sums_of(target, colors, totals), count);
            else
                to = clamp(convert_int4(r.centres[target]) + step, (int4)(0), extent << SEARCH_SHIFT);
        } else if (j >= 0 && r.partners[j] == i && own > 0 && r.ranks[j].x < pairs) {
            to = centre(sums_of(i, colors, totals) + sums_of(j, colors, totals), own + COUNT_OF(totals, j));
        }
        if (i >= pinned)
            nodes[i] = to << UNIT_BITS;
    }
}

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
