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
#define AT(columns, below) convert_int4(errors[slot[below] + (x - (columns) * step) * (long)PITCH(tiles)])

/* One pass over rows rows.x to rows.y - 1 of a picture.
 * NDRange: 1-D, a work-item a tile, guarded by their number `tiles`; `across` of them side by side.
 * image uchar [rows from rows.z on][width][CHANNELS]; output INDEX [rows from rows.w on][width]; extent: largest value
 * of each component; strength in 1/256. errors short4 [SLOTS][span][tiles], with TILE_MAJOR [tiles][SLOTS][span]: a
 * tile's last rows of errors, row y in slot y modulo SLOTS, span = 2 + columns of a tile and its overlap + 2; 0 before a
 * tile's first row, and always in the outer columns.
 * Constants: TILE_MAJOR; DEPTH rows below a pixel that get a share; SERPENTINE: rows of odd number run from right to
 * left. */
__kernel void diffuse_tiles(DIFFUSION_PARAMETERS, __global short4 *errors, int4 rows, int width, int side, int overlap,
                            int across, int span, uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles)
        return;
    const int top = rows.x + (int)(tile / across) * side;
    const int left = (int)(tile % across) * side;
    const int begin = max(0, left - overlap);
    const int end = min((long)width, (long)left + side + overlap);
    const long first = tile * TILE_PITCH(span);
    const int bottom = min((long)rows.y, (long)top + side);
    for (int y = max(0, top - overlap); y < bottom; y++) {
        const int step = SERPENTINE && (y & 1) ? -1 : 1;
        long slot[SLOTS];
        for (int below = 0; below < SLOTS; below++)
            slot[below] = ((long)((y + SLOTS - below) % SLOTS) * span + 2 - begin) * PITCH(tiles) + first;
        for (int i = 0; i < end - begin; i++) {
            const int x = step > 0 ? begin + i : end - 1 - i;
            const int shown = y >= top && x >= left && x - left < side;
            const long to = shown ? (long)(y - rows.w) * width + x : -1;
            const int4 error = diffuse(DIFFUSION_ARGUMENTS, (size_t)(y - rows.z) * width + x, to, ARRIVING);
            errors[slot[0] + x * (long)PITCH(tiles)] = convert_short4(error);
        }
    }
}
