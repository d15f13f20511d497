/* Many steps of Lloyd's algorithm in one launch, and the rounds of swaps between them: work-groups meet once a step.
 *
 * Each group has all of the centers in its local memory. In a step its warps assign their share of the tiles and add
 * what they find to sums in global memory; the groups meet; then each of them moves all centers by these sums, and
 * swaps them by them, for itself: all find the same, and nobody waits for what another one decides. Each step has sums
 * of its own, which are emptied while a later step adds to others.
 *
 * kmeans/lloyd.cl has the layout of points, tiles, centers and statistics, why all of it is exact, and the sources;
 * sums here are (SUMS, k, STATS) ulong, all 0 before and after a launch.
 * Constants: DIMS 3 or 4; DEVICE_FENCE of common/grid_barrier.h; WARP, ROWS and SHORTLIST of kmeans/lloyd_warps.h;
 * GROUP: work-items of a work-group, whole warps.
 */
#define PLACE __local
#define CENTERS __local
#define TOTAL(totals, k, statistic, j) (totals)[(j) * STATS + (statistic)]
#define FOUR(place) (*(__local const float4 *)(place))
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define MOST_SUMS 2
#include "common/compile_hints.h"
#include "common/group_sums.h"
#include "kmeans/lloyd.h"
#include "kmeans/lloyd_warps.h"
#include "kmeans/lloyd_repair.h"
#include "kmeans/swaps.h"
#include "common/grid_barrier.h"

#define SUMS 4
#define WARPS (GROUP / WARP)
#define ONE_SIZE __attribute__((reqd_work_group_size(GROUP, 1, 1)))

/* What a group does its steps with. */
typedef struct {
    GridBarrier grid;
    Tiles tiles;
    Warp warp;
    uint k;
    uint pinned;
    int4 extents;
    __global ulong *sums;
    __local float *centers; /* (DIMS, k_stride) */
    uint k_stride;          /* whole warps, and vectors of four */
    __local ulong *partial; /* two per warp */
    __local ulong *scratch; /* what a repair and a round of swaps need */
} Grid;

/* How far a group is: as `state` of kmeans/lloyd.cl, and the places of sums that are added to, that the last step has
 * added to, and that are being emptied. */
typedef struct {
    ulong inertia;
    uint steps;
    uint done;
    uint adding;
    uint last;
    uint emptied;
} Chain;

