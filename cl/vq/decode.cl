/* The VQ decoder (Manohar et al., "On GPU Acceleration of the Vector Quantization Image Compression Algorithm",
 * Algorithms 2, 5 and 6): every pixel is the component of its block's codeword at its place in the block.
 *
 * Constants: P, Q, C (block rows, block columns, channels), INDEX (uchar or ushort), PIECE (bytes of a row that a
 * work-item writes), WHOLE (1 where pieces are whole blocks side by side: PIECE a multiple of 4 and Q*C, and K of 16;
 * else PIECE is 1, 4 or 16, more than 1 only if Q*C is a multiple of 4 and width*C of PIECE), WIDE (with WHOLE, bytes
 * that are written at once: 4 or 16, of which width*C and PIECE are multiples), CUT (with WHOLE, 0 where width*C is
 * a multiple of PIECE), CHECKED (0 where INDEX has no value that is no codeword's), RUN (on CPUs, where pictures or
 * blocks have no such width: blocks that a work-item copies one after another; else 0).
 */
#define ROW_BYTES (Q * C)
#define K (P * Q * C)
#define PIECE_BLOCKS (PIECE / ROW_BYTES)

#if RUN
/* Vectors of bytes that fit a line. */
#if ROW_BYTES >= 4
#define PART 4
#define COPY(from, to) vstore4(vload4(0, from), 0, to)
#else
#define PART 1
#define COPY(from, to) *(to) = *(from)
#endif

/* Copies a line of a codeword, the last part from where it ends with the line. */
inline void copy_line(__global const uchar *line, __global uchar *to)
{
#pragma unroll
    for (uint i = 0; i < (ROW_BYTES + PART - 1) / PART; ++i) {
        const uint at = min(i * PART, (uint)(ROW_BYTES - PART));
        COPY(line + at, to + at);
    }
}
#endif

/* The place of an index's codeword in the codebook, or of the last one's if there is none; that is told by `wrong`,
 * into which several work-items may write the same value. */
inline size_t codeword_of(uint index, uint last, __global uint *wrong)
{
#if CHECKED
    if (index > last) {
        *wrong = 1;
        index = last;
    }
#endif
    return (size_t)index * K;
}

#if WHOLE
/* Writes the first `count` bytes of a piece into an image from byte `at` on. */
inline void write_piece(const uint *words, uint count, __global uchar *image, size_t at)
{
#if CUT
    if (count < PIECE) {
        for (uint i = 0; i < count; ++i)
            image[at + i] = ((const uchar *)words)[i];
        return;
    }
#endif
#pragma unroll
    for (uint i = 0; i < PIECE / WIDE; ++i)
#if WIDE == 16
        ((__global uint4 *)image)[at / 16 + i] = vload4(i, words);
#else
        ((__global uint *)image)[at / 4 + i] = words[i];
#endif
}
#endif

/* Codewords to pixels.
 *
 * NDRange: 2-D, (ceil(width * C / PIECE), WHOLE ? ceil(height / P) : height), rounded up to whole groups of any size.
 * With WHOLE, a work-item writes all P lines of its blocks and reads every codeword once. With RUN, (ceil(columns /
 * RUN), ceil(height / P)).
 * indices: rows x columns INDEX. codebook: (last + 1) x K bytes. image: height x width x C bytes, the true size: what
 * padding added is not written. row_bytes: width * C. columns: blocks in a block row. wrong: one uint, set to 1 if an
 * index is above last.
 */
__kernel void vq_decode(__global const INDEX *restrict indices, __global const uchar *restrict codebook,
                        __global uchar *restrict image, const uint row_bytes, const uint height, const uint columns,
                        const uint last, __global uint *wrong)
{
#if RUN
    const uint y = get_global_id(1) * P;
    const uint first = get_global_id(0) * RUN;
    if (y >= height)
        return;
    const uint lines = min((uint)P, height - y);
    for (uint block = first; block < min(first + RUN, columns); ++block) {
        __global const uchar *from = codebook + codeword_of(indices[(size_t)(y / P) * columns + block], last, wrong);
        __global uchar *to = image + (size_t)y * row_bytes + block * ROW_BYTES;
        if ((block + 1) * ROW_BYTES <= row_bytes && lines == P) {
#pragma unroll
            for (uint line = 0; line < P; ++line)
                copy_line(from + line * ROW_BYTES, to + (size_t)line * row_bytes);
        } else
            for (uint line = 0; line < lines; ++line)
                for (uint i = 0; i < min((uint)ROW_BYTES, row_bytes - block * ROW_BYTES); ++i)
                    to[(size_t)line * row_bytes + i] = from[line * ROW_BYTES + i];
    }
#else
    const uint piece = get_global_id(0);
    const uint y = get_global_id(1) * (WHOLE ? P : 1);
    if (piece >= (row_bytes + PIECE - 1) / PIECE || y >= height)
        return;
    __global const INDEX *row = indices + (size_t)(y / P) * columns;
#if WHOLE
    uint words[PIECE_BLOCKS][K / 4];
#pragma unroll
    for (uint b = 0; b < PIECE_BLOCKS; ++b) {
        const uint block = CUT ? min(piece * PIECE_BLOCKS + b, columns - 1) : piece * PIECE_BLOCKS + b;
        const size_t codeword = codeword_of(row[block], last, wrong) / 16;
#pragma unroll
        for (uint part = 0; part < K / 16; ++part)
            vstore4(((__global const uint4 *)codebook)[codeword + part], part, words[b]);
    }
#pragma unroll
    for (uint line = 0; line < P; ++line) {
        uint out[PIECE / 4];
#pragma unroll
        for (uint w = 0; w < PIECE / 4; ++w)
            out[w] = words[4 * w / ROW_BYTES][(line * ROW_BYTES + 4 * w % ROW_BYTES) / 4];
        if (y + line < height)
            write_piece(out, row_bytes - piece * PIECE, image, (size_t)(y + line) * row_bytes + piece * PIECE);
    }
#else
    const uint line = y % P * ROW_BYTES;
#if PIECE == 1
    const uint component = line + piece % ROW_BYTES;
    image[(size_t)y * row_bytes + piece] = codebook[codeword_of(row[piece / ROW_BYTES], last, wrong) + component];
#else
    __global const uint *words = (__global const uint *)codebook;
    __global uint *out = (__global uint *)(image + (size_t)y * row_bytes + piece * PIECE);
#pragma unroll
    for (uint w = 0; w < PIECE / 4; ++w) {
        const uint byte = piece * PIECE + 4 * w;
        out[w] = words[(codeword_of(row[byte / ROW_BYTES], last, wrong) + line + byte % ROW_BYTES) / 4];
    }
#endif
#endif
#endif
}
