/* A round of swaps, by kmeans/swaps.cl, which has the sources, and by the groups of kmeans/lloyd_grid.cl.
 *
 * PLACE: the address space of what the centers are compared by; FOUR: the vector at a multiple of four floats.
 */
#ifndef FOUR
#define FOUR(place) vload4(0, place)
#endif

/* Phases of a round: weighing, ranking, merging, taking turns, swapping. */
#define PHASES 5
/* Words of a center's marks. */
#define WORDS_PER_PLACE 10

/* The centers (DIMS, k_stride) and their totals. */
typedef struct {
    PLACE const float *centers;
    __global const ulong *totals;
    uint k, k_stride;
    int4 extents;
} Places;

/* A number per center each, 32-bit ones filled up to whole vectors of four with the greatest number: costs of merging
 * with the nearest neighbours, and gains of a split, all bits inverted; these neighbours; ranks by both; 1 for a center
 * that goes, 2 for its neighbour, else 0; turns; the untouched center of each turn, k where there is none. */
typedef struct {
    PLACE ulong *costs, *gains;
    PLACE uint *neighbours, *by_cost, *by_gain, *merges, *turns, *untouched;
} Marks;

/* Marks in WORDS_PER_PLACE words for each of k_stride centers. */
Marks marks_in(PLACE ulong *room, uint k_stride)
{
    PLACE uint *words = (PLACE uint *)(room + 2 * k_stride);
    Marks marks;
    marks.costs = room;
    marks.gains = room + k_stride;
    marks.neighbours = words;
    marks.by_cost = words + k_stride;
    marks.by_gain = words + 2 * k_stride;
    marks.merges = words + 3 * k_stride;
    marks.turns = words + 4 * k_stride;
    marks.untouched = words + 5 * k_stride;
    return marks;
}

/* The axis along which center j's points differ most, ties to the lowest. totals (STATS, k). */
int widest_axis(__global const ulong *totals, uint k, uint j)
{
    ulong squared[DIMS];
    for (int d = 0; d < DIMS; d++)
        squared[d] = TOTAL(totals, k, 1 + DIMS + d, j);
    int axis = 0;
    ulong widest = squared[0];
    for (int d = 1; d < DIMS; d++) {
        axis = squared[d] > widest ? d : axis;
        widest = max(widest, squared[d]);
    }
    return axis;
}

/* The nearest to center j among the k without itself, ties to the lowest index: its squared distance (as its bits) <<
 * 32 | its index; greater than all others where there is none. */
ulong nearest_other(uint j, uint k, PLACE const float *centers, uint k_stride)
{
    float4 best = FLT_MAX;
    int4 place = -1;
    int4 here = (int4)(0, 1, 2, 3);
    float own[DIMS];
    for (int d = 0; d < DIMS; d++)
        own[d] = centers[d * k_stride + j];
    for (uint i = 0; i < k; i += 4) {
        float4 distance = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float4 difference = FOUR(centers + d * k_stride + i) - own[d];
            distance += difference * difference;
        }
        const int4 other = (distance < best) & (here != (int)j) & (here < (int)k);
        place = select(place, here, other);
        best = select(best, distance, other);
        here += 4;
    }
    const ulong4 keys = (convert_ulong4(as_uint4(best)) << 32) | convert_ulong4(as_uint4(place));
    return min(min(keys.x, keys.y), min(keys.z, keys.w));
}

/* a b / (a + b), rounded down; 0 if both are 0. a + b at most 2^39, so that a product may pass 2^64: then a is cut at
 * 2^20, and no intermediate value passes 2^60. */
ulong merged_weight(ulong a, ulong b)
{
    const ulong both = max(a + b, (ulong)1);
    if (!(both >> 32))
        return a * b / both;
    const ulong high = (a >> 20) * b;
    const ulong low = (a & 0xfffff) * b;
    return ((high / both) << 20) + (((high % both) << 20) + low) / both;
}

/* What center j is worth: its nearest neighbour, the cost of merging the two, the gain of a split. Costs: N_i N_j /
 * (N_i + N_j) < 2^38, rounded down, times a squared distance < 2^24. */
void weigh_center(uint j, const Places *places, const Marks *marks)
{
    __global const ulong *totals = places->totals;
    const uint k = places->k;
    const ulong key = nearest_other(j, k, places->centers, places->k_stride);
    const uint nearest = (uint)key;
    marks->neighbours[j] = nearest;
    marks->merges[j] = 0;
    marks->costs[j] =
        merged_weight(TOTAL(totals, k, 0, j), TOTAL(totals, k, 0, nearest)) * (uint)as_float((uint)(key >> 32));
    marks->gains[j] = ~TOTAL(totals, k, 1 + DIMS + widest_axis(totals, k, j), j);
}

