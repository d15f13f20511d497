/* The complete tree in one array: Masina and Stedile, section 5.1. For devices with doubles.
 *
 * Constants: CHANNELS; WORDS, what holds the nodes' sums: 0 the pixels, 1 narrow words, 2 wide ones, 3 pairs of words
 * (see quadtree.h); COMPLETE 1 if nodes within leaves have statistics too. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "quadtree/leaf_list.h"

#define FORK 1
#define LEAF 2
#define INSIDE 3
#define RECORD (1 + 9 * CHANNELS)
#define NODES 16u

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

#if WORDS != 0
/* Sum and sum of squares of channel c of a node, of a grid of `cells`. */
inline void read_sums(__global const word_t *words, ulong cells, ulong node, uint c, ulong *sum, ulong *squares)
{
#if WORDS == 1
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
#endif

/* What all work-items know of a level: its nodes and those of its grid. */
typedef struct {
    uint level, side, columns, rows, width, height;
} level_t;

/* Byte `at` of a record, which is 0 before. */
inline void put(uint *record, uint at, uint byte)
{
    record[at / 4] |= byte << 8 * (at % 4);
}

/* The record of the node (x, y), whose leaf is one of leaves low to high - 1; all 0 before. */
inline void fill_record(uint *record, __global const uint *leaves, uint low, uint high, __global const word_t *words,
                        const level_t *at, uint x, uint y)
{
    if (x >= at->columns || y >= at->rows)
        return;
    const uint code = morton(x << at->level, y << at->level);
    const uint size = leaf_at(leaves, low + find_leaf(leaf_at(leaves, low), high - low, code))[2];
    const uint kind = size > at->side ? INSIDE : size == at->side ? LEAF : FORK;
    put(record, 0, kind);
    if (!COMPLETE && kind == INSIDE)
        return;
#if WORDS == 0
#pragma unroll
    for (uint c = 0; c < CHANNELS; c++)
        put(record, 1 + c, words[((ulong)y * at->columns + x) * CHANNELS + c]);
#else
    const ulong n = (ulong)min(at->side, at->width - (x << at->level)) * min(at->side, at->height - (y << at->level));
    const int whole = n == 1UL << 2 * at->level;
#pragma unroll
    for (uint c = 0; c < CHANNELS; c++) {
        ulong sum, squares;
        read_sums(words, (ulong)at->columns * at->rows, (ulong)y * at->columns + x, c, &sum, &squares);
        put(record, 1 + c, (uint)(whole ? (2 * sum + n) >> (2 * at->level + 1) : (2 * sum + n) / (2 * n)));
        const double scaled = (double)(n * squares - sum * sum);
        /* Of whole nodes n is a power of two, by which an exponent is lowered. */
        const ulong bits = scaled == 0 ? 0UL
                           : whole     ? as_ulong(sqrt(scaled)) - ((ulong)(2 * at->level) << 52)
                                       : as_ulong(sqrt(scaled) / (double)n);
#pragma unroll
        for (uint k = 0; k < 8; k++)
            put(record, 1 + CHANNELS + 8 * c + k, (uint)(bits >> 8 * k) & 255u);
    }
#endif
}

/* NDRange: 1-D, any work-group size, at least a work-item per NODES nodes. leaves, count: of the picture. width,
 * height: its pixels. level: of the nodes, counted from the pixels. words: of the level, from `begin` on. first, nodes:
 * places in the level, in the paper's order of children, of the nodes that are written; `first` a multiple of NODES.
 * records: from `offset` bytes on, per node kind, CHANNELS means (uchar), CHANNELS deviations (double), packed. A
 * deviation is the correctly rounded root of n squares - sum^2, over n, in doubles; of nodes of 2^24 pixels and more it
 * is not exact. */
__kernel void quadtree_records(__global const uint *leaves, uint count, uint width, uint height, uint level,
                               __global const word_t *words, ulong begin, uint first, uint nodes,
                               __global uchar *records, ulong offset)
{
    const uint from = get_global_id(0) * NODES;
    if (from >= nodes)
        return;
    level_t at;
    at.level = level;
    at.side = 1u << level;
    at.columns = (width + at.side - 1) >> level;
    at.rows = (height + at.side - 1) >> level;
    at.width = width;
    at.height = height;
    /* These nodes are a square of 4 x 4, which meets no more leaves than it has pixels. */
    const uint corner_y = gathered((first + from) >> 1), corner_x = gathered(first + from) ^ corner_y;
    const uint corner = morton((corner_x & ~3u) << level, (corner_y & ~3u) << level);
    const uint low = find_leaf(leaves, count, corner);
    uint high = level < 14 ? min(count - low, NODES << 2 * level) + low : count;
    if (leaf_at(leaves, low)[2] >> level >= 4)
        high = low + 1; /* one leaf holds them all */
    for (uint k = from; k < min(from + NODES, nodes); k++) {
        const uint y = gathered((first + k) >> 1), x = gathered(first + k) ^ y;
        uint record[RECORD / 4 + 1];
#pragma unroll
        for (uint i = 0; i < RECORD / 4 + 1; i++)
            record[i] = 0;
        fill_record(record, leaves, low, high, words + begin, &at, x, y);
        __global uchar *to = records + offset + (ulong)k * RECORD;
#if RECORD % 4 == 0
#pragma unroll
        for (uint i = 0; i < RECORD / 4; i++)
            ((__global uint *)to)[i] = record[i];
#else
#pragma unroll
        for (uint i = 0; i < RECORD; i++)
            to[i] = (uchar)(record[i / 4] >> 8 * (i % 4));
#endif
    }
}
