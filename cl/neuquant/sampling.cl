/* Pixels to the points that a map is trained on.
 *
 * Constants from the host:
 *   CHANNELS  bytes per pixel: 1, 3 or 4
 *   ORDER     which pixel a sample is, see below
 *   FIXED     colours whose pixels are passed over
 *   and those of common/color_spaces.h */

#include "common/color_spaces.h"

#define PASSED_OVER ((ushort4)(65535, 0, 0, 0))

ushort4 point_of(__global const uchar *pixels, const ulong pixel, __global const int *tables,
                 __global const uchar4 *fixed)
{
    __global const uchar *p = pixels + pixel * CHANNELS;
#if CHANNELS == 1
    const int4 color = (int4)(p[0], p[0], p[0], 255);
#elif CHANNELS == 3
    const int4 color = (int4)(p[0], p[1], p[2], 255);
#else
    const int4 color = (int4)(p[0], p[1], p[2], p[3]);
    if (color.w == 0)
        return PASSED_OVER;
#endif
    for (int i = 0; i < FIXED; ++i)
        if (all(convert_int4(fixed[i]) == color))
            return PASSED_OVER;
    return convert_ushort4(space_coordinates(color, tables));
}

/* Points of the samples that lie in one band of the pixels. Sample s is pixel
 *   ORDER 0: s
 *   ORDER 1: floor(total * frac(s * phi + start)), phi and start in 1/2^32, phi = 2654435769 / 2^32 the golden ratio's
 *            fraction: any run of consecutive samples covers all pixels evenly
 *   ORDER 2: s * start mod total, Dekker's walk with a prime step
 *
 * NDRange: (count), any groups.
 *   pixels   uchar (pixels of the band, CHANNELS)
 *   band     its first pixel among all, its pixels, all pixels (total), start
 *   tables   of common/color_spaces.h
 *   fixed    FIXED colours, R, G, B, alpha (one that is not read if there are none)
 *   samples  first sample, count, where the first one's point goes
 *   points   ushort4; x = 65535 if alpha is 0 or the colour is fixed; points of pixels outside the band
 *            are left alone */
__kernel void neuquant_sample(__global const uchar *restrict pixels, const uint4 band,
                              __global const int *restrict tables, __global const uchar4 *restrict fixed,
                              const uint4 samples, __global ushort4 *restrict points)
{
    const uint k = get_global_id(0);
    const uint s = samples.x + k;
#if ORDER == 0
    const uint pixel = s;
#elif ORDER == 1
    const uint pixel = mul_hi(s * 2654435769u + band.w, band.z);
#else
    const uint pixel = (uint)((ulong)s * band.w % band.z);
#endif
    if (k < samples.y && pixel - band.x < band.y)
        points[samples.z + k] = point_of(pixels, pixel - band.x, tables, fixed);
}
