/* Figures of a list of leaves. Constants: CHANNELS; SQUARE, a power of two. */
#include "quadtree/leaf_list.h"

/* Sum of squared differences between the leaves' means and the pixels, over pixels and channels.
 * NDRange: 1-D, any size. leaves, count, left, top, width, height: as quadtree_paint takes them. pixels: (height,
 * width, CHANNELS), from byte `at` on. sums: a ulong per work-item, of the squares i, i + items, ... of SQUARE x
 * SQUARE pixels. */
__kernel void quadtree_error(__global const uint *leaves, uint count, uint left, uint top, uint width, uint height,
                             __global const uchar *pixels, ulong at, __global ulong *sums)
{
    const uint columns = (width + SQUARE - 1) / SQUARE, squares = columns * ((height + SQUARE - 1) / SQUARE);
    ulong sum = 0;
    pixels += at;
    for (uint id = get_global_id(0); id < squares; id += get_global_size(0)) {
        const uint x0 = left + id % columns * SQUARE, y0 = top + id / columns * SQUARE;
        const uint right = min(x0 + SQUARE, left + width), bottom = min(y0 + SQUARE, top + height);
        const uint code = morton(x0, y0), first = find_leaf(leaves, count, code);
        for (uint i = first; i < count; i++) {
            __global const uint *leaf = leaf_at(leaves, i);
            const uint x = leaf[0], y = leaf[1], size = leaf[2];
            if (i > first && morton(x, y) - code >= SQUARE * SQUARE)
                break;
            if (size == 1)
                continue; /* a pixel's mean is the pixel */
            const uint x_end = min(x + size, right), y_end = min(y + size, bottom);
            uint square = 0; /* of at most SQUARE^2 pixels: below 64^2 * 16 * 255^2 < 2^32 */
            int mean[CHANNELS];
            for (uint c = 0; c < CHANNELS; c++)
                mean[c] = (int)mean_at(leaf, c);
            for (uint py = max(y, y0); py < y_end; py++) {
                __global const uchar *row = pixels + ((ulong)(py - top) * width + max(x, x0) - left) * CHANNELS;
                const uint values = (x_end - max(x, x0)) * CHANNELS;
                for (uint k = 0; k < values; k += CHANNELS)
                    for (uint c = 0; c < CHANNELS; c++) {
                        const int apart = row[k + c] - mean[c];
                        square += (uint)(apart * apart);
                    }
            }
            sum += square;
        }
    }
    sums[get_global_id(0)] = sum;
}
