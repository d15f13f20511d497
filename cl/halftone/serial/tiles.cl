#if !GRAY
#include "mapping/nearest.h"
#endif

#if GRAY
typedef short error_t;
typedef int wide_t;
#define WIDEN(error) (int)(error)
#define NARROW(error) (short)(error)
#define PARAMETERS __global const uchar *image, __global uchar *output
#define NEEDED image, output
#else
typedef short4 error_t;
typedef int4 wide_t;
#define WIDEN(error) convert_int4(error)
#define NARROW(error) convert_short4(error)
#define PARAMETERS PALETTE_PARAMETERS, __global const uchar *image, __global INDEX *output
#define NEEDED tables, points, colors, starts, list, grid, shift, transparent, missing, image, output
#endif

inline wide_t error_at(__global const error_t *errors, int row, int x, int width)
{
    return x >= 0 && x < width ? WIDEN(errors[(size_t)row * width + x]) : (wide_t)0;
}

inline void diffuse(PARAMETERS, __global error_t *errors, int row, int x, int width)
{
    const wide_t sum = 7 * error_at(errors, row + 1, x - 1, width) + 3 * error_at(errors, row, x + 1, width) +
                       5 * error_at(errors, row, x, width) + error_at(errors, row, x - 1, width);
    const size_t at = (size_t)row * width + x;
    wide_t error = 0;
#if GRAY
    const int value = clamp(image[at] + sum / 16, 0, 255);
    const int shown = value > 128 ? 255 : 0;
    output[at] = (uchar)shown;
    error = value - shown;
#else
    const int4 color = load_pixel(image, at);
    if (is_transparent(color, transparent, missing)) {
        output[at] = (INDEX)max(transparent, 0);
    } else {
        const int4 value = clamp(color + sum / 16, (int4)(0), (int4)(255));
        const int entry = nearest_to_color(space_coordinates(value, tables), value, points, colors, PALETTE_CELLS);
        output[at] = (INDEX)entry;
        error = value - colors[entry];
    }
#endif
    errors[at + width] = NARROW(error);
}

/* Floyd and Steinberg's serial error diffusion in wavefronts, equal to the serial scan.
 * Source: R. W. Floyd, L. Steinberg, "An adaptive algorithm for spatial grey scale", Proceedings of the Society of
 * Information Display 17 (1976); P. T. Metaxas, "Optimal parallel error-diffusion dithering", SPIE 3648 (1999) for the
 * wavefront: a pixel waits for its left neighbour and the three above.
 *
 * In each component, the value is v = clamp(c + s / 16, 0, 255), rounded toward zero, with
 * s = 7 e(left) + 3 e(right above) + 5 e(above) + e(left above), and its error e = v - (what it shows): the arithmetic
 * of Pillow's convert("1"), which shows white above 128. |s| <= 16 * 255, so everything fits 16 bits.
 *
 * Pictures are cut into tiles of ROWS rows by COLUMNS pixels, each row two pixels further left than the one above
 * (2 ROWS <= COLUMNS); tile (i, j) waits for (i, j - 1) and (i - 1, j + 1), so tiles of equal j + 2 i run at once, a
 * work-group each. In a tile, row r runs two pixels behind row r - 1.
 *
 * NDRange: one group per tile, any size; a row is taken by work-item r modulo the group's size.
 * image          uchar [rows][width][CHANNELS] (GRAY: 1); output INDEX (GRAY: uchar, 0 or 255) [rows][width].
 * errors         ERROR [rows + 1][width], row 0 that of the picture's row before.
 * Constants: GRAY, ROWS, COLUMNS; mapping/nearest.h's where GRAY is 0. */
__kernel void halftone_floyd_steinberg(PARAMETERS, __global error_t *errors, int rows, int width, int wave,
                                       int first_tile)
{
    const int tile_row = first_tile + (int)get_group_id(0);
    const int x0 = (wave - 2 * tile_row) * COLUMNS;
    for (int step = 0; step < COLUMNS; ++step) {
        for (int r = (int)get_local_id(0); r < ROWS; r += (int)get_local_size(0)) {
            const int row = tile_row * ROWS + r, x = x0 + step - 2 * r;
            if (row < rows && x >= 0 && x < width)
                diffuse(NEEDED, errors, row, x, width);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