/* How many of the k keys are before that of j, ties to the lowest index. */
uint rank_of(uint j, uint k, PLACE const ulong *keys)
{
    const ulong own = keys[j];
    uint before = 0;
    for (uint i = 0; i < j; i++)
        before += keys[i] <= own;
    for (uint i = j + 1; i < k; i++)
        before += keys[i] < own;
    return before;
}

/* The centers of `count` cost ranks from `rank` on are tried: one merges with its neighbour unless one tried of a lower
 * rank, or that one's neighbour, is one of the two. */
void choose_merge(uint j, uint k, uint count, uint rank, const Marks *marks)
{
    const uint partner = marks->neighbours[j];
    const uint tried = marks->by_cost[j] - rank;
    if (tried >= count)
        return;
    int4 clash = 0;
    for (uint i = 0; i < k; i += 4) {
        const uint4 others = vload4(0, marks->neighbours + i);
        const int4 here = (int4)(int)i + (int4)(0, 1, 2, 3);
        const int4 shared = (here == (int)j) | (here == (int)partner) | (others == j) | (others == partner);
        clash |= shared & (vload4(0, marks->by_cost + i) - rank < tried);
    }
    if (!any(clash)) {
        marks->merges[j] = 1;
        marks->merges[partner] = 2;
    }
}

/* Center j's turn among its like, from 0 on: of those that go or are merged into by cost, of the others by gain. */
void take_turn(uint j, uint k, const Marks *marks)
{
    const uint kind = marks->merges[j];
    PLACE const uint *order = kind ? marks->by_cost : marks->by_gain;
    const uint own = order[j];
    int4 turn = 0;
    int4 free = 0;
    for (uint i = 0; i < k; i += 4) {
        const uint4 kinds = vload4(0, marks->merges + i);
        turn += select((int4)0, (int4)1, (kinds == kind) & (vload4(0, order + i) < own));
        free += select((int4)0, (int4)1, kinds == 0);
    }
    marks->turns[j] = (uint)(turn.x + turn.y + turn.z + turn.w);
    if (kind == 0)
        marks->untouched[marks->turns[j]] = j;
    if ((int)j >= free.x + free.y + free.z + free.w)
        marks->untouched[j] = k;
}

/* Carries the swaps out: the t-th center that goes takes half of the untouched one of turn t + rank; the two are
 * set apart along the widest axis. A neighbour of one that goes moves to the mean of both. centers (DIMS, k_stride)
 * holds the best centers and is changed where they change: no two work-items write or read the same one. */
void swap_center(uint j, const Places *places, const Marks *marks, uint rank, CENTERS float *centers)
{
    if (marks->merges[j] != 1)
        return;
    __global const ulong *totals = places->totals;
    const uint k = places->k;
    const uint k_stride = places->k_stride;
    const uint partner = marks->neighbours[j];
    const ulong weight = TOTAL(totals, k, 0, j) + TOTAL(totals, k, 0, partner);
    ulong sum[DIMS];
    for (int d = 0; d < DIMS; d++)
        sum[d] = TOTAL(totals, k, 1 + d, j) + TOTAL(totals, k, 1 + d, partner);
    for (int d = 0; d < (weight ? DIMS : 0); d++)
        centers[d * k_stride + partner] = mean_of(sum[d], weight);
    const uint turn = marks->turns[j] + rank;
    const uint split = turn < k ? marks->untouched[turn] : k;
    if (split == k || TOTAL(totals, k, 0, split) == 0)
        return;
    const int axis = widest_axis(totals, k, split);
    const ulong variance = TOTAL(totals, k, 1 + DIMS + axis, split) / TOTAL(totals, k, 0, split);
    set_apart(centers, k_stride, places->extents, split, j, axis, variance);
}

/* A phase for center j; `centers`, a copy of those of `places`, is changed by the last one. Between phases all have to
 * be through. */
void swap_phase(uint phase, uint j, const Places *places, const Marks *marks, uint count, uint rank,
                CENTERS float *centers)
{
    if (phase == 0)
        weigh_center(j, places, marks);
    else if (phase == 1) {
        marks->by_cost[j] = rank_of(j, places->k, marks->costs);
        marks->by_gain[j] = rank_of(j, places->k, marks->gains);
    } else if (phase == 2)
        choose_merge(j, places->k, count, rank, marks);
    else if (phase == 3)
        take_turn(j, places->k, marks);
    else
        swap_center(j, places, marks, rank, centers);
}
