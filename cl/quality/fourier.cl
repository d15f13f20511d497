/* Discrete Fourier transforms in single precision, the same bits on every device: only + - * of floats with contraction
 * off, and roots of unity from the host.
 *
 * Data are complex, (outer, n, inner) row-major, transformed along n. One pass of Stockham's algorithm takes the
 * factor RADIX of n: n / RADIX butterflies, `done` the product of the factors of earlier passes.
 *
 * Constants: RADIX, a factor of n, from 2 on. */
#pragma OPENCL FP_CONTRACT OFF

float2 times(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* Times -i. */
float2 turned(float2 a)
{
    return (float2)(a.y, -a.x);
}

void transform4(float2 *a, float2 *b, float2 *c, float2 *d)
{
    const float2 even = *a + *c, odd = *a - *c, sum = *b + *d, apart = turned(*b - *d);
    *a = even + sum;
    *b = odd + apart;
    *c = even - sum;
    *d = odd - apart;
}

/* The transform of v in place, but for RADIX other than 2, 4, 8, whose roots are every step-th of `roots`. */
void transform(float2 *v, __global const float2 *roots, uint step)
{
#if RADIX == 2
    const float2 first = v[0];
    v[0] = first + v[1];
    v[1] = first - v[1];
#elif RADIX == 4
    transform4(v, v + 1, v + 2, v + 3);
#elif RADIX == 8
    const float half_root = 0.70710678f;
    transform4(v, v + 2, v + 4, v + 6);
    transform4(v + 1, v + 3, v + 5, v + 7);
    const float2 odd0 = v[1], odd1 = half_root * (v[3] + turned(v[3]));
    const float2 odd2 = turned(v[5]), odd3 = half_root * (turned(v[7]) - v[7]);
    const float2 even0 = v[0], even1 = v[2], even2 = v[4], even3 = v[6];
    v[0] = even0 + odd0;
    v[1] = even1 + odd1;
    v[2] = even2 + odd2;
    v[3] = even3 + odd3;
    v[4] = even0 - odd0;
    v[5] = even1 - odd1;
    v[6] = even2 - odd2;
    v[7] = even3 - odd3;
#else
    float2 made[RADIX];
    for (uint k = 0; k < RADIX; k++) {
        made[k] = v[0];
        for (uint q = 1; q < RADIX; q++)
            made[k] += times(v[q], roots[k * q % RADIX * step]);
    }
    for (uint k = 0; k < RADIX; k++)
        v[k] = made[k];
#endif
}

/* One pass.
 * NDRange: 1-D, any size, at least a work-item per butterfly, fewer than 2^32. roots: exp(-2 pi i k / n), k < n. */
__kernel void fourier_pass(__global const float2 *source, __global float2 *target, __global const float2 *roots, uint n,
                           uint done, uint inner, uint butterflies)
{
    const uint id = get_global_id(0);
    if (id >= butterflies)
        return;
    const uint apart = n / RADIX, x = id % inner, j = id / inner % apart, outer = id / inner / apart;
    const uint phase = j % done, turn = apart / done;
    __global const float2 *from = source + ((ulong)outer * n + j) * inner + x;
    __global float2 *to = target + ((ulong)outer * n + (j - phase) * RADIX + phase) * inner + x;
    float2 v[RADIX];
#pragma unroll
    for (uint r = 0; r < RADIX; r++)
        v[r] = from[(ulong)r * apart * inner];
#pragma unroll
    for (uint r = 1; r < RADIX; r++)
        v[r] = times(v[r], roots[phase * r * turn]);
    transform(v, roots, apart);
#pragma unroll
    for (uint r = 0; r < RADIX; r++)
        to[(ulong)r * done * inner] = v[r];
}
