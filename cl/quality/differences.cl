/* Mean colour differences of two pictures: CIEDE2000 or Euclidean in OKLab, pixel by pixel or behind a blur of light.
 *
 * Single precision by float_functions.h; a sum over pixels is one of integers, 2^20 per unit. The formulas are in
 * clquant/quality/differences.py and tests/reference/quality.py, which has the same operations in the same order.
 *
 * Constants: LANES, pixels that a work-item takes at a time; OKLAB 1 or 0; RADIUS of the blur's window.
 * Tables: light, 256 uint, 2^30 times the linear light of a code; rotation, ROTATION_STEPS + 2 floats: sin(60 degrees *
 * exp(-(angle / 25 degrees)^2)) by the sine of the angle. */
#include "quality/float_functions.h"
#include "quality/windows.h"

typedef struct {
    real x, y, z;
} color_t;

color_t times_matrix(color_t c, __constant const float *m)
{
    color_t made;
    made.x = m[0] * c.x + m[1] * c.y + m[2] * c.z;
    made.y = m[3] * c.x + m[4] * c.y + m[5] * c.z;
    made.z = m[6] * c.x + m[7] * c.y + m[8] * c.z;
    return made;
}

#if OKLAB
__constant const float TO_LMS[9] = {0.41222147f, 0.53633254f, 0.051445993f, 0.2119035f, 0.68069955f,
                                    0.10739696f, 0.08830246f, 0.28171884f,  0.62997870f};
__constant const float TO_OKLAB[9] = {0.21045426f, 0.7936178f,   -0.004072047f, 1.9779985f,  -2.4285922f,
                                      0.4505937f,  0.025904037f, 0.78277177f,   -0.80867577f};

color_t coordinates(color_t c)
{
    color_t lms = times_matrix(c, TO_LMS);
    lms.x = cube_root(lms.x);
    lms.y = cube_root(lms.y);
    lms.z = cube_root(lms.z);
    return times_matrix(lms, TO_OKLAB);
}

real difference(color_t first, color_t second, __global const float *rotation)
{
    const real x = first.x - second.x, y = first.y - second.y, z = first.z - second.z;
    (void)rotation;
    return 100.0f * square_root(x * x + y * y + z * z);
}
#else
/* Linear sRGB to CIE XYZ over that of white (D65). */
__constant const float TO_XYZ[9] = {0.43394995f, 0.37620977f,  0.18984029f, 0.21267287f, 0.71515214f,
                                    0.072175f,   0.017756583f, 0.10946796f, 0.87277544f};

real lab_curve(real t)
{
    const real line = 7.787037f * t + 0.13793103f;
    return t > 0.0088564517f ? cube_root(t) : line;
}

color_t coordinates(color_t c)
{
    const color_t xyz = times_matrix(c, TO_XYZ);
    const real x = lab_curve(xyz.x), y = lab_curve(xyz.y), z = lab_curve(xyz.z);
    color_t lab;
    lab.x = 116.0f * y - 16.0f;
    lab.y = 500.0f * (x - y);
    lab.z = 200.0f * (y - z);
    return lab;
}

/* sqrt(c^7 / (c^7 + 25^7)) of a chroma. */
real of_seventh(real chroma)
{
    const real c = 0.04f * chroma, c2 = c * c, c7 = c2 * c2 * c2 * c;
    return square_root(c7 * reciprocal(c7 + 1.0f));
}

/* A table by the absolute value of a sine, linear between entries. */
real read_rotation(real sine, __global const float *rotation)
{
    const real place = min(fabs(sine), (real)(1.0f)) * (float)ROTATION_STEPS;
#if LANES == 1
    const int i = (int)place;
    return rotation[i] + (rotation[i + 1] - rotation[i]) * (place - (float)i);
#else
    const whole i = convert_int8(place);
    int at[LANES];
    float low[LANES], high[LANES];
    vstore8(i, 0, at);
    for (uint lane = 0; lane < LANES; lane++) {
        low[lane] = rotation[at[lane]];
        high[lane] = rotation[at[lane] + 1];
    }
    const real below = vload8(0, low);
    return below + (vload8(0, high) - below) * (place - convert_float8(i));
#endif
}

