/* mapping/nearest.cl's mapping by a table of all colours' answers (mapping/full_table.h); the same result bit for bit.
 *
 * Constants: those of mapping/nearest.h; ALIGNED of mapping/full_table.h.
 */
#include "mapping/nearest.h"
#define COLUMNS 256
#include "mapping/full_table.h"

/* The nearest entries of all colours.
 * NDRange: 1-D, a work-item four neighbours of the table, guarded by `quads`, its length in fours. table (4 quads)
 * INDEX. */
__kernel void map_colors(PALETTE_PARAMETERS, __global INDEX *table, uint quads)
{
    const uint quad = (uint)get_global_id(0);
    if (quad >= quads)
        return;
    uint found[4];
    for (uint j = 0; j < 4; j++) {
        const int4 color = table_color(4 * quad + j);
        found[j] = (uint)nearest_to_color(space_coordinates(color, tables), color, points, colors, PALETTE_CELLS);
    }
    store_quad(vload4(0, found), table, quad, 4 * (ulong)quads);
}

uint looked_up(PALETTE_PARAMETERS, uint key, __global const INDEX *table)
{
    if (!is_beyond_table(key))
        return table[table_place(key)];
    const int4 color = unpacked_key(key);
    if (is_transparent(color, transparent, missing))
        return (uint)max(transparent, 0);
    return (uint)nearest_to_color(space_coordinates(color, tables), color, points, colors, PALETTE_CELLS);
}

uint4 looked_up_quad(PALETTE_PARAMETERS, uint4 keys, __global const INDEX *table)
{
    uint4 found;
    found.x = looked_up(PALETTE_ARGUMENTS, keys.x, table);
    found.y = looked_up(PALETTE_ARGUMENTS, keys.y, table);
    found.z = looked_up(PALETTE_ARGUMENTS, keys.z, table);
    found.w = looked_up(PALETTE_ARGUMENTS, keys.w, table);
    return found;
}

/* The nearest entry of every pixel.
 * NDRange: 1-D, a work-group of any size a tile. pixels (n, CHANNELS) uchar, 4-byte aligned; out (n) INDEX; n pixels in
 * rows of width; table as map_colors leaves it; rows of a tile. */
__kernel void map_pixels(PALETTE_PARAMETERS, __global const uchar *restrict pixels, __global INDEX *restrict out,
                         ulong n, __global const INDEX *restrict table, uint width, uint rows)
{
    const Tile tile = tile_of((uint)get_group_id(0), width, rows);
    const uint size = (uint)get_local_size(0);
    uint i = (uint)get_local_id(0);
#if ALIGNED
    const Quads quads = quads_of(tile, width, n);
    __global const uchar *from = pixels + quads.first * (4 * CHANNELS);
    __global QUAD_OF(INDEX) *to = (__global QUAD_OF(INDEX) *)out + quads.first;
    if (is_full(quads, rows))
        for (; i + (AT_ONCE - 1) * size < QUADS * rows; i += AT_ONCE * size) {
            Words words[AT_ONCE];
            uint4 found[AT_ONCE];
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                words[k] = words_of_quad(from, place_of_quad(quads, i + k * size));
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                found[k] = looked_up_quad(PALETTE_ARGUMENTS, keys_of_words(words[k]), table);
#pragma unroll
            for (uint k = 0; k < AT_ONCE; k++)
                to[place_of_quad(quads, i + k * size)] = index_quad(found[k]);
        }
    for (; i < QUADS * rows; i += size)
        if (is_there(quads, i)) {
            const uint place = place_of_quad(quads, i);
            const uint4 keys = keys_of_words(words_of_quad(from, place));
            to[place] = index_quad(looked_up_quad(PALETTE_ARGUMENTS, keys, table));
        }
#else
    for (; i < QUADS * rows; i += size) {
        uint column;
        const ulong quad = quad_of_tile(tile, i, width, &column);
        if (column < tile.end && 4 * quad < n)
            store_quad(looked_up_quad(PALETTE_ARGUMENTS, load_quad(pixels, quad, n), table), out, quad, n);
    }
#endif
}
