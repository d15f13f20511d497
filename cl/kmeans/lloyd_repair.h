/* When steps end, and what becomes of centers without points: what all forms of a step share (see kmeans/lloyd.cl for
 * the layout). Sums are those of common/group_sums.h, two at least. */

/* Sum of a center's squared differences over all axes. */
ulong center_inertia(__global const ulong *totals, uint k, uint j)
{
    ulong inertia = 0;
    for (int d = 0; d < DIMS; d++)
        inertia += TOTAL(totals, k, 1 + DIMS + d, j);
    return inertia;
}

/* Whether a step is the last one: nothing is left to move, or the inertia fell too little. */
int is_last_step(uint steps, ulong before, ulong inertia, ulong tolerance, ulong moved, uint empty)
{
    const int settled = steps > 0 && tolerance && before - inertia <= mul_hi(before, tolerance);
    return inertia == 0 || (empty == 0 && (moved == 0 || settled));
}

/* Gives centers without points half of others' points, by the axes' mean variance; nothing where `empty`, their number,
 * is 0, but then too all of the work-group calls it. pairs (2, k) uint: scratch; partial: two ulong per work-item. */
void repair_centers(__global const ulong *totals, CENTERS float *centers, uint k, uint k_stride, uint pinned,
                    int4 extents, ulong inertia, uint empty, CENTERS uint *pairs, __local ulong *partial)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const ulong enough = max(inertia / k, (ulong)1);
    const Run run = own_run(empty ? k : 0);
    ulong places[2] = {0, 0};
    ulong counts[2];
    for (uint j = run.first; j < run.end; j++) {
        places[0] += j >= pinned && TOTAL(totals, k, 0, j) == 0;
        places[1] += j >= pinned && center_inertia(totals, k, j) >= enough;
    }
    sum_before(places, counts, 2, partial);
    for (uint j = max(run.first, pinned); j < run.end; j++) {
        if (TOTAL(totals, k, 0, j) == 0)
            pairs[places[0]++] = j;
        if (center_inertia(totals, k, j) >= enough)
            pairs[k + places[1]++] = j;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint i = lid; i < (uint)min(counts[0], counts[1]); i += size) {
        const uint giver = pairs[k + i];
        const ulong variance = center_inertia(totals, k, giver) / (TOTAL(totals, k, 0, giver) * DIMS);
        set_apart(centers, k_stride, extents, giver, pairs[i], DIMS, variance);
    }
}
