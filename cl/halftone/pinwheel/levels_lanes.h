/* The spiral scan of eight blocks at two levels without noise, BLOCK >= 4, a block in each lane.
 *
 * It makes the portable form's integer steps in another arrangement. A straight pixel's three receivers lie side by
 * side on the next turn, so a receiver gets its last share two pixels after its first. The two unfinished sums stay in
 * registers (`near` is the next to be finished, `far` the one after); finished sums pass through a queue in the order
 * of the scan, one read and one write per pixel. Level, rule and inflow of the next pixel are read one pixel ahead.
 *
 * Constants of the host: ROW_FIRST, ROW_STRAIGHT, ROW_CORNER (outward), ROW_AFTER, ROW_STRAIGHT, ROW_CORNER, ROW_NONE
 * (inward): the rows of the kinds of pixels; CORE_START, CORE_ROWS: from which pixel on those of the inward core are
 * read, and how many rows further they are. */

/* A call would put the scan into memory, which takes a quarter longer on PoCL. */
#define INLINE inline __attribute__((always_inline))

#define QUEUE_ENTRIES (4 * BLOCK + 8)
#define ALL ((short8)(-1))
#define NONE ((short8)(0))

/* A threshold and three weights << 10 of each lane's pixel. */
typedef struct {
    short8 threshold, first, second, third;
} Rule;

typedef struct {
    __global const uchar *image;
    __global uchar *output;
    __global const short4 *record;
    int8 lanes;                     /* where each lane's block begins, in bytes after the first one's */
    int dx, dy;                     /* bytes to the next column and row */
    short8 limit;                   /* of errors */
    size_t at;                      /* the present pixel of the first lane */
    int direction;                  /* 0 right, 1 down, 2 left, 3 up */
    int done;                       /* pixels of an inward scan */
    int head, tail;                 /* of the queue */
    short8 level;                   /* of the present pixel */
    Rule rule;
    short8 carry, near, far, inflow;
    short8 error, first, second, third; /* of the pixel that was decided last, and its shares */
    short8 *queue;                  /* QUEUE_ENTRIES finished sums */
} Scan;

INLINE short8 levels_at(const Scan *scan)
{
    __global const uchar *from = scan->image + scan->at;
    const int8 lanes = scan->lanes;
    return (short8)(from[lanes.s0], from[lanes.s1], from[lanes.s2], from[lanes.s3], from[lanes.s4], from[lanes.s5],
                    from[lanes.s6], from[lanes.s7]);
}

INLINE void write_levels(__global uchar *to, int8 lanes, short8 white)
{
    to[lanes.s0] = (uchar)white.s0, to[lanes.s1] = (uchar)white.s1;
    to[lanes.s2] = (uchar)white.s2, to[lanes.s3] = (uchar)white.s3;
    to[lanes.s4] = (uchar)white.s4, to[lanes.s5] = (uchar)white.s5;
    to[lanes.s6] = (uchar)white.s6, to[lanes.s7] = (uchar)white.s7;
}

/* Eight records of four numbers, transposed. */
INLINE Rule rule_at(__global const short4 *record, int row, short8 level)
{
    __global const short4 *from = record + row * 256;
    const short4 a = from[level.s0], b = from[level.s1], c = from[level.s2], d = from[level.s3];
    const short4 e = from[level.s4], f = from[level.s5], g = from[level.s6], h = from[level.s7];
    Rule rule;
    rule.threshold = (short8)(a.s0, b.s0, c.s0, d.s0, e.s0, f.s0, g.s0, h.s0);
    rule.first = (short8)(a.s1, b.s1, c.s1, d.s1, e.s1, f.s1, g.s1, h.s1);
    rule.second = (short8)(a.s2, b.s2, c.s2, d.s2, e.s2, f.s2, g.s2, h.s2);
    rule.third = (short8)(a.s3, b.s3, c.s3, d.s3, e.s3, f.s3, g.s3, h.s3);
    return rule;
}

