/* The search for the nearest of many nodes on CPUs: sixteen points side by side in the lanes of a vector, against
 * those nodes only that can be nearest to some point of their box. Points of like colours should come together (see
 * neuquant/point_order.cl): the smaller their boxes, the fewer nodes are compared. Squared Euclidean distance; the
 * lowest index among equals.
 *
 * Source: the filtering of candidates by boxes, T. Kanungo et al., "An efficient k-means clustering algorithm" (2002).
 *
 * Constants from the host: those of neuquant/map.h.
 *
 * A search compares |n|^2 / 2 - n.p, which orders nodes n as |n - p|^2 does. Its terms are whole or half, and every
 * partial sum lies between -|p|^2 / 2 and |n|^2 / 2, both below 2^23, so it is exact in fp32.
 *
 * Let c be the middle of a box, r half its sides, m a node. For a point p of the box the score of n is that of m, plus
 * score(n, c) - score(m, c), plus (c - p).(n - m), which is no less than -r.|n - m|. So n is farther than m from all of
 * them where score(n, c) - score(m, c) > r.|n - m|, the left side half the difference of two squared distances, the
 * right one at most half the square of the space's diagonal: whole or half, below 2^23, exact as well. m is a node
 * nearest to c; any other would do.
 *
 * Kept points are ushort4: the fourth coordinate, or 1, and the others; all are 0 if a point is passed over. Nodes
 * lie in planes, PADDED floats each: DIMS coordinates, then half the square, which is NO_NODE beyond the last node. */

#include "common/compile_hints.h"

#define SIDE_BY_SIDE 16
#define BLOCK 128
#define BOXES (BLOCK / SIDE_BY_SIDE)
/* Up to so many nodes, all are compared; of a block's nodes up to so many, those of its parts are not sought. */
#define FEW_NODES 128
#define FEW_OF_BLOCK 12
#define NO_NODE 1e9f
#define PADDED(k) (((k) + 15) / 16 * 16)

/* Points that are searched for together, BLOCK of them at most, with room for more to come; their winners. */
typedef struct {
    ulong points[BLOCK + 8];
    uint weights[BLOCK + 8];
    int winners[BLOCK];
    uint count;
} block_t;

typedef struct {
    __local const float *planes;
    int stride, count;
} nodes_t;

/* Vectors anywhere in memory, and what follows: not the built-in functions (vload16, fabs, min), whose vectors of 512
 * bits some of PoCL's libraries pass in another way than its compiler, and which it does not inline. */
typedef float16 __attribute__((aligned(4))) loose_floats_t;
typedef uint8 __attribute__((aligned(4))) loose_words_t;
typedef int16 __attribute__((aligned(4))) loose_ints_t;
typedef int4 __attribute__((aligned(4))) loose_places_t;
typedef ulong16 __attribute__((aligned(8))) loose_points_t;
typedef ushort16 __attribute__((aligned(2))) loose_shorts_t;
#define PLANE(nodes, c, i) (*(__local const loose_floats_t *)((nodes).planes + (c) * (nodes).stride + (i)))
#define MAGNITUDE(x) as_float16(as_int16(x) & 0x7fffffff)
#define LESSER(a, b) ((b) < (a) ? (b) : (a))
#define GREATER(a, b) ((b) > (a) ? (b) : (a))

/* Of sixteen nodes from number `i` on. */
float16 scores(const nodes_t nodes, const int i, const float4 p)
{
    const float16 score =
        PLANE(nodes, DIMS, i) - p.x * PLANE(nodes, 0, i) - p.y * PLANE(nodes, 1, i) - p.z * PLANE(nodes, 2, i);
    return DIMS == 4 ? score - p.w * PLANE(nodes, 3, i) : score;
}

float4 coordinates_of(const ushort4 kept)
{
    return convert_float4(kept.s1230) * (float)(1 << SEARCH_SHIFT) * (float4)(1.0f, 1.0f, 1.0f, DIMS == 4);
}

