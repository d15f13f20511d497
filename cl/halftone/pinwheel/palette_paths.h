/* The scan of one block by one work-item, to a palette (halftone/pinwheel/palette_paths.cl).
 *
 * What is computed is said in halftone/pinwheel/palette.cl, in which order in halftone/pinwheel/levels_lanes.h.
 * Constants: those of halftone/pinwheel/palette_paths.cl. */

#define QUEUE_ENTRIES (4 * BLOCK + 4)
#define QUADS ((BLOCK * BLOCK + 3) / 4)
#define HALF_VALUE 8
#define SHARES 16
#define INLINE inline __attribute__((always_inline))

/* The palette's entries are near at hand where they are few, as every step waits for one. */
#if NEAR_COLORS
typedef __local const uint2 *shades_t;
typedef __local const short4 *points_t;
#else
typedef __global const uint2 *shades_t;
typedef __global const int4 *points_t;
#endif

/* The scan of one block: its tables, where it stands, and the errors that are on their way. */
typedef struct {
    __global const INDEX *nearest;
    __global const short *light;
    __global const uchar *codes;
    shades_t shades; /* colours of entries, and the most of an error that is passed on */
    points_t points;
    __global const int4 *colors; /* dithering/reach.h */
    __global const int *tables;
    __global const uint *within;
    int n_entries, speck;
    __local const int *shares; /* what counts of an error that reaches a pixel, by the code of its place */
    int limit, gain;
    __global const uint *paths; /* the block's pixels, LANES apart */
    __global INDEX *entries;    /* as `paths` */
    int here;                   /* the number of the present pixel */
    uint4 now, next;            /* the present pixel and those after it, of four; the next four */
    __local uint *two;  /* the block's queue from `head` to before `tail`, LANES apart: red and green in a word, */
    __local short *one; /* and blue */
    int head, tail;
    int3 carry, near, far;     /* error for the next pixel, and for the last two receivers that were begun */
    int3 inflow;               /* errors for the present pixel from the queue */
    int3 first, second, third; /* shares of three receivers */
} path_scan_t;

INLINE int after(int entry)
{
    return entry + 1 == QUEUE_ENTRIES ? 0 : entry + 1;
}

INLINE int3 unpacked(uint color)
{
    return (int3)((int)(color & 255u), (int)(color >> 8 & 255u), (int)(color >> 16 & 255u));
}

#if LINEAR
INLINE int3 worth_of(const path_scan_t *scan, int3 code)
{
    return (int3)(scan->light[code.x], scan->light[code.y], scan->light[code.z]);
}

/* Where the nearest entry of a worth with its error is. */
INLINE uint place_of(const path_scan_t *scan, int3 worth, int3 reached, int gain)
{
    const int3 sum = clamp(worth + (reached * gain >> 4), (int3)(0), (int3)(4080));
    return (uint)scan->codes[sum.x] | (uint)scan->codes[sum.y] << 8 | (uint)scan->codes[sum.z] << 16;
}
#else
/* Half a value more, so that the low bits of a sum are cut off to round it: what is taken off is that much less. */
INLINE int3 worth_of(const path_scan_t *scan, int3 code)
{
    return (code << 4) + HALF_VALUE;
}

INLINE uint place_of(const path_scan_t *scan, int3 worth, int3 reached, int gain)
{
    const uint3 values = as_uint3(clamp((worth << 4) + reached * gain, (int3)(0), (int3)(65535)));
    return values.x >> 8 | (values.y & 0xff00u) | (values.z & 0xff00u) << 8;
}
#endif

/* A sum in the queue. */
INLINE int3 queued(__local const uint *two, __local const short *one)
{
    const uint word = *two;
    return (int3)((int)(short)word, (int)word >> 16, *one);
}

INLINE void enqueue(__local uint *two, __local short *one, int3 sum)
{
    *two = (uint)sum.y << 16 | (uint)sum.x & 0xffffu;
    *one = (short)sum.z;
}

INLINE int3 queued_at(const path_scan_t *scan, int entry)
{
    return queued(scan->two + entry * LANES, scan->one + entry * LANES);
}

INLINE void enqueue_at(const path_scan_t *scan, int entry, int3 sum)
{
    enqueue(scan->two + entry * LANES, scan->one + entry * LANES, sum);
}

