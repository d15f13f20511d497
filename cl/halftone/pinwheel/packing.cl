/* Eight level numbers (0 or 1) to a byte, the leftmost pixel in the highest bit, missing pixels 0.
 *
 * NDRange: (row_bytes, height).
 * levels  uchar [height][width].
 * packed  uchar [height][row_bytes]. */
__kernel void halftone_pack_bits(__global const uchar *levels, __global uchar *packed, int width, int row_bytes)
{
    const int column = (int)get_global_id(0);
    const size_t y = get_global_id(1);
    if (column >= row_bytes)
        return;
    uint bits = 0;
    for (int i = 0; i < 8; ++i) {
        const int x = column * 8 + i;
        bits = bits << 1 | (x < width ? (uint)levels[y * width + x] : 0u);
    }
    packed[y * row_bytes + column] = (uchar)bits;
}
