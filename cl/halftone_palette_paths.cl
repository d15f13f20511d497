#include "philox.h"
#include "halftone.h"
#include "halftone_table.h"

#define QUEUE_ENTRIES (4 * BLOCK + 8)
#define NEXT(i) ((i) + 1 == QUEUE_ENTRIES ? 0 : (i) + 1)
#define QUADS ((BLOCK * BLOCK + 3) / 4)

#if LINEAR
#define WORTH(code) (int3)(light[(code).x], light[(code).y], light[(code).z])
#define CODE(worth) (int3)(codes[(worth).x], codes[(worth).y], codes[(worth).z])
#else
#define WORTH(code) ((code) << 4)
#define CODE(worth) (((worth) + 8) >> 4)
#endif

inline int3 unpacked(uint color) {
    return (int3)((int)(color & 255u), (int)(color >> 8 & 255u), (int)(color >> 16 & 255u));
}

/* Colours of the palette: near at hand where they are few, as every step waits for one. */
#if NEAR_COLORS
#define COLOR(entry) shades[entry]
#else
#define COLOR(entry) colors[entry]
#endif

/* The queue of a block: red and green in a word, blue apart. */
inline int3 queued(local const uint *two, local const short *one, int i) {
    const uint word = two[i * LANES];
    return (int3)((int)(short)word, (int)word >> 16, one[i * LANES]);
}

inline void enqueue(local uint *two, local short *one, int i, int3 sum) {
    two[i * LANES] = (uint)sum.y << 16 | (uint)sum.x & 0xffffu;
    one[i * LANES] = (short)sum.z;
}

/* Four pixels of a path; beyond its end the last four. */
inline uint4 quad_of(global const uint *paths, int i) {
    global const uint *from = paths + min(i, QUADS - 1) * (4 * LANES);
    return (uint4)(from[0], from[LANES], from[2 * LANES], from[3 * LANES]);
}

#define PUSH(sum)                                                                                                      \
    enqueue(two, one, tail, sum);                                                                                      \
    tail = NEXT(tail)

/* Decide the present pixel and split its error in sixteenths. With `marked` the top bits of a pixel clear what would
 * leave the picture: 31 of a pixel outside, 30 to 28 of the shares. */
#define STEP(marked, w_1, w_2, w_3, extra)                                                                             \
    {                                                                                                                  \
        const uint pixel = now.s0, marks = (marked) ? pixel : 0u;                                                      \
        const int3 worth = WORTH(unpacked(pixel));                                                                     \
        const int3 reached = carry + inflow + (extra);                                                                 \
        inflow = queued(two, one, head);                                                                               \
        head = NEXT(head);                                                                                             \
        now = (uint4)(now.s123, 0u);                                                                                   \
        const int3 aim = clamp(worth + ((reached * gain) >> 4), (int3)(0), (int3)(4080));                              \
        const uint entry = nearest[table_place(CODE(aim))];                                                            \
        const int3 wrong = worth - WORTH(unpacked(COLOR(entry)));                                                      \
        entries[k * LANES] = (INDEX)entry;                                                                             \
        if ((++k & 3) == 0) {                                                                                          \
            now = next;                                                                                                \
            next = quad_of(paths, k / 4 + 1);                                                                          \
        }                                                                                                              \
        const int3 error = clamp(reached + ((int)marks < 0 ? (int3)(0) : wrong), (int3)(-limit), (int3)(limit));       \
        first = marks & 1u << 30 ? (int3)(0) : error * (w_1) >> 4;                                                     \
        second = marks & 1u << 29 ? (int3)(0) : error * (w_2) >> 4;                                                    \
        third = marks & 1u << 28 ? (int3)(0) : error * (w_3) >> 4;                                                     \
        carry = error - (first + second + third);                                                                      \
    }

#define STRAIGHTS(marked, length)                                                                                      \
    for (int left = (length); left > 0; --left) {                                                                      \
        STEP(marked, STRAIGHT_1, STRAIGHT_2, STRAIGHT_3, 0);                                                           \
        PUSH(near + third);                                                                                            \
        near = far + second, far = first;                                                                              \
    }

#if PHASE == 0

