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

/* Puts an empty center above and a giving one below the mean of the latter's points, on every axis by the axes' mean
 * standard deviation, rounded down and at least 1, within 0..extents. */
void share_points(__global const ulong *totals, uint k, uint k_stride, int4 extents, uint giver, uint taker,
                  CENTERS float *centers)
{
    const ulong inertia = center_inertia(totals, k, giver);
    const float shift = (float)max(integer_root((uint)(inertia / (TOTAL(totals, k, 0, giver) * DIMS))), 1u);
    const int extent[4] = {extents.x, extents.y, extents.z, extents.w};
    for (int d = 0; d < DIMS; d++) {
        const float mean = centers[d * k_stride + giver];
        centers[d * k_stride + taker] = min(mean + shift, (float)extent[d]);
        centers[d * k_stride + giver] = max(mean - shift, 0.0f);
    }
}

/* Whether a step is the last one: nothing is left to move, or the inertia fell too little. */
int is_last_step(uint steps, ulong before, ulong inertia, ulong tolerance, ulong moved, uint empty)
{
    const int settled = steps > 0 && tolerance && before - inertia <= mul_hi(before, tolerance);
    return inertia == 0 || (empty == 0 && (moved == 0 || settled));
}

/* Gives centers without points half of others' points; nothing where `empty`, their number, is 0, but then too all of
 * the work-group calls it. pairs (2, k) uint: scratch; partial: two ulong per work-item. */
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
    for (uint i = lid; i < (uint)min(counts[0], counts[1]); i += size)
        share_points(totals, k, k_stride, extents, pairs[k + i], pairs[i], centers);
}
