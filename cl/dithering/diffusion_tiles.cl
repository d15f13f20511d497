/* Error diffusion of tiles that do not wait for each other: each is scanned from `overlap` pixels outside it on, with
 * errors of 0 there, and what lies outside is not shown. By then errors are about what the scan of the whole picture
 * would bring. A single tile without overlap is the serial scan.
 */
#include "dithering/error_diffusion.h"

#define SLOTS (DEPTH + 1)
/* From one error of a tile to the next in its row, from a tile to the next. Side by side in one work-item's cache lines,
 * or in those that work-items read together. */
#if TILE_MAJOR
#define PITCH(tiles) 1
#define TILE_PITCH(span) ((long)SLOTS * (span))
#else
#define PITCH(tiles) (tiles)
#define TILE_PITCH(span) 1L
#endif

/* The errors around a pixel: where those of its row and of the rows above begin, its column, the way of its row, and
 * from one error of a row to the next. */
typedef struct {
    __global const Error *errors;
    long row[SLOTS];
    int column, step;
    long pitch;
} reach_t;

inline int4 error_at(const reach_t *reach, int columns, int below)
{
    return convert_int4(reach->errors[reach->row[below] + (reach->column - columns * reach->step) * reach->pitch]);
}

/* One pass over rows rows.x to rows.y - 1 of a picture.
 * NDRange: 2-D, a work-item IN_TURNS tiles, guarded by their number `tiles`, `across` of them side by side, by the
 * pictures, of rows.y rows each if there are several. The tiles of a work-item take a step in turns: a step waits for the
 * one before, but not for those of other tiles.
 * image Sample [rows from rows.z on][width][CHANNELS]; output INDEX [rows from rows.w on][width]; extent: largest value
 * of each component; strength in 1/256. errors Error [SLOTS][span][tiles], with TILE_MAJOR [tiles][SLOTS][span]: a
 * tile's last rows of errors, row y in slot y modulo SLOTS, span = 2 + columns of a tile and its overlap + 2; 0 before a
 * tile's first row, and always in the outer columns. side is even unless there is one tile.
 * Constants: TILE_MAJOR; IN_TURNS; DEPTH rows below a pixel that get a share; SERPENTINE: rows of odd number run from
 * right to left. */
__kernel void diffuse_tiles(DIFFUSION_PARAMETERS, __global Error *errors, int4 rows, int width, int side, int overlap,
                            int across, int span, uint tiles)
{
    const Entries found = entries_from(entries, n_entries);
    const uint begin = IN_TURNS * (uint)get_global_id(0);
    if (begin >= tiles)
        return;
    const size_t before = get_global_id(1) * (size_t)rows.y * width;
    image += before * CHANNELS;
    output += before;
    errors += get_global_id(1) * SLOTS * span * tiles;
    const uint count = min((uint)IN_TURNS, tiles - begin);
    int left[IN_TURNS], top[IN_TURNS];
    for (uint t = 0; t < IN_TURNS; t++) {
        left[t] = (int)((begin + t) % across) * side - overlap;
        top[t] = rows.x + (int)((begin + t) / across) * side - overlap;
    }
    const int columns = span - 4;
    const int last = (int)min((long)rows.y, (long)top[0] + overlap + side);
    for (int v = 0; v < last - top[0]; v++) {
        const int step = SERPENTINE && (top[0] + v & 1) ? -1 : 1;
        for (int i = 0; i < columns; i++) {
            const int column = step > 0 ? i : columns - 1 - i;
            for (uint t = 0; t < count; t++) {
                const int x = left[t] + column, y = top[t] + v;
                if (x < 0 || x >= width || y < 0 || y >= rows.y)
                    continue;
                const long first = (begin + t) * TILE_PITCH(span);
                reach_t around = {.errors = errors, .column = column, .step = step, .pitch = PITCH(tiles)};
                const reach_t *reach = &around;
                for (int below = 0; below < SLOTS; below++)
                    around.row[below] = ((long)((y + SLOTS - below) % SLOTS) * span + 2) * PITCH(tiles) + first;
                int4 error;
                const int4 color = load_pixel(image, (size_t)(y - rows.z) * width + x);
                const int entry = choose(CHOICE_ARGUMENTS, &found, color, ARRIVING, &error);
                if (v >= overlap && column >= overlap && column - overlap < side)
                    output[(size_t)(y - rows.w) * width + x] = (INDEX)entry;
                errors[around.row[0] + column * (long)PITCH(tiles)] = convert_error(error);
            }
        }
    }
}
