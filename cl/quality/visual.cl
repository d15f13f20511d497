/* Energy of the difference of two lumas behind a low-pass of the eye, by its spectrum.
 *
 * Luma is 1000 Y = 299 R + 587 G + 114 B (Rec. 601), of fewer than three channels 1000 times the first. */
#pragma OPENCL FP_CONTRACT OFF

int luma(__global const uchar *pixel, uint channels)
{
    if (channels < 3)
        return 1000 * pixel[0];
    return 299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2];
}

/* Differences, two rows of the picture as real and imaginary parts of one complex row, and the sum of their squares.
 * NDRange: 1-D, any size. first, second: n pixels from byte first_at and second_at on, the first one that of row `row0`
 * and column 0. rows: (ceil(height / 2), width) complex. sums: a ulong per work-item. */
__kernel void luma_differences(__global const uchar *first, ulong first_at, __global const uchar *second,
                               ulong second_at, uint channels, uint width, uint row0, uint n, __global float *rows,
                               __global ulong *sums)
{
    ulong sum = 0;
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        const ulong at = (ulong)i * channels;
        const int apart = luma(second + second_at + at, channels) - luma(first + first_at + at, channels);
        const uint y = row0 + i / width, x = i % width;
        rows[2 * ((ulong)(y / 2) * width + x) + (y & 1)] = (float)apart;
        sum += (ulong)((long)apart * apart);
    }
    sums[get_global_id(0)] = sum;
}

/* Spectra of pairs of rows to the half spectra of each: those of real rows 2k and 2k + 1 are the even and the odd part
 * of that of their pair.
 * NDRange: 1-D, any size, at least a work-item per element. pairs: (ceil(height / 2), width). half: (height, columns),
 * columns = width / 2 + 1; `elements` of them, fewer than 2^32. */
__kernel void half_spectra(__global const float2 *pairs, __global float2 *half_rows, uint width, uint columns,
                           uint elements)
{
    const uint id = get_global_id(0);
    if (id >= elements)
        return;
    const uint x = id % columns, y = id / columns;
    __global const float2 *row = pairs + (ulong)(y / 2) * width;
    const float2 a = row[x], b = row[x ? width - x : 0];
    half_rows[id] = y & 1 ? 0.5f * (float2)(a.y + b.y, b.x - a.x) : 0.5f * (float2)(a.x + b.x, a.y - b.y);
}

/* exp(-sqrt(q)) of q >= 0 by parabolas over the pieces that the first bits of a float name; 0 from 2^12 on. */
float falling(float q, __global const float *parabolas)
{
    const uint bits = as_uint(max(q, FALLING_FIRST)) - as_uint(FALLING_FIRST);
    const uint piece = bits >> FALLING_SHIFT;
    if (piece >= FALLING_PIECES)
        return 0.0f;
    const float t = (float)(bits & ((1u << FALLING_SHIFT) - 1)) * (1.0f / (1u << FALLING_SHIFT));
    return parabolas[3 * piece] + t * (parabolas[3 * piece + 1] + t * parabolas[3 * piece + 2]);
}

/* Sum of `unit` times the squared amplitudes behind the low-pass, rounded; columns that stand for two count twice.
 * NDRange: 1-D, any size. spectrum: (height, columns), n elements, columns from `begin` on of the half spectrum. down,
 * across: (2 falloff f)^2 of its rows and of all columns. single: the last column of all if it stands for itself alone,
 * as column 0 does, else 0. sums: a ulong per work-item. */
__kernel void visible_energy(__global const float2 *spectrum, __global const float *down, __global const float *across,
                             __global const float *parabolas, uint columns, uint n, uint begin, uint single, float unit,
                             __global ulong *sums)
{
    ulong sum = 0;
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint x = begin + i % columns;
        const float2 amplitude = spectrum[i];
        const float energy = amplitude.x * amplitude.x + amplitude.y * amplitude.y;
        const float seen = unit * (energy * falling(down[i / columns] + across[x], parabolas));
        const uint twice = x != 0 && x != single;
        sum += (ulong)(seen + 0.5f) << twice;
    }
    sums[get_global_id(0)] = sum;
}
