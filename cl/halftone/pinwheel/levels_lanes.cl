#include "common/philox.h"
#include "halftone/halftone.h"
#include "halftone/pinwheel/levels_lanes.h"

/* What the block on a side of each lane's block left at entry i of the facing side; 0 where there is none. */
inline short8 edge_sum(__global const short *edges, int entry, int count, int8 beside)
{
    __global const short *from = edges + (size_t)entry * count;
    const int8 at = max(beside, (int8)0);
    const short8 sum = (short8)(from[at.s0], from[at.s1], from[at.s2], from[at.s3], from[at.s4], from[at.s5],
                                from[at.s6], from[at.s7]);
    return sum & convert_short8(beside >= (int8)0);
}

/* The blocks beside each lane's block in `edges`, -1 where the picture ends. */
inline int8 blocks_beside(int8 block_x, int block_y, int channel, int step_x, int step_y, int4 picture, int4 blocks)
{
    const int8 x = block_x + step_x;
    const int y = block_y + step_y;
    const int8 exists = x >= 0 & x * BLOCK < width_of(picture) & (int8)(-(y >= 0 && y * BLOCK < height_of(picture)));
    return select((int8)(-1), (x >> 1) + (channel * edge_rows_of(blocks) + y - edge_row_of(blocks)) * half_of(blocks),
                  exists);
}

/* Form for CPUs: a work-item halftones eight whole blocks of its phase in explicit 16-bit lanes. Source: Zhang, Recker,
 * Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU", section 2.
 *
 * NDRange: (ceil(whole blocks of this phase in a row / 8), rows of blocks, channels); any work-group.
 * image, output  uchar [rows][width][channels] from picture row `origin_of` on.
 * record         short4 [rows][256]: by input level, threshold and three weights << 10.
 * amplitude      short [256]: of the start error, by input level.
 * edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * Constants: BLOCK, PHASE and those of halftone/pinwheel/levels_lanes.h. Bounds: |error| <= 8191 (so error << 2 fits 16
 * bits), and every sum fits 16 bits (clquant/halftone/pinwheel/layout.py, error_limit). */
__kernel void halftone_lanes(__global const uchar *image, __global uchar *output, __global const short4 *record,
                             __global const short *amplitude, __global short *edges, int4 picture, int4 blocks,
                             int error_limit, uint4 key)
{
    const int block_y = first_row_of(blocks) + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int first_index = 8 * (int)get_global_id(0);
    const int whole = (width_of(picture) / BLOCK - ((block_y + PHASE) & 1) + 1) / 2;
    if (first_index >= whole || (block_y + 1) * BLOCK > height_of(picture))
        return;
    /* Lanes beyond the last whole block do its work again. */
    const int8 index = min(first_index + (int8)(0, 1, 2, 3, 4, 5, 6, 7), (int8)(whole - 1));
    const int8 block_x = 2 * index + ((block_y + PHASE) & 1);
    const int count = (int)get_global_size(2) * edge_rows_of(blocks) * half_of(blocks);
    short8 queue[QUEUE_ENTRIES];
    Scan scan;
    scan.queue = queue;
    scan.image = image, scan.output = output, scan.record = record;
    scan.lanes = (block_x - block_x.s0) * BLOCK * stride_of(picture);
    scan.dx = stride_of(picture), scan.dy = width_of(picture) * stride_of(picture);
    scan.limit = (short8)(error_limit);
    const int8 above_at = blocks_beside(block_x, block_y, channel, 0, -1, picture, blocks);
    const int8 right_at = blocks_beside(block_x, block_y, channel, 1, 0, picture, blocks);
    const int8 below_at = blocks_beside(block_x, block_y, channel, 0, 1, picture, blocks);
    const int8 left_at = blocks_beside(block_x, block_y, channel, -1, 0, picture, blocks);
#if PHASE == 0
    const short8 above = convert_short8(above_at >= 0), right = convert_short8(right_at >= 0);
    const short8 below = convert_short8(below_at >= 0), left = convert_short8(left_at >= 0);
    scan.at = pixel_index(block_y * BLOCK + BLOCK / 2, block_x.s0 * BLOCK + (BLOCK - 1) / 2, channel, picture);
    short start[8], starts[8];
    vstore8(levels_at(&scan), 0, start);
    for (int i = 0; i < 8; ++i) {
        const int x = 2 * min(first_index + i, whole - 1) + ((block_y + PHASE) & 1);
        starts[i] = (short)start_error(block_random(x, block_y, channel, 0u, key).s0, amplitude[start[i]]);
    }
    scan.carry = vload8(0, starts);
    scan_outward(&scan, above, right, below, left);
    const int base =
        (channel * edge_rows_of(blocks) + block_y - edge_row_of(blocks)) * half_of(blocks) + (block_x.s0 >> 1);
    const int lanes_used = min(8, whole - first_index);
    for (int i = 0; i < 4 * BLOCK + 3; ++i) {
        const int entry = entry_beyond(i);
        if (entry >= 0) {
            short sums[8];
            vstore8(scan.queue[scan.head], 0, sums);
            for (int lane = 0; lane < lanes_used; ++lane)
                edges[(size_t)entry * count + base + lane] = sums[lane];
        }
        scan.head = next_entry(scan.head);
    }
#else
    scan.at = pixel_index(block_y * BLOCK, block_x.s0 * BLOCK, channel, picture);
    for (int i = 0; i < QUEUE_ENTRIES; ++i)
        scan.queue[i] = (short8)0;
    for (int i = 0; i < BLOCK; ++i) {
        scan.queue[i] += edge_sum(edges, 2 * BLOCK + i, count, above_at);
        scan.queue[BLOCK - 1 + i] += edge_sum(edges, 3 * BLOCK + i, count, right_at);
        scan.queue[3 * (BLOCK - 1) - i] += edge_sum(edges, i, count, below_at);
        const int from_below = (4 * (BLOCK - 1) - i) % (4 * (BLOCK - 1));
        scan.queue[from_below] += edge_sum(edges, BLOCK + i, count, left_at);
    }
    scan.head = 0, scan.tail = 4 * BLOCK - 5;
    scan.near = scan.queue[4 * BLOCK - 5], scan.inflow = scan.queue[0];
    scan_inward(&scan);
#endif
}