INLINE void push(path_scan_t *scan, int3 sum)
{
    enqueue_at(scan, scan->tail, sum);
    scan->tail = after(scan->tail);
}

/* Four pixels of a path, which are read ahead; beyond its end the last four. */
INLINE uint4 quad_of(__global const uint *paths, int i)
{
    __global const uint *from = paths + min(i, QUADS - 1) * (4 * LANES);
    return (uint4)(from[0], from[LANES], from[2 * LANES], from[3 * LANES]);
}

INLINE void begin_path(path_scan_t *scan)
{
    scan->here = 0;
    scan->now = quad_of(scan->paths, 0), scan->next = quad_of(scan->paths, 1);
}

INLINE void read_ahead(path_scan_t *scan)
{
    scan->now = (uint4)(scan->now.s123, 0u);
    if ((++scan->here & 3) == 0) {
        scan->now = scan->next;
        scan->next = quad_of(scan->paths, scan->here / 4 + 1);
    }
}

/* The entry nearest to the colour of a place. */
INLINE uint entry_near(const path_scan_t *scan, uint place)
{
#if FEW
    const int4 point = (int4)(unpacked(place), 0);
    return (uint)entry_of_few(point, point, scan->points, scan->n_entries, WHITE, 0);
#else
    return scan->nearest[place];
#endif
}

/* The entry that a pixel shows in place of a speck. */
INLINE uint entry_shown(const path_scan_t *scan, uint pixel, int3 worth, int3 reached)
{
    const int3 aim = unpacked(place_of(scan, worth, reached, 16));
    const int4 color = (int4)(unpacked(pixel), WHITE);
#if FEW
    return (uint)entry_of_few((int4)(aim, 0), color, scan->points, scan->n_entries, scan->speck, PENALTY);
#else
    const int4 point = space_coordinates((int4)(aim, WHITE), scan->tables);
    return (uint)entry_in_reach(point, color, scan->points, scan->colors, scan->within, scan->n_entries, scan->speck);
#endif
}

/* Decide the present pixel and split its error in sixteenths, `weights` of them to three receivers; `two` and `one` are
 * the queue's entry of the next pixel. With `marked` the top bits of a pixel clear what would leave the picture: 31 of a
 * pixel outside, 30 to 28 of the shares. */
INLINE void decide(path_scan_t *scan, int marked, int3 weights, int3 extra, __local const uint *two,
                   __local const short *one)
{
    const uint pixel = scan->now.s0, marks = marked ? pixel : 0u;
    const int place = scan->here;
    const int3 worth = worth_of(scan, unpacked(pixel));
    const int3 arrived = scan->carry + scan->inflow + extra;
    const int3 reached = (int)marks < 0 ? arrived : arrived * scan->shares[pixel >> 24 & 15u] >> 8;
    uint entry = entry_near(scan, place_of(scan, worth, reached, scan->gain));
    scan->inflow = queued(two, one);
    read_ahead(scan);
    uint2 shade = scan->shades[entry];
    if (gap((int4)(unpacked(pixel), 0), (int4)(unpacked(shade.x), 0)) > scan->speck) {
        entry = entry_shown(scan, pixel, worth, reached);
        shade = scan->shades[entry];
    }
    const int3 wrong = worth - worth_of(scan, unpacked(shade.x));
    const int limit = (int)marks < 0 ? scan->limit : min((int)shade.y, scan->limit);
    scan->entries[place * LANES] = (INDEX)entry;
    const int3 error = clamp(reached + ((int)marks < 0 ? (int3)(0) : wrong), (int3)(-limit), (int3)(limit));
    scan->first = marks & 1u << 30 ? (int3)(0) : error * weights.x >> 4;
    scan->second = marks & 1u << 29 ? (int3)(0) : error * weights.y >> 4;
    scan->third = marks & 1u << 28 ? (int3)(0) : error * weights.z >> 4;
    scan->carry = error - (scan->first + scan->second + scan->third);
}

/* A pixel that is none of a run of straight ones. */
INLINE void decide_special(path_scan_t *scan, int marked, int3 weights, int3 extra)
{
    decide(scan, marked, weights, extra, scan->two + scan->head * LANES, scan->one + scan->head * LANES);
    scan->head = after(scan->head);
}

