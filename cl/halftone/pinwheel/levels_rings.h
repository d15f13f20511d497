/* The scan of one block by one work-item, some turns of the spiral at a time (halftone/pinwheel/levels_rings.cl).
 *
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 2. The steps are those of halftone/pinwheel/levels_lanes.h, in another arrangement.
 * Constants: BLOCK, PHASE, RINGS, LANES, LOOSE as in halftone/pinwheel/levels_rings.cl. */

#define WIDE (2 * RINGS) /* how much the sides of a part's blocks differ */
#define PARTS ((BLOCK + WIDE - 1) / WIDE)
#define PART_PIXELS (BLOCK < WIDE ? BLOCK * BLOCK : 2 * WIDE * BLOCK - WIDE * WIDE)
#define RING_PITCH (LANES + 1)
#define QUEUE_ENTRIES (4 * BLOCK + 8)
#define AHEAD 3 /* pixels whose levels are read ahead */
#define UNROLLED 4

/* The scan of one block: where it stands, what is read ahead, and the sums of errors that are on their way. */
typedef struct {
    __local uchar *pixels;          /* the present one in the tile; the next is RING_PITCH further */
    __local short *queue;           /* a lane's finished sums, LANES apart, from `head` to before `tail` */
    __local const uint *records;    /* of straight pixels, by level */
    __local const ushort *specials; /* weights of the others, by level */
    int head, tail, side, done;   /* `done`: pixels of an inward scan */
    int carry, near, far;         /* error for the next pixel, and for the last two receivers that were begun */
    int inflow, sum;              /* errors for the next pixel; errors and level of the present one, in 1/16 levels */
    int error, first, second, third;      /* the present pixel's error, and the shares of three receivers */
    int level_0, level_1, level_2, level_3; /* of the present pixel and the three after it */
    uint record_0, record_1, record_2;
    int straight, limit; /* where records of straight pixels begin; error_limit */
} ring_scan_t;

inline int after(int entry)
{
    return entry + 1 == QUEUE_ENTRIES ? 0 : entry + 1;
}

inline void push(ring_scan_t *scan, int sum)
{
    scan->queue[scan->tail * LANES] = (short)sum;
    scan->tail = after(scan->tail);
}

/* Read ahead: a level by three pixels, a straight pixel's record by two, a finished sum by one. */
inline void read_ahead(ring_scan_t *scan, __local const short *finished)
{
    scan->level_3 = scan->pixels[AHEAD * RING_PITCH];
    scan->record_2 = scan->records[scan->straight + scan->level_2];
    scan->inflow = *finished;
}

/* Decide the present pixel, whose threshold is that of `record_0`, and split its error by `weights`. */
inline void decide(ring_scan_t *scan, uint weights, int extra)
{
    const int value = scan->carry + scan->sum + extra, limit = scan->limit;
    const int white = value >= (int)(scan->record_0 >> 20);
    scan->pixels[0] = white ? 255 : 0;
#if LOOSE
    /* A limit of at least 4080 stops only what is above it of a white pixel, and below it of a black one: the two are
     * computed beside the decision then. */
    scan->error = white ? min(value - 4080, limit) : max(value, -limit);
#else
    scan->error = min(max(white ? value - 4080 : value, -limit), limit);
#endif
    scan->first = scan->error * (int)(weights & 31u) >> 4;
    scan->second = scan->error * (int)(weights & 31u << 5) >> 9;
    scan->third = scan->error * (int)(weights & 31u << 10) >> 14;
}

inline void move_on(ring_scan_t *scan)
{
    scan->pixels += RING_PITCH;
    scan->sum = scan->inflow + 16 * scan->level_1;
    scan->level_0 = scan->level_1, scan->level_1 = scan->level_2, scan->level_2 = scan->level_3;
    scan->record_0 = scan->record_1, scan->record_1 = scan->record_2;
}

/* A pixel of another kind than straight, whose weights are read when it is due. */
inline void decide_special(ring_scan_t *scan, uint weights, int extra)
{
    read_ahead(scan, scan->queue + scan->head * LANES);
    scan->head = after(scan->head);
    decide(scan, weights, extra);
}

inline void decide_straight(ring_scan_t *scan, __local const short *from, __local short *to, int mask)
{
    read_ahead(scan, from);
    decide(scan, scan->record_0, 0);
    scan->first &= mask, scan->second &= mask, scan->third &= mask;
    scan->carry = scan->error - (scan->first + scan->second + scan->third);
    *to = (short)(scan->near + scan->third);
    scan->near = scan->far + scan->second, scan->far = scan->first;
    move_on(scan);
}

/* `length` straight pixels: shares at 45, 90 and 135 degrees; those that `mask` clears go forward. */
inline void scan_straights(ring_scan_t *scan, int length, int mask)
{
    while (length > 0) {
        int run = min(length, QUEUE_ENTRIES - max(scan->head, scan->tail));
#if PHASE == 1
        /* The last eighth of an inward scan has records of its own. */
        if (scan->done + 2 < CORE_START)
            run = min(run, CORE_START - 2 - scan->done);
        scan->straight = scan->done + 2 < CORE_START ? 0 : 256;
        scan->done += run;
#endif
        length -= run;
        __local const short *from = scan->queue + scan->head * LANES;
        __local short *to = scan->queue + scan->tail * LANES;
        scan->head = scan->head + run == QUEUE_ENTRIES ? 0 : scan->head + run;
        scan->tail = scan->tail + run == QUEUE_ENTRIES ? 0 : scan->tail + run;
        for (; run >= UNROLLED; run -= UNROLLED, from += UNROLLED * LANES, to += UNROLLED * LANES) {
#pragma unroll
            for (int i = 0; i < UNROLLED; ++i)
                decide_straight(scan, from + i * LANES, to + i * LANES, mask);
        }
        for (; run > 0; --run, from += LANES, to += LANES)
            decide_straight(scan, from, to, mask);
    }
}

