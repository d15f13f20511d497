#include "common/philox.h"
#include "halftone/halftone.h"
#include "halftone/pinwheel/records.h"

/* Form for GPUs: a work-item halftones a whole block of its phase, some turns of the spiral at a time.
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 2; sections 4.1 and 4.2 on what bounds it. The steps are those of halftone/pinwheel/levels_lanes.h, in another
 * arrangement.
 *
 * A pixel waits for the one before, so what counts is how soon a step ends and how many blocks run at once. A part's
 * pixels lie in local memory in the order of the scan: a step's place is the last one's plus a constant, and levels are
 * read three pixels ahead, records two, so that no step waits for memory. All kinds of pixels have the same
 * thresholds, and nearly all are straight: the records of these are in local memory, and so are the weights of the
 * others, which are read when they are due. Parts of a few turns take little memory, so that many blocks run at once;
 * what they cost is that pixels beside the turns' vertical sides are read and written in words of four. */

#define WIDE (2 * RINGS) /* how much the sides of a part's blocks differ */
#define PARTS ((BLOCK + WIDE - 1) / WIDE)
#define PART_PIXELS (BLOCK < WIDE ? BLOCK * BLOCK : 2 * WIDE * BLOCK - WIDE * WIDE)
#define RING_PITCH (LANES + 1)
#define QUEUE_ENTRIES (4 * BLOCK + 8)
#define AHEAD 3 /* pixels whose levels are read ahead */
#define IN_FLIGHT (LANES < 32 ? 8 : 16) /* words of a work-item that are loaded at once; divides LANES */
#define NEXT(i) ((i) + 1 == QUEUE_ENTRIES ? 0 : (i) + 1)
#define QUEUE_AT(i) queue[(i) * LANES]
#define PUSH(sum)                                                                                                      \
    QUEUE_AT(tail) = (short)(sum);                                                                                     \
    tail = NEXT(tail)

/* Read ahead: a level by three pixels, a straight pixel's record by two, a finished sum by one. */
#define READ_AHEAD(place)                                                                                              \
    level_3 = pixels[AHEAD * RING_PITCH];                                                                              \
    record_2 = records[straight + level_2];                                                                            \
    inflow = place

/* A limit of at least 4080 stops only what is above it of a white pixel, and below it of a black one: the two are
 * computed beside the decision then. */
#if LOOSE
#define CLAMPED white ? min(value - 4080, limit) : max(value, -limit)
#else
#define CLAMPED min(max(white ? value - 4080 : value, -limit), limit)
#endif

/* Decide the present pixel, whose threshold is that of `record_0`, and split its error by `weights`. */
#define DECIDE(weights, extra)                                                                                         \
    value = carry + sum + (extra);                                                                                     \
    white = value >= (int)(record_0 >> 20);                                                                            \
    pixels[0] = white ? 255 : 0;                                                                                       \
    error = CLAMPED;                                                                                                   \
    first = error * (int)((weights) & 31u) >> 4;                                                                       \
    second = error * (int)((weights) & 31u << 5) >> 9;                                                                 \
    third = error * (int)((weights) & 31u << 10) >> 14

#define MOVE_ON                                                                                                        \
    pixels += RING_PITCH;                                                                                              \
    sum = inflow + 16 * level_1;                                                                                       \
    level_0 = level_1, level_1 = level_2, level_2 = level_3;                                                           \
    record_0 = record_1, record_1 = record_2

/* A pixel of another kind than straight; its weights are read when it is due. */
#define SPECIAL(weights, extra)                                                                                        \
    special = weights;                                                                                                 \
    READ_AHEAD(QUEUE_AT(head));                                                                                        \
    head = NEXT(head);                                                                                                 \
    DECIDE(special, extra)

#define UNROLLED 4
#define ONE_STRAIGHT(i, mask)                                                                                          \
    READ_AHEAD(from[(i) * LANES]);                                                                                     \
    DECIDE(record_0, 0);                                                                                               \
    first &= (mask), second &= (mask), third &= (mask);                                                                \
    carry = error - (first + second + third);                                                                          \
    to[(i) * LANES] = (short)(near + third);                                                                           \
    near = far + second, far = first;                                                                                  \
    MOVE_ON;

