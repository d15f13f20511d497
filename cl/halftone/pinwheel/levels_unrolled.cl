#include "common/philox.h"
#include "halftone/halftone.h"
#include "halftone/pinwheel/records.h"

#define PITCH (GROUP + 4) /* bytes between the pixels of a tile; 4 more than the lanes, against bank conflicts */
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

#define PIXEL(place, slot, row, slot_1, slot_2, slot_3, mask_1, mask_2, mask_3)                                        \
    {                                                                                                                  \
        const int level = pixels[(place)*PITCH];                                                                       \
        const Rule rule = rule_at(record, row, level);                                                                 \
        const int value = carry + waiting[slot] + (level << 4);                                                        \
        const int white = -(value >= rule.threshold);                                                                  \
        pixels[(place)*PITCH] = (uchar)white;                                                                          \
        waiting[slot] = 0;                                                                                             \
        const int error = clamp(value - (white & 4080), -error_limit, error_limit);                                    \
        const int first = ((error * rule.first) >> 4) & (mask_1);                                                      \
        const int second = ((error * rule.second) >> 4) & (mask_2);                                                    \
        const int third = ((error * rule.third) >> 4) & (mask_3);                                                      \
        waiting[slot_1] += first;                                                                                      \
        waiting[slot_2] += second;                                                                                     \
        waiting[slot_3] += third;                                                                                      \
        carry = error - first - second - third;                                                                        \
    }
#if PHASE == 0
#define EDGE(slot, own, facing, side)                                                                                  \
    if (used)                                                                                                          \
        sums[(size_t)(own)*count] = (short)waiting[slot];
#else
#define EDGE(slot, own, facing, side) waiting[slot] += edge_sum(edges, facing, count, side##_at);
#endif

/* Form for GPUs and small blocks: the scan written out pixel by pixel, so that every waiting error is a register.
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 3 (their program too unrolls the scan; section 4.2 tells what it costs at large blocks).
 *
 * NDRange: (whole blocks of this phase in a row, rows of blocks, channels), group (GROUP, 1, 1).
 * image, output  uchar [rows][width][channels] from picture row ORIGIN on.
 * record         uint [rows][256]: by input level, see halftone/pinwheel/records.h.
 * amplitude      short [256]: of the start error, by input level.
 * edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * Local memory   uchar [pixel][PITCH]: a group's blocks. Constants: BLOCK, PHASE, GROUP, SLOTS, LAST_SLOT, and two texts that the host writes from the path:
 * STEPS  PIXEL(place, slot, row, slots of three receivers, masks of three receivers) for every pixel, in the scan's
 *        order;
 * RIM    EDGE(slot, own entry, facing entry, side) for every pixel along the four sides. */
kernel void halftone_unrolled(global const uchar *image, global uchar *output, global const uint *record,
                              global const short *amplitude, global short *edges, int4 picture, int4 blocks,
                              int error_limit, uint2 key) {
    local uchar tile[BLOCK * BLOCK * PITCH];
    local uchar *pixels = tile + get_local_id(0);
    const int block_y = FIRST_ROW + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int index = (int)get_global_id(0), group_index = index - (int)get_local_id(0);
    const int whole = (WIDTH / BLOCK - ((block_y + PHASE) & 1) + 1) / 2;
    const int lanes_used = min(GROUP, whole - group_index), used = index < whole;
    const int block_x = block_column(index, block_y);
    const int count = (int)get_global_size(2) * EDGE_ROWS * HALF;
    const size_t corner = pixel_index(block_y * BLOCK, block_column(group_index, block_y) * BLOCK, channel, picture);
    const int aligned = STRIDE == 1 && (WIDTH & 3) == 0;
    load_tile(image + corner, tile, STRIDE, WIDTH * STRIDE, lanes_used, aligned);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int above_at = block_beside(block_x, block_y - 1, channel, picture, blocks);
    const int right_at = block_beside(block_x + 1, block_y, channel, picture, blocks);
    const int below_at = block_beside(block_x, block_y + 1, channel, picture, blocks);
    const int left_at = block_beside(block_x - 1, block_y, channel, picture, blocks);
    int waiting[SLOTS];
    for (int s = 0; s < SLOTS; ++s)
        waiting[s] = 0;
    int carry = 0;
#if PHASE == 0
    const int above = -(above_at >= 0), right = -(right_at >= 0), below = -(below_at >= 0), left = -(left_at >= 0);
    const int first_level = pixels[(BLOCK / 2 * BLOCK + (BLOCK - 1) / 2) * PITCH];
    carry = start_error(block_random(block_x, block_y, channel, 0u, key).s0, amplitude[first_level]);
    STEPS
    waiting[LAST_SLOT] += carry & left;
    global short *sums = edges + edge_block(block_y, block_x, channel, blocks);
    RIM
#else
    RIM
    STEPS
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    store_tile(output + corner, tile, STRIDE, WIDTH * STRIDE, lanes_used, aligned);
}
