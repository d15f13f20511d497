/* Kernels that measure what a device can do, for benchmarks/measure/rates.py. Their results are checked there. */

#pragma OPENCL FP_CONTRACT ON

/* measure_float: multiply-adds of floats, WIDTH lanes in each of 8 independent chains.
 * NDRange: any number of work-items.
 * out: float[global size], one value per work-item, so that nothing can be left out.
 * rounds: chain steps; operations per work-item = rounds * 8 * WIDTH multiply-adds. a, b: 1 and 0 keep the start values;
 * every value stays a small integer, so fused or not makes no difference.
 */
__kernel void measure_float(__global float *out, const uint rounds, const float a_value, const float b_value)
{
    const FLOATN a = (FLOATN)(a_value);
    const FLOATN b = (FLOATN)(b_value);
    const float start = (float)(get_global_id(0) & 255u);
    FLOATN c0 = (FLOATN)(start), c1 = c0 + 1.0f, c2 = c0 + 2.0f, c3 = c0 + 3.0f;
    FLOATN c4 = c0 + 4.0f, c5 = c0 + 5.0f, c6 = c0 + 6.0f, c7 = c0 + 7.0f;
    for (uint i = 0; i < rounds; i++) {
        c0 = c0 * a + b;
        c1 = c1 * a + b;
        c2 = c2 * a + b;
        c3 = c3 * a + b;
        c4 = c4 * a + b;
        c5 = c5 * a + b;
        c6 = c6 * a + b;
        c7 = c7 * a + b;
    }
    const FLOATN sum = ((c0 + c1) + (c2 + c3)) + ((c4 + c5) + (c6 + c7));
    out[get_global_id(0)] = sum.s0 + sum.s1;
}

/* measure_integer: the same with 32-bit unsigned integers.
 * NDRange: any number of work-items. out: uint[global size]. rounds, a, b: as above. */
__kernel void measure_integer(__global uint *out, const uint rounds, const uint a_value, const uint b_value)
{
    const UINTN a = (UINTN)(a_value);
    const UINTN b = (UINTN)(b_value);
    const uint start = get_global_id(0) & 255u;
    UINTN c0 = (UINTN)(start), c1 = c0 + 1u, c2 = c0 + 2u, c3 = c0 + 3u;
    UINTN c4 = c0 + 4u, c5 = c0 + 5u, c6 = c0 + 6u, c7 = c0 + 7u;
    for (uint i = 0; i < rounds; i++) {
        c0 = c0 * a + b;
        c1 = c1 * a + b;
        c2 = c2 * a + b;
        c3 = c3 * a + b;
        c4 = c4 * a + b;
        c5 = c5 * a + b;
        c6 = c6 * a + b;
        c7 = c7 * a + b;
    }
    const UINTN sum = ((c0 + c1) + (c2 + c3)) + ((c4 + c5) + (c6 + c7));
    out[get_global_id(0)] = sum.s0 + sum.s1;
}

/* measure_copy: reads and writes memory once, 16 bytes per work-item and step, in a grid-stride loop.
 * NDRange: any number of work-items. to, from: uint4[items]. */
__kernel void measure_copy(__global uint4 *restrict to, __global const uint4 *restrict from, const ulong items)
{
    for (ulong i = get_global_id(0); i < items; i += get_global_size(0))
        to[i] = from[i];
}

/* measure_launch: next to no work, for the cost of a launch. NDRange: one work-item. cell: uint[1]. */
__kernel void measure_launch(__global uint *cell)
{
    if (get_global_id(0) == 0)
        cell[0] += 1u;
}