#if PHASE == 0

/* Shares at 90, 135 and 180 degrees: the receivers after the last two that straight pixels began. */
inline void turn(ring_scan_t *scan, int mask)
{
    decide_special(scan, scan->specials[scan->level_0], 0);
    scan->first &= mask, scan->second &= mask;
    scan->carry = scan->error - (scan->first + scan->second + scan->third);
    push(scan, scan->near);
    push(scan, scan->far + scan->third);
    push(scan, scan->second);
    scan->near = scan->first, scan->far = 0;
    move_on(scan);
}

/* A corner of the block: the pixel diagonally beyond is of the same phase, so 135 degrees is on the side left. */
inline void turn_at_block_corner(ring_scan_t *scan, int mask, int next_mask)
{
    decide_special(scan, scan->specials[scan->level_0], 0);
    scan->first &= next_mask, scan->second &= mask, scan->third &= mask;
    scan->carry = scan->error - (scan->first + scan->second + scan->third);
    push(scan, scan->near + scan->second);
    push(scan, scan->far + scan->third);
    push(scan, 0);
    scan->near = scan->first, scan->far = 0;
    move_on(scan);
}

/* The first pixel of a block, whose error is `start` before it. */
inline void begin_outward(ring_scan_t *scan, int start, uint weights)
{
    scan->carry = start;
    scan->queue[0] = 0;
    scan->tail = 1;
    decide_special(scan, weights, 0);
    scan->carry = scan->error - (scan->first + scan->second + scan->third);
    push(scan, 0);
    push(scan, scan->second);
    push(scan, 0);
    push(scan, scan->third);
    push(scan, 0);
    scan->near = scan->first;
    move_on(scan);
}

/* The last three and a half sides of a block. `masks`: above, right, below, left. */
inline void end_outward(ring_scan_t *scan, int4 masks)
{
    for (int edge = 0; edge < 3; ++edge) {
        const int mask = edge == 0 ? masks.s3 : edge == 1 ? masks.s2 : masks.s1;
        const int next_mask = edge == 0 ? masks.s2 : edge == 1 ? masks.s1 : masks.s0;
        scan_straights(scan, edge == 0 ? BLOCK - 3 : BLOCK - 2, mask);
        turn_at_block_corner(scan, mask, next_mask);
    }
    scan_straights(scan, BLOCK - 2, masks.s0);
    decide_special(scan, scan->record_0, 0);
    scan->first &= masks.s3, scan->second &= masks.s0, scan->third &= masks.s0;
    scan->carry = scan->error - scan->first - scan->second - scan->third;
    push(scan, scan->near + scan->third);
    push(scan, scan->far + scan->second);
    scan->head = scan->head ? scan->head - 1 : QUEUE_ENTRIES - 1;
    __local short *here = scan->queue + scan->head * LANES, *next = scan->queue + after(scan->head) * LANES;
    *here = (short)(*here + (scan->carry & masks.s3));
    *next = (short)(*next + scan->first);
}

/* A part of an outward scan after its first pixel: sides up to the turn that ends the part. */
inline void scan_outward(ring_scan_t *scan, int part, int outer, int4 masks)
{
    const int stop = part < PARTS - 1 ? 2 * outer - 2 : 2 * BLOCK - 5;
    for (;; ++scan->side) {
        if (scan->side == 2 * BLOCK - 5)
            break;
        scan_straights(scan, scan->side / 2, -1);
        if (scan->side == stop)
            break;
        turn(scan, scan->side == 2 * BLOCK - 6 ? masks.s3 : -1);
    }
    if (part == PARTS - 1)
        end_outward(scan, masks);
}

#else

#define OF_CORE(k) ((k) < CORE_START ? 0 : 256)

/* A pixel after or at a turn. */
inline void decide_any(ring_scan_t *scan, int extra)
{
    scan->straight = scan->done + 2 < CORE_START ? 0 : 256;
    decide_special(scan, scan->specials[OF_CORE(scan->done) + scan->level_0], extra);
    ++scan->done;
}

/* A part of an inward scan. */
inline void scan_inward(ring_scan_t *scan, int part)
{
    const int stop = part < PARTS - 1 ? 4 * RINGS * (part + 1) : 2 * BLOCK - 3;
    for (; scan->side < stop; ++scan->side) {
        const int length = BLOCK - (scan->side + 1) / 2;
        decide_any(scan, scan->far);
        scan->carry = scan->error - (scan->first + scan->second);
        scan->near += scan->second, scan->far = scan->first;
        move_on(scan);
        scan_straights(scan, length - 2, -1);
        decide_any(scan, 0);
        scan->carry = scan->error - scan->third;
        scan->near += scan->third;
        move_on(scan);
    }
    if (part == PARTS - 1) {
        decide_any(scan, scan->far);
        scan->carry = scan->error;
        scan->inflow = scan->near;
        move_on(scan);
        decide_any(scan, 0);
    }
}

#endif
