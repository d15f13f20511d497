/* The spiral scan of a block at two levels without noise, BLOCK >= 4, as text for the body of a kernel.
 *
 * It makes the portable form's integer steps in another arrangement. A straight pixel's three receivers lie side by
 * side on the next turn, so a receiver gets its last share two pixels after its first. The two unfinished sums stay in
 * registers (`near` is the next to be finished, `far` the one after); finished sums pass through a queue in the order
 * of the scan, one read and one write a pixel. Level, rule and inflow of the next pixel are read one pixel ahead.
 *
 * The kernel gives value_t (one or several lanes' 16-bit values), Rule (threshold, first, second, third) and
 *   LEVELS(at)          input levels at a place        rule_at(record, row, levels)   thresholds and weights
 *   EMIT(at, white)     writes 0 or 255                SHARE(error, weight)           floor(error * weight / 16)
 *   QUEUE_AT(i), QUEUE_STEP, QUEUE_END                 the queue: entries at i = 0, QUEUE_STEP, .. below QUEUE_END
 * and the variables  at, dx, dy (a place and its steps), record, limit, carry, near, far, inflow, head, tail, direction
 * (0 right, 1 down, 2 left, 3 up), core (row offset of the inward core).
 * Constants of the host: ROW_FIRST, ROW_STRAIGHT, ROW_CORNER (outward), ROW_AFTER, ROW_STRAIGHT, ROW_CORNER, ROW_NONE
 * (inward): the rows of the kinds of pixels; CORE_START, CORE_ROWS. */

#define QUEUE_ENTRIES (4 * BLOCK + 8)
#define ALL (value_t)(-1)

#define NEXT(i) ((i) + QUEUE_STEP == QUEUE_END ? 0 : (i) + QUEUE_STEP)
#define PUSH(sum)                                                                                                      \
    QUEUE_AT(tail) = CONVERT_QUEUE(sum);                                                                               \
    tail = NEXT(tail)
#define DELTA ((direction & 1) ? (direction & 2 ? -dy : dy) : (direction & 2 ? -dx : dx))

/* Decide the pixel at `at`, compute its shares, and move on by `delta` to a pixel of kind `row`. */
#define STEP(extra, row, delta)                                                                                        \
    here = at;                                                                                                         \
    at += (delta);                                                                                                     \
    next_level = LEVELS(at);                                                                                           \
    next_rule = rule_at(record, (row), next_level);                                                                    \
    head = NEXT(head);                                                                                                 \
    error = carry + inflow + (level << (value_t)4) + (extra);                                                          \
    inflow = CONVERT_VALUE(QUEUE_AT(head));                                                                            \
    white = AT_LEAST(error, rule.threshold);                                                                           \
    EMIT(here, white);                                                                                                 \
    error = clamp(error - (white & (value_t)4080), -limit, limit);                                                     \
    first = SHARE(error, rule.first);                                                                                  \
    second = SHARE(error, rule.second);                                                                                \
    third = SHARE(error, rule.third);                                                                                  \
    level = next_level;                                                                                                \
    rule = next_rule

/* Shares at 45, 90 and 135 degrees; those that `mask` clears go forward. */
#define STRAIGHT(row, delta, mask)                                                                                     \
    STEP((value_t)0, row, delta);                                                                                      \
    first &= (mask), second &= (mask), third &= (mask);                                                                \
    carry = error - first - second - third;                                                                            \
    PUSH(near + third);                                                                                                \
    near = far + second;                                                                                               \
    far = first

#if PHASE == 0

/* Shares at 90, 135 and 180 degrees: the receivers after the last two that straight pixels began. */
#define CORNER(row, delta, mask)                                                                                       \
    STEP((value_t)0, row, delta);                                                                                      \
    first &= (mask), second &= (mask);                                                                                 \
    carry = error - first - second - third;                                                                            \
    PUSH(near);                                                                                                        \
    PUSH(far + third);                                                                                                 \
    PUSH(second);                                                                                                      \
    near = first;                                                                                                      \
    far = (value_t)0

/* A corner of the block: the pixel diagonally beyond is of the same phase, so 135 degrees is on the side left behind.
 */
#define BLOCK_CORNER(row, delta, mask, next_mask)                                                                      \
    STEP((value_t)0, row, delta);                                                                                      \
    first &= (next_mask), second &= (mask), third &= (mask);                                                           \
    carry = error - first - second - third;                                                                            \
    PUSH(near + second);                                                                                               \
    PUSH(far + third);                                                                                                 \
    PUSH((value_t)0);                                                                                                  \
    near = first;                                                                                                      \
    far = (value_t)0

/* The whole outward scan; `above`, `right`, `below`, `left` clear shares beyond the picture. Afterwards the queue from
 * `head` on holds the sums beyond the block: left side downward, a gap, lower side rightward, a gap, right side upward,
 * a gap, upper side leftward. */
