/* Pixels of a strided array, packed.
 *
 * Constants: FROM_16, TO_16: 1 for values of 16 bits. Of 16 bits to 8, v becomes round(v / 257): the nearest one.
 */
#if FROM_16
typedef ushort From;
#else
typedef uchar From;
#endif
#if TO_16
typedef ushort To;
#else
typedef uchar To;
#endif

To packed(From value)
{
#if FROM_16 && !TO_16
    return (To)((value + 128u) / 257u);
#else
    return value;
#endif
}

/* NDRange: 1-D, a work-item per pixel, guarded; any group. pixels: From, of which channel c of pixel (y, x) lies at
 * where.s0 + y * where.s1 + x * where.s2 + c * where.s3; shape: height, width, channels, 0; out (height, width, channels)
 * To. */
__kernel void pack_pixels(__global const From *pixels, uint4 shape, long4 where, __global To *out)
{
    const ulong place = get_global_id(0);
    if (place >= (ulong)shape.s0 * shape.s1)
        return;
    const long y = (long)(place / shape.s1), x = (long)(place % shape.s1);
    for (uint c = 0; c < shape.s2; c++)
        out[place * shape.s2 + c] = packed(pixels[where.s0 + y * where.s1 + x * where.s2 + (long)c * where.s3]);
}
