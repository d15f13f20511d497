/* Records and edges as the forms for GPUs read them. Constants: BLOCK. */

typedef struct {
    int threshold, first, second, third;
} Rule;

/* Threshold and weights of a record: uint [rows][256], weights | weights << 5 | weights << 10 | threshold << 20. */
inline Rule rule_at(__global const uint *record, int row, int level)
{
    const uint packed = record[row * 256 + level];
    Rule rule;
    rule.threshold = (int)(packed >> 20);
    rule.first = (int)(packed & 31u);
    rule.second = (int)(packed >> 5 & 31u);
    rule.third = (int)(packed >> 10 & 31u);
    return rule;
}

/* What the block at `beside` of `edges` left on its side's entry; 0 where there is none. */
inline int edge_sum(__global const short *edges, int entry, int count, int beside)
{
    return beside >= 0 ? edges[(size_t)entry * count + beside] : 0;
}

inline int block_beside(int x, int y, int channel, int4 picture, int4 blocks)
{
    return outside(y * BLOCK, x * BLOCK, picture) ? -1 : edge_block(y, x, channel, blocks);
}

/* Fill an inward block's queue, entries `step` apart, with what reached its rim, in the order of the scan. */
inline void meet_edges(__local short *queue, int step, __global const short *edges, int count, int above_at,
                       int right_at, int below_at, int left_at)
{
#pragma unroll 8
    for (int i = 0; i < BLOCK; ++i)
        queue[i * step] = (short)edge_sum(edges, 2 * BLOCK + i, count, above_at);
    queue[(BLOCK - 1) * step] += (short)edge_sum(edges, 3 * BLOCK, count, right_at);
#pragma unroll 8
    for (int i = 1; i < BLOCK; ++i)
        queue[(BLOCK - 1 + i) * step] = (short)edge_sum(edges, 3 * BLOCK + i, count, right_at);
    queue[2 * (BLOCK - 1) * step] += (short)edge_sum(edges, BLOCK - 1, count, below_at);
#pragma unroll 8
    for (int i = 1; i < BLOCK; ++i)
        queue[(2 * (BLOCK - 1) + i) * step] = (short)edge_sum(edges, BLOCK - 1 - i, count, below_at);
    queue[3 * (BLOCK - 1) * step] += (short)edge_sum(edges, 2 * BLOCK - 1, count, left_at);
#pragma unroll 8
    for (int i = 1; i < BLOCK - 1; ++i)
        queue[(3 * (BLOCK - 1) + i) * step] = (short)edge_sum(edges, 2 * BLOCK - 1 - i, count, left_at);
    queue[0] += (short)edge_sum(edges, BLOCK, count, left_at);
}

/* Write the sums that an outward block's queue of `entries` holds from `head` on (halftone/pinwheel/levels_lanes.h) to its edges.
 * */
inline void leave_edges(__local const short *queue, int step, int entries, int head, __global short *sums, int count)
{
#pragma unroll 4
    for (int i = 0; i < 4 * BLOCK + 3; ++i) {
        const int entry = entry_beyond(i);
        if (entry >= 0)
            sums[(size_t)entry * count] = queue[head * step];
        head = head + 1 == entries ? 0 : head + 1;
    }
}
