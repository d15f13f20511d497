/* Parts of pictures side by side in one picture of RGBA. */

/* Copies one part.
 * NDRange: 2-D, columns by rows of the part, a work-item per pixel. pixels (rows, width, CHANNELS) uchar, read from
 * `column` on; atlas (.., atlas_width) uchar4, written from (atlas_row, atlas_column). */
__kernel void place(__global const uchar *pixels, uint width, uint column, uint columns, uint rows,
                    __global uchar4 *atlas, uint atlas_width, uint atlas_row, uint atlas_column)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const size_t i = (size_t)y * width + column + x;
#if CHANNELS == 1
    const uchar4 color = (uchar4)(pixels[i], pixels[i], pixels[i], 255);
#elif CHANNELS == 3
    const uchar4 color = (uchar4)(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2], 255);
#else
    const uchar4 color = vload4(i, pixels);
#endif
    atlas[(size_t)(atlas_row + y) * atlas_width + atlas_column + x] = color;
}
