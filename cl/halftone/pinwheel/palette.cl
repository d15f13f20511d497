#include "common/philox.h"
#include "halftone/halftone.h"
#include "mapping/nearest.h"
#include "dithering/reach.h"

#define PALETTE_NAMES tables, points, colors, starts, list, grid, shift, transparent, missing

inline int4 worth_of(int4 color, __global const short *light)
{
    return (int4)(light[color.x], light[color.y], light[color.z], 16 * color.w);
}

inline int4 color_of(int4 worth, __global const uchar *codes)
{
    const int4 at = clamp(worth, (int4)(0), (int4)(4080));
    return (int4)(codes[at.x], codes[at.y], codes[at.z], (at.w + 8) >> 4);
}

/* The start error of a block: seeded, and none where the palette has the first pixel's colour. */
inline int4 first_error(int4 color, int amplitude, int block_x, int block_y, uint4 key, PALETTE_PARAMETERS)
{
    const int entry = nearest_to_color(space_coordinates(color, tables), color, points, colors, PALETTE_CELLS);
    if (!any(colors[entry] != color))
        return 0;
    const uint4 words = block_random(block_x, block_y, 0, 0u, key);
    return (int4)(start_error(words.s0, amplitude), start_error(words.s1, amplitude), start_error(words.s2, amplitude),
                  0);
}

/* Pinwheel error diffusion to any palette: one work-item halftones one block of its phase, errors are vectors of four
 * components (red, green, blue, alpha) in 1/16 of an 8-bit step, or of linear light scaled to 255.
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 2; its section 5 leaves colour open.
 *
 * Of the error that reaches a pixel `shares` / 256 count, by its place in the path: as much as if all pixels were fed
 * by whole errors, since corners of the path are fed by less or more than one, and lasting errors, of colours outside
 * the palette's hull, would draw the diagonals of blocks; and less than all of it where entries are close to each
 * other, so that such errors do not add up along the path.
 * A pixel's aim is its colour plus `gain` / 16 times that error, rounded and clamped to 8 bits. A gain over 16 is what
 * a threshold that rises with the tone is at two levels (gain 1 / (1 - slope)). The pixel takes the entry nearest to
 * its aim (mapping/nearest.h) or, where that is a speck, that of dithering/reach.h for gain 16, and passes on its colour
 * plus the error less that entry, within error_limit. Pixels of alpha 0 show the transparent entry and drop all errors;
 * opaque ones drop those of alpha.
 *
 * NDRange: (blocks of this phase in a row, rows of blocks); any work-group (n, 1).
 * The palette's parameters, constants: mapping/nearest.h.
 * image          uchar [rows][width][CHANNELS]; output INDEX [rows][width]; both from picture row `origin_of` on.
 * path, rim      as in halftone/pinwheel/levels.cl.
 * weights        short4 [rows]: 0, then three weights in sixteenths.
 * shares         ushort [PIXELS]: in 1/256, of the k-th pixel of the path.
 * light          short [256]: the worth of an 8-bit value; codes uchar [4081]: the 8-bit value of a worth.
 * edges          short4 [4 N][edge rows][blocks of a phase in a row].
 * all_waiting    local short4 [SLOTS][work-group].
 * Constants: BLOCK, PIXELS, SLOTS, PHASE, LAST_SLOT. Bounds: as in halftone/pinwheel/levels.cl, in each component. */
