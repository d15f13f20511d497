/* Seeding k-means by D^2 sampling in one launch: all of kmeans/seeding.cl, which has the source and why it is exact.
 *
 * In a round the warps of all groups lower the points' distances by the last round's centers and add them up by blocks;
 * the groups meet; then each of them draws all of the round's centers for itself, a center a warp. Distances and sums
 * are written to one of two places in turn, as groups that draw still read the other.
 *
 * Constants: DIMS 3 or 4; DEVICE_FENCE of common/grid_barrier.h; WARP of common/warps.h; GROUP: work-items of a
 * work-group, whole warps.
 */
#define CENTERS __local
#include "common/grid_barrier.h"
#include "common/philox.h"
#include "common/compile_hints.h"
#include "kmeans/seeding.h"
#include "common/warps.h"

/* Four points a lane. */
#define BLOCK (4 * WARP)
#define WARPS (GROUP / WARP)

/* Weighted squared distances of four points, 0 of those from n on. */
ulong4 masses_of(__global const uint *weights, float4 squared, uint i, uint n)
{
    const uint4 mass = (uint4)(weights[min(i, n - 1)], i + 1 < n ? weights[i + 1] : 0, i + 2 < n ? weights[i + 2] : 0,
                               i + 3 < n ? weights[i + 3] : 0);
    return i < n ? convert_ulong4(mass) * convert_ulong4(convert_uint4(squared)) : (ulong4)0;
}

/* Draws all k centers, `a_round` a round after the first.
 * NDRange: 1-D, so few groups that all are there at once. distances: (2, room) float, room of whole blocks; block_sums:
 * (2, blocks) ulong; words as in common/grid_barrier.h; key: the seed's words; places: (DIMS, k) floats. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void seed_centers(
    __global const float *points, uint stride, __global const uint *weights, uint n, __global float *centers, uint k,
    uint k_stride, uint a_round, uint2 key, __global float *distances, __global ulong *block_sums, __global uint *words,
    __local float *places)
{
    __local uint told;
    __local ulong prefix[GROUP];
    __local ulong of_warps[WARPS];
    const uint lid = get_local_id(0);
    const uint lane = lid % WARP;
    const uint warp = lid / WARP;
    const uint blocks = (n + BLOCK - 1) / BLOCK;
    const uint run = (blocks + GROUP - 1) / GROUP;
    GridBarrier grid = grid_enter(words, &told);
    uint first = 0;
    uint count = 0;
    for (uint round = 0; grid.groups && first + count < k; round++) {
        __global float *now = distances + (round & 1) * (blocks * BLOCK);
        __global const float *before = distances + (~round & 1) * (blocks * BLOCK);
        __global ulong *sums = block_sums + (round & 1) * blocks;
        for (uint b = warp * grid.groups + grid.index; b < blocks; b += WARPS * grid.groups) {
            const uint i = b * BLOCK + 4 * lane;
            float4 best = first ? vload4(0, before + i) : (float4)(count ? FLT_MAX : 1.0f);
            float4 x[DIMS];
#pragma unroll
            for (int d = 0; d < DIMS; d++)
                x[d] = vload4(0, points + d * stride + min(i, (n - 1) / 4 * 4));
            best = lowered(best, x, places, k, first, count);
            vstore4(best, 0, now + i);
            const ulong4 masses = masses_of(weights, best, i, n);
            const ulong sum = sum_of_lanes(masses.x + masses.y + masses.z + masses.w);
            if (lane == 0)
                sums[b] = sum;
        }
        grid_sync(&grid);
        first += count;
        count = first ? min(k - first, a_round) : 1;
        ulong own = 0;
        for (uint b = lid * run; b < min(blocks, (lid + 1) * run); b++)
            own += sums[b];
        own += sum_of_lower_lanes(own, lane);
        if (lane == WARP - 1)
            of_warps[warp] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint w = 0; w < warp; w++)
            own += of_warps[w];
        prefix[lid] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        const ulong total = prefix[GROUP - 1];
        for (uint j = warp; j < count; j += WARPS) {
            const ulong target = drawn_target(first, j, count, total, key);
            uint low = 0;
            uint high = GROUP - 1;
            while (low < high) {
                const uint middle = (low + high) / 2;
                if (prefix[middle] > target)
                    high = middle;
                else
                    low = middle + 1;
            }
            ulong passed = low ? prefix[low - 1] : 0;
            uint b = min(low * run, blocks - 1);
            while (b + 1 < min(blocks, (low + 1) * run) && passed + sums[b] <= target)
                passed += sums[b++];
            uint i = b * BLOCK + 4 * lane;
            const ulong4 masses = masses_of(weights, vload4(0, now + i), i, n);
            const ulong four = masses.x + masses.y + masses.z + masses.w;
            passed += sum_of_lower_lanes(four, lane);
            int found = passed <= target && target < passed + four;
            passed += masses.x;
            i += passed <= target;
            passed += masses.y;
            i += passed <= target;
            passed += masses.z;
            i += passed <= target;
            if (!total) { /* the first point, where all are centers */
                found = lane == 0;
                i = 0;
            }
            for (int d = 0; d < (found ? DIMS : 0); d++)
                places[d * k + first + j] = points[d * stride + i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (grid.groups && grid.index == 0)
        for (uint d = 0; d < DIMS; d++)
            for (uint j = lid; j < k; j += GROUP)
                centers[d * k_stride + j] = places[d * k + j];
    grid_exit(&grid, &told);
}