/* CIEDE2000 without angles: hue differences by cross and dot products, the mean hue as a unit vector. */
real difference(color_t first, color_t second, __global const float *rotation)
{
    const real chroma =
        square_root(first.y * first.y + first.z * first.z) + square_root(second.y * second.y + second.z * second.z);
    const real stretch = 1.5f - 0.5f * of_seventh(0.5f * chroma);
    const real a1 = stretch * first.y, b1 = first.z, a2 = stretch * second.y, b2 = second.z;
    const real c1 = square_root(a1 * a1 + b1 * b1), c2 = square_root(a2 * a2 + b2 * b2);
    const real product = c1 * c2, dot_product = a1 * a2 + b1 * b2;
    const real cross_product = a1 * (b2 - b1) - b1 * (a2 - a1);
    const real acute = cross_product * inverse_root(max(0.5f * (product + dot_product), (real)(1e-20f)));
    const real wide = square_root(max(2.0f * (product - dot_product), (real)(0.0f)));
    const real obtuse = cross_product < 0.0f ? -wide : wide;
    const real hue_difference = dot_product < 0.0f ? obtuse : acute;

    const real unit1 = reciprocal(max(c1, (real)(1e-12f))), unit2 = reciprocal(max(c2, (real)(1e-12f)));
    const real u = a1 * unit1 + a2 * unit2, v = b1 * unit1 + b2 * unit2;
    const real length_inverse = inverse_root(max(u * u + v * v, (real)(1e-20f)));
    const real cos1 = u * length_inverse, sin1 = v * length_inverse;
    const real cos2 = cos1 * cos1 - sin1 * sin1, sin2 = 2.0f * cos1 * sin1;
    const real cos3 = cos2 * cos1 - sin2 * sin1, sin3 = sin2 * cos1 + cos2 * sin1;
    const real cos4 = cos2 * cos2 - sin2 * sin2, sin4 = 2.0f * cos2 * sin2;
    const real t = 1.0f - (0.14722432f * cos1 + 0.085f * sin1) + 0.24f * cos2 +
                   (0.31824701f * cos3 - 0.033449108f * sin3) - (0.0907981f * cos4 + 0.17820130f * sin4);

    const real middle = 0.5f * (first.x + second.x) - 50.0f, middle2 = middle * middle;
    const real mean_chroma = 0.5f * (c1 + c2);
    const real lightness = (second.x - first.x) * reciprocal(1.0f + 0.015f * middle2 * inverse_root(20.0f + middle2));
    const real colorful = (c2 - c1) * reciprocal(1.0f + 0.045f * mean_chroma);
    const real hue = hue_difference * reciprocal(1.0f + 0.015f * mean_chroma * t);
    /* The mean hue less 275 degrees. */
    const real turned_cos = 0.08715574f * cos1 - 0.9961947f * sin1;
    const real turned_sin = 0.08715574f * sin1 + 0.9961947f * cos1;
    const real turn = turned_cos > 0.0f ? read_rotation(turned_sin, rotation) : (real)(0.0f);
    const real rotated = 2.0f * turn * of_seventh(mean_chroma);
    const real total = lightness * lightness + colorful * colorful + hue * hue - rotated * colorful * hue;
    return square_root(max(total, (real)(0.0f)));
}
#endif

/* LANES linear colours, times 2^30, as a colour. */
color_t color_of(const uint *red, const uint *green, const uint *blue)
{
    color_t c;
#if LANES == 1
    c.x = (float)red[0] * 9.3132257e-10f;
    c.y = (float)green[0] * 9.3132257e-10f;
    c.z = (float)blue[0] * 9.3132257e-10f;
#else
    c.x = convert_float8(vload8(0, red)) * 9.3132257e-10f;
    c.y = convert_float8(vload8(0, green)) * 9.3132257e-10f;
    c.z = convert_float8(vload8(0, blue)) * 9.3132257e-10f;
#endif
    return c;
}

/* Sum of 2^20 times the first `many` of LANES differences, each below 2^11. */
ulong sum_of(real value, uint many)
{
#if LANES == 1
    return many * (ulong)(uint)(value * 1048576.0f + 0.5f);
#else
    uint each[LANES];
    ulong sum = 0;
    vstore8(convert_uint8(value * 1048576.0f + 0.5f), 0, each);
    for (uint lane = 0; lane < many; lane++)
        sum += each[lane];
    return sum;
#endif
}

/* Of fewer than three channels the first is gray. */
uint3 light_of(__global const uchar *pixel, uint channels, __global const uint *light)
{
    const uint step = channels >= 3;
    return (uint3)(light[pixel[0]], light[pixel[step]], light[pixel[2 * step]]);
}

/* Pixel by pixel.
 * NDRange: 1-D, any size. first, second: n pixels of first_channels and
 * second_channels bytes from byte first_at and second_at on. sums: a ulong per work-item. */
