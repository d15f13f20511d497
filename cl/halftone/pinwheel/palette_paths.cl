#include "common/philox.h"
#include "mapping/nearest.h"
#if NEAR_COLORS
#define REACH_POINTS __local const short4 *
#endif
#include "dithering/reach.h"
#include "halftone/halftone.h"
#include "halftone/pinwheel/palette_paths.h"

/* A pixel's number in the scan has 12 bits of a `place`, and the code of its share the other four. */
#define PLACE_MASK 4095

/* The marks of the pixel x of a row of the block whose first pixel is (x0, y0), see `decide`. */
inline uint marks_of(int y0, int y, int x0, int x, __global const ushort8 *path, int4 picture)
{
    uint marks = 0;
    if (outside(y, x0 + x, picture)) {
        marks = 15u << 28;
    } else if (outside(y0 - 1, x0 - 1, picture) || outside(y0 + BLOCK, x0 + BLOCK, picture)) {
        const ushort8 step = *path;
        const int at = x0 + x;
        marks |= (uint)outside(y + (step.s5 >> 8) - 2, at + (step.s5 & 255) - 2, picture) << 30;
        marks |= (uint)outside(y + (step.s6 >> 8) - 2, at + (step.s6 & 255) - 2, picture) << 29;
        marks |= (uint)outside(y + (step.s7 >> 8) - 2, at + (step.s7 & 255) - 2, picture) << 28;
    }
    return marks;
}

/* The pixels of a group's blocks, beside each other those of the same place in all blocks, colour in the low 24 bits,
 * the code of the place's share in the next four, marks above (see `decide`).
 * image          uchar [rows][width][CHANNELS] from picture row `origin_of` on.
 * path           as in halftone/pinwheel/levels.cl.
 * place          ushort [N][N]: a pixel's number in the scan and, from bit 12 on, the code of its share.
 * NDRange: (groups * GROUP, N, rows of blocks), group (GROUP, 1, 1).
 * Constants: WORDS (1: block size and width are multiples of 4, so pixels are read in words). */
__kernel void gather_paths(__global const uchar *image, __global uint *paths, __global const ushort8 *path,
                           __global const ushort *place, int4 picture, int4 blocks)
{
    __local uint tile[BLOCK * (LANES + 1)];
    const int block_y = first_row_of(blocks) + (int)get_global_id(2);
    const int group = (int)get_group_id(0), row = (int)get_global_id(1);
    const int y0 = block_y * BLOCK, y = y0 + row, begin_x = block_column(group * LANES, block_y) * BLOCK;
    const int end_x = begin_x + (2 * LANES - 1) * BLOCK; /* of the group's blocks */
    const int whole = WORDS && end_x <= width_of(picture) && y0 + BLOCK <= height_of(picture);
    const int at_end = begin_x == 0 || end_x >= width_of(picture) || y0 == 0 || y0 + BLOCK >= height_of(picture);
    paths += (get_global_id(2) * get_num_groups(0) + group) * (4 * QUADS * LANES);
    place += row * BLOCK;
    for (int i = (int)get_local_id(0); i < BLOCK * LANES && !whole; i += GROUP) {
        const int x = i % BLOCK, lane = i / BLOCK, at = begin_x + lane * 2 * BLOCK + x;
        uint pixel = 0;
        if (!outside(y, at, picture)) {
            __global const uchar *from = image + pixel_index(y, at, 0, picture);
#if CHANNELS == 1
            pixel = from[0] * 0x10101u;
#else
            pixel = from[0] | from[1] << 8 | (uint)from[2] << 16;
#endif
        }
        tile[x * (LANES + 1) + lane] = pixel;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = (int)get_local_id(0); i < BLOCK * LANES && !whole; i += GROUP) {
        const int x = i / LANES, lane = i % LANES, k = place[x] & PLACE_MASK;
        const uint marks = at_end ? marks_of(y0, y, begin_x + lane * 2 * BLOCK, x, path + k, picture) : 0u;
        paths[k * LANES + lane] = tile[x * (LANES + 1) + lane] | marks | (uint)(place[x] >> 12) << 24;
    }
#if WORDS
    if (whole) {
        image += pixel_index(y, begin_x, 0, picture);
        for (int i = (int)get_local_id(0); i < BLOCK / 4 * LANES; i += GROUP) {
            const int x = i / LANES * 4, lane = i % LANES;
            __global const uint *from = (__global const uint *)(image + (lane * 2 * BLOCK + x) * CHANNELS);
#if CHANNELS == 1
            const uint all = from[0];
            uint4 pixels = (uint4)(all, all >> 8, all >> 16, all >> 24) & 255u;
            pixels *= 0x10101u;
#else
            const uint one = from[0], two = from[1], three = from[2];
            uint4 pixels = (uint4)(one, one >> 24 | two << 8, two >> 16 | three << 16, three >> 8) & 0xffffffu;
#endif
            const ushort4 codes = vload4(0, place + x), at = codes & (ushort)PLACE_MASK;
            pixels |= (convert_uint4(codes) >> 12) << 24;
            if (at_end) {
                const int x0 = begin_x + lane * 2 * BLOCK;
                pixels |= (uint4)(marks_of(y0, y, x0, x, path + at.s0, picture),
                                  marks_of(y0, y, x0, x + 1, path + at.s1, picture),
                                  marks_of(y0, y, x0, x + 2, path + at.s2, picture),
                                  marks_of(y0, y, x0, x + 3, path + at.s3, picture));
            }
            paths[at.s0 * LANES + lane] = pixels.s0, paths[at.s1 * LANES + lane] = pixels.s1;
            paths[at.s2 * LANES + lane] = pixels.s2, paths[at.s3 * LANES + lane] = pixels.s3;
        }
    }
#endif
}

