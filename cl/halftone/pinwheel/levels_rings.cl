#include "common/philox.h"
#include "halftone/halftone.h"
#include "halftone/pinwheel/levels_rings.h"

/* Form for GPUs: a work-item halftones a whole block of its phase, some turns of the spiral at a time.
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 2; sections 4.1 and 4.2 on what bounds it. The scan itself is in halftone/pinwheel/levels_rings.h.
 *
 * A pixel waits for the one before, so what counts is how soon a step ends and how many blocks run at once. A part's
 * pixels lie in local memory in the order of the scan: a step's place is the last one's plus a constant, and levels are
 * read three pixels ahead, records two, so that no step waits for memory. All kinds of pixels have the same
 * thresholds, and nearly all are straight: the records of these are in local memory, and so are the weights of the
 * others, which are read when they are due. Parts of a few turns take little memory, so that many blocks run at once;
 * what they cost is that pixels beside the turns' vertical sides are read and written in words of four. */

#define IN_FLIGHT (LANES < 32 ? 8 : 16) /* words of a work-item that are loaded at once; divides LANES */

inline void place_quad(__local uchar *to, ushort8 quad, uint pixels)
{
    to[quad.s2] = (uchar)pixels, to[quad.s3] = (uchar)(pixels >> 8);
    to[quad.s4] = (uchar)(pixels >> 16), to[quad.s5] = (uchar)(pixels >> 24);
}