/* `length` straight pixels: shares at 45, 90 and 135 degrees; those that `mask` clears go forward. */
#define STRAIGHTS(length, mask)                                                                                        \
    for (int left_over = (length); left_over > 0;) {                                                                   \
        int run = min(left_over, QUEUE_ENTRIES - max(head, tail));                                                     \
        CHOOSE_RECORDS(run);                                                                                           \
        left_over -= run;                                                                                              \
        CORE_COUNT(run);                                                                                               \
        local const short *from = &QUEUE_AT(head);                                                                     \
        local short *to = &QUEUE_AT(tail);                                                                             \
        head = head + run == QUEUE_ENTRIES ? 0 : head + run, tail = tail + run == QUEUE_ENTRIES ? 0 : tail + run;      \
        for (; run >= UNROLLED; run -= UNROLLED, from += UNROLLED * LANES, to += UNROLLED * LANES) {                   \
            ONE_STRAIGHT(0, mask)                                                                                      \
            ONE_STRAIGHT(1, mask)                                                                                      \
            ONE_STRAIGHT(2, mask)                                                                                      \
            ONE_STRAIGHT(3, mask)                                                                                      \
        }                                                                                                              \
        for (; run > 0; --run, from += LANES, to += LANES) {                                                           \
            ONE_STRAIGHT(0, mask)                                                                                      \
        }                                                                                                              \
    }

#if PHASE == 0

#define CHOOSE_RECORDS(run)
#define CORE_COUNT(run)

/* Shares at 90, 135 and 180 degrees: the receivers after the last two that straight pixels began. */
#define CORNER(mask)                                                                                                   \
    SPECIAL(specials[level_0], 0);                                                                                     \
    first &= (mask), second &= (mask);                                                                                 \
    carry = error - (first + second + third);                                                                          \
    PUSH(near);                                                                                                        \
    PUSH(far + third);                                                                                                 \
    PUSH(second);                                                                                                      \
    near = first, far = 0;                                                                                             \
    MOVE_ON

/* A corner of the block: the pixel diagonally beyond is of the same phase, so 135 degrees is on the side left. */
#define BLOCK_CORNER(mask, next_mask)                                                                                  \
    SPECIAL(specials[level_0], 0);                                                                                     \
    first &= (next_mask), second &= (mask), third &= (mask);                                                           \
    carry = error - (first + second + third);                                                                          \
    PUSH(near + second);                                                                                               \
    PUSH(far + third);                                                                                                 \
    PUSH(0);                                                                                                           \
    near = first, far = 0;                                                                                             \
    MOVE_ON

#else

/* The last eighth of the scan has records of its own. */
#define CHOOSE_RECORDS(run)                                                                                            \
    if (done + 2 < CORE_START)                                                                                         \
        run = min(run, CORE_START - 2 - done);                                                                         \
    straight = done + 2 < CORE_START ? 0 : 256
#define CORE_COUNT(run) done += run
#define OF_CORE(k) ((k) < CORE_START ? 0 : 256)
#define ANY(extra)                                                                                                     \
    straight = done + 2 < CORE_START ? 0 : 256;                                                                        \
    SPECIAL(specials[OF_CORE(done) + level_0], extra);                                                                 \
    ++done

#endif

inline void place_quad(local uchar *to, ushort8 quad, uint pixels) {
    to[quad.s2] = (uchar)pixels, to[quad.s3] = (uchar)(pixels >> 8);
    to[quad.s4] = (uchar)(pixels >> 16), to[quad.s5] = (uchar)(pixels >> 24);
}

/* Copy a part of the group's blocks between picture and tile; `quads` says which pixels its words are. */
inline void load_part(global const uchar *image, local uchar *tile, global const ushort8 *quads, int count, int dx,
                      int dy, int lanes_used, int aligned) {
    for (int i = (int)get_local_id(0); i < count; i += GROUP) {
        const ushort8 quad = quads[i];
        global const uchar *from = image + (size_t)quad.s1 * dy + quad.s0 * dx;
        if (aligned && lanes_used == LANES) {
            for (int begin = 0; begin < LANES; begin += IN_FLIGHT) {
                uint pixels[IN_FLIGHT];
#pragma unroll
                for (int j = 0; j < IN_FLIGHT; ++j)
                    pixels[j] = *(global const uint *)(from + (begin + j) * 2 * BLOCK);
#pragma unroll
                for (int j = 0; j < IN_FLIGHT; ++j)
                    place_quad(tile + begin + j, quad, pixels[j]);
            }
        } else {
#pragma unroll 4
            for (int j = 0; j < lanes_used; ++j) {
                place_quad(tile + j, quad, from[0] | from[dx] << 8 | from[2 * dx] << 16 | (uint)from[3 * dx] << 24);
                from += 2 * BLOCK * dx;
            }
        }
    }
}

