#include "philox.h"
#include "halftone.h"
#include "halftone_tile.h"

typedef int value_t;

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