/* The node with the least score, the lowest of equals. */
int nearest_node(const nodes_t nodes, const float4 p, float *score)
{
    float16 best = (float16)(MAXFLOAT);
    int16 place = (int16)(0), here = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int i = 0; i < nodes.count; i += 16) {
        const float16 now = scores(nodes, i, p);
        const int16 less = now < best;
        best = less ? now : best;
        place = less ? here : place;
        here += 16;
    }
    const float8 eight = LESSER(best.lo, best.hi);
    const float4 four = LESSER(eight.lo, eight.hi);
    const float2 two = LESSER(four.lo, four.hi);
    const float least = LESSER(two.x, two.y);
    *score = least;
    const int16 places = best == (float16)(least) ? place : (int16)(INT_MAX);
    const int8 of_eight = LESSER(places.lo, places.hi);
    const int4 of_four = LESSER(of_eight.lo, of_eight.hi);
    const int2 of_two = LESSER(of_four.lo, of_four.hi);
    return LESSER(of_two.x, of_two.y);
}

/* Which bits a number of four bits has, a byte each from the lowest on. */
__constant uint BITS[16] = {0, 0,     1,     0x100,   2,     0x200,   0x201,   0x20100,
                            3, 0x300, 0x301, 0x30100, 0x302, 0x30200, 0x30201, 0x3020100};

/* How many bits a number of four bits has. */
#define BIT_COUNT(bits) ((int)(0x4332322132212110UL >> 4 * (bits) & 7))

/* Lists those of eight nodes from number `first` on whose byte is 255, not 0, and returns how many are listed then. No
 * branch depends on them, as it would often be foretold wrongly. */
int list_marked(const ulong marks, const int first, __local int *places, int count)
{
    const uint bits = (uint)((marks & 0x0101010101010101UL) * 0x0102040810204080UL >> 56);
    *(__local loose_places_t *)(places + count) = convert_int4(as_uchar4(BITS[bits & 15])) + first;
    count += BIT_COUNT(bits & 15);
    *(__local loose_places_t *)(places + count) = convert_int4(as_uchar4(BITS[bits >> 4])) + (first + 4);
    return count + BIT_COUNT(bits >> 4);
}

/* Lists the nodes that may be nearest to a point between two corners, in their order, and returns how many they are. */
int list_near(const nodes_t nodes, const ushort4 low, const ushort4 high, __local int *places)
{
    const float4 from = coordinates_of(low), to = coordinates_of(high);
    const float4 middle = 0.5f * (from + to), half_side = to - middle;
    float least;
    const int nearest = nearest_node(nodes, middle, &least);
    __local const float *m = nodes.planes + nearest;
    const float4 there = (float4)(m[0], m[nodes.stride], m[2 * nodes.stride], DIMS == 4 ? m[3 * nodes.stride] : 0.0f);
    int count = 0;
    for (int i = 0; i < nodes.count; i += 16) {
        float16 leeway = half_side.x * MAGNITUDE(PLANE(nodes, 0, i) - there.x) +
                         half_side.y * MAGNITUDE(PLANE(nodes, 1, i) - there.y) +
                         half_side.z * MAGNITUDE(PLANE(nodes, 2, i) - there.z);
        if (DIMS == 4)
            leeway += half_side.w * MAGNITUDE(PLANE(nodes, 3, i) - there.w);
        const ulong2 marks = as_ulong2(convert_char16(scores(nodes, i, middle) - least <= leeway));
        count = list_marked(marks.x, i, places, count);
        count = list_marked(marks.y, i + 8, places, count);
    }
    return count;
}

/* The corners of sixteen points' box. */
void find_box(const ulong *points, ushort4 *low, ushort4 *high)
{
    const loose_shorts_t *all = (const loose_shorts_t *)points;
    const ushort16 a = all[0], b = all[1], c = all[2], d = all[3];
    const ushort16 lab = LESSER(a, b), lcd = LESSER(c, d), hab = GREATER(a, b), hcd = GREATER(c, d);
    const ushort16 l = LESSER(lab, lcd), h = GREATER(hab, hcd);
    const ushort8 l8 = LESSER(l.lo, l.hi), h8 = GREATER(h.lo, h.hi);
    *low = LESSER(l8.lo, l8.hi);
    *high = GREATER(h8.lo, h8.hi);
}

/* Sixteen points' coordinates. */
typedef struct {
    float16 x, y, z, w;
} sixteen_t;

