/* Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004) of the luma of two pictures, in integers.
 *
 * Luma is 1000 Y = 299 R + 587 G + 114 B (Rec. 601), of fewer than three channels 1000 times the first: 0 to 255000.
 * The window is separable, its weights are integers that sum to 2^32 and symmetric, so that a weighted mean of values
 * below 2^31 is the high word of a sum below 2^63, and two values of equal weight are added first in 32 bits.
 * With a and b the lumas less 127500, four means say all: those of the lumas, of a^2 + b^2 and of (a - b)^2, as
 * 2 cov(a, b) = var(a) + var(b) - var(a - b). 1 - SSIM = l + c - l c with
 *   l = (mean a - mean b)^2 / (mean a^2 + mean b^2 + C1), at most 1,   c = var(a - b) / (var a + var b + C2), at most
 * 2: equal windows give exactly 0.
 *
 * Constants: CHANNELS; TAPS, odd; BY_ROWS 1 or 0. */
#define RADIUS (TAPS / 2)
#define HALF (1UL << 31) /* what a weighted sum begins with, so that its high word is the rounded mean */

ulong4 weighted(uint4 values, uint weight)
{
    return convert_ulong4(values) * (ulong)weight;
}

/* The rounded mean of TAPS values, `stride` apart. */
ulong4 weighted_mean(__global const uint4 *values, uint stride, __global const uint *weights)
{
    ulong4 sum = HALF;
    for (uint tap = 0; tap < RADIUS; tap++)
        sum += weighted(values[tap * stride] + values[(TAPS - 1 - tap) * stride], weights[tap]);
    return (sum + weighted(values[RADIUS * stride], weights[RADIUS])) >> 32;
}

uint luma(__global const uchar *pixel)
{
#if CHANNELS < 3
    return 1000u * pixel[0];
#else
    return 299u * pixel[0] + 587u * pixel[1] + 114u * pixel[2];
#endif
}

/* The four quantities of a pixel, each below 2^31: the lumas times 2^13, (a^2 + b^2) / 16, (a - b)^2 / 32. 127500^2 * 2
 * and 255000^2 are below 2^35 and 2^36. */
uint4 quantities(uint first, uint second)
{
    const long a = (long)first - 127500, b = (long)second - 127500, d = a - b;
    return (uint4)(first << 13, second << 13, (uint)((a * a + b * b + 8) >> 4), (uint)((d * d + 16) >> 5));
}

/* NDRange: 1-D, any size, at least a work-item per pixel. first, second: n < 2^32 pixels.
 * made: n. */
__kernel void similarity_quantities(__global const uchar *first, __global const uchar *second, uint n,
                                    __global uint4 *made)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const ulong at = (ulong)i * CHANNELS;
    made[i] = quantities(luma(first + at), luma(second + at));
}

/* Means over the columns of windows.
 * NDRange: 1-D, any size, at least a work-item per mean. values: of `similarity_quantities`, rows + TAPS - 1 rows of
 * `width`. weights: RADIUS + 1, the middle one last. means: rows x width, fewer than 2^32. */
__kernel void similarity_columns(__global const uint4 *values, uint width, uint rows, __global const uint *weights,
                                 __global uint4 *means)
{
    const uint i = get_global_id(0);
    if (i >= width * rows)
        return;
    means[i] = convert_uint4(weighted_mean(values + i, width, weights));
}

/* floor(2^32 n / d) of n <= d, but for the rounding of d to 32 significant bits. */
ulong ratio(ulong n, ulong d)
{
    const uint shift = clz(d);
    return (n << shift) / (((d << shift >> 31) + 1) >> 1);
}

/* 2^31 (1 - SSIM) of a window: at most 2^32. Means of lumas below 2^31 in units of 1 / (1000 * 2^13), their squares
 * below 2^62; c1 and c2 in these units squared. What rounding makes negative is 0. */
ulong dissimilarity(ulong4 mean, ulong c1, ulong c2)
{
    const long first = (long)mean.x, second = (long)mean.y, apart = first - second;
    const long a = first - (127500L << 13), b = second - (127500L << 13);
    const long variances = max(((long)mean.z << 30) - a * a - b * b, 0L);
    const long difference = max(((long)mean.w << 31) - apart * apart, 0L);
    const ulong l = ratio((ulong)(apart * apart), (ulong)(first * first) + (ulong)(second * second) + c1);
    const ulong below = (ulong)variances + c2;
    const ulong c = ratio(min((ulong)difference / 2, below), below);
    return (l >> 1) + c - (l * (c >> 1) >> 31);
}

/* Sum of 2^31 (1 - SSIM) of the windows.
 * NDRange: 1-D, any size. means: of `similarity_columns`. weights: as there. sums: a ulong per work-item: of the rows i,
 * i + items, ... with BY_ROWS, as caches of CPUs like it, else of such windows, as neighbouring loads of GPUs do. */
__kernel void similarity_rows(__global const uint4 *means, uint width, uint rows, __global const uint *weights,
                              ulong c1, ulong c2, __global ulong *sums)
{
    const uint columns = width - TAPS + 1;
    ulong total = 0;
#if BY_ROWS
    for (uint y = get_global_id(0); y < rows; y += get_global_size(0))
        for (uint x = 0; x < columns; x++)
            total += dissimilarity(weighted_mean(means + y * width + x, 1, weights), c1, c2);
#else
    for (uint i = get_global_id(0); i < columns * rows; i += get_global_size(0))
        total += dissimilarity(weighted_mean(means + i / columns * width + i % columns, 1, weights), c1, c2);
#endif
    sums[get_global_id(0)] = total;
}
