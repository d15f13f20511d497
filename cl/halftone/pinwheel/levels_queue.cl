#include "common/philox.h"
#include "halftone/halftone.h"
#include "halftone/pinwheel/records.h"

typedef int value_t;

#define QUEUE_AT(i) queue[i]
#define QUEUE_STEP GROUP
#define QUEUE_END (QUEUE_ENTRIES * GROUP)
#define CONVERT_QUEUE(sum) (short)(sum)
#define CONVERT_VALUE(entry) (int)(entry)
#define AT_LEAST(value, threshold) (-((value) >= (threshold)))
#define SHARE(error, weight) (((error) * (weight)) >> 4)
#define LEVELS(at) (int)image[at]
#define EMIT(at, white) output[at] = (uchar)(white)

#include "halftone/serial/scan.h"

/* Form for GPUs and block sizes that halftone/pinwheel/levels_rings.cl does not take: a work-item halftones a whole
 * block of its phase (halftone/serial/scan.h), pixels in place; the queues of a group lie in local memory as
 * [entry][work-item]. Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion
 * Implementation on a GPU", section 2; sections 4.1 and 4.2 on what bounds it.
 *
 * NDRange: (whole blocks of this phase in a row, rows of blocks, channels), group (GROUP, 1, 1).
 * image, output  uchar [rows][width][channels] from picture row ORIGIN on.
 * record         uint [rows][256]: by input level, see halftone_records.h.
 * amplitude      short [256]: of the start error, by input level.
 * edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * Local memory   short [QUEUE_ENTRIES][GROUP].
 * Constants: BLOCK, PHASE, GROUP and those of halftone_scan.h. */
kernel void halftone_queue(global const uchar *image, global uchar *output, global const uint *record,
                           global const short *amplitude, global short *edges, int4 picture, int4 blocks,
                           int error_limit, uint2 key) {
    local short queues[QUEUE_ENTRIES * GROUP];
    local short *queue = queues + get_local_id(0);
    const int block_y = FIRST_ROW + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int index = (int)get_global_id(0), block_x = block_column(index, block_y);
    if (index >= (WIDTH / BLOCK - ((block_y + PHASE) & 1) + 1) / 2)
        return;
    const int count = (int)get_global_size(2) * EDGE_ROWS * HALF;
    const int limit = error_limit;
    int carry, near, far, inflow, level, next_level, error, white, first, second, third, head, tail, direction;
    Rule rule, next_rule;
    const int dx = STRIDE, dy = WIDTH * STRIDE;
    size_t at = pixel_index(block_y * BLOCK, block_x * BLOCK, channel, picture), here;
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
    leave_edges(queue, GROUP, QUEUE_ENTRIES, head / GROUP, sums, count);
#else
    meet_edges(queue, GROUP, edges, count, above_at, right_at, below_at, left_at);
    head = 0, tail = (4 * BLOCK - 5) * GROUP;
    near = QUEUE_AT((4 * BLOCK - 5) * GROUP), inflow = QUEUE_AT(0);
    SCAN;
#endif
}