sixteen_t sixteen_of(const ulong *points)
{
    const ulong16 p = *(const loose_points_t *)points;
    const float unit = (float)(1 << SEARCH_SHIFT);
    const sixteen_t sixteen = {convert_float16(convert_int16(p >> 16UL & 65535UL)) * unit,
                               convert_float16(convert_int16(p >> 32UL & 65535UL)) * unit,
                               convert_float16(convert_int16(p >> 48UL)) * unit,
                               convert_float16(convert_int16(p & 65535UL)) * unit};
    return sixteen;
}

#define COMPARE(score, best, winner, i)                                                                                \
    {                                                                                                                  \
        const int16 less = (score) < best;                                                                             \
        best = less ? (score) : best;                                                                                  \
        winner = less ? (int16)(i) : winner;                                                                           \
    }

/* The nearest of `count` nodes: the first ones, or those in a list. */
int16 search_sixteen(const nodes_t nodes, const int count, const int listed, __local const int *places,
                     const ulong *points)
{
    const sixteen_t p = sixteen_of(points);
    float16 best = (float16)(MAXFLOAT);
    int16 winner = (int16)(0);
    for (int k = 0; k < count; ++k) {
        const int i = listed ? places[k] : k;
        __local const float *n = nodes.planes + i;
        float16 score = n[DIMS * nodes.stride] - n[0] * p.x - n[nodes.stride] * p.y - n[2 * nodes.stride] * p.z;
        if (DIMS == 4)
            score -= n[3 * nodes.stride] * p.w;
        COMPARE(score, best, winner, i)
    }
    return winner;
}

