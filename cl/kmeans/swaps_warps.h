/* A round of swaps by the warps of one work-group, with all centers in local memory: what kmeans/swaps.cl, which has
 * the sources, does by work-items. Orders are kept both ways, the rank of a center and the center of a rank, so that
 * only ranks take a look at all pairs of centers.
 *
 * Constants: WARP of common/warps.h; GROUP: work-items of the group.
 */
#define WORDS_PER_PLACE 12 /* of `room`, a place being one of k_stride */

/* How many of the k keys are before that of j, ties to the lowest index. */
uint rank_of(__local const ulong *keys, uint k, uint j)
{
    const ulong own = keys[j];
    const uint begin = j / WARP * WARP;
    const uint end = min(begin + WARP, k);
    uint before = 0;
#pragma unroll 8
    for (uint i = 0; i < begin; i++)
        before += keys[i] <= own;
    for (uint i = begin; i < end; i++)
        before += keys[i] < own || (keys[i] == own && i < j);
#pragma unroll 8
    for (uint i = end; i < k; i++)
        before += keys[i] < own;
    return before;
}

/* Where a rank is among those of its bits: how many of the bits below it are set. */
uint set_below(__local const uint *bits, uint rank)
{
    uint before = 0;
    for (uint w = 0; w < rank / WARP; w++)
        before += popcount(bits[w]);
    return before + popcount(bits[rank / WARP] & ((1u << rank % WARP) - 1u));
}

/* Swaps as `cannot_merge`, `take_turn` and `swap_center` of kmeans/swaps.cl and kmeans/swaps.h say: the centers of
 * `count` cost ranks from `rank` on are tried. places (DIMS, k_stride): the centers, of which `centers` is a copy that
 * is moved; k_stride: k up to whole vectors of four, and whole warps; parts: work-items per center, so that k times that
 * is at most GROUP, or 1; room: a ulong per work-item and WORDS_PER_PLACE uint per place. */
void swap_by_warps(uint rank, uint count, uint parts, __global const ulong *totals, uint k, uint k_stride, int4 extents,
                   __local const float *places, __local float *centers, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = GROUP / parts;
    const uint run = ((k + parts - 1) / parts + 3) / 4 * 4;
    const uint begin = min(k, lid / size * run);
    const uint end = min(k, begin + run);
    __local ulong *partial = room;
    __local ulong *costs = partial + GROUP;
    __local ulong *gains = costs + k_stride;
    __local uint *neighbours = (__local uint *)(gains + k_stride);
    __local uint *by_cost = neighbours + k_stride; /* the center of each rank */
    __local uint *by_gain = by_cost + k_stride;
    __local uint *merges = by_gain + k_stride;
    __local uint *turns = merges + k_stride;
    __local uint *untouched = turns + k_stride;
    __local uint *pairs = untouched; /* of each rank that is tried; no longer needed when the others are known */
    __local uint *going = untouched + k_stride; /* bits of ranks */
    __local uint *staying = going + k_stride;
    for (uint group = 0; group < k; group += size) {
        const uint j = group + lid % size;
        const int leads = j < k && lid < size;
        partial[lid] = j < k ? nearest_other(j, begin, end, places, k_stride) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint p = 1; p < (leads ? parts : 0); p++)
            partial[lid] = min(partial[lid], partial[lid + p * size]);
        if (leads) {
            weigh_center(j, partial[lid], totals, k, neighbours, costs, gains);
            gains[j] = ~gains[j];
            merges[j] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = lid; i < 2 * k_stride; i += GROUP) {
        const uint j = i < k_stride ? i : i - k_stride;
        if (j < k && i < k_stride)
            by_cost[rank_of(costs, k, j)] = j;
        else if (j < k)
            by_gain[rank_of(gains, k, j)] = j;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tried = min(count, k - rank);
    for (uint t = lid; t < tried; t += GROUP)
        pairs[t] = neighbours[by_cost[rank + t]] << 16 | by_cost[rank + t];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = lid; t < tried; t += GROUP) {
        const uint own = pairs[t];
        const uint turned = own << 16 | own >> 16;
        int clash = 0;
#pragma unroll 4
        for (uint i = 0; i < t; i++) {
            const uint same = pairs[i] ^ own;
            const uint crossed = pairs[i] ^ turned;
            clash |= !(same & 0xffff) | !(same >> 16) | !(crossed & 0xffff) | !(crossed >> 16);
        }
        if (!clash) {
            merges[own & 0xffff] = 1;
            merges[own >> 16] = 2;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint r = lid; r < k_stride; r += GROUP) {
        const uint goes = votes(r < k && merges[by_cost[min(r, k - 1)]] == 1);
        const uint stays = votes(r < k && merges[by_gain[min(r, k - 1)]] == 0);
        if (r % WARP == 0) {
            going[r / WARP] = goes;
            staying[r / WARP] = stays;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint r = lid; r < k; r += GROUP)
        untouched[r] = k;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint r = lid; r < k; r += GROUP) {
        if (going[r / WARP] >> r % WARP & 1)
            turns[by_cost[r]] = set_below(going, r);
        if (staying[r / WARP] >> r % WARP & 1)
            untouched[set_below(staying, r)] = by_gain[r];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = lid; j < k; j += GROUP)
        swap_center(j, totals, k, k_stride, extents, neighbours, merges, turns, untouched, rank, centers);
}
