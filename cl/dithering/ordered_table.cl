/* dithering/ordered.cl's dithering by a table of all colours' answers (mapping/full_table.h); the same result bit for
 * bit.
 *
 * An entry is an answer of dithering/ordered.h in one word, for palettes of at most 256 colours: `below` in the low 8
 * bits, then `above`, then `from`.
 *
 * Constants: those of mapping/nearest.h; ALIGNED of mapping/full_table.h, where the mask's side is a multiple of 4 as
 * well; GROUP, if defined, work-items of a group of dither_ordered: NVIDIA's driver (580) says of every kernel that
 * does not name its groups' size that they have at most 256.
 */
#include "mapping/nearest.h"
#include "dithering/ordered.h"
#define COLUMNS 128
#include "mapping/full_table.h"

uint answer_word(int4 point, int first, int second, __global const int4 *points, int values, int strength)
{
    if (first == second)
        return (uint)first << 8;
    const Answer answer = answer_of(point, (uint)first, (uint)second, points, values, strength);
    return (uint)answer.from << 16 | (uint)answer.above << 8 | (uint)answer.below;
}

/* What stands at a number of the mask. */
uint taken(uint answer, int t)
{
    return (answer > ((uint)t << 16 | 0xFFFFu) ? answer : answer >> 8) & 255u;
}

/* The answers of all colours.
 * NDRange: 1-D, a work-item four neighbours of the table, guarded by `quads`, its length in fours. nearest (4 quads)
 * INDEX as mapping/full_table.cl's map_colors leaves it; answers (4 quads) uint; extent, strength as
 * dithering/ordered.cl has them; values: numbers of the mask. */
__kernel void dither_colors(PALETTE_PARAMETERS, __global const INDEX *restrict nearest,
                            __global uint4 *restrict answers, uint quads, int4 extent, int values, int strength)
{
    const uint quad = (uint)get_global_id(0);
    if (quad >= quads)
        return;
    uint words[4];
    for (uint j = 0; j < 4; j++) {
        const int4 point = space_coordinates(table_color(4 * quad + j), tables);
        const int first = nearest[4 * quad + j];
        const int second = other_side(point, first, extent, points, PALETTE_CELLS);
        words[j] = answer_word(point, first, second, points, values, strength);
    }
    answers[quad] = vload4(0, words);
}

/* What stands in a pixel whose colour has this answer. */
uint dithered(PALETTE_PARAMETERS, uint key, uint answer, int t, int values, int4 extent, int strength)
{
    if (!is_beyond_table(key))
        return taken(answer, t);
    const int4 color = unpacked_key(key);
    if (is_transparent(color, transparent, missing))
        return (uint)max(transparent, 0);
    const int4 point = space_coordinates(color, tables);
    const int first = nearest_to_color(point, color, points, colors, PALETTE_CELLS);
    const int second = other_side(point, first, extent, points, PALETTE_CELLS);
    return (uint)mixed(point, first, second, points, t, values, strength);
}

uint4 dithered_quad(PALETTE_PARAMETERS, uint4 keys, __global const uint *answers, int4 t, int values, int4 extent,
                    int strength)
{
    /* All four are read before any is looked at. */
    const uint4 known = (uint4)(answers[table_place(keys.x)], answers[table_place(keys.y)],
                                answers[table_place(keys.z)], answers[table_place(keys.w)]);
    uint4 found;
    found.x = dithered(PALETTE_ARGUMENTS, keys.x, known.x, t.x, values, extent, strength);
    found.y = dithered(PALETTE_ARGUMENTS, keys.y, known.y, t.y, values, extent, strength);
    found.z = dithered(PALETTE_ARGUMENTS, keys.z, known.z, t.z, values, extent, strength);
    found.w = dithered(PALETTE_ARGUMENTS, keys.w, known.w, t.w, values, extent, strength);
    return found;
}

#if ALIGNED
/* Four neighbours of the mask, for a quad in a row of the picture. */
int4 mask_quad(__global const int *mask, uint side, uint row, uint quad)
{
    return ((__global const int4 *)mask)[(row & (side - 1)) * (side / 4) + (quad & (side / 4 - 1))];
}
#else
/* The mask's numbers at four pixels from one on, wherever rows of width end. */
int4 mask_pixels(__global const int *mask, uint side, uint row, uint column, uint width)
{
    int one[4];
    for (uint j = 0; j < 4; j++) {
        one[j] = mask[(row & (side - 1)) * side + (column & (side - 1))];
        if (++column == width) {
            column = 0;
            row++;
        }
    }
    return vload4(0, one);
}
#endif

#ifdef GROUP
#define OF_GROUP __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#else
#define OF_GROUP
#endif

/* One of two entries per pixel.
 * NDRange: 1-D, a work-group of any size (or GROUP) a tile. answers as dither_colors leaves them; rows of a tile; the
 * other arguments are those of dithering/ordered.cl, pixels 4-byte aligned. */
__kernel OF_GROUP void dither_ordered(PALETTE_PARAMETERS, __global const uchar *restrict pixels,
                                      __global INDEX *restrict out, ulong n, __global const uint *restrict answers,
                                      uint rows, uint width, uint first_row, __global const int *restrict mask,
                                      uint side, int4 extent, int strength)
{
    const Tile tile = tile_of((uint)get_group_id(0), width, rows);
    const uint size = (uint)get_local_size(0);
    const uint top = first_row + tile.row;
    const int values = (int)(side * side);
    uint i = (uint)get_local_id(0);
#if ALIGNED
    const Quads quads = quads_of(tile, width, n);
    __global const uchar *from = pixels + quads.first * (4 * CHANNELS);
    __global QUAD_OF(INDEX) *to = (__global QUAD_OF(INDEX) *)out + quads.first;
#if CHANNELS != 4
    /* Pixels with alpha may have to be searched, which takes the registers of a second quad. */
    if (is_full(quads, rows))
        for (; i + (AT_ONCE - 1) * size < QUADS * rows; i += AT_ONCE * size) {
            Words words[AT_ONCE];
            int4 t[AT_ONCE];
            uint4 found[AT_ONCE];
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++) {
                const uint at = i + k * size;
                words[k] = words_of_quad(from, place_of_quad(quads, at));
                t[k] = mask_quad(mask, side, top + at / QUADS, tile.begin / 4 + at % QUADS);
            }
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                found[k] =
                    dithered_quad(PALETTE_ARGUMENTS, keys_of_words(words[k]), answers, t[k], values, extent, strength);
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                to[place_of_quad(quads, i + k * size)] = index_quad(found[k]);
        }
#endif
    for (; i < QUADS * rows; i += size)
        if (is_there(quads, i)) {
            const uint place = place_of_quad(quads, i);
            const int4 t = mask_quad(mask, side, top + i / QUADS, tile.begin / 4 + i % QUADS);
            const uint4 keys = keys_of_words(words_of_quad(from, place));
            to[place] = index_quad(dithered_quad(PALETTE_ARGUMENTS, keys, answers, t, values, extent, strength));
        }
#else
    for (; i < QUADS * rows; i += size) {
        uint column;
        const ulong quad = quad_of_tile(tile, i, width, &column);
        if (column >= tile.end || 4 * quad >= n)
            continue;
        const int4 t = mask_pixels(mask, side, top + i / QUADS, column, width);
        const uint4 keys = load_quad(pixels, quad, n);
        store_quad(dithered_quad(PALETTE_ARGUMENTS, keys, answers, t, values, extent, strength), out, quad, n);
    }
#endif
}
