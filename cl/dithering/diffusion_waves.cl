/* Error diffusion left to right in wavefronts, equal to the serial scan.
 * Source: P. T. Metaxas, "Optimal parallel error-diffusion dithering", SPIE 3648 (1999).
 *
 * Pictures are cut into tiles of ROWS rows by COLUMNS pixels, each row LAG pixels further left than the one above
 * (LAG * ROWS <= COLUMNS); LAG is one more than a share of an error reaches back. Tile (i, j) waits for (i, j - 1) and
 * (i - 1, j + 1), so tiles of equal j + 2 i run at once, a work-group each. In a tile, row r runs LAG pixels behind row
 * r - 1.
 */
#include "dithering/error_diffusion.h"

/* Where the error of a pixel is to be, and errors from one row to the next. */
typedef struct {
    __global const Error *here;
    int pitch;
} reach_t;

inline int4 error_at(const reach_t *reach, int columns, int below)
{
    return convert_int4(reach->here[-below * (long)reach->pitch - columns]);
}

/* One wave of tiles.
 * NDRange: 1-D, a work-group per tile, any size; row r of a tile is taken by work-item r modulo the group's size.
 * image Sample [rows][width][CHANNELS]; output INDEX [rows][width]; extent: largest value of each component; strength in
 * 1/256. errors Error [2 + rows][2 + width + 2]: two rows above the image, two columns of 0 on each side. */
__kernel void diffuse_wave(DIFFUSION_PARAMETERS, __global Error *errors, int rows, int width, int wave, int first_tile)
{
    const Entries found = entries_from(entries, n_entries);
    const int tile_row = first_tile + (int)get_group_id(0);
    const int x0 = (wave - 2 * tile_row) * COLUMNS;
    for (int step = 0; step < COLUMNS; step++) {
        for (int r = (int)get_local_id(0); r < ROWS; r += (int)get_local_size(0)) {
            const int row = tile_row * ROWS + r;
            const int x = x0 + step - LAG * r;
            if (row < rows && x >= 0 && x < width) {
                __global Error *here = errors + (long)(row + 2) * (width + 4) + x + 2;
                const reach_t around = {here, width + 4}, *reach = &around;
                const long at = (long)row * width + x;
                int4 error;
                output[at] = (INDEX)choose(CHOICE_ARGUMENTS, &found, load_pixel(image, at), ARRIVING, &error);
                *here = convert_error(error);
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
