/* Tiles of a picture, each of which has one of several small palettes.
 *
 * Points are int4: coordinates of common/color_spaces.h times `scale`, and in w whether a pixel is there (1), transparent
 * (-1), or beyond the picture's edge (0). They lie tile by tile, SIZE a tile, row by row within it. Centers (palettes, K)
 * are int4 in the same units. Squared distances are below 2^24, and a tile has at most 256 pixels, so its sums are below
 * 2^32.
 *
 * Constants: SPACE, SPACE_ALPHA 0 of common/color_spaces.h; CHANNELS of pixels, 1, 3 or 4; SIDE_X, SIDE_Y of a tile,
 * SIZE their product; K entries a palette, of which opaque pixels take those from FIRST on; INDEX, the type of indices.
 */
#include "common/color_spaces.h"

#define OPAQUE_ALPHA 128

/* Points of some tiles.
 * NDRange: 1-D, a work-item per pixel of a tile, guarded by count. pixels (height, width, CHANNELS) uchar; tiles (count)
 * uint: numbers in reading order, `across` of them in a row; points (.., SIZE), written from tile `begin` on. */
__kernel void gather_tiles(__global const uchar *pixels, uint width, uint height, uint across,
                           __global const uint *tiles, uint count, __global const int *tables, int scale, uint begin,
                           __global int4 *points)
{
    const size_t i = get_global_id(0);
    const uint tile = (uint)(i / SIZE), place = (uint)(i % SIZE);
    if (tile >= count)
        return;
    const uint x = tiles[tile] % across * SIDE_X + place % SIDE_X;
    const uint y = tiles[tile] / across * SIDE_Y + place / SIDE_X;
    int4 point = (int4)(0);
    if (x < width && y < height) {
        const size_t at = ((size_t)y * width + x) * CHANNELS;
#if CHANNELS == 1
        const int4 color = (int4)(pixels[at], pixels[at], pixels[at], 255);
#elif CHANNELS == 3
        const int4 color = (int4)(pixels[at], pixels[at + 1], pixels[at + 2], 255);
#else
        const int4 color = (int4)(pixels[at], pixels[at + 1], pixels[at + 2], pixels[at + 3]);
#endif
        point = space_coordinates(color, tables) * scale;
        point.w = color.w < OPAQUE_ALPHA ? -1 : 1;
    }
    points[(size_t)begin * SIZE + i] = point;
}

/* The entry of a palette nearest to a point, ties to the lowest, and its squared distance. */
uint nearest_entry(int4 point, __global const int4 *entries, uint *distance)
{
    uint best = UINT_MAX, nearest = FIRST;
    for (uint j = FIRST; j < K; j++) {
        const int4 apart = entries[j] - point;
        const uint squared = (uint)(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z);
        nearest = squared < best ? j : nearest;
        best = min(best, squared);
    }
    *distance = best;
    return nearest;
}

/* Pixel i of a tile, as beyond the edge where the tile has none. */
inline int4 point_of(__global const int4 *tile, uint i)
{
    return i < SIZE ? tile[i] : (int4)(0);
}

/* What each tile costs in each palette: the sum of its pixels' squared distances, of eight pixels at a time. All numbers
 * are whole and below 2^24, so that fp32 is exact.
 * NDRange: 2-D, tiles by palettes, guarded by count. costs (count, palettes) uint. */
__kernel void tile_costs(__global const int4 *points, uint count, __global const int4 *centers, uint palettes,
                         __global uint *costs)
{
    const uint tile = (uint)get_global_id(0), palette = (uint)get_global_id(1);
    if (tile >= count || palette >= palettes)
        return;
    __global const int4 *own = points + (size_t)tile * SIZE;
    uint cost = 0;
    for (uint i = 0; i < SIZE; i += 8) {
        const int4 p0 = point_of(own, i), p1 = point_of(own, i + 1), p2 = point_of(own, i + 2);
        const int4 p3 = point_of(own, i + 3), p4 = point_of(own, i + 4), p5 = point_of(own, i + 5);
        const int4 p6 = point_of(own, i + 6), p7 = point_of(own, i + 7);
        const float8 x = convert_float8((int8)(p0.x, p1.x, p2.x, p3.x, p4.x, p5.x, p6.x, p7.x));
        const float8 y = convert_float8((int8)(p0.y, p1.y, p2.y, p3.y, p4.y, p5.y, p6.y, p7.y));
        const float8 z = convert_float8((int8)(p0.z, p1.z, p2.z, p3.z, p4.z, p5.z, p6.z, p7.z));
        const int8 there = (int8)(p0.w, p1.w, p2.w, p3.w, p4.w, p5.w, p6.w, p7.w) > 0;
        float8 best = (float8)(FLT_MAX);
        for (uint j = FIRST; j < K; j++) {
            const int4 entry = centers[palette * K + j];
            const float8 red = x - (float)entry.x, green = y - (float)entry.y, blue = z - (float)entry.z;
            best = min(best, red * red + green * green + blue * blue);
        }
        const uint8 distances = convert_uint8(there ? best : (float8)(0.0f));
        const uint4 halves = distances.lo + distances.hi;
        cost += halves.s0 + halves.s1 + halves.s2 + halves.s3;
    }
    costs[(size_t)tile * palettes + palette] = cost;
}

/* The palette that a tile costs least in, ties to the lowest.
 * NDRange: 1-D, a work-item per tile, guarded by count. chosen (count) ushort. */
__kernel void choose_palettes(__global const uint *costs, uint count, uint palettes, __global ushort *chosen)
{
    const uint tile = (uint)get_global_id(0);
    if (tile >= count)
        return;
    uint best = 0;
    for (uint p = 1; p < palettes; p++)
        if (costs[(size_t)tile * palettes + p] < costs[(size_t)tile * palettes + best])
            best = p;
    chosen[tile] = (ushort)best;
}

/* Each pixel's entry, counted through all palettes: the nearest of its tile's palette, the first for a transparent pixel.
 * NDRange: 1-D, a work-item per pixel of a tile, guarded by count. entries (count, SIZE) ushort; 0 beyond the edge. */
__kernel void choose_entries(__global const int4 *points, uint count, __global const int4 *centers,
                             __global const ushort *chosen, __global ushort *entries)
{
    const size_t i = get_global_id(0);
    const uint tile = (uint)(i / SIZE);
    if (tile >= count)
        return;
    const int4 point = points[i];
    const uint first = (uint)chosen[tile] * K;
    uint distance;
    entries[i] = (ushort)(point.w > 0   ? first + nearest_entry(point, centers + first, &distance)
                          : point.w < 0 ? first
                                        : 0);
}

/* Entries as a picture has them.
 * NDRange: 2-D, columns by rows, a work-item per pixel. entries (tiles, SIZE) ushort, of all tiles of some rows; indices
 * (height, width) INDEX. */
__kernel void place_entries(__global const ushort *entries, uint width, uint height, uint across,
                            __global INDEX *indices)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= width || y >= height)
        return;
    const size_t tile = (size_t)(y / SIDE_Y) * across + x / SIDE_X;
    indices[(size_t)y * width + x] = (INDEX)entries[tile * SIZE + y % SIDE_Y * SIDE_X + x % SIDE_X];
}
