/* The search of the mini-batch map's step and of the refinement's assignment in which work-items take points: the
 * winners of a batch's points, and what is added to their totals.
 *
 * Constants from the host besides those of neuquant/map.h:
 *   LOCAL       work-items of a group, a power of two
 *   LANES       work-items that share the search for a point, a power of two up to LOCAL
 *   TILE        points that a work-item searches for at once
 *   CITY_BLOCK  0: squared Euclidean distance; 1: sum of absolute differences
 *   CONSCIENCE  1: a node's distance is less its bias, gamma (1/K - its share of the last batch's plain wins)
 *   PACKED      1: the network lies in local memory as 16-bit integers (else as floats, twice as long)
 *   SQUARES     1: sums of squares too, for the refinement
 *   TOTALS      1: a group adds up its own totals in local memory first (else K is so large that they do not fit)
 *   WEIGHTED    1: points count as often as their weight says
 *   SHORT_KEYS  1: no conscience, and at most 256 nodes per lane, so that keys of a contest are 32-bit */

#define AT_ONCE (LOCAL / LANES * TILE)

/* The network in local memory is filled up with nodes that are farther from every point than any other. */
#define PADDED(k) (((k) + LANES - 1) / LANES * LANES)
#define FAR 16000

#if PACKED
typedef ushort4 packed_t;
#define PACK convert_ushort4
#else
typedef float4 packed_t;
#define PACK
#endif

/* The distance that a contest is about: whole, and below 2^24, so exact. */
float separation(const float4 d)
{
#if CITY_BLOCK
    return fabs(d.x) + fabs(d.y) + fabs(d.z) + (DIMS == 4 ? fabs(d.w) : 0.0f);
#else
    return d.x * d.x + d.y * d.y + d.z * d.z + (DIMS == 4 ? d.w * d.w : 0.0f);
#endif
}

/* Distance above index: the least key is the nearest node, the lowest index among equals. If a lane has few nodes,
 * and distances are below 2^24, its number among the lane's nodes will do: of equal keys the first lane's is that of
 * the lowest index. Nodes that fill up the network are farther than all others, here too. */
#if SHORT_KEYS
typedef uint contest_t;
#define NO_KEY 0xffffffffu
#define NODE_OF(key, lane) ((int)((key) & 255) * LANES + (lane))
contest_t contest_key(const float distance, const int node)
{
    return (uint)min(distance, 16777215.0f) << 8 | (uint)node / LANES;
}
#else
typedef ulong contest_t;
#define NO_KEY 0xffffffffffffffffUL
#define NODE_OF(key, lane) ((int)((key) & 0xffff))
/* Biases are below 2^14. */
contest_t contest_key(const float distance, const int node)
{
    return (ulong)((int)distance + 16384) << 32 | (ulong)node;
}
#endif

/* The winner of a point by its lanes' keys, `TILE` apart. */
int winner_of(__local const contest_t *keys)
{
    contest_t least = keys[0];
    int from = 0;
#pragma unroll 1
    for (int lane = 1; lane < LANES; ++lane) {
        const contest_t key = keys[lane * TILE];
        if (key < least) {
            least = key;
            from = lane;
        }
    }
    return NODE_OF(least, from);
}

#if TOTALS
#define TOTALS_MEMORY __local
#else
#define TOTALS_MEMORY __global
#endif
/* Words of a slab that a batch adds to, and those of local memory that hold what an update reads or these. */
#define WORDS(k) (SQUARES ? SLAB_SIZE(k) : CONSCIENCE ? 6 * (k) : WON_WORDS(k))
#define STAGED_WORDS(k) (TOTALS ? WORDS(k) : WON_WORDS(k))

/* Adds one word of a point to its winner's totals: 0 its weight, then its coordinates, then low and high parts of their
 * squares. */
void add_word(TOTALS_MEMORY uint *slab, const int colors, const int word, const int winner, const uint4 value,
              const uint weight)
{
    const uint values[4] = {value.x, value.y, value.z, value.w};
    if (word == 0) {
        atomic_add(&slab[SLAB_COUNTS + winner], weight);
    } else if (word <= DIMS) {
        atomic_add(&slab[SLAB_SUMS(colors) + (word - 1) * colors + winner], weight * values[word - 1]);
    } else {
        const int c = (word - DIMS - 1) >> 1;
        const uint square = values[c] * values[c];
        if ((word - DIMS) & 1)
            atomic_add(&slab[SLAB_LOW(colors) + c * colors + winner], weight * (square & LOW_MASK));
        else
            atomic_add(&slab[SLAB_HIGH(colors) + c * colors + winner], weight * (square >> COORDINATE_BITS));
    }
}

/* A point of the batch, the last one for all after it. */
uint point_at(const uint at, const uint batch)
{
    return min(at, max(batch, 1u) - 1);
}

/* The points of a work-item and of the others that share them: `TILE` of a batch, from its point `at` on. */
void read_tile(ushort4 *tile, __global const ushort4 *restrict points, const uint first, const uint at,
               const uint batch)
{
    for (int t = 0; t < TILE; ++t)
        tile[t] = points[first + point_at(at + t, batch)];
}

/* Leaves the keys of each point's nearest node among those of this lane. */
void search_tile(const ushort4 *tile, __local const packed_t *network, const int colors, const int lane,
                 __local contest_t *keys
#if CONSCIENCE
                 ,
                 __local const float *bias, __local contest_t *plain_keys
#endif
)
{
    float4 p[TILE];
    float best[TILE];
    int winner[TILE];
#if CONSCIENCE
    contest_t plain[TILE];
#endif
    for (int t = 0; t < TILE; ++t) {
        p[t] = convert_float4(tile[t]) * (float)(1 << SEARCH_SHIFT);
        best[t] = MAXFLOAT;
        winner[t] = 0;
#if CONSCIENCE
        plain[t] = NO_KEY;
#endif
    }
    for (int i = lane; i < PADDED(colors); i += LANES) {
        const float4 there = convert_float4(network[i]);
        for (int t = 0; t < TILE; ++t) {
            float distance = separation(there - p[t]);
#if CONSCIENCE
            plain[t] = min(plain[t], contest_key(distance, i));
            distance -= bias[i];
#endif
            if (distance < best[t]) {
                best[t] = distance;
                winner[t] = i;
            }
        }
    }
    for (int t = 0; t < TILE; ++t) {
        keys[t] = contest_key(best[t], winner[t]);
#if CONSCIENCE
        plain_keys[t] = plain[t];
#endif
    }
}

/* Adds a tile's points, from the batch's point `at` on, to the totals of the winners that their lanes' keys tell. The
 * lanes of a point share its additions. */
void add_tile(const ushort4 *tile, TOTALS_MEMORY uint *totals, const int colors, const int lane, const uint first,
              const uint at, const uint batch, __global const uint *restrict weights, __local const contest_t *keys
#if CONSCIENCE
              ,
              __local const contest_t *plain_keys
#endif
)
{
    for (int t = 0; t < TILE; ++t) {
        if (at + t >= batch || tile[t].x == 65535)
            continue;
        const int won_by = winner_of(keys + t);
        const uint weight = WEIGHTED ? weights[first + at + t] : 1;
#pragma unroll 1
        for (int word = lane; word < (SQUARES ? 3 : 1) * DIMS + 1; word += LANES)
            add_word(totals, colors, word, won_by, convert_uint4(tile[t]), weight);
#if CONSCIENCE
        if (lane == 0)
            atomic_inc(&totals[SLAB_WINS(colors) + winner_of(plain_keys + t)]);
#endif
    }
}
