/* What the forms of the mini-batch map's step share: the update of a node, and the point that searches compare with.
 *
 * Constants from the host, for every file that includes this one:
 *   COORDINATE_BITS  of the largest coordinate, at most 12
 *   DIMS          coordinates of a point, 3 or 4; points and nodes always lie in vectors of 4, the last then 0
 *   STAGED        1: a slab's sums and counts are copied to local memory before they are read
 *   SEARCH_SHIFT  fraction bits s of a node in a search, such that 4^s |p|^2 < 2^24 for every point p
 *
 * How many nodes K the map has, 2 to 1024, is an argument, `colors`, of functions and kernels, and `k` of the macros that
 * say where things lie: a constant would be another program for every number of colours.
 *
 * Nodes are int4 with 12 fraction bits. Points have coordinates below 2^12, so nodes stay below 2^24.
 *
 * One step's totals ("slab") are uints, K of each: counts, sums of each of 4 coordinates, wins, the low COORDINATE_BITS
 * of the coordinates' squares, their squares' high bits. The points of a batch weigh less than 2^(32 - COORDINATE_BITS)
 * together: every total is below 2^32. */

#define LOW_MASK ((1u << COORDINATE_BITS) - 1)

#define SLAB_SIZE(k) (14 * (k))
#define SLAB_COUNTS 0
#define SLAB_SUMS(k) (k)
#define SLAB_WINS(k) (5 * (k))
#define SLAB_LOW(k) (6 * (k))
#define SLAB_HIGH(k) (10 * (k))

#define NODE_BITS 12
#define SAME_WEIGHT (16 << 12)

/* What node j won: its points and three sums, and the fourth sum; in local memory colors vectors, then colors words. */
#define WON_WORDS(k) ((1 + DIMS) * (k))
#if STAGED
#define WON_MEMORY __local const uint4
#define WON(won, k, j) (won)[j]
#define WON_FOURTH(won, k, j) ((__local const uint *)((won) + (k)))[j]
#else
#define WON_MEMORY __global const uint
#define WON(won, k, j)                                                                                                 \
    (uint4)((won)[SLAB_COUNTS + (j)], (won)[SLAB_SUMS(k) + (j)], (won)[SLAB_SUMS(k) + (k) + (j)],                      \
            (won)[SLAB_SUMS(k) + 2 * (k) + (j)])
#define WON_FOURTH(won, k, j) (won)[SLAB_SUMS(k) + 3 * (k) + (j)]
#endif

#if STAGED
/* Copies what nodes `first`, `first + step` and so on won to local memory. */
void stage(__local uint4 *restrict won, __global const uint *slab, const int colors, const int first, const int step)
{
#pragma unroll 1
    for (int i = first; i < colors; i += step) {
        won[i] = (uint4)(slab[SLAB_COUNTS + i], slab[SLAB_SUMS(colors) + i], slab[SLAB_SUMS(colors) + colors + i],
                         slab[SLAB_SUMS(colors) + 2 * colors + i]);
#if DIMS == 4
        ((__local uint *)(won + colors))[i] = slab[SLAB_SUMS(colors) + 3 * colors + i];
#endif
    }
}
#endif

/* The weight that means are divided by, and what makes that quick: 2^32 over its 16 leading bits. */
typedef struct {
    uint weight, shift, inverse;
} divisor_t;

divisor_t divisor_of(const uint weight)
{
    divisor_t by;
    by.weight = weight;
    by.shift = max(16 - (int)clz(weight), 0);
    by.inverse = 0xffffffffu / ((weight >> by.shift) + (by.shift > 0));
    return by;
}

/* floor(n / weight) for n < 4096 weight, weight < 2^30, and what is left. The first guess is never too high, as it
 * divides by no less and rounds down. It is too low by less than 1/8 for the leading bits (2^15 or more) plus one, 1/8
 * for the inverse rounded down (2^-31 of numbers below 2^28), and 2^-15 for n rounded down: so by one at most. */
uint quotient(const ulong n, const divisor_t by, uint *left)
{
    uint guess = (uint)((n >> by.shift) * by.inverse >> 32);
    *left = (uint)n - guess * by.weight;
    if (*left >= by.weight) {
        *left -= by.weight;
        ++guess;
    }
    return guess;
}

