/* Bluestein's algorithm: a discrete Fourier transform of any length n as a convolution of a length m of small factors.
 *
 * Data are complex, (outer, n or m, inner) row-major. chirp: exp(-pi i k^2 / n), k < n.
 * NDRange of both kernels: 1-D, any size, at least a work-item per element of the target, `elements` < 2^32. */
#pragma OPENCL FP_CONTRACT OFF

float2 times(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* (outer, n, inner) times the chirp, with zeros behind: (outer, m, inner). */
__kernel void chirp_in(__global const float2 *source, __global float2 *target, __global const float2 *chirp, uint n,
                       uint m, uint inner, uint elements)
{
    const uint id = get_global_id(0);
    if (id >= elements)
        return;
    const uint x = id % inner, k = id / inner % m, outer = id / inner / m;
    target[id] = k < n ? times(source[((ulong)outer * n + k) * inner + x], chirp[k]) : (float2)(0.0f);
}

/* (outer, m, inner) times what the chirp becomes under the transform, over m; conjugate, so that another transform
 * and a conjugate are its inverse. In place. */
__kernel void chirp_product(__global float2 *data, __global const float2 *spectrum, uint m, uint inner, uint elements)
{
    const uint id = get_global_id(0);
    if (id >= elements)
        return;
    const float2 product = times(data[id], spectrum[id / inner % m]);
    data[id] = (float2)(product.x, -product.y);
}

/* The conjugate of the first n of m, times the chirp: (outer, n, inner). */
__kernel void chirp_out(__global const float2 *source, __global float2 *target, __global const float2 *chirp, uint n,
                        uint m, uint inner, uint elements)
{
    const uint id = get_global_id(0);
    if (id >= elements)
        return;
    const uint x = id % inner, k = id / inner % n, outer = id / inner / n;
    const float2 value = source[((ulong)outer * m + k) * inner + x];
    target[id] = times((float2)(value.x, -value.y), chirp[k]);
}