/* Sides `from` to `to` - 1 of an outward block, each with the corner that ends it. */
#define SIDES(marked, from, to)                                                                                        \
    for (int side = (from); side < (to); ++side) {                                                                     \
        STRAIGHTS(marked, side < 2 * BLOCK - 5 ? side / 2 : side == 2 * BLOCK - 5 ? BLOCK - 3 : BLOCK - 2)             \
        STEP(marked, CORNER_1, CORNER_2, CORNER_3, 0)                                                                  \
        if (side < 2 * BLOCK - 5) {                                                                                    \
            PUSH(near);                                                                                                \
            PUSH(far + third);                                                                                         \
            PUSH(second);                                                                                              \
        } else {                                                                                                       \
            PUSH(near + second);                                                                                       \
            PUSH(far + third);                                                                                         \
            PUSH((int3)(0));                                                                                           \
        }                                                                                                              \
        near = first, far = 0;                                                                                         \
    }

#else

/* All of an inward block. */
#define SIDES(marked)                                                                                                  \
    for (int side = 0; side < 2 * BLOCK - 3; ++side) {                                                                 \
        STEP(marked, AFTER_1, AFTER_2, 0, far)                                                                         \
        near += second, far = first;                                                                                   \
        STRAIGHTS(marked, BLOCK - (side + 1) / 2 - 2)                                                                  \
        STEP(marked, CORNER_1, 0, 0, 0)                                                                                \
        near += first;                                                                                                 \
    }                                                                                                                  \
    STEP(marked, 0, 0, 0, far)                                                                                         \
    inflow = near;                                                                                                     \
    STEP(marked, 0, 0, 0, 0)

#endif

/* The pixels of a group's blocks in the order of the scan, colour in the low 24 bits, marks above (see STEP).
 * image          uchar [rows][width][CHANNELS] from picture row ORIGIN on.
 * path           as in halftone_blocks.cl; place ushort [N][N]: a pixel's number in it.
 * NDRange: (groups * GROUP, N, rows of blocks), group (GROUP, 1, 1). */