/* Copy a part of the group's blocks between picture and tile; `quads` says which pixels its words are. */
inline void load_part(__global const uchar *image, __local uchar *tile, __global const ushort8 *quads, int count,
                      int dx, int dy, int lanes_used, int aligned)
{
    for (int i = (int)get_local_id(0); i < count; i += GROUP) {
        const ushort8 quad = quads[i];
        __global const uchar *from = image + (size_t)quad.s1 * dy + quad.s0 * dx;
        if (aligned && lanes_used == LANES) {
            for (int begin = 0; begin < LANES; begin += IN_FLIGHT) {
                uint pixels[IN_FLIGHT];
#pragma unroll
                for (int j = 0; j < IN_FLIGHT; ++j)
                    pixels[j] = *(__global const uint *)(from + (begin + j) * 2 * BLOCK);
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

inline void store_part(__global uchar *output, __local const uchar *tile, __global const ushort8 *quads, int count,
                       int dx, int dy, int lanes_used, int aligned)
{
    for (int i = (int)get_local_id(0); i < count; i += GROUP) {
        const ushort8 quad = quads[i];
        __global uchar *to = output + (size_t)quad.s1 * dy + quad.s0 * dx;
#pragma unroll 8
        for (int j = 0; j < lanes_used; ++j, to += 2 * BLOCK * dx) {
            __local const uchar *from = tile + j;
            if (aligned)
                *(__global uint *)to =
                    from[quad.s2] | from[quad.s3] << 8 | from[quad.s4] << 16 | (uint)from[quad.s5] << 24;
            else
                to[0] = from[quad.s2], to[dx] = from[quad.s3], to[2 * dx] = from[quad.s4], to[3 * dx] = from[quad.s5];
        }
    }
}

/* What the block at `beside` of `edges` left on its side's entry; 0 where there is none. */
inline int edge_sum(__global const short *edges, int entry, int count, int beside)
{
    return beside >= 0 ? edges[(size_t)entry * count + beside] : 0;
}

inline int block_beside(int x, int y, int channel, int4 picture, int4 blocks)
{
    return outside(y * BLOCK, x * BLOCK, picture) ? -1 : edge_block(y, x, channel, blocks);
}

/* Fill the queues of the group's inward blocks, by all its work-items, with what reached their rims, in the order of the
 * scan. */
inline void meet_edges(__local short *queues, __global const short *edges, int count, int first_index, int used,
                       int block_y, int channel, int4 picture, int4 blocks)
{
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
 * last one, so that is where it begins. */
inline void leave_edges(__local const short *queues, __global short *edges, int count, int first_index, int used,
                        int block_y, int channel, int4 picture, int4 blocks)
{
    const int lane = (int)get_local_id(0) % LANES;
    if (lane >= used)
        return;
    __global short *sums = edges + edge_block(block_y, block_column(first_index + lane, block_y), channel, blocks);
#pragma unroll 4
    for (int i = (int)get_local_id(0) / LANES; i < 4 * BLOCK + 3; i += GROUP / LANES) {
        const int entry = entry_beyond(i);
        if (entry >= 0)
            sums[(size_t)entry * count] = queues[(BLOCK * BLOCK - 1 + i) % QUEUE_ENTRIES * LANES + lane];
    }
}

/* Halftones the whole blocks of a phase.
 *
 * NDRange: (ceil(blocks of this phase in a row / LANES) * GROUP, rows of whole blocks, channels), group (GROUP, 1, 1):
 * LANES work-items scan a block each, all GROUP copy its pixels.
 * image, output  uchar [rows][width][channels] from picture row `origin_of` on.
 * record         uint [rows][256]: by input level, weights | weights << 5 | weights << 10 | threshold << 20.
 * amplitude      short [256]: of the start error, by input level.
 * quads          ushort8 [N * N / 4]: the parts' words of four pixels, see ring_quads in
 * clquant/halftone/pinwheel/layout.py. edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * Local memory   uchar [pixels of the largest part + 3][LANES + 1], short [4 N + 8][LANES], uint and ushort [1 or 2]
 *                [256].
 * Constants: BLOCK (a multiple of 4, at least 8), PHASE, RINGS (turns in a part, a multiple of 4), LANES, GROUP, LOOSE
 * (error_limit is at least 4080) and those of halftone/pinwheel/levels_lanes.h. */
__kernel void halftone_rings(__global const uchar *image, __global uchar *output, __global const uint *record,
                             __global const short *amplitude, __global const ushort8 *quads, __global short *edges,
                             int4 picture, int4 blocks, int error_limit, uint4 key)
{
    __local uchar tile[(PART_PIXELS + AHEAD) * RING_PITCH];
    __local short queues[QUEUE_ENTRIES * LANES];
    __local uint records[(1 + PHASE) * 256];
    __local ushort specials[(1 + PHASE) * 256]; /* weights at corners; inward: two after them, and one at them */
    const int lane = (int)get_local_id(0);
    const int block_y = first_row_of(blocks) + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int group_index = (int)get_group_id(0) * LANES, index = group_index + lane;
    const int whole = (width_of(picture) / BLOCK - ((block_y + PHASE) & 1) + 1) / 2;
    const int lanes_used = min(LANES, whole - group_index), scans = lane < lanes_used;
    const int block_x = block_column(index, block_y);
    const int count = (int)get_global_size(2) * edge_rows_of(blocks) * half_of(blocks);
    const size_t corner = pixel_index(block_y * BLOCK, block_column(group_index, block_y) * BLOCK, channel, picture);
    const int dx = stride_of(picture), dy = width_of(picture) * dx, aligned = dx == 1 && (width_of(picture) & 3) == 0;
    ring_scan_t scan = {.queue = queues + lane, .records = records, .specials = specials, .limit = error_limit};
    for (int i = lane; i < (1 + PHASE) * 256; i += GROUP) {
        __global const uint *rows = record + (i < 256 ? 0 : CORE_ROWS) * 256 + (i & 255);
        records[i] = rows[ROW_STRAIGHT * 256];
#if PHASE == 0
        specials[i] = (ushort)(rows[ROW_CORNER * 256] & 0x7fffu);
#else
        specials[i] = (ushort)(rows[ROW_AFTER * 256] & 0x3ffu | (rows[ROW_CORNER * 256] & 31u) << 10);
#endif
    }
#if PHASE == 1
    meet_edges(queues, edges, count, group_index, lanes_used, block_y, channel, picture, blocks);
#endif
#if PHASE == 0
    /* All bits, or none if there is no picture on that side. */
    const int4 masks = (int4)(-!outside(block_y * BLOCK - 1, 0, picture), -!outside(0, (block_x + 1) * BLOCK, picture),
                              -!outside((block_y + 1) * BLOCK, 0, picture), -!outside(0, block_x * BLOCK - 1, picture));
#endif
    for (int part = 0; part < PARTS; ++part) {
        /* A part's outer and inner sides. */
        const int outer = BLOCK - WIDE * (PHASE ? part : PARTS - 1 - part), inner = max(outer - WIDE, 0);
        const int before = PHASE ? BLOCK * BLOCK - outer * outer : inner * inner;
        const int part_pixels = outer * outer - inner * inner;
        __global const ushort8 *part_quads = quads + before / 4;
        if (lanes_used > 0)
            load_part(image + corner, tile, part_quads, part_pixels / 4, dx, dy, lanes_used, aligned);
        /* What is read ahead beyond the part's end counts for nothing. */
        if (scans)
            for (int i = 0; i < AHEAD; ++i)
                tile[(part_pixels + i) * RING_PITCH + lane] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (scans) {
            scan.pixels = tile + lane;
            scan.level_0 = scan.pixels[0], scan.level_1 = scan.pixels[RING_PITCH];
            scan.level_2 = scan.pixels[2 * RING_PITCH];
            scan.sum = scan.inflow + 16 * scan.level_0;
#if PHASE == 0
            scan.record_0 = records[scan.level_0], scan.record_1 = records[scan.level_1];
            if (part == 0) {
                const uint random = block_random(block_x, block_y, channel, 0u, key).s0;
                begin_outward(&scan, start_error(random, amplitude[scan.level_0]),
                              record[ROW_FIRST * 256 + scan.level_0]);
            } else {
                turn(&scan, -1);
                ++scan.side;
            }
            scan_outward(&scan, part, outer, masks);
#else
            scan.record_0 = records[OF_CORE(scan.done) + scan.level_0];
            scan.record_1 = records[OF_CORE(scan.done + 1) + scan.level_1];
            if (part == 0) {
                scan.head = 1, scan.tail = 4 * BLOCK - 5;
                scan.near = scan.queue[(4 * BLOCK - 5) * LANES];
                scan.sum = scan.queue[0] + 16 * scan.level_0;
            }
            scan_inward(&scan, part);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lanes_used > 0)
            store_part(output + corner, tile, part_quads, part_pixels / 4, dx, dy, lanes_used, aligned);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if PHASE == 0
    leave_edges(queues, edges, count, group_index, lanes_used, block_y, channel, picture, blocks);
#endif
}
