#include "philox.h"
#include "halftone.h"

typedef int value_t;
typedef uint record_t;

#define PITCH (GROUP + 4) /* bytes between the pixels of a tile; 4 more than the lanes, against bank conflicts */
#define QUEUE_AT(i) queue[i]
#define QUEUE_STEP GROUP
#define QUEUE_END (QUEUE_ENTRIES * GROUP)
#define CONVERT_QUEUE(sum) (short)(sum)
#define CONVERT_VALUE(entry) (int)(entry)
#define AT_LEAST(value, threshold) (-((value) >= (threshold)))
#define SHARE(error, weight) (((error) * (weight)) >> 4)
#if TILE
#define LEVELS(at) (int)pixels[at]
#define EMIT(at, white) pixels[at] = (uchar)(white)
#else
#define LEVELS(at) (int)image[at]
#define EMIT(at, white) output[at] = (uchar)(white)
#endif

#include "halftone_scan.h"

inline Rule rule_at(global const uint *record, int row, int level) {
    const uint packed = record[row * 256 + level];
    Rule rule;
    rule.threshold = (int)(packed & 4095u);
    rule.first = (int)((packed >> 12) & 31u);
    rule.second = (int)((packed >> 17) & 31u);
    rule.third = (int)(packed >> 22);
    return rule;
}

#if TILE
#define QUADS (BLOCK / 4)
#define BATCH (BLOCK % 8 == 0 ? 16 : 4) /* quads of a work-item in flight at once; divides BLOCK * QUADS */

/* The group's i-th quad of pixels: quads of a row of a block, then blocks, then rows. */
typedef struct {
    size_t in_picture; /* its first pixel, from the group's first */
    int in_tile, lane;
} Quad;

inline Quad quad_at(int i, int dx, int dy) {
    const int x = i % QUADS * 4, lane = i / QUADS % GROUP, y = i / (QUADS * GROUP);
    const Quad quad = {(size_t)y * dy + (size_t)(lane * 2 * BLOCK + x) * dx, (y * BLOCK + x) * PITCH + lane, lane};
    return quad;
}

/* Copy the blocks of a group from the picture, in words of four pixels where those are aligned. */
inline void load_tile(global const uchar *image, local uchar *tile, int dx, int dy, int lanes_used, int aligned) {
    for (int begin = (int)get_local_id(0); begin < GROUP * QUADS * BLOCK; begin += GROUP * BATCH) {
        uint pixels[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const Quad quad = quad_at(begin + j * GROUP, dx, dy);
            global const uchar *from = image + quad.in_picture;
            pixels[j] = 0;
            if (quad.lane < lanes_used)
                pixels[j] = aligned ? *(global const uint *)from
                                    : from[0] | from[dx] << 8 | from[2 * dx] << 16 | (uint)from[3 * dx] << 24;
        }
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            local uchar *to = tile + quad_at(begin + j * GROUP, dx, dy).in_tile;
            to[0] = (uchar)pixels[j], to[PITCH] = (uchar)(pixels[j] >> 8);
            to[2 * PITCH] = (uchar)(pixels[j] >> 16), to[3 * PITCH] = (uchar)(pixels[j] >> 24);
        }
    }
}

inline void store_tile(global uchar *output, local const uchar *tile, int dx, int dy, int lanes_used, int aligned) {
    for (int i = (int)get_local_id(0); i < GROUP * QUADS * BLOCK; i += GROUP) {
        const Quad quad = quad_at(i, dx, dy);
        local const uchar *from = tile + quad.in_tile;
        global uchar *to = output + quad.in_picture;
        if (quad.lane >= lanes_used)
            continue;
        if (aligned) {
            *(global uint *)to = from[0] | from[PITCH] << 8 | from[2 * PITCH] << 16 | (uint)from[3 * PITCH] << 24;
        } else {
            for (int j = 0; j < 4; ++j)
                to[j * dx] = from[j * PITCH];
        }
    }
}
#endif

/* What the block at `beside` of `edges` left on its side's entry; 0 where there is none. */
inline int edge_sum(global const short *edges, int entry, int count, int beside) {
    return beside >= 0 ? edges[(size_t)entry * count + beside] : 0;
}

inline int block_beside(int x, int y, int channel, int4 picture, int4 blocks) {
    return outside(y * BLOCK, x * BLOCK, HEIGHT, WIDTH) ? -1 : edge_block(y, x, channel, blocks);
}

/* Form for GPUs: a work-item halftones a whole block of its phase (halftone_scan.h); the queues of a group lie in local
 * memory as [entry][work-item], and with TILE so do the pixels, which the whole group loads and stores.
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 2; sections 4.1 and 4.2 on what bounds it.
 *
 * NDRange: (whole blocks of this phase in a row, rows of blocks, channels), group (GROUP, 1, 1).
 * image, output  uchar [rows][width][channels] from picture row ORIGIN on.
 * record         uint [rows][256]: by input level, threshold | weights << 12, 17, 22.
 * amplitude      short [256]: of the start error, by input level.
 * edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * Local memory   short [QUEUE_ENTRIES][GROUP]; with TILE (then N is a multiple of 4), uchar [PIXELS][PITCH].
 * Constants: BLOCK, PHASE, GROUP, TILE and those of halftone_scan.h. */