/* Moves the centers to the means of their points; repairs those without. */
INLINED void move_by_sums(const Grid *g, Chain *c, ulong tolerance)
{
    const uint lid = get_local_id(0);
    const uint k = g->k;
    __global const ulong *totals = g->sums + c->last * k * STATS;
    ulong inertia = 0;
    uint moved = 0;
    uint empty = 0;
    for (uint j = lid; j < k; j += GROUP) {
        ulong total[STATS];
#pragma unroll
        for (int s = 0; s < STATS; s++)
            total[s] = TOTAL(totals, k, s, j);
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            inertia += total[1 + DIMS + d];
            if (total[0] && j >= g->pinned) {
                const float mean = mean_of(total[1 + d], total[0]);
                moved |= mean != g->centers[d * g->k_stride + j];
                g->centers[d * g->k_stride + j] = mean;
            }
        }
        empty += total[0] == 0 && j >= g->pinned;
    }
    const ulong both = sum_of_lanes(((ulong)empty << 32) | moved);
    inertia = sum_of_lanes(inertia);
    if (lid % WARP == 0) {
        g->partial[lid / WARP] = inertia;
        g->partial[WARPS + lid / WARP] = both;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    inertia = 0;
    ulong all = 0;
    for (uint i = 0; i < WARPS; i++) {
        inertia += g->partial[i];
        all += g->partial[WARPS + i];
    }
    empty = (uint)(all >> 32);
    c->done = is_last_step(c->steps, c->inertia, inertia, tolerance, (uint)all, empty);
    c->inertia = inertia;
    c->steps++;
    if (empty)
        repair_centers(totals, g->centers, k, g->k_stride, g->pinned, g->extents, inertia, empty,
                       (__local uint *)(g->scratch + 2 * GROUP), g->scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* A step: every group calls it. */
INLINED void step(Grid *g, Chain *c, uint by_axis, ulong tolerance)
{
    const uint words = g->k * STATS;
    /* Neighbouring tiles, which take about as long as each other, go to groups in turn. */
    const uint groups = g->grid.groups;
    const uint tile = get_local_id(0) / WARP * groups + g->grid.index;
    assign_by_warp(&g->tiles, g->centers, g->k, g->k_stride, by_axis, g->sums + c->adding * words, tile, WARPS * groups,
                   &g->warp);
    grid_sync(&g->grid);
    const uint empty = c->emptied;
    c->emptied = c->last;
    c->last = c->adding;
    c->adding = empty;
    for (uint i = g->grid.index * GROUP + get_local_id(0); i < words; i += groups * GROUP)
        g->sums[c->emptied * words + i] = 0;
    move_by_sums(g, c, tolerance);
}

/* Copies the centers to a group, and from the first one back. */
void take_centers(const Grid *g, __global const float *centers, uint k_stride)
{
    for (uint d = 0; d < DIMS; d++)
        for (uint j = get_local_id(0); j < g->k; j += GROUP)
            g->centers[d * g->k_stride + j] = centers[d * k_stride + j];
    barrier(CLK_LOCAL_MEM_FENCE);
}

void give_centers(const Grid *g, const Chain *c, __global float *centers, uint k_stride, __global ulong *totals,
                  __global uint *state)
{
    const uint lid = get_local_id(0);
    if (g->grid.index)
        return;
    for (uint d = 0; d < DIMS; d++)
        for (uint j = lid; j < g->k; j += GROUP)
            centers[d * k_stride + j] = g->centers[d * g->k_stride + j];
    for (uint s = 0; s < STATS; s++)
        for (uint j = lid; j < g->k; j += GROUP)
            totals[s * g->k + j] = g->sums[(c->last * g->k + j) * STATS + s];
    if (lid == 0) {
        state[DONE] = c->done;
        state[STEPS] = c->steps;
        state[INERTIA] = (uint)c->inertia;
        state[INERTIA + 1] = (uint)(c->inertia >> 32);
    }
}

/* The end of every group; the last one empties all sums. */
void end(const Grid *g, __local uint *told)
{
    const int last = grid_exit(&g->grid, told);
    for (uint i = get_local_id(0); i < (last ? SUMS * g->k * STATS : 0); i += GROUP)
        g->sums[i] = 0;
}

/* After the steps of a round: keeps the centers of the lowest inertia, or goes back to them, and swaps some of them. */
typedef struct {
    uint best_sums; /* the place of their sums */
    uint rank, count;
    ulong lowest;
} Swaps;

INLINED void swap_after(Swaps *s, Grid *g, Chain *c, uint swaps_follow, __local float *best)
{
    const uint lid = get_local_id(0);
    const int better = c->inertia < s->lowest;
    for (uint i = lid; i < DIMS * g->k_stride; i += GROUP) {
        if (better)
            best[i] = g->centers[i];
        else
            g->centers[i] = best[i];
    }
    if (better) {
        const uint before = s->best_sums;
        s->best_sums = c->last;
        c->last = before;
        s->lowest = c->inertia;
        s->rank = 0;
    } else if (s->count > 1)
        s->count /= 2;
    else
        s->rank = (s->rank + 1) % g->k;
    c->done = c->steps = 0;
    c->inertia = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const Places places = {best, g->sums + s->best_sums * g->k * STATS, g->k, g->k_stride, g->extents};
    const Marks marks = marks_in(g->scratch, g->k_stride);
    for (uint i = g->k + lid; i < g->k_stride; i += GROUP)
        marks.neighbours[i] = marks.by_cost[i] = marks.by_gain[i] = marks.merges[i] = UINT_MAX;
    for (uint phase = 0; phase < (swaps_follow ? PHASES : 0); phase++) {
        for (uint j = lid; j < g->k; j += GROUP)
            swap_phase(phase, j, &places, &marks, s->count, s->rank, g->centers);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Steps of Lloyd's algorithm until they are done, at most `steps`; see `assign_tiles` of kmeans/lloyd.cl and
 * `update_centers` of lloyd_update.cl. Nothing is done where state[DONE], unless `by_axis` or `fresh`: whether `state`
 * is that of no step yet. With `rounds`, as many rounds less one of swaps in between, so many steps before each of them
 * and after the last one; the centers of the lowest inertia stay (see `keep_best` of kmeans/swaps.cl). One kernel
 * does both, as steps take long to compile.
 *
 * NDRange: 1-D, so few groups that all are there at once. count: swaps that the first round tries. room: DIMS *
 * place_stride floats, with `rounds` twice as many; scratch: for each warp SHORTLIST float4 and ushort and 2 float4 per
 * lane; at least 2 ulong per work-item and 2 uint per center; with `rounds` WORDS_PER_PLACE uint per center. */
__kernel ONE_SIZE void lloyd_rounds(__global const float *points, uint stride, __global const uint *weights,
                                    __global const uint *starts, __global const float *boxes, uint n_tiles,
                                    __global float *centers, uint k, uint k_stride, __global uint *state,
                                    __global ulong *sums, __global ulong *totals, uint pinned, int4 extents,
                                    __global uint *words, __local float4 *room, uint place_stride,
                                    __local float4 *scratch, uint by_axis, ulong tolerance, uint fresh, uint steps,
                                    uint rounds, uint count)
{
    __local uint told;
    __local ulong partial[2 * WARPS];
    const uint own = get_local_id(0) / WARP;
    Grid g;
    g.grid = grid_enter(words, &told);
    g.tiles.points = points;
    g.tiles.stride = stride;
    g.tiles.weights = weights;
    g.tiles.starts = starts;
    g.tiles.boxes = boxes;
    g.tiles.n = n_tiles;
    g.warp.lane = get_local_id(0) % WARP;
    g.warp.listed = scratch + own * (SHORTLIST + 2 * WARP);
    g.warp.coordinates = g.warp.listed + SHORTLIST;
    g.warp.facts = (__local uint4 *)(g.warp.coordinates + WARP);
    g.warp.names = (__local ushort *)(scratch + WARPS * (SHORTLIST + 2 * WARP)) + own * SHORTLIST;
    g.k = k;
    g.pinned = pinned;
    g.extents = extents;
    g.sums = sums;
    g.centers = (__local float *)room;
    g.k_stride = place_stride;
    g.partial = partial;
    g.scratch = (__local ulong *)scratch;
    Chain c = {0, 0, 0, 0, 1, 2};
    Swaps s = {SUMS - 1, 0, count, ULONG_MAX};
    if (g.grid.groups && !fresh) {
        c.done = state[DONE];
        c.steps = state[STEPS];
        c.inertia = ((ulong)state[INERTIA + 1] << 32) | state[INERTIA];
    }
    if (g.grid.groups && (!c.done || by_axis)) {
        take_centers(&g, centers, k_stride);
        for (uint round = 1; round <= max(rounds, 1u); round++) {
            for (uint i = 1; i <= steps; i++) {
                const uint axes = by_axis || (rounds && i == steps);
                if (!c.done || axes)
                    step(&g, &c, axes, tolerance);
            }
            if (rounds)
                swap_after(&s, &g, &c, round < rounds, g.centers + DIMS * place_stride);
        }
        give_centers(&g, &c, centers, k_stride, totals, state);
    }
    end(&g, &told);
}
