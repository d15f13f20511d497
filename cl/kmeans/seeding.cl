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

/* Four points' squared distances, lowered by the centers first .. first + count - 1. */
float4 lowered(float4 best, const float4 *x, __global const float *centers, uint k_stride, uint first, uint count)
{
    FEW_TURNS
    for (uint j = first; j < first + count; j++) {
        float4 distance = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float4 difference = x[d] - centers[d * k_stride + j];
            distance += difference * difference;
        }
        best = min(best, distance);
    }
    return best;
}

/* Where the j-th of `count` draws from `total` falls, in its stratum; the center's random number is that of counter
 * (first + j, 0, 0, 0). */
ulong drawn_target(uint first, uint j, uint count, ulong total, uint2 key)
{
    const ulong stratum = max(total / count, (ulong)1);
    return min(j * stratum + drawn_below(stratum, (uint4)(first + j, 0, 0, 0), key), total ? total - 1 : 0);
}

/* Lowers each point's squared distance by the centers `drawn`, first and count, and adds up each block.
 * NDRange: 1-D, a work-group per block, its size divides BLOCK / 4; a work-item takes four points at a time. Planes of
 * points have room for whole vectors. distances (n, up to whole blocks) float: read unless the first is 0, where every
 * point starts at 1 with no center yet (count 0), or at infinity; block_sums (blocks) ulong is written; partial: a
 * ulong per work-item. */
__kernel void lower_distances(__global const float *points, uint stride, __global const Weight *weights, uint n,
                              __global const float *centers, uint k_stride, uint2 drawn, __global float *distances,
                              __global ulong *block_sums, __local ulong *partial)
{
    const uint first = drawn.x;
    const uint count = drawn.y;
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    ulong sum = 0;
    for (uint b = 4 * lid; b < BLOCK; b += 4 * size) {
        const uint i = get_group_id(0) * BLOCK + b;
        if (i >= n)
            break;
        float4 best = first ? vload4(0, distances + i) : (float4)(count ? FLT_MAX : 1.0f);
        float4 x[DIMS];
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            x[d] = vload4(0, points + d * stride + i);
        best = lowered(best, x, centers, k_stride, first, count);
        vstore4(best, 0, distances + i);
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
        block_sums[get_group_id(0)] = sum;
    }
}

/* Draws the centers `drawn`, first and count.
 * NDRange: one work-group of any size. block_sums (blocks) ulong; prefix (blocks + 1) ulong, scratch; key: the seed's
 * words. Where every sum is 0 the first point is drawn. The random number of center j is that of counter (j, 0, 0, 0).
 * partial: a ulong per work-item. */
__kernel SMALL void draw_centers(__global const float *points, uint stride, __global const Weight *weights, uint n,
                                 __global const float *distances, __global const ulong *block_sums, uint blocks,
                                 __global ulong *prefix, __global float *centers, uint k_stride, uint2 drawn, uint2 key,
                                 __local ulong *partial)
{
    const uint first = drawn.x;
    const uint count = drawn.y;
    const Run run = own_run(blocks);
    ulong total;
    ulong sum = 0;
    for (uint b = run.first; b < run.end; b++)
        sum += block_sums[b];
    sum_before(&sum, &total, 1, partial);
    for (uint b = run.first; b < run.end; b++) {
        prefix[b] = sum;
        sum += block_sums[b];
    }
    if (get_local_id(0) == 0)
        prefix[blocks] = total;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint j = get_local_id(0); j < count; j += get_local_size(0)) {
        const ulong target = drawn_target(first, j, count, total, key);
        const uint block = total ? first_above(prefix + 1, blocks, target) : 0;
        uint i = block * BLOCK;
        ulong passed = total ? prefix[block] : 1;
        while (total && i + 4 < n) {
            const ulong4 mass = convert_ulong4(vload4(0, weights + i));
            const float4 squared = vload4(0, distances + i);
            const ulong4 parts = mass * convert_ulong4(convert_uint4(squared));
            const ulong four = parts.x + parts.y + parts.z + parts.w;
            if (passed + four > target)
                break;
            passed += four;
            i += 4;
        }
        passed += total ? (ulong)weights[i] * (uint)distances[i] : 0;
        while (passed <= target && i + 1 < n) {
            i++;
            passed += (ulong)weights[i] * (uint)distances[i];
        }
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            centers[d * k_stride + first + j] = points[d * stride + i];
    }
}