/* One coordinate of a node that is drawn to the mean `pull / weight` by gain / 65536, rounded half up. */
int moved(const int node, const ulong pull, const divisor_t by, const int gain)
{
    uint left;
    const int whole = (int)quotient(pull, by, &left);
    const int mean = whole << NODE_BITS | (int)quotient((ulong)left << NODE_BITS, by, &left);
    return node + (int)(((long)(mean - node) * gain + 32768) >> 16);
}

/* Returns a node that is drawn to (x, y, z, w) / weight by 1 - exp(-weight); w is read where there are four coordinates.
 * A macro, as the forms put it in functions with compile hints of their own. */
#if DIMS == 4
#define DRAW_FOURTH(to, w, by, gain) (to).w = moved((to).w, w, by, gain);
#else
#define DRAW_FOURTH(to, w, by, gain)
#endif
#define DRAW(node, weight, x, y, z, w, decay)                                                                          \
    {                                                                                                                  \
        if (weight == 0)                                                                                               \
            return node;                                                                                               \
        const int gain =                                                                                               \
            weight >= SAME_WEIGHT ? 65536 : 65536 - (int)((decay[weight >> 8] * decay[256 + (weight & 255)]) >> 16);   \
        const divisor_t by = divisor_of(weight);                                                                       \
        int4 to = node;                                                                                                \
        to.x = moved(node.x, x, by, gain);                                                                             \
        to.y = moved(node.y, y, by, gain);                                                                             \
        to.z = moved(node.z, z, by, gain);                                                                             \
        DRAW_FOURTH(to, w, by, gain)                                                                                   \
        return to;                                                                                                     \
    }

/* Node i after a batch: the closed form of the sequential moves of all points that its neighbours won. A win at
 * distance d pulls by L(d) = -ln(1 - a(d)) (`pull`, 12 fraction bits, for d < reach, which is above 0), pulls add up to
 * E, and the node moves by 1 - exp(-E) towards the mean weighted by pull. exp(-E) is decay[E >> 8] *
 * decay[256 + (E & 255)] / 2^16. Batches have fewer than 2^16 points and pulls are below 16024 / 4096, so weights stay
 * below 2^30, and a mean of coordinates is below 4096. */
int4 updated_node(const int i, const int4 node, const int colors, WON_MEMORY *restrict won,
                  __global const int *restrict pull, const int reach, __global const uint *restrict decay)
{
    uint l = (uint)pull[0];
    const uint4 own = WON(won, colors, i);
    uint weight = l * own.x;
    ulong x = (ulong)l * own.y, y = (ulong)l * own.z, z = (ulong)l * own.w;
#if DIMS == 4
    ulong w = (ulong)l * WON_FOURTH(won, colors, i);
#endif
#if STAGED
#pragma unroll 1
#endif
    for (int d = 1; d < reach; ++d) {
        /* Both nodes at distance d; beyond an end there is none. */
        l = (uint)pull[d];
        uint4 both = (uint4)(0);
#if DIMS == 4
        uint fourth = 0;
#endif
        if (i >= d) {
            both = WON(won, colors, i - d);
#if DIMS == 4
            fourth = WON_FOURTH(won, colors, i - d);
#endif
        }
        if (i + d < colors) {
            both += WON(won, colors, i + d);
#if DIMS == 4
            fourth += WON_FOURTH(won, colors, i + d);
#endif
        }
        weight += l * both.x;
        x += (ulong)l * both.y;
        y += (ulong)l * both.z;
        z += (ulong)l * both.w;
#if DIMS == 4
        w += (ulong)l * fourth;
#endif
    }
    DRAW(node, weight, x, y, z, w, decay)
}

/* A node as searches see it: rounded half up to SEARCH_SHIFT fraction bits, as a whole number below 2^12. */
float4 search_point(const int4 node)
{
    return convert_float4((node + (1 << (NODE_BITS - SEARCH_SHIFT - 1))) >> (NODE_BITS - SEARCH_SHIFT));
}
