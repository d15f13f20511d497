/* Roots and quotients in single precision, the same bits on every device: only + - * of floats, which OpenCL rounds
 * correctly, with contraction off, and operations of their bits. Relative errors are below 4e-7.
 *
 * Constants: LANES, 1 or 8: how many values a `real` holds. */
#pragma OPENCL FP_CONTRACT OFF

#if LANES == 1
typedef float real;
typedef int whole;
#define AS_REAL as_float
#define AS_WHOLE as_int
#else
typedef float8 real;
typedef int8 whole;
#define AS_REAL as_float8
#define AS_WHOLE as_int8
#endif

/* 1 / x of positive x by Newton's method, from a line through the logarithms. */
real reciprocal(real x)
{
    real y = AS_REAL(0x7EF311C3 - AS_WHOLE(x));
    y = y * (2.0f - x * y);
    y = y * (2.0f - x * y);
    return y * (2.0f - x * y);
}

/* 1 / sqrt(x), likewise; of 0 a large number. */
real inverse_root(real x)
{
    const real half_x = 0.5f * x;
    real y = AS_REAL(0x5F3759DF - (AS_WHOLE(x) >> 1));
    y = y * (1.5f - half_x * y * y);
    y = y * (1.5f - half_x * y * y);
    return y * (1.5f - half_x * y * y);
}

real square_root(real x)
{
    return x * inverse_root(x);
}

/* By Newton's method for 1 / cbrt(x), x from 0 to 2. */
real cube_root(real x)
{
    const real third = 0.33333334f * x;
    real y = AS_REAL(0x54A2FA8C - AS_WHOLE(x) / 3);
    y = y * (1.3333334f - third * y * y * y);
    y = y * (1.3333334f - third * y * y * y);
    y = y * (1.3333334f - third * y * y * y);
    return x * y * y;
}
