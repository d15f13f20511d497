/* Moving centers to the means of their points: what kmeans/lloyd_update.cl and kmeans/lloyd_step.cl share (see
 * kmeans/lloyd.cl for the layout). */

/* Adds up the replicas of a center's statistics, sets them to 0, and moves the center to the mean of its points,
 * rounded half up, if it has any and is none of the first `pinned`. partial: its inertia, 1 on each axis on which it
 * moved, 1 if it is empty and not pinned are added to the three. */
void move_center(__global ulong *sums, uint replicas, __global ulong *totals, __global float *centers, uint k,
                 uint k_stride, uint pinned, uint j, ulong *partial)
{
    ulong total[STATS];
    float place[DIMS];
    for (int d = 0; d < DIMS; d++)
        place[d] = centers[d * k_stride + j];
    for (int s = 0; s < STATS; s++)
        total[s] = 0;
    /* All loads before the stores, which might be to the same places for all that a compiler knows. */
    for (uint r = 0; r < replicas; r++)
        for (int s = 0; s < STATS; s++)
            total[s] += sums[((size_t)r * k + j) * STATS + s];
    for (uint r = 0; r < replicas; r++)
        for (int s = 0; s < STATS; s++)
            sums[((size_t)r * k + j) * STATS + s] = 0;
    for (int s = 0; s < STATS; s++)
        totals[s * k + j] = total[s];
    for (int d = 0; d < DIMS; d++) {
        partial[0] += total[1 + DIMS + d];
        if (total[0] && j >= pinned) {
            const float mean = mean_of(total[1 + d], total[0]);
            partial[1] += mean != place[d];
            centers[d * k_stride + j] = mean;
        }
    }
    partial[2] += total[0] == 0 && j >= pinned;
}

/* The whole of `update_centers` of kmeans/lloyd_update.cl, by one work-group. */
void update_all(__global ulong *sums, uint replicas, __global ulong *totals, __global float *centers, uint k,
                uint k_stride, uint pinned, int4 extents, ulong tolerance, uint forced, __global uint *pairs,
                __global uint *state, __local ulong *partial)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint n = state[DONE] && !forced ? 0 : k;
    const uint steps = state[STEPS];
    const ulong before = ((ulong)state[INERTIA + 1] << 32) | state[INERTIA];
    ulong own[3] = {0, 0, 0};
    for (uint j = lid; j < n; j += size)
        move_center(sums, replicas, totals, centers, k, k_stride, pinned, j, own);
    for (int i = 0; i < 3; i++)
        partial[i * size + lid] = own[i];
    for (uint half_size = size / 2; half_size; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < half_size)
            for (int i = 0; i < 3; i++)
                partial[i * size + lid] += partial[i * size + lid + half_size];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const ulong inertia = partial[0];
    const ulong moved = partial[size];
    const uint empty = (uint)partial[2 * size];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0 && n) {
        state[INERTIA] = (uint)inertia;
        state[INERTIA + 1] = (uint)(inertia >> 32);
        state[STEPS] = steps + 1;
        state[DONE] = is_last_step(steps, before, inertia, tolerance, moved, empty);
    }
    repair_centers(totals, centers, k, k_stride, pinned, extents, inertia, n ? empty : 0, pairs, partial);
}
