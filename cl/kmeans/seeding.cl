/* Seeding k-means by the draws of common/kmeans_plus_plus.h, several centers a round: from one distribution, cut into
 * as many equal strata, one draw in each. All quantities are integers, and sums stay below 2^63 (see weights.h).
 *
 * Constants: DIMS 3 or 4; WIDE_WEIGHTS of weights.h. Layout of points and centers as in lloyd.cl. Points are summed in
 * blocks of BLOCK; a draw goes through one of them, point by point.
 */
#define MOST_SUMS 1
#include "common/kmeans_plus_plus.h"
#include "common/compile_hints.h"
#include "common/group_sums.h"
#include "kmeans/weights.h"

#define BLOCK 128
#define AT_ONCE 64 /* centers that a group draws, and lowers distances by, at a time */

/* Where the j-th of `count` draws from `total` falls, in its stratum; the center's random number is that of counter
 * (first + j, 0, 0, 0). */
ulong drawn_target(uint first, uint j, uint count, ulong total, uint2 key)
{
    const ulong stratum = max(total / count, (ulong)1);
    return min(j * stratum + drawn_below(stratum, (uint4)(first + j, 0, 0, 0), key), total ? total - 1 : 0);
}

/* The point from i on with which the sum of masses, `passed` before i, is above a target. */
uint point_above(__global const Weight *weights, __global const float *distances, uint n, uint i, ulong passed,
                 ulong target)
{
    while (i + 16 < n) {
        ulong some = 0;
#pragma unroll
        for (uint v = i; v < i + 16; v += 4) {
            const ulong4 mass = convert_ulong4(vload4(0, weights + v));
            const ulong4 parts = mass * convert_ulong4(convert_uint4(vload4(0, distances + v)));
            some += parts.x + parts.y + parts.z + parts.w;
        }
        if (passed + some > target)
            break;
        passed += some;
        i += 16;
    }
    for (; i + 1 < n; i++) {
        passed += (ulong)weights[i] * (uint)distances[i];
        if (passed > target)
            break;
    }
    return i;
}

/* A round: draws centers by the distances so far, and lowers each point's squared distance by them.
 * NDRange: 1-D, any number of groups, whose size divides BLOCK / 4; each draws all centers for itself, the first writes
 * them. A work-item takes four points at a time. Planes of points have room for whole vectors.
 * drawn: the first center and how many, which row of distances and sums is of the round before, and the blocks that are
 * lowered, all or none. distances (2, n up to whole blocks) float: a row is read unless the first center is 0, where
 * every point starts at 1 with no center yet (count 0), or at infinity; the other is written. block_sums (2, blocks)
 * ulong, likewise. Where every sum is 0 the first point is drawn. partial: a ulong per work-item. */
__kernel SMALL void seed_round(__global const float *points, uint stride, __global const Weight *weights, uint n,
                               uint blocks, __global float *centers, uint k_stride, uint4 drawn, uint2 key,
                               __global float *distances, __global ulong *block_sums, __local ulong *partial)
{
    __local float here[DIMS][AT_ONCE];
    const uint first = drawn.x, count = drawn.y;
    const uint lid = get_local_id(0), size = get_local_size(0);
    __global const float *before = distances + (size_t)drawn.z * blocks * BLOCK;
    __global float *now = distances + (size_t)(1 - drawn.z) * blocks * BLOCK;
    __global const ulong *sums = block_sums + drawn.z * blocks;
    const Run run = own_run(blocks);
    const uint length = (blocks + size - 1) / size; /* of a run */
    uint done = 0;
    barrier(CLK_LOCAL_MEM_FENCE); /* PoCL 3.0 compiles no loop like this one without */
    do {
        const uint some = min(count - done, (uint)AT_ONCE);
        const Run own = own_run(some);
        ulong total, sum = 0;
        for (uint b = run.first; b < run.end && count > 0; b++)
            sum += sums[b];
        sum_before(&sum, &total, 1, partial);
        partial[lid] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint block = 0;
        ulong passed = 0;
        for (uint j = own.first; j < own.end; j++) {
            const ulong target = drawn_target(first, done + j, count, total, key);
            for (uint i = 1; i < size && j == own.first && partial[i] <= target; i++) {
                block = i * length;
                passed = partial[i];
            }
            while (block + 1 < blocks && passed + sums[block] <= target)
                passed += sums[block++];
            const uint at = total ? point_above(weights, before, n, block * BLOCK, passed, target) : 0;
            for (int d = 0; d < DIMS; d++) {
                here[d][j] = points[d * stride + at];
                if (get_group_id(0) == 0)
                    centers[d * k_stride + first + done + j] = here[d][j];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint b = get_group_id(0); b < drawn.w; b += get_num_groups(0)) {
            sum = 0;
            for (uint i = b * BLOCK + 4 * lid; i < min(n, (b + 1) * BLOCK); i += 4 * size) {
                float4 best = first ? vload4(0, before + i) : (float4)(count ? FLT_MAX : 1.0f);
                if (done)
                    best = vload4(0, now + i);
                float4 x[DIMS];
#pragma unroll
                for (int d = 0; d < DIMS; d++)
                    x[d] = vload4(0, points + d * stride + i);
                FEW_TURNS
                for (uint j = 0; j < some; j++) {
                    float4 distance = 0.0f;
#pragma unroll
                    for (int d = 0; d < DIMS; d++)
                        distance += (x[d] - here[d][j]) * (x[d] - here[d][j]);
                    best = min(best, distance);
                }
                vstore4(best, 0, now + i);
                const float lanes[4] = {best.x, best.y, best.z, best.w};
                FEW_TURNS
                for (uint lane = 0; lane < min(4u, n - i); lane++)
                    sum += (ulong)weights[i + lane] * (uint)lanes[lane];
            }
            partial[lid] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lid == 0) {
                for (uint i = 1; i < size; i++)
                    sum += partial[i];
                block_sums[(1 - drawn.z) * blocks + b] = sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        done += some;
    } while (done < count);
}