kernel void gather_paths(global const uchar *image, global uint *paths, global const ushort8 *path,
                         global const ushort *place, int4 picture, int4 blocks) {
    local uint tile[BLOCK * (LANES + 1)];
    const int y = (int)get_global_id(1), block_y = FIRST_ROW + (int)get_global_id(2), group = (int)get_group_id(0);
    const int y0 = block_y * BLOCK;
    for (int i = (int)get_local_id(0); i < BLOCK * LANES; i += GROUP) {
        const int x = i % BLOCK, lane = i / BLOCK, at = block_column(group * LANES + lane, block_y) * BLOCK + x;
        uint pixel = 0;
        if (!outside(y0 + y, at, HEIGHT, WIDTH)) {
            global const uchar *from = image + pixel_index(y0 + y, at, 0, picture);
#if CHANNELS == 1
            pixel = from[0] * 0x10101u;
#else
            pixel = from[0] | from[1] << 8 | (uint)from[2] << 16;
#endif
        }
        tile[x * (LANES + 1) + lane] = pixel;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    paths += (get_global_id(2) * get_num_groups(0) + group) * (4 * QUADS * LANES);
    for (int i = (int)get_local_id(0); i < BLOCK * LANES; i += GROUP) {
        const int x = i / LANES, lane = i % LANES, at = block_column(group * LANES + lane, block_y) * BLOCK + x;
        const int k = place[y * BLOCK + x], x0 = at - x;
        uint marks = 0;
        if (outside(y0 + y, at, HEIGHT, WIDTH)) {
            marks = 15u << 28;
        } else if (outside(y0 - 1, x0 - 1, HEIGHT, WIDTH) || outside(y0 + BLOCK, x0 + BLOCK, HEIGHT, WIDTH)) {
            const ushort8 step = path[k];
            marks |= (uint)outside(y0 + y + (step.s5 >> 8) - 2, at + (step.s5 & 255) - 2, HEIGHT, WIDTH) << 30;
            marks |= (uint)outside(y0 + y + (step.s6 >> 8) - 2, at + (step.s6 & 255) - 2, HEIGHT, WIDTH) << 29;
            marks |= (uint)outside(y0 + y + (step.s7 >> 8) - 2, at + (step.s7 & 255) - 2, HEIGHT, WIDTH) << 28;
        }
        paths[k * LANES + lane] = tile[x * (LANES + 1) + lane] | marks;
    }
}

/* The entries back into their places: output INDEX [rows][width]. NDRange as for gather_paths.
 * Constants: WORDS (1: block size and width are multiples of 4 and INDEX is uchar, so entries are moved in words). */
kernel void scatter_paths(global const INDEX *entries, global INDEX *output, global const ushort *place, int4 picture,
                          int4 blocks) {
    const int y = (int)get_global_id(1), block_y = FIRST_ROW + (int)get_global_id(2), group = (int)get_group_id(0);
    const int4 indices = (int4)(HEIGHT, WIDTH, 1, ORIGIN);
    entries += (get_global_id(2) * get_num_groups(0) + group) * (4 * QUADS * LANES);
#if WORDS
    local uint tile[LANES * (BLOCK / 4 + 1)];
    local uchar *bytes = (local uchar *)tile;
    for (int i = (int)get_local_id(0); i < BLOCK * LANES / 4; i += GROUP) {
        const int four = i % (LANES / 4), x = i / (LANES / 4);
        const uint found = ((global const uint *)entries)[place[y * BLOCK + x] * (LANES / 4) + four];
        local uchar *to = bytes + 4 * four * (BLOCK + 4) + x;
        to[0] = (uchar)found, to[BLOCK + 4] = (uchar)(found >> 8);
        to[2 * (BLOCK + 4)] = (uchar)(found >> 16), to[3 * (BLOCK + 4)] = (uchar)(found >> 24);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = (int)get_local_id(0); i < BLOCK * LANES / 4; i += GROUP) {
        const int word = i % (BLOCK / 4), lane = i / (BLOCK / 4);
        const int at = block_column(group * LANES + lane, block_y) * BLOCK + 4 * word;
        if (!outside(block_y * BLOCK + y, at, HEIGHT, WIDTH))
            *(global uint *)(output + pixel_index(block_y * BLOCK + y, at, 0, indices)) =
                tile[lane * (BLOCK / 4 + 1) + word];
    }
#else
    local INDEX tile[BLOCK * (LANES + 1)];
    for (int i = (int)get_local_id(0); i < BLOCK * LANES; i += GROUP)
        tile[i / LANES * (LANES + 1) + i % LANES] = entries[place[y * BLOCK + i / LANES] * LANES + i % LANES];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = (int)get_local_id(0); i < BLOCK * LANES; i += GROUP) {
        const int x = i % BLOCK, lane = i / BLOCK, at = block_column(group * LANES + lane, block_y) * BLOCK + x;
        if (!outside(block_y * BLOCK + y, at, HEIGHT, WIDTH))
            output[pixel_index(block_y * BLOCK + y, at, 0, indices)] = tile[x * (LANES + 1) + lane];
    }
#endif
}

/* Pinwheel error diffusion to a palette in a form for GPUs: a work-item takes a block of its phase. What is computed is
 * said in halftone_palette.cl, in which order in halftone_scan.h.
 *
 * NDRange: (groups * LANES, rows of blocks), group (LANES, 1).
 * paths          uint [rows of blocks][groups][N * N, rounded up to fours][LANES], from gather_paths.
 * entries        INDEX, as `paths`: the entries.
 * nearest        INDEX [2^24], halftone_table.h.
 * colors         uint [entries of the palette]: R | G << 8 | B << 16.
 * light, codes, edges: as in halftone_palette.cl.
 * Local memory   uint and short [4 N + 8][LANES].
 * Constants: BLOCK (at least 4), PHASE, LANES, GROUP, CHANNELS (1 or 3), INDEX, LINEAR (0: worths are 16 times the
 * values); NEAR_COLORS (1: at most 256 colours, held in local memory); weights of the kinds of pixels in sixteenths:
 * STRAIGHT_1..3, CORNER_1..3, FIRST_1..3 (outward), AFTER_1..2 (inward). */