INLINE int next_entry(int entry)
{
    return entry + 1 == QUEUE_ENTRIES ? 0 : entry + 1;
}

INLINE void push(Scan *scan, short8 sum)
{
    scan->queue[scan->tail] = sum;
    scan->tail = next_entry(scan->tail);
}

INLINE void turn(Scan *scan, int quarters)
{
    scan->direction = (scan->direction + quarters) & 3;
}

/* Floor of error * weight / 16. */
INLINE short8 share(short8 error, short8 weight)
{
    return mul_hi(error << (short8)2, weight);
}

/* Decides the present pixel, computes its shares, and moves on by `delta` to a pixel of kind `row`. */
INLINE void decide(Scan *scan, short8 extra, int row, int delta)
{
    const size_t here = scan->at;
    scan->at += delta;
    const short8 level = levels_at(scan);
    const Rule rule = rule_at(scan->record, row, level);
    scan->head = next_entry(scan->head);
    const short8 value = scan->carry + scan->inflow + (scan->level << (short8)4) + extra;
    scan->inflow = scan->queue[scan->head];
    const short8 white = value >= scan->rule.threshold;
    write_levels(scan->output + here, scan->lanes, white);
    scan->error = clamp(value - (white & (short8)4080), -scan->limit, scan->limit);
    scan->first = share(scan->error, scan->rule.first);
    scan->second = share(scan->error, scan->rule.second);
    scan->third = share(scan->error, scan->rule.third);
    scan->level = level;
    scan->rule = rule;
}

/* As `decide`, moving on in the scan's direction. */
INLINE void step(Scan *scan, short8 extra, int row)
{
    const int length = scan->direction & 1 ? scan->dy : scan->dx;
    decide(scan, extra, row, scan->direction & 2 ? -length : length);
}

/* After `decide` of a straight pixel, with shares at 45, 90 and 135 degrees; those that `mask` clears go forward. */
INLINE void leave_straight(Scan *scan, short8 mask)
{
    scan->first &= mask, scan->second &= mask, scan->third &= mask;
    scan->carry = scan->error - scan->first - scan->second - scan->third;
    push(scan, scan->near + scan->third);
    scan->near = scan->far + scan->second;
    scan->far = scan->first;
}

#if PHASE == 0

/* A pixel with shares at 90, 135 and 180 degrees: the receivers after the last two that straight pixels began. */
INLINE void corner(Scan *scan, int row, short8 mask)
{
    step(scan, NONE, row);
    scan->first &= mask, scan->second &= mask;
    scan->carry = scan->error - scan->first - scan->second - scan->third;
    push(scan, scan->near);
    push(scan, scan->far + scan->third);
    push(scan, scan->second);
    scan->near = scan->first;
    scan->far = NONE;
}

/* A corner of the block: the pixel diagonally beyond is of the same phase, so 135 degrees is on the side left behind.
 */
INLINE void block_corner(Scan *scan, int row, short8 mask, short8 next_mask)
{
    step(scan, NONE, row);
    scan->first &= next_mask, scan->second &= mask, scan->third &= mask;
    scan->carry = scan->error - scan->first - scan->second - scan->third;
    push(scan, scan->near + scan->second);
    push(scan, scan->far + scan->third);
    push(scan, NONE);
    scan->near = scan->first;
    scan->far = NONE;
}

/* The whole outward scan from `at` and `carry` on; `above`, `right`, `below`, `left` clear shares beyond the picture.
 * Afterwards the queue from `head` on holds the sums beyond the block: left side downward, a gap, lower side rightward,
 * a gap, right side upward, a gap, upper side leftward. */
