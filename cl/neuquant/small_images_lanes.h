/* The search for many small pictures on CPUs: a picture is one work-item's, its points are searched for a block
 * at once.
 *
 * Constants from the host: those of neuquant/small_images.h; LOCAL is 1. */

#define SEARCHED(k) ((2 * DIMS + 4) * PADDED(k) / 4)
#define LIST_AT(memory, k) ((__local float *)((memory) + NETWORK_AT(k)) + (DIMS + 1) * PADDED(k))
#define PLACES_AT(memory, k) ((__local int *)(LIST_AT(memory, k) + (DIMS + 2) * PADDED(k)))
/* The other half of the sums: what is added to a node must not wait for the addition just before. */
#define BANK_AT(k) END_AT(k)

#include "neuquant/map.h"
#include "neuquant/search_lanes.h"
#include "neuquant/small_images.h"
#include "neuquant/point_order.h"

/* What a picture is learned from. */
typedef struct {
    __global const ushort4 *points;  /* its colours, or its pixels if those are too many */
    __global uint *often;            /* how often a step has each; zero between steps of the map */
    __global const ushort *places;   /* each pixel's point, if `placed`; else they have the same number */
    uint placed, count; /* count: of points; where a transparent pixel has its place, point count + 15 is 0 */
    uint start, total; /* see spread_place */
} picture_t;

/* Adds a point to what its winner has, with its squares if they are wanted. */
void add_point(__local uint4 *memory, const int colors, const int winner, const ushort4 point, const uint weight,
               const int squares)
{
    uint4 value = convert_uint4(point);
    const uint4 xyzw = (uint4)(value.s123, DIMS == 4 ? value.s0 : 0);
    value.s0 = 1;
    const uint4 square = xyzw * xyzw;
    memory[winner] += value * weight;
    if (squares) {
        memory[SQUARES_AT(colors) + winner] += (WIDE ? square & LOW_MASK : square) * weight;
        if (WIDE)
            memory[HIGH_AT(colors) + winner] += (square >> SPLIT_BITS) * weight;
    }
    if (DIMS == 4)
        ((__local uint *)(memory + FOURTHS_AT(colors)))[winner] += xyzw.w * weight;
}

#if CITY_BLOCK
/* The winners of a block's points by the sum of absolute differences, less biases if there are any; `plain` without. */
void find_city_winners(block_t *block, const int colors, __local const float *network, __local const float *bias,
                       int *plain)
{
    const uint sixteens = fill_up(block);
    for (uint s = 0; s < sixteens; ++s) {
        const sixteen_t p = sixteen_of(block->points + s * SIDE_BY_SIDE);
        float16 best = (float16)(MAXFLOAT), least = best;
        int16 winner = (int16)(0), plain_winner = winner;
        for (int i = 0; i < colors; ++i) {
            __local const float *n = network + i;
            float16 city =
                MAGNITUDE(n[0] - p.x) + MAGNITUDE(n[PADDED(colors)] - p.y) + MAGNITUDE(n[2 * PADDED(colors)] - p.z);
            if (DIMS == 4)
                city += MAGNITUDE(n[3 * PADDED(colors)] - p.w);
#if CONSCIENCE
            COMPARE(city, least, plain_winner, i)
            city -= bias[i];
#endif
            COMPARE(city, best, winner, i)
        }
        *(loose_ints_t *)(block->winners + s * SIDE_BY_SIDE) = winner;
        *(loose_ints_t *)(plain + s * SIDE_BY_SIDE) = plain_winner;
    }
}
#endif

/* Adds the first points of a block, at most BLOCK, to the totals of their winners: in the map by its own rules, in the
 * refinement by squared distance and with squares. What is left becomes the block. */
void assign_block(__local uint4 *memory, const int colors, block_t *block, const int refining)
{
    const uint count = block->count, points = min(count, (uint)BLOCK);
    __local const float *network = (__local const float *)(memory + NETWORK_AT(colors));
    block->count = points;
#if CITY_BLOCK
    if (!refining) {
        int plain[BLOCK];
        find_city_winners(block, colors, network, (__local const float *)(memory + BIAS_AT(colors)), plain);
#if CONSCIENCE
        __local uint *wins = (__local uint *)(memory + WINS_AT(colors));
        for (uint k = 0; k < points; ++k)
            wins[plain[k]] += block->weights[k];
#endif
    } else
#endif
        find_winners(block, colors, network, LIST_AT(memory, colors), PLACES_AT(memory, colors));
    FEW_TURNS
    for (uint k = 0; k < points; ++k)
        add_point(memory + (k & 1 ? BANK_AT(colors) : 0), colors, block->winners[k], as_ushort4(block->points[k]),
                  block->weights[k], refining);
    FEW_TURNS
    for (uint k = points; k < count; ++k) {
        block->points[k - points] = block->points[k];
        block->weights[k - points] = block->weights[k];
    }
    block->count = count - points;
}

