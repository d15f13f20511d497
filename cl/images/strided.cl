/* Pixels of a strided array, packed.
 *
 * NDRange: 1-D, a work-item per pixel, guarded; any group. pixels: bytes, of which channel c of pixel (y, x) lies at
 * where.s0 + y * where.s1 + x * where.s2 + c * where.s3; shape: height, width, channels, 0; out (height, width, channels)
 * uchar. */
__kernel void pack_pixels(__global const uchar *pixels, uint4 shape, long4 where, __global uchar *out)
{
    const ulong place = get_global_id(0);
    if (place >= (ulong)shape.s0 * shape.s1)
        return;
    const long y = (long)(place / shape.s1), x = (long)(place % shape.s1);
    for (uint c = 0; c < shape.s2; c++)
        out[place * shape.s2 + c] = pixels[where.s0 + y * where.s1 + x * where.s2 + (long)c * where.s3];
}