INLINE void scan_outward(Scan *scan, short8 above, short8 right, short8 below, short8 left)
{
    scan->queue[0] = NONE;
    scan->head = QUEUE_ENTRIES - 1, scan->tail = 1;
    scan->direction = (BLOCK & 1) ? 2 : 0;
    scan->level = levels_at(scan), scan->rule = rule_at(scan->record, ROW_FIRST, scan->level);
    scan->near = NONE, scan->far = NONE, scan->inflow = NONE;
    step(scan, NONE, ROW_CORNER);
    scan->carry = scan->error - scan->first - scan->second - scan->third;
    push(scan, NONE);
    push(scan, scan->second);
    push(scan, NONE);
    push(scan, scan->third);
    push(scan, NONE);
    scan->near = scan->first;
    for (int side = 0; side < 2 * BLOCK - 5; ++side) {
        for (int i = side / 2; i > 0; --i) {
            step(scan, NONE, i > 1 ? ROW_STRAIGHT : ROW_CORNER);
            leave_straight(scan, ALL);
        }
        turn(scan, 3);
        corner(scan, side > 0 ? ROW_STRAIGHT : ROW_CORNER, side == 2 * BLOCK - 6 ? left : ALL);
    }
    for (int side = 0; side < 3; ++side) {
        const short8 mask = side == 0 ? left : side == 1 ? below : right;
        const short8 next_mask = side == 0 ? below : side == 1 ? right : above;
        for (int i = side == 0 ? BLOCK - 3 : BLOCK - 2; i > 0; --i) {
            step(scan, NONE, i > 1 ? ROW_STRAIGHT : ROW_CORNER);
            leave_straight(scan, mask);
        }
        turn(scan, 3);
        block_corner(scan, ROW_STRAIGHT, mask, next_mask);
    }
    for (int i = BLOCK - 2; i > 0; --i) {
        step(scan, NONE, ROW_STRAIGHT);
        leave_straight(scan, above);
    }
    decide(scan, NONE, ROW_STRAIGHT, 0);
    scan->first &= left, scan->second &= above, scan->third &= above;
    scan->carry = scan->error - scan->first - scan->second - scan->third;
    push(scan, scan->near + scan->third);
    push(scan, scan->far + scan->second);
    scan->queue[scan->head] += scan->carry & left;
    scan->queue[next_entry(scan->head)] += scan->first;
}

#else

/* The row of a kind for the pixel after the present one, which is the inward core's from CORE_START on. */
INLINE int next_kind(Scan *scan, int row)
{
    return row + (++scan->done >= CORE_START ? CORE_ROWS : 0);
}

/* The whole inward scan from `at` on; before it the queue holds what reached the rim but for its last pixel, (1, 0),
 * whose sum is in `near`; `inflow` holds the first entry and `head` is 0. */
INLINE void scan_inward(Scan *scan)
{
    scan->done = 0;
    scan->direction = 0;
    scan->level = levels_at(scan), scan->rule = rule_at(scan->record, ROW_AFTER, scan->level);
    scan->far = NONE, scan->carry = NONE;
    for (int side = 0; side < 2 * BLOCK - 3; ++side) {
        const int length = BLOCK - (side + 1) / 2;
        step(scan, scan->far, next_kind(scan, length > 2 ? ROW_STRAIGHT : ROW_CORNER));
        scan->carry = scan->error - scan->first - scan->second;
        scan->near += scan->second;
        scan->far = scan->first;
        for (int i = length - 2; i > 0; --i) {
            step(scan, NONE, next_kind(scan, i > 1 ? ROW_STRAIGHT : ROW_CORNER));
            leave_straight(scan, ALL);
        }
        turn(scan, 1);
        step(scan, NONE, next_kind(scan, side < 2 * BLOCK - 4 ? ROW_AFTER : ROW_NONE));
        scan->carry = scan->error - scan->first;
        scan->near += scan->first;
    }
    turn(scan, 1);
    step(scan, scan->far, next_kind(scan, ROW_NONE));
    scan->carry = scan->error;
    scan->inflow = scan->near;
    decide(scan, NONE, ROW_NONE, 0);
}

#endif