/* The entries from their places back into the picture: output INDEX [rows][width]. NDRange as for gather_paths. */
__kernel void scatter_paths(__global const INDEX *entries, __global INDEX *output, __global const ushort *place,
                            int4 picture, int4 blocks)
{
    const int y = (int)get_global_id(1), group = (int)get_group_id(0);
    const int block_y = first_row_of(blocks) + (int)get_global_id(2);
    const int4 indices = (int4)(height_of(picture), width_of(picture), 1, origin_of(picture));
    entries += (get_global_id(2) * get_num_groups(0) + group) * (4 * QUADS * LANES);
    __local INDEX tile[BLOCK * (LANES + 1)];
    for (int i = (int)get_local_id(0); i < BLOCK * LANES; i += GROUP)
        tile[i / LANES * (LANES + 1) + i % LANES] =
            entries[(place[y * BLOCK + i / LANES] & PLACE_MASK) * LANES + i % LANES];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = (int)get_local_id(0); i < BLOCK * LANES; i += GROUP) {
        const int x = i % BLOCK, lane = i / BLOCK, at = block_column(group * LANES + lane, block_y) * BLOCK + x;
        if (!outside(block_y * BLOCK + y, at, picture))
            output[pixel_index(block_y * BLOCK + y, at, 0, indices)] = tile[x * (LANES + 1) + lane];
    }
}

/* Pinwheel error diffusion to a palette in a form for GPUs: a work-item takes a block of its phase. What is computed is
 * said in halftone/pinwheel/palette.cl, in which order in halftone/pinwheel/levels_lanes.h.
 *
 * NDRange: (groups * LANES, rows of blocks), group (LANES, 1).
 * paths          uint [rows of blocks][groups][N * N, rounded up to fours][LANES], from gather_paths.
 * entries        INDEX, as `paths`: the entries.
 * nearest        INDEX [2^24]: of the colour R | G << 8 | B << 16 (mapping/plain_table.cl).
 * colors, points int4 [entries of the palette]; tables: mapping/nearest.h; within, n_entries, speck: dithering/reach.h.
 * palette        uint2 [entries]: R | G << 8 | B << 16; the most of an error that is passed on.
 * light, codes, edges: as in halftone/pinwheel/palette.cl.
 * shares         ushort [16]: what counts of an error that reaches a pixel, in 1/256, by the code of its place.
 * Local memory   uint and short [4 N + 4][LANES]; int [16]; where NEAR_COLORS, uint2 and short4 [256].
 * Constants: those of mapping/nearest.h and dithering/reach.h; BLOCK (at least 4), PHASE, LANES, GROUP, LINEAR (0: worths
 * are 16 times the values), NEAR_COLORS (1: at most 256 colours, held in local memory), FEW (1: `entry_of_few` in place
 * of `nearest`); weights of the kinds of pixels in sixteenths: STRAIGHT_1..3, CORNER_1..3, FIRST_1..3 (outward),
 * AFTER_1..2 (inward). */
