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
// One step's totals ("slab") are uints: sums (K, 4), counts (K), wins (K), squares' low COORDINATE_BITS (K, 4), squares'
// high bits (K, 4). The points of a batch weigh at most 2^(32 - COORDINATE_BITS) together: every total is below 2^32.

#if STAGED
#define SLAB_MEMORY __local
#else
#define SLAB_MEMORY __global
#endif

#define LOW_MASK ((1u << COORDINATE_BITS) - 1)

#define SLAB_SIZE (14 * COLORS)
#define SLAB_COUNTS (4 * COLORS)
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
    ulong x = 0, y = 0, z = 0, w = 0;
    const int last = min(i + reach, COLORS);
    for (int j = max(i - reach + 1, 0); j < last; ++j) {
        const uint l = (uint)pull[abs(i - j)];
        const uint4 sum = vload4(j, slab);
        weight += l * slab[SLAB_COUNTS + j];
        x += (ulong)l * sum.x;
        y += (ulong)l * sum.y;
        z += (ulong)l * sum.z;
#if DIMS == 4
        w += (ulong)l * sum.w;
#endif
    }
    if (weight == 0)
        return node;
    const int gain = weight >= SAME_WEIGHT ? 65536 : 65536 - (int)((decay[weight >> 8] * decay[256 + (weight & 255)]) >> 16);
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