__kernel void halftone_palette(PALETTE_PARAMETERS, __global const int4 *bounds, __global const uint *within,
                               int n_entries, int speck, __global const uchar *image, __global INDEX *output,
                               __global const ushort8 *path, __global const ushort *rim, __global const short4 *weights,
                               __global const short *light, __global const uchar *codes, __global const ushort *shares,
                               __global short4 *edges, __local short4 *all_waiting, int4 picture, int4 blocks,
                               int error_limit, int amplitude, int gain, uint4 key)
{
    const int lanes = get_local_size(0);
    const int block_y = first_row_of(blocks) + (int)get_global_id(1);
    const int block_x = block_column((int)get_global_id(0), block_y);
    const int y0 = block_y * BLOCK, x0 = block_x * BLOCK;
    if (outside(y0, x0, picture))
        return;
    __local short4 *waiting = all_waiting + get_local_id(0);
    const int count = edge_rows_of(blocks) * half_of(blocks);
    for (int s = 0; s < SLOTS; ++s)
        waiting[s * lanes] = (short4)0;
#if PHASE == 1
    for (int side = 0; side < 4; ++side) {
        const int y = block_y + (side == 2) - (side == 0), x = block_x + (side == 1) - (side == 3);
        if (outside(y * BLOCK, x * BLOCK, picture))
            continue;
        for (int i = 0; i < BLOCK; ++i)
            waiting[rim[side * BLOCK + i] * lanes] +=
                edges[(size_t)((side ^ 2) * BLOCK + i) * count + edge_block(y, x, 0, blocks)];
    }
#endif
    int4 carry = 0;
    for (int k = 0; k < PIXELS; ++k) {
        const ushort8 step = path[k];
        const int y = y0 + (step.s0 >> 8), x = x0 + (step.s0 & 255);
        const int slot = (step.s1 & 1023) * lanes;
        int4 reached = carry + convert_int4(waiting[slot]);
        waiting[slot] = (short4)0;
        if (outside(y, x, picture)) {
            carry = clamp(reached, (int4)(-error_limit), (int4)(error_limit));
            continue;
        }
        const size_t at = pixel_index(y, x, 0, (int4)(height_of(picture), width_of(picture), 1, origin_of(picture)));
        const int4 color = load_pixel(image, at);
        if (is_transparent(color, transparent, missing)) {
            output[at] = (INDEX)max(transparent, 0);
            carry = 0;
            continue;
        }
#if PHASE == 0
        if (k == 0)
            reached = first_error(color, amplitude, block_x, block_y, key, PALETTE_NAMES);
#endif
        reached = (reached * shares[k]) >> 8;
        reached.w = color.w == WHITE ? 0 : reached.w;
        const int4 worth = worth_of(color, light);
        const int4 aim = color_of(worth + ((reached * gain) >> 4), codes);
        int entry = nearest_to_color(space_coordinates(aim, tables), aim, points, colors, PALETTE_CELLS);
        if (gap(color, colors[entry]) > speck) {
            const int4 point = space_coordinates(color_of(worth + reached, codes), tables);
            entry = entry_in_reach(point, color, points, colors, within, n_entries, speck);
        }
        output[at] = (INDEX)entry;
        const int4 most = (int4)(min(bounds[entry].z, error_limit));
        const int4 error = clamp(worth + reached - worth_of(colors[entry], light), -most, most);
        const short4 weight = weights[step.s1 >> 10];
        int4 first = (error * weight.s1) >> 4, second = (error * weight.s2) >> 4, third = (error * weight.s3) >> 4;
        first = outside(y + (step.s5 >> 8) - 2, x + (step.s5 & 255) - 2, picture) ? (int4)0 : first;
        second = outside(y + (step.s6 >> 8) - 2, x + (step.s6 & 255) - 2, picture) ? (int4)0 : second;
        third = outside(y + (step.s7 >> 8) - 2, x + (step.s7 & 255) - 2, picture) ? (int4)0 : third;
        waiting[step.s2 * lanes] += convert_short4(first);
        waiting[step.s3 * lanes] += convert_short4(second);
        waiting[step.s4 * lanes] += convert_short4(third);
        carry = error - first - second - third;
    }
#if PHASE == 0
    waiting[LAST_SLOT * lanes] += convert_short4(carry);
    for (int entry = 0; entry < 4 * BLOCK; ++entry)
        edges[(size_t)entry * count + edge_block(block_y, block_x, 0, blocks)] = waiting[rim[entry] * lanes];
#endif
}
