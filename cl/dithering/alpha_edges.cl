/* Alpha of 0 or 255 alone: by a threshold, or dithered by a mask. */

/* NDRange: 2-D, columns by rows, a work-item per pixel, guarded by width and height. from, to (height, width) uchar4; mask
 * (side, side) int, side a power of two: thresholds of alpha times side^2, repeated over the picture. */
__kernel void settle_alpha(__global const uchar4 *from, __global uchar4 *to, __global const int *mask, uint side,
                           uint width, uint height)
{
    const uint x = (uint)get_global_id(0), y = (uint)get_global_id(1);
    if (x >= width || y >= height)
        return;
    const size_t at = (size_t)y * width + x;
    uchar4 pixel = from[at];
    const int threshold = mask[(y & (side - 1)) * side + (x & (side - 1))];
    pixel.w = (int)pixel.w * (int)(side * side) > threshold ? 255 : 0;
    to[at] = pixel;
}