#define SCAN                                                                                                           \
    QUEUE_AT(0) = CONVERT_QUEUE((value_t)0);                                                                           \
    head = QUEUE_END - QUEUE_STEP, tail = QUEUE_STEP;                                                                  \
    direction = (BLOCK & 1) ? 2 : 0;                                                                                   \
    level = LEVELS(at), rule = rule_at(record, ROW_FIRST, level);                                                      \
    near = (value_t)0, far = (value_t)0, inflow = (value_t)0;                                                          \
    STEP((value_t)0, ROW_CORNER, DELTA);                                                                               \
    carry = error - first - second - third;                                                                            \
    PUSH((value_t)0);                                                                                                  \
    PUSH(second);                                                                                                      \
    PUSH((value_t)0);                                                                                                  \
    PUSH(third);                                                                                                       \
    PUSH((value_t)0);                                                                                                  \
    near = first;                                                                                                      \
    for (int side = 0; side < 2 * BLOCK - 5; ++side) {                                                                 \
        for (int i = side / 2; i > 0; --i) {                                                                           \
            STRAIGHT(i > 1 ? ROW_STRAIGHT : ROW_CORNER, DELTA, ALL);                                                   \
        }                                                                                                              \
        direction = (direction + 3) & 3;                                                                               \
        CORNER(side > 0 ? ROW_STRAIGHT : ROW_CORNER, DELTA, side == 2 * BLOCK - 6 ? left : ALL);                       \
    }                                                                                                                  \
    for (int side = 0; side < 3; ++side) {                                                                             \
        const value_t mask = side == 0 ? left : side == 1 ? below : right;                                             \
        const value_t next_mask = side == 0 ? below : side == 1 ? right : above;                                       \
        for (int i = side == 0 ? BLOCK - 3 : BLOCK - 2; i > 0; --i) {                                                  \
            STRAIGHT(i > 1 ? ROW_STRAIGHT : ROW_CORNER, DELTA, mask);                                                  \
        }                                                                                                              \
        direction = (direction + 3) & 3;                                                                               \
        BLOCK_CORNER(ROW_STRAIGHT, DELTA, mask, next_mask);                                                            \
    }                                                                                                                  \
    for (int i = BLOCK - 2; i > 0; --i) {                                                                              \
        STRAIGHT(ROW_STRAIGHT, DELTA, above);                                                                          \
    }                                                                                                                  \
    STEP((value_t)0, ROW_STRAIGHT, 0);                                                                                 \
    first &= left, second &= above, third &= above;                                                                    \
    carry = error - first - second - third;                                                                            \
    PUSH(near + third);                                                                                                \
    PUSH(far + second);                                                                                                \
    QUEUE_AT(head) = CONVERT_QUEUE(CONVERT_VALUE(QUEUE_AT(head)) + (carry & left));                                    \
    QUEUE_AT(NEXT(head)) = CONVERT_QUEUE(CONVERT_VALUE(QUEUE_AT(NEXT(head))) + first)

#else

/* The row of a kind for the pixel after the present one, which is the inward core's from CORE_START on. */
#define KIND(row) ((row) + (++done >= CORE_START ? CORE_ROWS : 0))

/* The whole inward scan; before it the queue holds what reached the rim but for its last pixel, (1, 0), whose sum is
 * in `near`; `inflow` holds the first entry and `head` is 0. */
#define SCAN                                                                                                           \
    int done = 0;                                                                                                      \
    direction = 0;                                                                                                     \
    level = LEVELS(at), rule = rule_at(record, ROW_AFTER, level);                                                      \
    far = (value_t)0, carry = (value_t)0;                                                                              \
    for (int side = 0; side < 2 * BLOCK - 3; ++side) {                                                                 \
        const int length = BLOCK - (side + 1) / 2;                                                                     \
        STEP(far, KIND(length > 2 ? ROW_STRAIGHT : ROW_CORNER), DELTA);                                                \
        carry = error - first - second;                                                                                \
        near += second;                                                                                                \
        far = first;                                                                                                   \
        for (int i = length - 2; i > 0; --i) {                                                                         \
            STRAIGHT(KIND(i > 1 ? ROW_STRAIGHT : ROW_CORNER), DELTA, ALL);                                             \
        }                                                                                                              \
        direction = (direction + 1) & 3;                                                                               \
        STEP((value_t)0, KIND(side < 2 * BLOCK - 4 ? ROW_AFTER : ROW_NONE), DELTA);                                    \
        carry = error - first;                                                                                         \
        near += first;                                                                                                 \
    }                                                                                                                  \
    direction = (direction + 1) & 3;                                                                                   \
    STEP(far, KIND(ROW_NONE), DELTA);                                                                                  \
    carry = error;                                                                                                     \
    inflow = near;                                                                                                     \
    STEP((value_t)0, ROW_NONE, 0)

#endif