__kernel void differences(__global const uint *light, __global const float *rotation, __global const uchar *first,
                          ulong first_at, uint first_channels, __global const uchar *second, ulong second_at,
                          uint second_channels, ulong n, __global ulong *sums)
{
    ulong sum = 0;
    first += first_at;
    second += second_at;
    for (ulong i = get_global_id(0) * LANES; i < n; i += get_global_size(0) * LANES) {
        const uint many = (uint)min((ulong)LANES, n - i);
        uint given[6][LANES];
        for (uint lane = 0; lane < LANES; lane++) {
            const ulong at = i + min(lane, many - 1);
            const uint3 a = light_of(first + at * first_channels, first_channels, light);
            const uint3 b = light_of(second + at * second_channels, second_channels, light);
            given[0][lane] = a.x;
            given[1][lane] = a.y;
            given[2][lane] = a.z;
            given[3][lane] = b.x;
            given[4][lane] = b.y;
            given[5][lane] = b.z;
        }
        const color_t a = coordinates(color_of(given[0], given[1], given[2]));
        const color_t b = coordinates(color_of(given[3], given[4], given[5]));
        sum += sum_of(difference(a, b, rotation), many);
    }
    sums[get_global_id(0)] = sum;
}

/* Linear colours times 2^30.
 * NDRange: 1-D, any size, at least a work-item per pixel. pixels: n < 2^32 of `pixels_channels` bytes, from
 * byte `pixels_at` on. */
__kernel void linear_colors(__global const uint *light, __global const uchar *pixels, ulong pixels_at,
                            uint pixels_channels, uint n, __global uint4 *colors)
{
    const uint i = get_global_id(0);
    if (i < n)
        colors[i] = (uint4)(light_of(pixels + pixels_at + (ulong)i * pixels_channels, pixels_channels, light), 0);
}

/* Colours blurred along columns, the picture's edge repeated.
 * NDRange: columns x rows, at least a work-item per result. colors: of a picture of `height` rows those from row `there`
 * on. weights: RADIUS + 1, the middle one last. blurred: rows x width, of the rows from row0 on; fewer than 2^32. */
__kernel void blur_columns(__global const uint4 *colors, uint width, uint height, uint there, uint row0, uint rows,
                           __global const uint *weights, __global uint4 *blurred)
{
    const uint x = get_global_id(0), row = get_global_id(1);
    if (x >= width || row >= rows)
        return;
    const int y = (int)(row0 + row), last = (int)height - 1;
    __global const uint4 *column = colors + x;
    ulong4 sum = HALF + weighted(column[(y - there) * width], weights[RADIUS]);
    for (int apart = 1; apart <= RADIUS; apart++) {
        const uint above = max(y - apart, 0) - there, below = min(y + apart, last) - there;
        sum += weighted(column[above * width] + column[below * width], weights[RADIUS - apart]);
    }
    blurred[row * width + x] = mean_of(sum);
}

uint4 blur_row(__global const uint4 *row, uint x, uint width, __global const uint *weights)
{
    ulong4 sum = HALF + weighted(row[x], weights[RADIUS]);
    if (x >= RADIUS && x + RADIUS < width) {
        for (int apart = 1; apart <= RADIUS; apart++)
            sum += weighted(row[x - apart] + row[x + apart], weights[RADIUS - apart]);
        return mean_of(sum);
    }
    for (int apart = 1; apart <= RADIUS; apart++) {
        const uint4 left = row[max((int)x - apart, 0)], right = row[min((int)x + apart, (int)width - 1)];
        sum += weighted(left + right, weights[RADIUS - apart]);
    }
    return mean_of(sum);
}

/* Behind a blur of light.
 * NDRange: 1-D, any size. first, second: of blur_columns, rows x width. sums: a ulong per work-item. */
__kernel void blurred_differences(__global const float *rotation, __global const uint4 *first,
                                  __global const uint4 *second, uint width, uint rows, __global const uint *weights,
                                  __global ulong *sums)
{
    ulong sum = 0;
    const uint steps = (width + LANES - 1) / LANES;
    for (uint i = get_global_id(0); i < steps * rows; i += get_global_size(0)) {
        const uint y = i / steps, x0 = i % steps * LANES, many = min((uint)LANES, width - x0);
        __global const uint4 *first_row = first + y * width, *second_row = second + y * width;
        uint given[6][LANES];
        for (uint lane = 0; lane < LANES; lane++) {
            const uint x = x0 + min(lane, many - 1);
            const uint4 a = blur_row(first_row, x, width, weights);
            const uint4 b = blur_row(second_row, x, width, weights);
            given[0][lane] = a.x;
            given[1][lane] = a.y;
            given[2][lane] = a.z;
            given[3][lane] = b.x;
            given[4][lane] = b.y;
            given[5][lane] = b.z;
        }
        const color_t a = coordinates(color_of(given[0], given[1], given[2]));
        const color_t b = coordinates(color_of(given[3], given[4], given[5]));
        sum += sum_of(difference(a, b, rotation), many);
    }
    sums[get_global_id(0)] = sum;
}