/* `length` straight pixels. A run ends where the queue does, so that places in it are those before and a constant. */
INLINE void scan_straights(path_scan_t *scan, int marked, int length)
{
    while (length > 0) {
        int run = min(length, QUEUE_ENTRIES - max(scan->head, scan->tail));
        length -= run;
        __local const uint *from_two = scan->two + scan->head * LANES;
        __local const short *from_one = scan->one + scan->head * LANES;
        __local uint *to_two = scan->two + scan->tail * LANES;
        __local short *to_one = scan->one + scan->tail * LANES;
        scan->head = scan->head + run == QUEUE_ENTRIES ? 0 : scan->head + run;
        scan->tail = scan->tail + run == QUEUE_ENTRIES ? 0 : scan->tail + run;
        for (; run > 0; --run) {
            decide(scan, marked, (int3)(STRAIGHT_1, STRAIGHT_2, STRAIGHT_3), 0, from_two, from_one);
            enqueue(to_two, to_one, scan->near + scan->third);
            from_two += LANES, from_one += LANES, to_two += LANES, to_one += LANES;
            scan->near = scan->far + scan->second, scan->far = scan->first;
        }
    }
}

#if PHASE == 0

/* The first pixel of a block, whose error is `start` before it. */
INLINE void begin_outward(path_scan_t *scan, int3 start)
{
    scan->carry = start;
    enqueue_at(scan, 0, (int3)(0));
    scan->tail = 1;
    decide_special(scan, 1, (int3)(FIRST_1, FIRST_2, FIRST_3), 0);
    push(scan, (int3)(0));
    push(scan, scan->second);
    push(scan, (int3)(0));
    push(scan, scan->third);
    push(scan, (int3)(0));
    scan->near = scan->first;
}

/* Sides `from` to `to` - 1 of an outward block, each with the corner that ends it. */
INLINE void scan_sides(path_scan_t *scan, int marked, int from, int to)
{
    for (int side = from; side < to; ++side) {
        scan_straights(scan, marked, side < 2 * BLOCK - 5 ? side / 2 : side == 2 * BLOCK - 5 ? BLOCK - 3 : BLOCK - 2);
        decide_special(scan, marked, (int3)(CORNER_1, CORNER_2, CORNER_3), 0);
        if (side < 2 * BLOCK - 5) {
            push(scan, scan->near);
            push(scan, scan->far + scan->third);
            push(scan, scan->second);
        } else {
            push(scan, scan->near + scan->second);
            push(scan, scan->far + scan->third);
            push(scan, (int3)(0));
        }
        scan->near = scan->first, scan->far = 0;
    }
}

/* An outward block after its first pixel: what it leaves is in the queue, from `head` on. */
INLINE void scan_outward(path_scan_t *scan, int cut)
{
    /* Only the last turn of a whole block gives to pixels beyond it. */
    const int inside = cut ? 0 : 2 * BLOCK - 6;
    scan_sides(scan, 0, 0, inside);
    scan_sides(scan, 1, inside, 2 * BLOCK - 2);
    scan_straights(scan, 1, BLOCK - 2);
    decide_special(scan, 1, (int3)(STRAIGHT_1, STRAIGHT_2, STRAIGHT_3), 0);
    push(scan, scan->near + scan->third);
    push(scan, scan->far + scan->second);
    /* `inflow` was the first entry beyond, which the last forward share belongs to. */
    scan->head = scan->head ? scan->head - 1 : QUEUE_ENTRIES - 1;
    enqueue_at(scan, scan->head, queued_at(scan, scan->head) + scan->carry);
    enqueue_at(scan, after(scan->head), queued_at(scan, after(scan->head)) + scan->first);
}

#else

/* All of an inward block; the queue has what reached its rim. */
INLINE void scan_inward(path_scan_t *scan, int marked)
{
    for (int side = 0; side < 2 * BLOCK - 3; ++side) {
        decide_special(scan, marked, (int3)(AFTER_1, AFTER_2, 0), scan->far);
        scan->near += scan->second, scan->far = scan->first;
        scan_straights(scan, marked, BLOCK - (side + 1) / 2 - 2);
        decide_special(scan, marked, (int3)(CORNER_1, 0, 0), 0);
        scan->near += scan->first;
    }
    decide_special(scan, marked, (int3)(0), scan->far);
    scan->inflow = scan->near;
    decide_special(scan, marked, (int3)(0), 0);
}

#endif