kernel void halftone_palette_paths(global const uint *paths, global INDEX *entries, global const INDEX *nearest,
                                   global const uint *colors, global const short *light, global const uchar *codes,
                                   global short4 *edges, int4 picture, int4 blocks, int error_limit, int amplitude,
                                   int gain, uint2 key) {
    local uint all_two[QUEUE_ENTRIES * LANES];
    local short all_one[QUEUE_ENTRIES * LANES];
    const int lane = (int)get_local_id(0), block_y = FIRST_ROW + (int)get_global_id(1);
    const int block_x = block_column((int)get_global_id(0), block_y);
#if NEAR_COLORS
    local uint shades[256];
    for (int i = lane; i < 256; i += LANES)
        shades[i] = colors[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (outside(block_y * BLOCK, block_x * BLOCK, HEIGHT, WIDTH))
        return;
    /* Whether the picture's right or lower end cuts a block of the group. */
    const int last_x = block_column((int)get_group_id(0) * LANES + LANES - 1, block_y);
    const int cut = (block_y + 1) * BLOCK > HEIGHT || (WIDTH % BLOCK && (last_x + 1) * BLOCK > WIDTH);
    const size_t begin = (get_global_id(1) * get_num_groups(0) + get_group_id(0)) * (4 * QUADS * LANES) + lane;
    paths += begin, entries += begin;
    local uint *two = all_two + lane;
    local short *one = all_one + lane;
    const int count = EDGE_ROWS * HALF, limit = error_limit;
    int k = 0, head = 0, tail = 0;
    int3 carry = 0, inflow = 0, near = 0, far = 0, first, second, third;
    uint4 now = quad_of(paths, 0), next = quad_of(paths, 1);
#if PHASE == 0
    const int3 color = unpacked(now.s0), found = unpacked(colors[nearest[table_place(color)]]);
    if ((int)now.s0 >= 0 && any(found != color)) {
        const uint4 words = block_random(block_x, block_y, 0, 0u, key);
        carry = (int3)(start_error(words.s0, amplitude), start_error(words.s1, amplitude),
                       start_error(words.s2, amplitude));
    }
    enqueue(two, one, 0, (int3)(0));
    tail = 1;
    STEP(1, FIRST_1, FIRST_2, FIRST_3, 0)
    PUSH((int3)(0));
    PUSH(second);
    PUSH((int3)(0));
    PUSH(third);
    PUSH((int3)(0));
    near = first;
    /* Only the last turn of a whole block gives to pixels beyond it. */
    const int inside = cut ? 0 : 2 * BLOCK - 6;
    SIDES(0, 0, inside)
    SIDES(1, inside, 2 * BLOCK - 2)
    STRAIGHTS(1, BLOCK - 2)
    STEP(1, STRAIGHT_1, STRAIGHT_2, STRAIGHT_3, 0)
    PUSH(near + third);
    PUSH(far + second);
    /* `inflow` was the first entry beyond, which the last forward share belongs to. */
    head = head ? head - 1 : QUEUE_ENTRIES - 1;
    enqueue(two, one, head, queued(two, one, head) + carry);
    enqueue(two, one, NEXT(head), queued(two, one, NEXT(head)) + first);
    global short4 *sums = edges + edge_block(block_y, block_x, 0, blocks);
    for (int i = 0; i < 4 * BLOCK + 3; ++i) {
        const int entry = entry_beyond(i);
        if (entry >= 0)
            sums[(size_t)entry * count] = (short4)(convert_short3(queued(two, one, head)), 0);
        head = NEXT(head);
    }
#else
    for (int i = 0; i < 4 * BLOCK - 4; ++i)
        enqueue(two, one, i, (int3)(0));
    for (int side = 0; side < 4; ++side) {
        const int y = block_y + (side == 2) - (side == 0), x = block_x + (side == 1) - (side == 3);
        if (outside(y * BLOCK, x * BLOCK, HEIGHT, WIDTH))
            continue;
        global const short4 *from = edges + (size_t)(side ^ 2) * BLOCK * count + edge_block(y, x, 0, blocks);
        for (int i = 0; i < BLOCK; ++i) {
            const int at = (side == 0   ? i
                            : side == 1 ? BLOCK - 1 + i
                            : side == 2 ? 3 * (BLOCK - 1) - i
                                        : 4 * (BLOCK - 1) - i) % (4 * (BLOCK - 1));
            enqueue(two, one, at, queued(two, one, at) + convert_int3(from[(size_t)i * count].s012));
        }
    }
    head = 1, tail = 4 * BLOCK - 5;
    near = queued(two, one, 4 * BLOCK - 5), inflow = queued(two, one, 0);
    if (cut) {
        SIDES(1)
    } else {
        SIDES(0)
    }
#endif
}
