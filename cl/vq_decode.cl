/* The VQ decoder (Manohar et al., "On GPU Acceleration of the Vector Quantization Image Compression Algorithm",
 * Algorithms 2, 5 and 6): every pixel is the component of its block's codeword at its place in the block.
 *
 * Constants: P, Q, C (block rows, block columns, channels), INDEX (uchar or ushort), PIECE (bytes of a row that a
 * work-item writes at once: 1, 4 or 16; more than 1 only if Q*C is a multiple of 4 and width*C of PIECE),
 * WHOLE (1 where pieces of 16 bytes are whole blocks side by side: 16 a multiple of Q*C, and K of 16).
 */
#define ROW_BYTES (Q * C)
#define K (P * Q * C)
#define PIECE_BLOCKS (16 / ROW_BYTES)

/* Codewords to pixels.
 *
 * NDRange: 2-D, (width * C / PIECE, WHOLE ? ceil(height / P) : height), rounded up to whole groups of any size.
 * With WHOLE, a work-item writes all P lines of its blocks and reads every codeword once.
 * indices: rows x columns INDEX, each below the codebook's size. codebook: size x K bytes. image: height x width x C
 * bytes, the true size: what padding added is not written. row_bytes: width * C. columns: blocks in a block row.
 */
__kernel void vq_decode(__global const INDEX *indices, __global const uchar *codebook, __global uchar *image,
                        const uint row_bytes, const uint height, const uint columns)
{
    const uint piece = get_global_id(0);
    const uint y = get_global_id(1) * (WHOLE ? P : 1);
    if (piece >= row_bytes / PIECE || y >= height)
        return;
    __global const INDEX *row = indices + (size_t)(y / P) * columns;
#if WHOLE
    uint words[PIECE_BLOCKS][K / 4];
#pragma unroll
    for (uint b = 0; b < PIECE_BLOCKS; ++b) {
        const size_t codeword = (size_t)row[piece * PIECE_BLOCKS + b] * (K / 16);
#pragma unroll
        for (uint part = 0; part < K / 16; ++part)
            vstore4(((__global const uint4 *)codebook)[codeword + part], part, words[b]);
    }
#pragma unroll
    for (uint line = 0; line < P; ++line) {
        uint out[4];
#pragma unroll
        for (uint w = 0; w < 4; ++w)
            out[w] = words[4 * w / ROW_BYTES][(line * ROW_BYTES + 4 * w % ROW_BYTES) / 4];
        if (y + line < height)
            ((__global uint4 *)image)[(size_t)(y + line) * row_bytes / 16 + piece] = vload4(0, out);
    }
#else
    const uint line = y % P * ROW_BYTES;
#if PIECE == 1
    const uint component = line + piece % ROW_BYTES;
    image[(size_t)y * row_bytes + piece] = codebook[(size_t)row[piece / ROW_BYTES] * K + component];
#else
    __global const uint *words = (__global const uint *)codebook;
    __global uint *out = (__global uint *)(image + (size_t)y * row_bytes + piece * PIECE);
#pragma unroll
    for (uint w = 0; w < PIECE / 4; ++w) {
        const uint byte = piece * PIECE + 4 * w;
        out[w] = words[((size_t)row[byte / ROW_BYTES] * K + line + byte % ROW_BYTES) / 4];
    }
#endif
#endif
}

/* Whether any index is no codeword's.
 *
 * NDRange: 1-D, ceil(count / 16) work-items rounded up to whole groups of any size. indices: count INDEX. flag: one
 * uint, set to 1 if an index is size or more (several work-items may write the same value).
 */
__kernel void vq_check(__global const INDEX *indices, const uint count, const uint size, __global uint *flag)
{
    const uint items = (count + 15) / 16;
    const uint item = get_global_id(0);
    uint largest = 0;
    if (item < items)
        for (uint which = item; which < count; which += items)
            largest = max(largest, (uint)indices[which]);
    if (largest >= size)
        *flag = 1;
}
