/* palette_ordered.cl's dithering by a table of all colours' answers (palette_table.h); the same result bit for bit.
 *
 * An entry is an answer of palette_ordered.h in one word, for palettes of at most 256 colours: `from` in the low 16
 * bits, then `below`, then `above`.
 *
 * Constants: those of palette_nearest.h; ALIGNED 1 where the width is a multiple of 4, and the mask's side as well.
 */
#include "palette_nearest.h"
#include "palette_ordered.h"
#include "palette_table.h"

uint answer_word(int4 point, int first, int second, __global const int4 *points, int values, int strength)
{
    if (first == second)
        return (uint)first << 24;
    const Answer answer = answer_of(point, (uint)first, (uint)second, points, values, strength);
    return (uint)answer.from | (uint)answer.below << 16 | (uint)answer.above << 24;
}

/* The answers of all colours.
 * NDRange: 1-D, a work-item four neighbours of the table, guarded by `quads`, its length in fours. nearest (4 quads)
 * INDEX as palette_map_table.cl's map_colors leaves it; answers (4 quads) uint; extent, strength as palette_ordered.cl
 * has them; values: numbers of the mask. */
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
#if SPACE == 0 && !SPACE_ALPHA && CHANNELS != 1
        /* Points are colours, and the table knows the nearest entry of each. */
        const int4 error = point - points[first];
        int second = first;
        if (squared(error) > 0)
            for (int reach = 2; reach <= 128 && second == first; reach *= 4) {
                const int4 p = clamp(point + reach * error, (int4)(0), extent);
                second = nearest[table_place((uint)p.x | (uint)p.y << 8 | (uint)p.z << 16)];
            }
#else
        const int second = other_side(point, first, extent, points, PALETTE_CELLS);
#endif
        words[j] = answer_word(point, first, second, points, values, strength);
    }
    answers[quad] = vload4(0, words);
}

/* What stands at a number of the mask. */
uint taken(uint answer, int t)
{
    return (t < (int)(answer & 0xFFFFu) ? answer >> 16 : answer >> 24) & 255u;
}

#if CHANNELS == 4
/* What stands in a pixel that the table may not answer. */
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
#endif

/* One of two entries a pixel.
 * NDRange: 1-D, a work-group of any size a tile. answers as dither_colors leaves them; rows of a tile; the other
 * arguments are those of palette_ordered.cl, pixels 4-byte aligned. */
__kernel void dither_ordered(PALETTE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out,
                             ulong n, __global const uint *restrict answers, uint rows, uint width, uint first_row,
                             __global const int *mask, uint side, int4 extent, int strength)
{
    const Tile tile = tile_of((uint)get_group_id(0), width, rows);
#if CHANNELS == 4
    const int values = (int)(side * side);
#endif
    for (uint i = (uint)get_local_id(0); i < QUADS * rows; i += (uint)get_local_size(0)) {
        uint column;
        const ulong quad = quad_of_tile(tile, i, width, &column);
        if (column >= tile.end || 4 * quad >= n)
            continue;
        uint row = first_row + tile.row + i / QUADS;
        const uint4 keys = load_quad(pixels, quad, n);
#if ALIGNED
        const uint place = (row & (side - 1)) * side + (column & (side - 1));
        const int4 t = ((__global const int4 *)mask)[place / 4];
#else
        int one[4];
        for (uint j = 0; j < 4; j++) {
            one[j] = mask[(row & (side - 1)) * side + (column & (side - 1))];
            if (++column == width) {
                column = 0;
                row++;
            }
        }
        const int4 t = vload4(0, one);
#endif
        const uint4 known = (uint4)(answers[table_place(keys.x)], answers[table_place(keys.y)],
                                    answers[table_place(keys.z)], answers[table_place(keys.w)]);
#if CHANNELS == 4
        uint4 found;
        found.x = dithered(PALETTE_ARGUMENTS, keys.x, known.x, t.x, values, extent, strength);
        found.y = dithered(PALETTE_ARGUMENTS, keys.y, known.y, t.y, values, extent, strength);
        found.z = dithered(PALETTE_ARGUMENTS, keys.z, known.z, t.z, values, extent, strength);
        found.w = dithered(PALETTE_ARGUMENTS, keys.w, known.w, t.w, values, extent, strength);
#else
        const uint4 found =
            (uint4)(taken(known.x, t.x), taken(known.y, t.y), taken(known.z, t.z), taken(known.w, t.w));
#endif
        store_quad(found, out, quad, n);
    }
}
