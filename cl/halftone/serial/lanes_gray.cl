#define LANES 16
/* Columns that are brought into the lanes' order, and back, at once. */
#define CHUNK 16
#define GRAY_INLINE inline __attribute__((always_inline))

/* How far the last row is behind the first. */
#define BEHIND (2 * (LANES - 1))

/* Errors of the rows above: those of the rows moved on by one, after that of the row above them all. */
#define FROM_ABOVE(errors, above) (short16)(above, (errors).s01234567, (errors).s89AB, (errors).sCD, (errors).sE)

/* A whole vector wherever it lies: compilers load what vload16 asks for in pieces where a shuffle follows. */
typedef uchar16 __attribute__((aligned(1))) bytes_t;

/* Rows become columns: byte i of vector j is byte j of vector i. */
GRAY_INLINE void transpose(uchar16 *block)
{
#pragma unroll
    for (int round = 0; round < 4; ++round) {
        uchar16 next[16];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uchar16 a = block[i], b = block[i + 8];
            next[2 * i] = (uchar16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6,
                                    a.s7, b.s7);
            next[2 * i + 1] = (uchar16)(a.s8, b.s8, a.s9, b.s9, a.sA, b.sA, a.sB, b.sB, a.sC, b.sC, a.sD, b.sD, a.sE,
                                        b.sE, a.sF, b.sF);
        }
#pragma unroll
        for (int i = 0; i < 16; ++i)
            block[i] = next[i];
    }
}

/* CHUNK bytes from `at` on of `total` bytes; what is beyond these is not defined. */
GRAY_INLINE uchar16 load_any(__global const uchar *image, long at, long total)
{
    if (at >= 0 && at + CHUNK <= total)
        return *(__global const bytes_t *)(image + at);
    uchar each[CHUNK];
#pragma unroll 1
    for (int i = 0; i < CHUNK; ++i)
        each[i] = image[clamp(at + i, 0L, total - 1)];
    return vload16(0, each);
}

/* Writes the bytes first to last - 1 of a vector. */
GRAY_INLINE void store_part(uchar16 bytes, int first, int last, __global uchar *to)
{
    if (last - first >= CHUNK) {
        *(__global bytes_t *)to = bytes;
        return;
    }
    uchar each[CHUNK];
    vstore16(bytes, 0, each);
#pragma unroll 1
    for (int i = first; i < last; ++i)
        to[i] = each[i];
}

/* What a strip's pixels need of those before: errors of the last step, and of the rows above at the same column and at
 * the one before. */
typedef struct {
    short16 left, upper, upper_left;
} errors_t;

/* CHUNK steps from column x of a strip's first row on, which begins at byte `at` of a picture of `total` bytes: lane r
 * shows pixels x - 2 r, ... of row r, of which `height` are in the picture. `whole`, a constant, says that all are, and
 * the pixel after the first row's. */
GRAY_INLINE void show_chunk(__global const uchar *image, __global uchar *output, long at, long total,
                            __global const short *above, __global short *below, int x, int width, int height, int whole,
                            errors_t *errors)
{
    uchar16 block[LANES];
    if (whole) {
#pragma unroll
        for (int r = 0; r < LANES; ++r)
            block[r] = *(__global const bytes_t *)(image + at + (long)r * width + (x - 2 * r));
    } else {
#pragma unroll 1
        for (int r = 0; r < LANES; ++r)
            block[r] = load_any(image, at + (long)r * width + (x - 2 * r), total);
    }
    transpose(block);
    const short16 row = (short16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma unroll 4
    for (int i = 0; i < CHUNK; ++i) {
        const int next = x + i + 1;
        const short16 upper_right = FROM_ABOVE(errors->left, whole || next < width ? above[next] : (short)0);
        const short16 sum =
            (short)7 * errors->left + (short)3 * upper_right + (short)5 * errors->upper + errors->upper_left;
        const short16 value = clamp(convert_short16(block[i]) + sum / (short)16, (short16)0, (short16)255);
        const short16 shown = (value > (short16)128) & (short16)255;
        block[i] = convert_uchar16(shown);
        errors->upper_left = errors->upper;
        errors->upper = upper_right;
        errors->left = value - shown;
        if (!whole) {
            /* Rows whose pixel of this step is in the picture; errors are 0 outside. */
            const short first = (short)clamp((x + i - width + 2) >> 1, 0, LANES);
            const short last = (short)min(min((x + i) >> 1, height - 1), LANES - 1);
            errors->left &= (row >= (short16)first) & (row <= (short16)last);
        }
        if (whole || (x + i >= BEHIND && x + i < width + BEHIND))
            below[x + i - BEHIND] = errors->left.sF;
    }
    transpose(block);
    if (whole) {
#pragma unroll
        for (int r = 0; r < LANES; ++r)
            *(__global bytes_t *)(output + at + (long)r * width + (x - 2 * r)) = block[r];
        return;
    }
#pragma unroll 1
    for (int r = 0; r < height; ++r) {
        const int begin = x - 2 * r;
        const int first = clamp(-begin, 0, CHUNK), last = clamp(width - begin, 0, CHUNK);
        store_part(block[r], first, last, output + at + (long)r * width + begin);
    }
}

/* The arithmetic of halftone/serial/rows.cl by the wavefronts of dithering/diffusion_waves.cl, for CPUs: LANES
 * rows in the lanes of a vector, each two pixels behind the one above, so that what a pixel needs is in the vectors of
 * the last three steps. Pixels are brought into that order CHUNK columns at a time.
 *
 * Tiles are of `strips` times LANES rows by `columns` pixels, a multiple of CHUNK, else as in that file; a work-item
 * takes a tile, strip by strip.
 *
 * NDRange: one work-item per tile.
 * image          uchar [rows][width]; output uchar, 0 or 255, [rows][width].
 * state          short [strips in all][3][LANES]: the vectors at the end of a strip's tile.
 * top            short [width]: the errors of the picture's row before.
 * lowest         short [strips in all][width]: the errors of each strip's last row. */
__kernel void halftone_serial_gray(__global const uchar *image, __global uchar *output, __global short *state,
                                   __global const short *top, __global short *lowest, int rows, int width, int strips,
                                   int columns, int wave, int first_tile)
{
    const int tile_row = first_tile + (int)get_global_id(0);
    const int begin = (wave - 2 * tile_row) * columns;
    const long total = (long)rows * width;
    for (int strip = tile_row * strips; strip < (tile_row + 1) * strips && strip * LANES < rows; ++strip) {
        const int row = strip * LANES, height = min(rows - row, LANES);
        const int x0 = begin - 2 * (row - tile_row * strips * LANES);
        const int end = min(x0 + columns, width + BEHIND);
        const long at = (long)row * width;
        __global short *kept = state + (size_t)strip * 3 * LANES;
        __global short *below = lowest + (size_t)strip * width;
        __global const short *above = strip ? below - width : top;
        errors_t errors;
        errors.left = begin ? vload16(0, kept) : (short16)0;
        errors.upper = begin ? vload16(1, kept) : FROM_ABOVE((short16)0, above[0]);
        errors.upper_left = begin ? vload16(2, kept) : (short16)0;
        for (int x = max(x0, 0); x < end; x += CHUNK) {
            if (x >= BEHIND && x + CHUNK < width && height == LANES)
                show_chunk(image, output, at, total, above, below, x, width, height, 1, &errors);
            else
                show_chunk(image, output, at, total, above, below, x, width, height, 0, &errors);
        }
        vstore16(errors.left, 0, kept);
        vstore16(errors.upper, 1, kept);
        vstore16(errors.upper_left, 2, kept);
    }
}