/* Fills a block's last sixteen up with copies of its last point, and returns how many sixteens they are. */
SMALL uint fill_up(block_t *block)
{
    const uint sixteens = (block->count + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
    FEW_TURNS
    for (uint k = block->count; k < sixteens * SIDE_BY_SIDE; ++k)
        block->points[k] = block->points[block->count - 1];
    return sixteens;
}

/* The winners of a block's points among all nodes.
 *   network  DIMS + 1 planes
 *   list     DIMS + 2 planes: the nodes that a block's points may have, as in `network`, and their indices
 *   places   PADDED */
void find_winners(block_t *block, const int colors, __local const float *network, __local float *list,
                  __local int *places)
{
    const uint sixteens = fill_up(block);
    const nodes_t all_nodes = {network, PADDED(colors), colors};
    if (colors <= FEW_NODES) {
        for (uint s = 0; s < sixteens; ++s)
            *(loose_ints_t *)(block->winners + s * SIDE_BY_SIDE) =
                search_sixteen(all_nodes, colors, 0, places, block->points + s * SIDE_BY_SIDE);
        return;
    }
    ushort4 low[BOXES], high[BOXES];
    ushort4 lowest = (ushort4)(65535), highest = (ushort4)(0);
    FEW_TURNS
    for (uint s = 0; s < sixteens; ++s) {
        find_box(block->points + s * SIDE_BY_SIDE, low + s, high + s);
        lowest = LESSER(lowest, low[s]);
        highest = GREATER(highest, high[s]);
    }
    __local int *indices = (__local int *)(list + (DIMS + 1) * PADDED(colors));
    const nodes_t near = {list, PADDED(colors), list_near(all_nodes, lowest, highest, places)};
    FEW_TURNS
    for (int k = 0; k < near.count; ++k) {
        const int i = places[k];
        list[k] = network[i];
        list[PADDED(colors) + k] = network[PADDED(colors) + i];
        list[2 * PADDED(colors) + k] = network[2 * PADDED(colors) + i];
        list[3 * PADDED(colors) + k] = network[3 * PADDED(colors) + i];
#if DIMS == 4
        list[4 * PADDED(colors) + k] = network[4 * PADDED(colors) + i];
#endif
        indices[k] = i;
    }
    FEW_TURNS
    for (int k = near.count; k & 15; ++k)
        for (int c = 0; c <= DIMS; ++c)
            list[c * PADDED(colors) + k] = c == DIMS ? NO_NODE : 0.0f;
    for (uint s = 0; s < sixteens; ++s) {
        const int listed = near.count > FEW_OF_BLOCK;
        const int count = listed ? list_near(near, low[s], high[s], places) : near.count;
        int *winners = block->winners + s * SIDE_BY_SIDE;
        *(loose_ints_t *)winners = search_sixteen(near, count, listed, places, block->points + s * SIDE_BY_SIDE);
        FEW_TURNS
        for (int k = 0; k < SIDE_BY_SIDE; ++k)
            winners[k] = indices[winners[k]];
    }
}

/* A node as searches see it, in its place of the planes. */
void show_in_planes(__local float *network, const int colors, const int i, const int4 node)
{
    const float4 n = search_point(node);
    network[i] = n.x;
    network[PADDED(colors) + i] = n.y;
    network[2 * PADDED(colors) + i] = n.z;
#if DIMS == 4
    network[3 * PADDED(colors) + i] = n.w;
#endif
    network[DIMS * PADDED(colors) + i] = 0.5f * (n.x * n.x + n.y * n.y + n.z * n.z + (DIMS == 4 ? n.w * n.w : 0.0f));
}

/* The planes beyond the last node. */
SMALL void show_no_nodes(__local float *network, const int colors)
{
    FEW_TURNS
    for (int i = colors; i < PADDED(colors); ++i)
        for (int c = 0; c <= DIMS; ++c)
            network[c * PADDED(colors) + i] = c == DIMS ? NO_NODE : 0.0f;
}

/* What nodes won, in planes in the place of the network: how many points, and the sums of DIMS coordinates, each plane
 * between margins of zeros, which no distance that is pulled over exceeds (a quarter of all nodes). */
#define MARGIN(k) (PADDED(k) / 4)
#define WON_PLANE(k) (PADDED(k) + 2 * MARGIN(k))

/* Sets to zero what is no node's. */
SMALL void clear_margins(__local uint *won, const int colors)
{
    for (int c = 0; c <= DIMS; ++c) {
        FEW_TURNS
        for (int i = 0; i < MARGIN(colors); ++i)
            won[c * WON_PLANE(colors) + i] = 0;
        FEW_TURNS
        for (int i = MARGIN(colors) + colors; i < WON_PLANE(colors); ++i)
            won[c * WON_PLANE(colors) + i] = 0;
    }
}

/* A node by DRAW of neuquant/map.h. */
SMALL int4 drawn_node(const int4 node, const uint weight, const ulong x, const ulong y, const ulong z, const ulong w,
                      __global const uint *restrict decay){DRAW(node, weight, x, y, z, w, decay)}

/* What eight nodes' neighbours on both sides won; `other` is 0 if the two are the same nodes. */
uint8 both_sides(__local const uint *left, __local const uint *right, const uint other)
{
    return *(__local const loose_words_t *)left + (*(__local const loose_words_t *)right & other);
}

/* As updated_node, of all nodes, eight at a time. */
void update_nodes(__local const uint *won, const int colors, __global const int *restrict pull, const int reach,
                  __global const uint *restrict decay, __local int4 *nodes)
{
    for (int first = 0; first < colors; first += 8) {
        __local const uint *here = won + MARGIN(colors) + first;
        uint8 weight = (uint8)(0);
        ulong8 x = (ulong8)(0), y = x, z = x, w = x;
        for (int d = 0; d < reach; ++d) {
            const uint l = (uint)pull[d];
            const uint other = d > 0 ? 0xffffffffu : 0;
            __local const uint *left = here - d, *right = here + d;
            const int plane = WON_PLANE(colors);
            weight += l * both_sides(left, right, other);
            x += (ulong)l * convert_ulong8(both_sides(left + plane, right + plane, other));
            y += (ulong)l * convert_ulong8(both_sides(left + 2 * plane, right + 2 * plane, other));
            z += (ulong)l * convert_ulong8(both_sides(left + 3 * plane, right + 3 * plane, other));
#if DIMS == 4
            w += (ulong)l * convert_ulong8(both_sides(left + 4 * plane, right + 4 * plane, other));
#endif
        }
        uint weights[8];
        ulong sums[32];
        vstore8(weight, 0, weights);
        vstore8(x, 0, sums);
        vstore8(y, 1, sums);
        vstore8(z, 2, sums);
        vstore8(w, 3, sums);
        FEW_TURNS
        for (int k = 0; k < 8 && first + k < colors; ++k)
            nodes[first + k] =
                drawn_node(nodes[first + k], weights[k], sums[k], sums[8 + k], sums[16 + k], sums[24 + k], decay);
    }
}