inline void store_part(global uchar *output, local const uchar *tile, global const ushort8 *quads, int count, int dx,
                       int dy, int lanes_used, int aligned) {
    for (int i = (int)get_local_id(0); i < count; i += GROUP) {
        const ushort8 quad = quads[i];
        global uchar *to = output + (size_t)quad.s1 * dy + quad.s0 * dx;
#pragma unroll 8
        for (int j = 0; j < lanes_used; ++j, to += 2 * BLOCK * dx) {
            local const uchar *from = tile + j;
            if (aligned)
                *(global uint *)to =
                    from[quad.s2] | from[quad.s3] << 8 | from[quad.s4] << 16 | (uint)from[quad.s5] << 24;
            else
                to[0] = from[quad.s2], to[dx] = from[quad.s3], to[2 * dx] = from[quad.s4], to[3 * dx] = from[quad.s5];
        }
    }
}

#if GROUP > LANES

/* What reached the rim of the group's inward blocks, by all its work-items (meet_edges in halftone/pinwheel/records.h).
 * */
inline void meet_apart(local short *queues, global const short *edges, int count, int first_index, int used,
                       int block_y, int channel, int4 picture, int4 blocks) {
    const int lane = (int)get_local_id(0) % LANES, block_x = block_column(first_index + lane, block_y);
    const int above_at = block_beside(block_x, block_y - 1, channel, picture, blocks);
    const int right_at = block_beside(block_x + 1, block_y, channel, picture, blocks);
    const int below_at = block_beside(block_x, block_y + 1, channel, picture, blocks);
    const int left_at = block_beside(block_x - 1, block_y, channel, picture, blocks);
    if (lane >= used)
        return;
#pragma unroll 8
    for (int i = (int)get_local_id(0) / LANES; i < 4 * BLOCK - 4; i += GROUP / LANES) {
        const int side = i / (BLOCK - 1), along = i % (BLOCK - 1);
        int met = side == 0   ? edge_sum(edges, 2 * BLOCK + along, count, above_at)
                  : side == 1 ? edge_sum(edges, 3 * BLOCK + along, count, right_at)
                  : side == 2 ? edge_sum(edges, BLOCK - 1 - along, count, below_at)
                              : edge_sum(edges, 2 * BLOCK - 1 - along, count, left_at);
        if (along == 0)
            met += side == 0   ? edge_sum(edges, BLOCK, count, left_at)
                   : side == 1 ? edge_sum(edges, 3 * BLOCK - 1, count, above_at)
                   : side == 2 ? edge_sum(edges, 4 * BLOCK - 1, count, right_at)
                               : edge_sum(edges, 0, count, below_at);
        queues[i * LANES + lane] = (short)met;
    }
}

/* What the group's outward blocks leave, by all its work-items: each pixel has taken a sum off the queue, but for the
 * last one, so that is where it begins (leave_edges in halftone/pinwheel/records.h). */
inline void leave_apart(local const short *queues, global short *edges, int count, int first_index, int used,
                        int block_y, int channel, int4 picture, int4 blocks) {
    const int lane = (int)get_local_id(0) % LANES;
    if (lane >= used)
        return;
    global short *sums = edges + edge_block(block_y, block_column(first_index + lane, block_y), channel, blocks);
#pragma unroll 4
    for (int i = (int)get_local_id(0) / LANES; i < 4 * BLOCK + 3; i += GROUP / LANES) {
        const int entry = entry_beyond(i);
        if (entry >= 0)
            sums[(size_t)entry * count] = queues[(BLOCK * BLOCK - 1 + i) % QUEUE_ENTRIES * LANES + lane];
    }
}

#endif

