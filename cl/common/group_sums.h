/* Sums and maxima over the work-items of a group of any size. Constants: MOST_SUMS, how many sums at once at most.
 *
 * Steps of twice the stride suit groups of hundreds of work-items; each barrier of theirs takes PoCL, which has small
 * groups, a tenth of a second to compile (see common/compile_hints.h). */

/* Some of a row of consecutive items. */
typedef struct {
    uint first, end;
} Run;

/* The work-item's part of n places. */
Run own_run(uint n)
{
    const uint length = (n + (uint)get_local_size(0) - 1) / (uint)get_local_size(0);
    Run run;
    run.first = min(n, (uint)get_local_id(0) * length);
    run.end = min(n, run.first + length);
    return run;
}

/* Of each of `count` numbers its sum over all work-items before this one, in its place, and over all in `totals`.
 * room: `count` ulongs per work-item. Begins without a barrier and ends with one. */
void sum_before(ulong *numbers, ulong *totals, uint count, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    for (uint v = 0; v < count; v++)
        room[v * size + lid] = numbers[v];
    barrier(CLK_LOCAL_MEM_FENCE);
#ifdef COMPILED_AT_LAUNCH
    for (uint v = 0; v < count; v++) {
        totals[v] = numbers[v] = 0;
        for (uint i = 0; i < size; i++) {
            numbers[v] += i < lid ? room[v * size + i] : 0;
            totals[v] += room[v * size + i];
        }
    }
#else
    for (uint step = 1; step < size; step *= 2) {
        ulong before[MOST_SUMS];
        for (uint v = 0; v < count; v++)
            before[v] = lid >= step ? room[v * size + lid - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint v = 0; v < count; v++)
            room[v * size + lid] += before[v];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint v = 0; v < count; v++) {
        numbers[v] = room[v * size + lid] - numbers[v];
        totals[v] = room[v * size + size - 1];
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The largest number of all work-items; ends with a barrier. */
ulong most_of(ulong own, __local ulong *room)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    room[lid] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
#ifdef COMPILED_AT_LAUNCH
    ulong most = room[0];
    for (uint i = 1; i < size; i++)
        most = max(most, room[i]);
#else
    for (uint left = size; left > 1; left = (left + 1) / 2) {
        const uint middle = (left + 1) / 2;
        if (lid + middle < left)
            room[lid] = max(room[lid], room[lid + middle]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const ulong most = room[0];
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}
