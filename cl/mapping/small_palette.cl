/* mapping/nearest.cl's kernel for few entries on CPUs (mapping/small_palette.h); the same result bit for bit. */
#include "mapping/small_palette.h"

/* The nearest entry of every pixel.
 * NDRange: 1-D, any size; a work-item takes a run of pixels. entries as mapping/small_palette.h says, `colors` of them;
 * pixels (n, CHANNELS) uchar; out (n) uchar. */
__kernel void map_pixels(__global const float4 *entries, uint colors, __global const uchar *restrict pixels,
                         __global uchar *restrict out, ulong n)
{
    const ulong run = (n + get_global_size(0) - 1) / get_global_size(0);
    const ulong end = min(n, run * (get_global_id(0) + 1));
    for (ulong begin = run * get_global_id(0); begin < end; begin += LANES) {
        const uint count = (uint)min(end - begin, (ulong)LANES);
        const Lanes c = load_lanes(pixels, begin, count);
        store_lanes(nearest_of_few(c.red, c.green, c.blue, entries, colors), out, begin, count);
    }
}