/* Halftones the whole blocks of a phase.
 *
 * NDRange: (ceil(blocks of this phase in a row / LANES) * GROUP, rows of whole blocks, channels), group (GROUP, 1, 1):
 * LANES work-items scan a block each, all GROUP copy its pixels.
 * image, output  uchar [rows][width][channels] from picture row ORIGIN on.
 * record         uint [rows][256]: by input level, see halftone_records.h.
 * amplitude      short [256]: of the start error, by input level.
 * quads          ushort8 [N * N / 4]: the parts' words of four pixels, see ring_quads in
 * clquant/halftone/pinwheel/layout.py. edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * Local memory   uchar [pixels of the largest part + 3][LANES + 1], short [4 N + 8][LANES], uint and ushort [1 or 2]
 *                [256].
 * Constants: BLOCK (a multiple of 4, at least 8), PHASE, RINGS (turns in a part, a multiple of 4), LANES, GROUP, LOOSE
 * (error_limit is at least 4080) and those of halftone/pinwheel/levels_lanes.h. */
kernel void halftone_rings(global const uchar *image, global uchar *output, global const uint *record,
                           global const short *amplitude, global const ushort8 *quads, global short *edges,
                           int4 picture, int4 blocks, int error_limit, uint4 key) {
    local uchar tile[(PART_PIXELS + AHEAD) * RING_PITCH];
    local short queues[QUEUE_ENTRIES * LANES];
    local uint records[(1 + PHASE) * 256];
    local ushort specials[(1 + PHASE) * 256]; /* weights at corners; inward: two after them, and one at them */
    const int lane = (int)get_local_id(0);
    local short *queue = queues + lane;
    const int block_y = FIRST_ROW + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int group_index = (int)get_group_id(0) * LANES, index = group_index + lane;
    const int whole = (WIDTH / BLOCK - ((block_y + PHASE) & 1) + 1) / 2;
    const int lanes_used = min(LANES, whole - group_index), scans = lane < lanes_used;
    const int block_x = block_column(index, block_y);
    const int count = (int)get_global_size(2) * EDGE_ROWS * HALF;
    const int limit = error_limit;
    const size_t corner = pixel_index(block_y * BLOCK, block_column(group_index, block_y) * BLOCK, channel, picture);
    const int dx = STRIDE, dy = WIDTH * STRIDE, aligned = STRIDE == 1 && (WIDTH & 3) == 0;
    int carry = 0, near = 0, far = 0, inflow = 0, sum = 0, value, white, error, first, second, third;
    int level_0 = 0, level_1 = 0, level_2 = 0, level_3, straight = 0, head = 0, tail = 0, side = 0, done = 0;
    uint record_0 = 0, record_1 = 0, record_2, special;
    for (int i = lane; i < (1 + PHASE) * 256; i += GROUP) {
        global const uint *rows = record + (i < 256 ? 0 : CORE_ROWS) * 256 + (i & 255);
        records[i] = rows[ROW_STRAIGHT * 256];
#if PHASE == 0
        specials[i] = (ushort)(rows[ROW_CORNER * 256] & 0x7fffu);
#else
        specials[i] = (ushort)(rows[ROW_AFTER * 256] & 0x3ffu | (rows[ROW_CORNER * 256] & 31u) << 10);
#endif
    }
#if PHASE == 1
#if GROUP > LANES
    meet_apart(queues, edges, count, group_index, lanes_used, block_y, channel, picture, blocks);
#else
    if (scans)
        meet_edges(queue, LANES, edges, count, block_beside(block_x, block_y - 1, channel, picture, blocks),
                   block_beside(block_x + 1, block_y, channel, picture, blocks),
                   block_beside(block_x, block_y + 1, channel, picture, blocks),
                   block_beside(block_x - 1, block_y, channel, picture, blocks));
#endif
#endif
    for (int part = 0; part < PARTS; ++part) {
        /* A part's outer and inner sides. */
        const int outer = BLOCK - WIDE * (PHASE ? part : PARTS - 1 - part), inner = max(outer - WIDE, 0);
        const int before = PHASE ? BLOCK * BLOCK - outer * outer : inner * inner;
        const int part_pixels = outer * outer - inner * inner;
        global const ushort8 *part_quads = quads + before / 4;
        if (lanes_used > 0)
            load_part(image + corner, tile, part_quads, part_pixels / 4, dx, dy, lanes_used, aligned);
        /* What is read ahead beyond the part's end counts for nothing. */
        if (scans)
            for (int i = 0; i < AHEAD; ++i)
                tile[(part_pixels + i) * RING_PITCH + lane] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (scans) {
            local uchar *pixels = tile + lane;
            level_0 = pixels[0], level_1 = pixels[RING_PITCH], level_2 = pixels[2 * RING_PITCH];
            sum = inflow + 16 * level_0;
#if PHASE == 0
            const int above = -!outside(block_y * BLOCK - 1, 0, HEIGHT, WIDTH);
            const int right = -!outside(0, (block_x + 1) * BLOCK, HEIGHT, WIDTH);
            const int below = -!outside((block_y + 1) * BLOCK, 0, HEIGHT, WIDTH);
            const int left = -!outside(0, block_x * BLOCK - 1, HEIGHT, WIDTH);
            record_0 = records[level_0], record_1 = records[level_1];
            if (part == 0) {
                carry = start_error(block_random(block_x, block_y, channel, 0u, key).s0, amplitude[level_0]);
                QUEUE_AT(0) = 0;
                tail = 1;
                SPECIAL(record[ROW_FIRST * 256 + level_0], 0);
                carry = error - (first + second + third);
                PUSH(0);
                PUSH(second);
                PUSH(0);
                PUSH(third);
                PUSH(0);
                near = first;
                MOVE_ON;
            } else {
                CORNER(-1);
                ++side;
            }
            /* Sides up to the turn that ends the part, but for the last three and a half, which are the block's. */
            const int stop = part < PARTS - 1 ? 2 * outer - 2 : 2 * BLOCK - 5;
            for (;; ++side) {
                if (side == 2 * BLOCK - 5)
                    break;
                STRAIGHTS(side / 2, -1)
                if (side == stop)
                    break;
                CORNER(side == 2 * BLOCK - 6 ? left : -1);
            }
            if (part == PARTS - 1) {
                for (int edge = 0; edge < 3; ++edge) {
                    const int mask = edge == 0 ? left : edge == 1 ? below : right;
                    const int next_mask = edge == 0 ? below : edge == 1 ? right : above;
                    STRAIGHTS(edge == 0 ? BLOCK - 3 : BLOCK - 2, mask)
                    BLOCK_CORNER(mask, next_mask);
                }
                STRAIGHTS(BLOCK - 2, above)
                SPECIAL(record_0, 0);
                first &= left, second &= above, third &= above;
                carry = error - first - second - third;
                PUSH(near + third);
                PUSH(far + second);
                head = head ? head - 1 : QUEUE_ENTRIES - 1;
                QUEUE_AT(head) = (short)(QUEUE_AT(head) + (carry & left));
                QUEUE_AT(NEXT(head)) = (short)(QUEUE_AT(NEXT(head)) + first);
            }
#else
            record_0 = records[OF_CORE(done) + level_0], record_1 = records[OF_CORE(done + 1) + level_1];
            if (part == 0) {
                head = 1, tail = 4 * BLOCK - 5;
                near = QUEUE_AT(4 * BLOCK - 5), sum = QUEUE_AT(0) + 16 * level_0;
            }
            const int stop = part < PARTS - 1 ? 4 * RINGS * (part + 1) : 2 * BLOCK - 3;
            for (; side < stop; ++side) {
                const int length = BLOCK - (side + 1) / 2;
                ANY(far);
                carry = error - (first + second);
                near += second, far = first;
                MOVE_ON;
                STRAIGHTS(length - 2, -1)
                ANY(0);
                carry = error - third;
                near += third;
                MOVE_ON;
            }
            if (part == PARTS - 1) {
                ANY(far);
                carry = error;
                inflow = near;
                MOVE_ON;
                ANY(0);
            }
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lanes_used > 0)
            store_part(output + corner, tile, part_quads, part_pixels / 4, dx, dy, lanes_used, aligned);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if PHASE == 0
#if GROUP > LANES
    leave_apart(queues, edges, count, group_index, lanes_used, block_y, channel, picture, blocks);
#else
    if (scans)
        leave_edges(queue, LANES, QUEUE_ENTRIES, head, edges + edge_block(block_y, block_x, channel, blocks), count);
#endif
#endif
}
