/* Assigning the points of tiles by warps: work-items of a group that go in step, share a tile and need no barriers.
 * kmeans/lloyd.cl has the layout, why all of it is exact, and the same for whole groups.
 *
 * Constants: WARP of common/warps.h; ROWS: points of a work-item at a time; SHORTLIST: centers of a tile's list that
 * are looked at together, at least WARP and a multiple of AT_ONCE.
 */
#include "common/warps.h"

/* Listed centers that points are compared with side by side, and what fills up their number. */
#define AT_ONCE 4
#define FAR (float4)(16384.0f)

/* What is assigned, see `assign_tiles` of lloyd.cl. */
typedef struct {
    __global const float *points;
    uint stride;
    __global const uint *weights;
    __global const uint *starts;
    __global const float *boxes;
    uint n;
} Tiles;

/* A warp's lane, and what of the local memory is its own: centers listed, and their names; of a point for each lane its
 * coordinates, and weight, squared distance and slot. */
typedef struct {
    uint lane;
    __local float4 *listed;
    __local ushort *names;
    __local float4 *coordinates;
    __local uint4 *facts;
} Warp;

/* The center nearest to the middle of a box. Squared distances are not below 0, so their bits are ordered as they are.
 */
uint nearest_of_lanes(const float *low, const float *high, __local const float *centers, uint k, uint k_stride,
                      uint lane)
{
    float best = FLT_MAX;
    uint nearest = 0;
    for (uint j = lane; j < k; j += WARP) {
        float distance = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float from_middle = centers[d * k_stride + j] - 0.5f * (low[d] + high[d]);
            distance += from_middle * from_middle;
        }
        nearest = distance < best ? j : nearest;
        best = min(distance, best);
    }
    const uint least = least_of_lanes(as_uint(best));
    return least_of_lanes(least == as_uint(best) ? nearest : UINT_MAX);
}

/* Lists, in ascending index, the centers from *from on that can be nearest to a point of a box, as far as there is
 * room, and moves *from on; returns how many. s: the pivot (see `greatest_lead`). */
uint list_by_lanes(const float *low, const float *high, const float *s, __local const float *centers, uint k,
                   uint k_stride, uint *from, const Warp *w)
{
    uint n = 0;
    uint begin = *from;
    wait_for_lanes();
    for (; begin < k; begin += WARP) {
        const uint j = begin + w->lane;
        float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            c[d] = centers[d * k_stride + min(j, k - 1)];
        const int stays = j < k && greatest_lead(low, high, s, c) >= 0.0f;
        const uint staying = votes(stays);
        if (n + popcount(staying) > SHORTLIST)
            break;
        const uint at = n + popcount(staying & ((1u << w->lane) - 1u));
        if (stays) {
            w->listed[at] = (float4)(c[0], c[1], c[2], c[3]);
            w->names[at] = (ushort)j;
        }
        n += popcount(staying);
    }
    *from = begin;
    /* Whole blocks, of centers that are farther than all others. */
    for (uint at = n + w->lane; at < (n + AT_ONCE - 1) / AT_ONCE * AT_ONCE; at += WARP)
        w->listed[at] = FAR;
    wait_for_lanes();
    return n;
}

/* Adds the points of a warp, each at `best` from the center `who`, to the sums (k, STATS); UINT_MAX: none. Center by
 * center: for lists too long for `add_by_slots`. */
INLINED void add_by_centers(float x[ROWS][DIMS], const uint *weight, const float *best, uint *who,
                            __local const float *centers, uint k_stride, uint by_axis, __global ulong *sums, uint lane)
{
    for (;;) {
        uint j = UINT_MAX;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            j = min(j, who[r]);
        j = least_of_lanes(j);
        if (j == UINT_MAX)
            break;
        for (uint s = 0; s < (by_axis ? STATS : 2 + DIMS); s++) {
            ulong sum = 0;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                uint factor = s ? (uint)best[r] : 1;
#pragma unroll
                for (int d = 0; d < DIMS; d++) {
                    const float difference = x[r][d] - centers[d * k_stride + j];
                    factor = s == 1 + d ? (uint)x[r][d] : factor;
                    factor = by_axis && s == 1 + DIMS + d ? (uint)(difference * difference) : factor;
                }
                sum += (ulong)(who[r] == j ? weight[r] : 0) * factor;
            }
            sum = sum_of_lanes(sum);
            if (lane == 0)
                atom_add(&sums[j * STATS + s], sum);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            who[r] = who[r] == j ? UINT_MAX : who[r];
    }
}

/* The same of points whose centers are at the places `slot` of the warp's list; UINT_MAX: none. A part of the warp
 * takes TAKERS of the centers that have points, one each, and looks at every PARTS-th point. */