kernel void halftone_tile(global const uchar *image, global uchar *output, global const uint *record,
                          global const short *amplitude, global short *edges, int4 picture, int4 blocks,
                          int error_limit, uint2 key) {
    local short queues[QUEUE_ENTRIES * GROUP];
    local short *queue = queues + get_local_id(0);
    const int block_y = FIRST_ROW + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int index = (int)get_global_id(0), group_index = index - (int)get_local_id(0);
    const int whole = (WIDTH / BLOCK - ((block_y + PHASE) & 1) + 1) / 2;
    const int lanes_used = min(GROUP, whole - group_index), used = index < whole;
    const int block_x = block_column(index, block_y);
    const int count = (int)get_global_size(2) * EDGE_ROWS * HALF;
    const int limit = error_limit;
    int carry, near, far, inflow, level, next_level, error, white, first, second, third, head, tail, direction;
    Rule rule, next_rule;
#if TILE
    local uchar tile[BLOCK * BLOCK * PITCH];
    local uchar *pixels = tile + get_local_id(0);
    const size_t corner = pixel_index(block_y * BLOCK, block_column(group_index, block_y) * BLOCK, channel, picture);
    const int aligned = STRIDE == 1 && (WIDTH & 3) == 0;
    load_tile(image + corner, tile, STRIDE, WIDTH * STRIDE, lanes_used, aligned);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int dx = PITCH, dy = PITCH * BLOCK;
    int at = 0, here;
#else
    if (!used)
        return;
    const int dx = STRIDE, dy = WIDTH * STRIDE;
    size_t at = pixel_index(block_y * BLOCK, block_x * BLOCK, channel, picture), here;
#endif
    const int above_at = block_beside(block_x, block_y - 1, channel, picture, blocks);
    const int right_at = block_beside(block_x + 1, block_y, channel, picture, blocks);
    const int below_at = block_beside(block_x, block_y + 1, channel, picture, blocks);
    const int left_at = block_beside(block_x - 1, block_y, channel, picture, blocks);
#if PHASE == 0
    const int above = -(above_at >= 0), right = -(right_at >= 0), below = -(below_at >= 0), left = -(left_at >= 0);
    at += BLOCK / 2 * dy + (BLOCK - 1) / 2 * dx;
    carry = start_error(block_random(block_x, block_y, channel, 0u, key).s0, amplitude[LEVELS(at)]);
    SCAN;
    global short *sums = edges + edge_block(block_y, block_x, channel, blocks);
    for (int i = 0; i < 4 * BLOCK + 3; ++i) {
        const int side = i / (BLOCK + 1), along = i % (BLOCK + 1);
        const int entry = side == 0   ? 3 * BLOCK + along
                          : side == 1 ? 2 * BLOCK + along
                          : side == 2 ? 2 * BLOCK - 1 - along
                                      : BLOCK - 1 - along;
        if (along < BLOCK && used)
            sums[(size_t)entry * count] = QUEUE_AT(head);
        head = NEXT(head);
    }
#else
#pragma unroll 8
    for (int i = 0; i < BLOCK; ++i)
        QUEUE_AT(i * GROUP) = edge_sum(edges, 2 * BLOCK + i, count, above_at);
    QUEUE_AT((BLOCK - 1) * GROUP) += edge_sum(edges, 3 * BLOCK, count, right_at);
#pragma unroll 8
    for (int i = 1; i < BLOCK; ++i)
        QUEUE_AT((BLOCK - 1 + i) * GROUP) = edge_sum(edges, 3 * BLOCK + i, count, right_at);
    QUEUE_AT(2 * (BLOCK - 1) * GROUP) += edge_sum(edges, BLOCK - 1, count, below_at);
#pragma unroll 8
    for (int i = 1; i < BLOCK; ++i)
        QUEUE_AT((2 * (BLOCK - 1) + i) * GROUP) = edge_sum(edges, BLOCK - 1 - i, count, below_at);
    QUEUE_AT(3 * (BLOCK - 1) * GROUP) += edge_sum(edges, 2 * BLOCK - 1, count, left_at);
#pragma unroll 8
    for (int i = 1; i < BLOCK - 1; ++i)
        QUEUE_AT((3 * (BLOCK - 1) + i) * GROUP) = edge_sum(edges, 2 * BLOCK - 1 - i, count, left_at);
    QUEUE_AT(0) += edge_sum(edges, BLOCK, count, left_at);
    head = 0, tail = (4 * BLOCK - 5) * GROUP;
    near = QUEUE_AT((4 * BLOCK - 5) * GROUP), inflow = QUEUE_AT(0);
    SCAN;
#endif
#if TILE
    barrier(CLK_LOCAL_MEM_FENCE);
    store_tile(output + corner, tile, STRIDE, WIDTH * STRIDE, lanes_used, aligned);
#endif
}