__kernel void halftone_palette_paths(__global const uint *paths, __global INDEX *entries, __global const INDEX *nearest,
                                     __global const int4 *colors, __global const int4 *points,
                                     __global const int *tables, __global const uint *within, int n_entries, int speck,
                                     __global const uint2 *palette, __global const short *light,
                                     __global const uchar *codes, __global const ushort *shares, __global short4 *edges,
                                     int4 picture, int4 blocks, int error_limit, int amplitude, int gain, uint4 key)
{
    __local uint two[QUEUE_ENTRIES * LANES];
    __local short one[QUEUE_ENTRIES * LANES];
    const int lane = (int)get_local_id(0), block_y = first_row_of(blocks) + (int)get_global_id(1);
    const int block_x = block_column((int)get_global_id(0), block_y);
#if NEAR_COLORS
    __local uint2 shades[256];
    __local short4 near_points[256];
    for (int i = lane; i < n_entries; i += LANES)
        shades[i] = palette[i], near_points[i] = convert_short4(points[i]);
#else
    __global const uint2 *shades = palette;
    __global const int4 *near_points = points;
#endif
    __local int near_shares[SHARES];
    for (int i = lane; i < SHARES; i += LANES)
        near_shares[i] = shares[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (outside(block_y * BLOCK, block_x * BLOCK, picture))
        return;
    /* Whether the picture's right or lower end cuts a block of the group. */
    const int last_x = block_column((int)get_group_id(0) * LANES + LANES - 1, block_y);
    const int cut = (block_y + 1) * BLOCK > height_of(picture) ||
                    (width_of(picture) % BLOCK && (last_x + 1) * BLOCK > width_of(picture));
    const size_t begin = (get_global_id(1) * get_num_groups(0) + get_group_id(0)) * (4 * QUADS * LANES) + lane;
    const int count = edge_rows_of(blocks) * half_of(blocks);
    path_scan_t scan = {.nearest = nearest, .light = light, .codes = codes, .shades = shades, .shares = near_shares};
    scan.points = near_points, scan.colors = colors, scan.tables = tables, scan.within = within;
    scan.n_entries = n_entries, scan.speck = speck;
    scan.limit = error_limit, scan.gain = gain;
    scan.paths = paths + begin, scan.entries = entries + begin;
    scan.two = two + lane, scan.one = one + lane;
    begin_path(&scan);
#if PHASE == 0
    const uint color = scan.now.s0 & 0xffffffu;
    int3 start = 0;
    if ((int)scan.now.s0 >= 0 && palette[entry_near(&scan, color)].x != color) {
        const uint4 words = block_random(block_x, block_y, 0, 0u, key);
        start = (int3)(start_error(words.s0, amplitude), start_error(words.s1, amplitude),
                       start_error(words.s2, amplitude));
    }
    begin_outward(&scan, start);
    scan_outward(&scan, cut);
    __global short4 *sums = edges + edge_block(block_y, block_x, 0, blocks);
    for (int i = 0; i < 4 * BLOCK + 3; ++i) {
        const int entry = entry_beyond(i);
        if (entry >= 0)
            sums[(size_t)entry * count] = (short4)(convert_short3(queued_at(&scan, scan.head)), 0);
        scan.head = after(scan.head);
    }
#else
    for (int i = 0; i < 4 * BLOCK - 4; ++i)
        enqueue_at(&scan, i, (int3)(0));
    for (int side = 0; side < 4; ++side) {
        const int y = block_y + (side == 2) - (side == 0), x = block_x + (side == 1) - (side == 3);
        if (outside(y * BLOCK, x * BLOCK, picture))
            continue;
        __global const short4 *from = edges + (size_t)(side ^ 2) * BLOCK * count + edge_block(y, x, 0, blocks);
        for (int i = 0; i < BLOCK; ++i) {
            const int at = (side == 0   ? i
                            : side == 1 ? BLOCK - 1 + i
                            : side == 2 ? 3 * (BLOCK - 1) - i
                                        : 4 * (BLOCK - 1) - i) %
                           (4 * (BLOCK - 1));
            enqueue_at(&scan, at, queued_at(&scan, at) + convert_int3(from[(size_t)i * count].s012));
        }
    }
    scan.head = 1, scan.tail = 4 * BLOCK - 5;
    scan.near = queued_at(&scan, 4 * BLOCK - 5), scan.inflow = queued_at(&scan, 0);
    if (cut)
        scan_inward(&scan, 1);
    else
        scan_inward(&scan, 0);
#endif
}