INLINED void add_by_slots(float x[ROWS][DIMS], const uint *weight, const float *best, const uint *slot, uint by_axis,
                          __global ulong *sums, const Warp *w)
{
    const uint part = w->lane / TAKERS;
    ulong left = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        left |= slot[r] < SHORTLIST ? (ulong)1 << slot[r] : 0;
    left = union_of_lanes(left);
    while (left) {
        ulong from = left;
#pragma unroll
        for (uint i = 0; i < TAKERS; i++) {
            from = i < w->lane % TAKERS ? from & (from - 1) : from;
            left &= left - 1;
        }
        const uint own = from ? 63 - (uint)clz(from & -from) : SHORTLIST;
        const float4 center = w->listed[min(own, (uint)SHORTLIST - 1)];
        const float c[4] = {center.x, center.y, center.z, center.w};
        ulong total[STATS];
#pragma unroll
        for (int s = 0; s < STATS; s++)
            total[s] = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            wait_for_lanes();
            w->coordinates[w->lane] = (float4)(x[r][0], x[r][1], x[r][2], DIMS > 3 ? x[r][DIMS - 1] : 0.0f);
            w->facts[w->lane] = (uint4)(weight[r], (uint)best[r], slot[r], 0);
            wait_for_lanes();
#pragma unroll 4
            for (uint i = part; i < WARP; i += PARTS) {
                const float4 place = w->coordinates[i];
                const float at[4] = {place.x, place.y, place.z, place.w};
                const uint4 fact = w->facts[i];
                const uint mass = fact.z == own ? fact.x : 0;
                total[0] += mass;
#pragma unroll
                for (int d = 0; d < DIMS; d++)
                    total[1 + d] += (ulong)mass * (uint)at[d];
                if (by_axis) {
#pragma unroll
                    for (int d = 0; d < DIMS; d++)
                        total[1 + DIMS + d] += (ulong)mass * (uint)((at[d] - c[d]) * (at[d] - c[d]));
                } else
                    total[1 + DIMS] += (ulong)mass * fact.y;
            }
        }
        const uint used = by_axis ? STATS : 2 + DIMS;
#pragma unroll
        for (int s = 0; s < STATS; s++)
            if (s < 2 + DIMS || by_axis)
                total[s] = sum_of_parts(total[s]);
#pragma unroll
        for (int s = 0; s < STATS; s += PARTS) {
            ulong mine = total[s];
#pragma unroll
            for (int q = 1; q < PARTS; q++)
                mine = part == q ? total[min(s + q, STATS - 1)] : mine;
            if (s + part < used && own < SHORTLIST)
                atom_add(&sums[w->names[own] * STATS + s + part], mine);
        }
    }
}

/* Assigns the points of every tiles-th tile from `tile` on to their nearest centers, ties to the lowest index, and adds
 * up the centers' statistics. centers (DIMS, k_stride). */
INLINED void assign_by_warp(const Tiles *t, __local const float *centers, uint k, uint k_stride, uint by_axis,
                            __global ulong *sums, uint tile, uint tiles, const Warp *w)
{
    for (; tile < t->n; tile += tiles) {
        float low[DIMS], high[DIMS], s[DIMS];
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            low[d] = t->boxes[d * t->n + tile];
            high[d] = t->boxes[(DIMS + d) * t->n + tile];
        }
        const uint start = t->starts[tile];
        const uint end = t->starts[tile + 1];
        int whole = 0;
        uint listed = 0;
        for (uint begin = start; begin < end; begin += ROWS * WARP) {
            float x[ROWS][DIMS], best[ROWS];
            uint weight[ROWS], who[ROWS], slot[ROWS];
            /* The points are on their way while the list is made. */
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const uint i = min(begin + r * WARP + w->lane, end - 1);
                load_point(t->points, t->stride, i, x[r]);
                weight[r] = t->weights[i];
                best[r] = FLT_MAX;
                who[r] = UINT_MAX;
            }
            if (begin == start) {
                const uint pivot = nearest_of_lanes(low, high, centers, k, k_stride, w->lane);
#pragma unroll
                for (int d = 0; d < DIMS; d++)
                    s[d] = centers[d * k_stride + pivot];
            }
            uint from = whole ? k : 0;
            do {
                if (!whole) {
                    const uint first = from;
                    listed = list_by_lanes(low, high, s, centers, k, k_stride, &from, w);
                    whole = first == 0 && from >= k;
                }
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    slot[r] = UINT_MAX;
                for (uint block = 0; block < listed; block += AT_ONCE) {
#pragma unroll
                    for (uint m = block; m < block + AT_ONCE; m++) {
                        const float4 center = w->listed[m];
                        const float c[4] = {center.x, center.y, center.z, center.w};
#pragma unroll
                        for (int r = 0; r < ROWS; r++) {
                            float distance = 0.0f;
#pragma unroll
                            for (int d = 0; d < DIMS; d++)
                                distance += (x[r][d] - c[d]) * (x[r][d] - c[d]);
                            slot[r] = distance < best[r] ? m : slot[r];
                            best[r] = min(distance, best[r]);
                        }
                    }
                }
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    who[r] = slot[r] < SHORTLIST ? w->names[slot[r]] : who[r];
            } while (from < k);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (begin + r * WARP + w->lane >= end)
                    who[r] = slot[r] = UINT_MAX;
            if (whole)
                add_by_slots(x, weight, best, slot, by_axis, sums, w);
            else
                add_by_centers(x, weight, best, who, centers, k_stride, by_axis, sums, w->lane);
        }
    }
}