/* Writes a point behind the first `count` of a block, and returns how many they are if it is neither passed over nor
 * missing. */
uint take_point(block_t *block, const uint count, const ushort4 point, const uint weight)
{
    block->points[count] = as_ulong(point);
    block->weights[count] = weight;
    return count + (point.s0 > 0 && weight > 0);
}

/* Adds what is left in the block, and the two halves of the sums. */
void end_assignment(__local uint4 *memory, const int colors, block_t *block, const int refining)
{
    if (block->count)
        assign_block(memory, colors, block, refining);
    FEW_TURNS
    for (int i = 0; i < (refining ? NODES_AT(colors) : SQUARES_AT(colors)); ++i) {
        memory[i] += memory[BANK_AT(colors) + i];
        memory[BANK_AT(colors) + i] = (uint4)(0);
    }
}

/* Adds points as often as is noted, and forgets that in the map. */
void assign_counted(__local uint4 *memory, const int colors, const picture_t from, const int refining)
{
    block_t block;
    uint taken = 0;
    for (uint i = 0; i < from.count; i += 8) {
        FEW_TURNS
        for (uint k = 0; k < 8; ++k)
            taken = take_point(&block, taken, from.points[i + k], from.often[i + k]);
        if (!refining)
            vstore8((uint8)(0), 0, from.often + i);
        if (taken >= BLOCK) {
            block.count = taken;
            assign_block(memory, colors, &block, refining);
            taken = block.count;
        }
    }
    block.count = taken;
    end_assignment(memory, colors, &block, refining);
}

uint point_of(const picture_t from, const uint sample)
{
    const uint pixel = spread_place(sample, from.start, from.total);
    return from.placed ? from.places[pixel] : pixel;
}

/* Notes how often `count` samples from number `first` on have each point. */
void count_samples(const picture_t from, const uint first, const uint count)
{
    FEW_TURNS
    for (uint k = 0; k < count; ++k)
        ++from.often[point_of(from, first + k)];
}

/* Adds `count` samples from number `first` on, one after another. */
void assign_samples(__local uint4 *memory, const int colors, const picture_t from, const uint first, const uint count)
{
    block_t block;
    uint taken = 0;
    for (uint k = 0; k < count; ++k) {
        taken = take_point(&block, taken, from.points[point_of(from, first + k)], 1);
        if (taken == BLOCK) {
            block.count = taken;
            assign_block(memory, colors, &block, 0);
            taken = 0;
        }
    }
    block.count = taken;
    end_assignment(memory, colors, &block, 0);
}

/* What nodes won, as update_nodes takes it. */
void spread_won(__local const uint4 *memory, const int colors)
{
    __local uint *won = (__local uint *)(memory + NETWORK_AT(colors)) + MARGIN(colors);
    clear_margins(won - MARGIN(colors), colors);
    FEW_TURNS
    for (int i = 0; i < colors; ++i) {
        const uint4 totals = memory[i];
        won[i] = totals.x;
        won[WON_PLANE(colors) + i] = totals.y;
        won[2 * WON_PLANE(colors) + i] = totals.z;
        won[3 * WON_PLANE(colors) + i] = totals.w;
#if DIMS == 4
        won[4 * WON_PLANE(colors) + i] = ((__local const uint *)(memory + FOURTHS_AT(colors)))[i];
#endif
    }
}

/* As find_partners of neuquant/refine.h, eight nodes at a time. Nodes without points have none, which nothing asks for.
 */
void find_partners_in_lanes(const refined_t r, const int colors, const int moves, __local float *planes)
{
    __local float *halves = planes + DIMS * PADDED(colors);
    const nodes_t centres = {planes, PADDED(colors), colors};
    FEW_TURNS
    for (int i = 0; i < PADDED(colors) && moves; ++i) {
        const float4 c = i < colors ? r.centres[i] : (float4)(FAR_AWAY);
        planes[i] = c.x;
        planes[PADDED(colors) + i] = c.y;
        planes[2 * PADDED(colors) + i] = c.z;
#if DIMS == 4
        planes[3 * PADDED(colors) + i] = c.w;
#endif
        /* Whole or half, and exact, of a node with points. */
        const float square = c.x * c.x + c.y * c.y + c.z * c.z + (DIMS == 4 ? c.w * c.w : 0.0f);
        halves[i] = c.x == FAR_AWAY ? NO_NODE : 0.5f * square;
    }
    for (int i = 0; i < colors; ++i) {
        r.partners[i] = -1;
        if (!moves || r.centres[i].x == FAR_AWAY)
            continue;
        const float own = halves[i];
        float score;
        halves[i] = NO_NODE;
        const int nearest = nearest_node(centres, r.centres[i], &score);
        halves[i] = own;
        /* Of a node with points it is below 2^23. */
        if (score < 16777216.0f)
            r.partners[i] = nearest;
    }
}
