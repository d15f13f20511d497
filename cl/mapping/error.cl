/* How far pixels are from the palette entries that were chosen for them. */
#include "mapping/nearest.h"

/* Sums of squared distances in the space of common/color_spaces.h, one for each work-item, over the pixels i, i +
 * items, ... A distance is below 2^24, of 16-bit values 2^36, so 2^27 pixels per work-item fit 64 bits.
 * NDRange: 1-D, any size. pixels (n, CHANNELS) Sample; indices (n) INDEX; sums (items) ulong. The other arguments are
 * those of mapping/nearest.h. */
__kernel void sum_errors(PALETTE_PARAMETERS, __global const Sample *pixels, __global const INDEX *indices, ulong n,
                         __global ulong *sums)
{
    ulong sum = 0;
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) {
        const int4 point = space_coordinates(load_pixel(pixels, i), tables);
        sum += (ulong)squared(point - points[indices[i]]);
    }
    sums[get_global_id(0)] = sum;
}
