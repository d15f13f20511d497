// What the forms of the mini-batch map's step share: the update of a node, and the point that searches compare with.
//
// Constants from the host, for every file that includes this one:
//   COLORS        nodes K of the map, 2 to 1024
//   COORDINATE_BITS  of the largest coordinate, at most 12
//   DIMS          coordinates of a point, 3 or 4; points and nodes always lie in vectors of 4, the last then 0
//   STAGED        1: a slab's sums and counts are copied to local memory before they are read
//   SEARCH_SHIFT  fraction bits s of a node in a search, such that 4^s |p|^2 < 2^24 for every point p
//
// Nodes are int4 with 12 fraction bits. Points have coordinates below 2^12, so nodes stay below 2^24.
//
// One step's totals ("slab") are uints, K of each: counts, sums of each of 4 coordinates, wins, the low COORDINATE_BITS
// of the coordinates' squares, their squares' high bits. The points of a batch weigh less than 2^(32 - COORDINATE_BITS)
// together: every total is below 2^32.

#if STAGED
#define SLAB_MEMORY __local
#else
#define SLAB_MEMORY __global
#endif

#define LOW_MASK ((1u << COORDINATE_BITS) - 1)

#define SLAB_SIZE (14 * COLORS)
#define SLAB_COUNTS 0
#define SLAB_SUMS COLORS
#define SLAB_WINS (5 * COLORS)
#define SLAB_LOW (6 * COLORS)
#define SLAB_HIGH (10 * COLORS)

#define NODE_BITS 12
#define SAME_WEIGHT (16 << 12)

// One coordinate of a node that is drawn to the mean `pull / weight` by gain / 65536, rounded half up. In the map's
// batches counts stay below 2^17 and pulls in 1/4096 below 2^14, so weight < 2^31 and pull < 2^43.
int moved(const int node, const ulong pull, const uint weight, const int gain)
{
    const int mean = (int)((pull << NODE_BITS) / weight);
    return node + (int)(((long)(mean - node) * gain + 32768) >> 16);
}

// Node i after a batch: the closed form of the sequential moves of all points that its neighbours won. A win at
// distance d pulls by L(d) = -ln(1 - a(d)) (`pull`, 12 fraction bits, for d < reach), pulls add up to E, and the node
// moves by 1 - exp(-E) towards the mean weighted by pull. exp(-E) is decay[E >> 8] * decay[256 + (E & 255)] / 2^16.
int4 updated_node(const int i, const int4 node, SLAB_MEMORY const uint *restrict slab,
                  __global const int *restrict pull, const int reach, __global const uint *restrict decay)
{
    uint weight = 0;
    ulong x = 0, y = 0, z = 0;
#if DIMS == 4
    ulong w = 0;
#endif
    for (int d = 0; d < reach; ++d) {
        // Both nodes at distance d; beyond an end, or twice the node itself, counts as none.
        const bool below = i >= d, above = d > 0 && i + d < COLORS;
        const int j = max(i - d, 0), k = min(i + d, COLORS - 1);
        const uint l = (uint)pull[d];
        const uint left = below ? l : 0, right = above ? l : 0;
        weight += left * slab[SLAB_COUNTS + j] + right * slab[SLAB_COUNTS + k];
        x += (ulong)left * slab[SLAB_SUMS + j] + (ulong)right * slab[SLAB_SUMS + k];
        y += (ulong)left * slab[SLAB_SUMS + COLORS + j] + (ulong)right * slab[SLAB_SUMS + COLORS + k];
        z += (ulong)left * slab[SLAB_SUMS + 2 * COLORS + j] + (ulong)right * slab[SLAB_SUMS + 2 * COLORS + k];
#if DIMS == 4
        w += (ulong)left * slab[SLAB_SUMS + 3 * COLORS + j] + (ulong)right * slab[SLAB_SUMS + 3 * COLORS + k];
#endif
    }
    if (weight == 0)
        return node;
    const int gain =
        weight >= SAME_WEIGHT ? 65536 : 65536 - (int)((decay[weight >> 8] * decay[256 + (weight & 255)]) >> 16);
    int4 to = node;
    to.x = moved(node.x, x, weight, gain);
    to.y = moved(node.y, y, weight, gain);
    to.z = moved(node.z, z, weight, gain);
#if DIMS == 4
    to.w = moved(node.w, w, weight, gain);
#endif
    return to;
}

// A node as searches see it: rounded half up to SEARCH_SHIFT fraction bits, as a whole number below 2^12.
float4 search_point(const int4 node)
{
    return convert_float4((node + (1 << (NODE_BITS - SEARCH_SHIFT - 1))) >> (NODE_BITS - SEARCH_SHIFT));
}
