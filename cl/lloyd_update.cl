/* Moving centers to the means of their points, and repairing those that lost all points (see lloyd.cl for the layout).
 *
 * Constants: DIMS 3 or 4.
 */
#include "lloyd.h"

/* Sum of a center's squared differences over all axes. */
ulong center_inertia(__global const ulong *totals, uint k, uint j)
{
    ulong inertia = 0;
    for (int d = 0; d < DIMS; d++)
        inertia += totals[(1 + DIMS + d) * k + j];
    return inertia;
}

/* Moves each center to the mean of its points, rounded half up; centers without points stay.
 * NDRange: one work-group, its size a power of two. Does nothing where state[DONE].
 * sums (replicas, k, STATS) 64-bit words low and high: added up and set to 0; totals (STATS, k) ulong gets them.
 * state[DONE] is set to 1 where no center moved and none is empty, or where the inertia fell by no more than
 * tolerance / 2^64 of it; state[STEPS] counts; state[EMPTY]: centers without points; state[INERTIA], [INERTIA + 1]:
 * inertia about the centers as they were. Local: three ulong a work-item. */
__kernel void update_centers(__global uint *sums, uint replicas, __global ulong *totals, __global float *centers,
                             uint k, uint k_stride, ulong tolerance, __global uint *state,
                             __local ulong *partial)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint n = state[DONE] ? 0 : k;
    ulong inertia = 0;
    ulong moved = 0;
    ulong empty = 0;
    for (uint j = lid; j < n; j += size) {
        ulong total[STATS];
        for (int s = 0; s < STATS; s++) {
            total[s] = 0;
            for (uint r = 0; r < replicas; r++) {
                __global uint *word = sums + 2 * (((size_t)r * k + j) * STATS + s);
                total[s] += ((ulong)word[1] << 32) | word[0];
                word[0] = 0;
                word[1] = 0;
            }
            totals[s * k + j] = total[s];
        }
        empty += total[0] == 0;
        for (int d = 0; d < DIMS; d++) {
            inertia += total[1 + DIMS + d];
            if (total[0]) {
                const float mean = (float)(uint)((2 * total[1 + d] + total[0]) / (2 * total[0]));
                moved += mean != centers[d * k_stride + j];
                centers[d * k_stride + j] = mean;
            }
        }
    }
    partial[lid] = inertia;
    partial[size + lid] = moved;
    partial[2 * size + lid] = empty;
    for (uint half_size = size / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < half_size)
            for (int i = 0; i < 3; i++)
                partial[i * size + lid] += partial[i * size + lid + half_size];
    }
    if (lid == 0 && n) {
        inertia = partial[0];
        moved = partial[size];
        empty = partial[2 * size];
        const ulong before = ((ulong)state[INERTIA + 1] << 32) | state[INERTIA];
        const int settled = state[STEPS] > 0 && tolerance && before - inertia <= mul_hi(before, tolerance);
        state[INERTIA] = (uint)inertia;
        state[INERTIA + 1] = (uint)(inertia >> 32);
        state[EMPTY] = (uint)empty;
        state[STEPS] += 1;
        state[DONE] = inertia == 0 || (empty == 0 && (moved == 0 || settled));
    }
}

/* Gives each center without points half of a center with many: the i-th empty one, by index, shares with the i-th of the
 * others by descending inertia (ties: lowest index), if that has any inertia. The two are put above and below the mean
 * on every axis, each by the axes' mean standard deviation, rounded down and at least 1, within 0..extent.
 * NDRange: 1-D, a work-item a center, guarded by k. Does nothing where state[EMPTY] is 0 or state[DONE]. */
__kernel void repair_empty(__global const ulong *totals, __global float *centers, uint k, uint k_stride,
                           int4 extents, __global const uint *state)
{
    const uint j = get_global_id(0);
    if (j >= k || state[EMPTY] == 0 || state[DONE] || totals[j] == 0)
        return;
    const ulong inertia = center_inertia(totals, k, j);
    if (inertia == 0)
        return;
    uint rank = 0;
    for (uint i = 0; i < k; i++) {
        const ulong other = center_inertia(totals, k, i);
        rank += other > inertia || (other == inertia && i < j);
    }
    if (rank >= state[EMPTY])
        return;
    uint empty = 0;
    for (uint skip = rank + 1; skip; empty++)
        skip -= totals[empty] == 0;
    empty--;
    const uint deviation = integer_root((uint)(inertia / (totals[j] * DIMS)));
    const float shift = (float)max(deviation, 1u);
    const int extent[4] = {extents.x, extents.y, extents.z, extents.w};
    for (int d = 0; d < DIMS; d++) {
        const float mean = centers[d * k_stride + j];
        centers[d * k_stride + empty] = min(mean + shift, (float)extent[d]);
        centers[d * k_stride + j] = max(mean - shift, 0.0f);
    }
}
