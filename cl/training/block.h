/* Blocks of an image as words of four packed components.
 *
 * Component k of block (row, column) is byte k % (Q*C) of the block's pixel row k / (Q*C); pixels beyond the image
 * repeat its last row and column. A block has K = P*Q*C components, padded with zeros to WORDS = ceil(K / 4) words,
 * each in the order of memory (component 4w is the first byte).
 * ALIGNED promises that Q*C and width*C are multiples of 4 and width is a multiple of Q, so that words can be read
 * whole.
 */
#define ROW_BYTES (Q * C)
#define K (P * Q * C)
#define WORDS ((K + 3) / 4)

inline uchar block_component(__global const uchar *image, uint height, uint width, uint row, uint column, uint k)
{
    const uint y = min(row * P + k / ROW_BYTES, height - 1);
    const uint x = min(column * Q + k % ROW_BYTES / C, width - 1);
    return image[((size_t)y * width + x) * C + k % C];
}

inline uint block_word(__global const uchar *image, uint height, uint width, uint row, uint column, uint w)
{
#if ALIGNED
    const uint y = min(row * P + 4 * w / ROW_BYTES, height - 1);
    const size_t byte = (size_t)y * width * C + column * ROW_BYTES + 4 * w % ROW_BYTES;
    return ((__global const uint *)image)[byte / 4];
#else
    uchar4 bytes = (uchar4)(0);
    bytes.x = block_component(image, height, width, row, column, 4 * w);
    if (4 * w + 1 < K)
        bytes.y = block_component(image, height, width, row, column, 4 * w + 1);
    if (4 * w + 2 < K)
        bytes.z = block_component(image, height, width, row, column, 4 * w + 2);
    if (4 * w + 3 < K)
        bytes.w = block_component(image, height, width, row, column, 4 * w + 3);
    return as_uint(bytes);
#endif
}
