/* Floyd and Steinberg's serial error diffusion of gray pictures in wavefronts, equal to the serial scan.
 * Source: R. W. Floyd, L. Steinberg, "An adaptive algorithm for spatial grey scale", Proceedings of the Society of
 * Information Display 17 (1976); P. T. Metaxas, "Optimal parallel error-diffusion dithering", SPIE 3648 (1999) for the
 * wavefront: a pixel waits for its left neighbour and the three above.
 *
 * A pixel's value is v = clamp(c + s / 16, 0, 255), rounded toward zero, with
 * s = 7 e(left) + 3 e(right above) + 5 e(above) + e(left above), and its error e = v - (what it shows): the arithmetic
 * of Pillow's convert("1"), which shows white above 128. |s| <= 16 * 255, so everything fits 16 bits.
 *
 * Pictures are cut into tiles of ROWS rows by COLUMNS pixels, each row two pixels further left than the one above
 * (2 ROWS <= COLUMNS); tile (i, j) waits for (i, j - 1) and (i - 1, j + 1), so tiles of equal j + 2 i run at once, a
 * work-group each. In a tile, row r runs two pixels behind row r - 1.
 *
 * Constants: ROWS, COLUMNS. */

inline int error_at(__global const short *errors, int row, int x, int width)
{
    return x >= 0 && x < width ? (int)errors[(size_t)row * width + x] : 0;
}

inline void diffuse(__global const uchar *image, __global uchar *output, __global short *errors, int row, int x,
                    int width)
{
    const int sum = 7 * error_at(errors, row + 1, x - 1, width) + 3 * error_at(errors, row, x + 1, width) +
                    5 * error_at(errors, row, x, width) + error_at(errors, row, x - 1, width);
    const size_t at = (size_t)row * width + x;
    const int value = clamp(image[at] + sum / 16, 0, 255);
    const int shown = value > 128 ? 255 : 0;
    output[at] = (uchar)shown;
    errors[at + width] = (short)(value - shown);
}

/* One wave of tiles.
 * NDRange: one group per tile, any size; a row is taken by work-item r modulo the group's size.
 * image uchar [rows][width]; output uchar [rows][width], 0 or 255; errors short [rows + 1][width], row 0 that of the
 * picture's row before. */
__kernel void halftone_floyd_steinberg(__global const uchar *image, __global uchar *output, __global short *errors,
                                       int rows, int width, int wave, int first_tile)
{
    const int tile_row = first_tile + (int)get_group_id(0);
    const int x0 = (wave - 2 * tile_row) * COLUMNS;
    for (int step = 0; step < COLUMNS; ++step) {
        for (int r = (int)get_local_id(0); r < ROWS; r += (int)get_local_size(0)) {
            const int row = tile_row * ROWS + r, x = x0 + step - 2 * r;
            if (row < rows && x >= 0 && x < width)
                diffuse(image, output, errors, row, x, width);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
