/* The complete tree in one array: Masina and Stedile, section 5.1. For devices with doubles.
 *
 * Constants: CHANNELS; WORDS, what holds the nodes' sums: 0 the pixels, 1 narrow words, 2 wide ones, 3 pairs of words (see
 * quadtree.h); COMPLETE 1 if nodes within leaves have statistics too. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "quadtree/leaf_list.h"

#define FORK 1
#define LEAF 2
#define INSIDE 3
#define RECORD (1 + 9 * CHANNELS)

#if WORDS == 0
typedef uchar word_t;
#elif WORDS == 1
typedef uint word_t;
#else
typedef ulong word_t;
#endif

/* Bit 2 i of a word becomes bit i of 16. */
inline uint gathered(uint v)
{
    v &= 0x55555555u;
    v = (v | v >> 1) & 0x33333333u;
    v = (v | v >> 2) & 0x0F0F0F0Fu;
    v = (v | v >> 4) & 0x00FF00FFu;
    return (v | v >> 8) & 0xFFFFu;
}

/* Sum and sum of squares of channel c of a node, of a grid of `cells`. */
inline void read_sums(__global const word_t *words, ulong cells, ulong node, uint c, ulong *sum, ulong *squares)
{
#if WORDS == 0
    *sum = words[node * CHANNELS + c];
    *squares = *sum * *sum;
#elif WORDS == 1
    *sum = words[c * cells + node] >> 20;
    *squares = words[c * cells + node] & 0xFFFFFu;
#elif WORDS == 2
    *sum = words[c * cells + node] >> 32;
    *squares = words[c * cells + node] & 0xFFFFFFFFUL;
#else
    *sum = words[2 * c * cells + node];
    *squares = words[(2 * c + 1) * cells + node];
#endif
}

/* NDRange: 1-D, any work-group size, at least a work-item per node. leaves, count: of the picture. width, height: its
 * pixels. level: of the nodes, counted from the pixels. words: of the level, from `at` on. first, nodes: places in the level, in the paper's order of children, of the
 * nodes that are written. records: per node kind, CHANNELS means (uchar), CHANNELS deviations (double), packed. The
 * deviation is the correctly rounded root of n squares - sum^2, over n, in doubles; of nodes of 2^24 pixels and more it
 * is not exact. */
__kernel void quadtree_records(__global const uint *leaves, uint count, uint width, uint height,
                               uint level, __global const word_t *words, ulong at, uint first, uint nodes,
                               __global uchar *records)
{
    const uint id = get_global_id(0);
    if (id >= nodes)
        return;
    __global uchar *record = records + (ulong)id * RECORD;
    const uint place = first + id, y = gathered(place >> 1), x = gathered(place) ^ y;
    const uint side = 1u << level, columns = (width + side - 1) >> level, rows = (height + side - 1) >> level;
    const int there = x < columns && y < rows;
    uint kind = 0;
    if (there) {
        const uint size = leaf_at(leaves, find_leaf(leaves, count, morton(x << level, y << level)))[2];
        kind = size > side ? INSIDE : size == side ? LEAF : FORK;
    }
    record[0] = (uchar)kind;
    const int known = there && (COMPLETE || kind != INSIDE);
    const ulong n = known ? (ulong)min(side, width - (x << level)) * min(side, height - (y << level)) : 1;
    for (uint c = 0; c < CHANNELS; c++) {
        ulong sum = 0, squares = 0;
        if (known)
            read_sums(words + at, (ulong)columns * rows, (ulong)y * columns + x, c, &sum, &squares);
        record[1 + c] = (uchar)((2 * sum + n) / (2 * n));
        const double deviation = sqrt((double)(n * squares - sum * sum)) / (double)n;
        const ulong bits = as_ulong(deviation);
        for (uint k = 0; k < 8; k++)
            record[1 + CHANNELS + 8 * c + k] = (uchar)(bits >> 8 * k);
    }
}
