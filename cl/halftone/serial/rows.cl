/* Floyd and Steinberg's serial error diffusion of gray pictures in a form for GPUs: a work-item takes a row, and the
 * errors of a row pass to the next through local memory. Source: R. W. Floyd, L. Steinberg, "An adaptive algorithm
 * for spatial grey scale", Proceedings of the Society of Information Display 17 (1976).
 *
 * A pixel's value is v = clamp(c + s / 16, 0, 255), rounded toward zero, with
 * s = 7 e(left) + 3 e(right above) + 5 e(above) + e(left above), and its error e = v - (what it shows): the arithmetic
 * of Pillow's convert("1"), which shows white above 128. |s| <= 16 * 255, so everything fits 16 bits.
 *
 * A picture is cut into strips of ROWS rows. Row r of a strip is two pixels behind row r - 1, so that its clock
 * t = x + 2 r is the same for all rows, and pixels are kept by the clock: skewed uint [strips][quads][ROWS], four
 * clocks of a row per word, 0 where there are no pixels. A launch takes every strip on by CLOCKS. The first row of a
 * strip needs the last one of the strip above up to clock t + 2 ROWS - 1, so a strip is 2 ROWS / CLOCKS + 1 launches
 * behind it.
 *
 * Constants: ROWS, CLOCKS (a divisor of 2 ROWS; both multiples of SIDE), GROUP. */

#define SIDE 32 /* of the tiles in which pictures are skewed and straightened */
#define LEAST 126 /* errors are -126 to 128; added, they are bytes */
#define PITCH (SIDE / 4 + 1)

inline int in_picture(int y, int x, int rows, int width)
{
    return y < rows && x >= 0 && x < width;
}

/* Pictures by the clock. image uchar [rows][width].
 * NDRange: (strips * ROWS / SIDE * GROUP, ceil(quads / (SIDE / 4))), group (GROUP, 1). */
__kernel void skew(__global const uchar *image, __global uint *skewed, int rows, int width, int quads)
{
    __local uint tile[SIDE * PITCH];
    const int first = (int)get_group_id(0) * SIDE, strip = first / ROWS, r0 = first % ROWS;
    const int q0 = (int)get_group_id(1) * (SIDE / 4);
    __local uchar *bytes = (__local uchar *)tile;
    for (int i = (int)get_local_id(0); i < SIDE * SIDE; i += GROUP) {
        const int r = i / SIDE, t = i % SIDE, y = first + r, x = 4 * q0 + t - 2 * (r0 + r);
        bytes[4 * PITCH * r + t] = in_picture(y, x, rows, width) ? image[(size_t)y * width + x] : (uchar)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = (int)get_local_id(0); i < SIDE * SIDE / 4; i += GROUP) {
        const int r = i % SIDE, q = i / SIDE;
        if (q0 + q < quads)
            skewed[((size_t)strip * quads + q0 + q) * ROWS + r0 + r] = tile[r * PITCH + q];
    }
}

/* The way back; NDRange as for `skew`. */
__kernel void straighten(__global const uint *skewed, __global uchar *output, int rows, int width, int quads)
{
    __local uint tile[SIDE * PITCH];
    const int first = (int)get_group_id(0) * SIDE, strip = first / ROWS, r0 = first % ROWS;
    const int q0 = (int)get_group_id(1) * (SIDE / 4);
    __local const uchar *bytes = (__local const uchar *)tile;
    for (int i = (int)get_local_id(0); i < SIDE * SIDE / 4; i += GROUP) {
        const int r = i % SIDE, q = i / SIDE;
        if (q0 + q < quads)
            tile[r * PITCH + q] = skewed[((size_t)strip * quads + q0 + q) * ROWS + r0 + r];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = (int)get_local_id(0); i < SIDE * SIDE; i += GROUP) {
        const int r = i / SIDE, t = i % SIDE, y = first + r, x = 4 * q0 + t - 2 * (r0 + r);
        if (in_picture(y, x, rows, width))
            output[(size_t)y * width + x] = bytes[4 * PITCH * r + t];
    }
}

/* The scan of a row. */
typedef struct {
    int error;           /* of the pixel before */
    int beside, before;  /* the two last errors of the row above that it has met */
    int waiting;         /* what these three give to the pixel */
    uint shown, errors;  /* four clocks' results, and errors as bytes */
} row_t;

/* Clock j of four, of the pixel `level` in column x of `end`; `above` is what the row above left for it. The row's error
 * is to be left for the row below, and met by it after a barrier. */
inline void scan_pixel(row_t *row, int j, uint level, int above, int x, int end)
{
    const int sum = 3 * above + row->waiting;
    const int value = clamp((int)level + ((sum + (sum >> 31 & 15)) >> 4), 0, 255);
    const int white = value > 128;
    row->error = (uint)x < (uint)end ? value - (white ? 255 : 0) : 0;
    row->shown |= (white ? 255u : 0u) << 8 * j;
    row->errors |= (uint)(row->error + LEAST) << 8 * j;
    row->before = row->beside, row->beside = above;
    row->waiting = 7 * row->error + 5 * row->beside + row->before;
}

/* All strips on by CLOCKS. NDRange: one group (ROWS) a strip, from `first_strip` on.
 * skewed  becomes 0 and 255.
 * state   int4 [strips * ROWS]: last error of a row, and of the row above the two last that it has met.
 * lowest  uint [strips + 1][quads]: errors of the last row of the strip above, by its clock, as bytes plus LEAST; none
 *         at all for the first strip, whose buffer begins with what the picture's rows before left.
 * launch  number of this launch. */
__kernel void halftone_rows(__global uint *skewed, __global int4 *state, __global uint *lowest, int rows, int width,
                            int quads, int launch, int first_strip)
{
    __local short passed[2 * ROWS + CLOCKS];
    const int r = (int)get_local_id(0), strip = first_strip + (int)get_group_id(0);
    const int slab = launch - strip * (2 * ROWS / CLOCKS + 1), q0 = slab * (CLOCKS / 4);
    const int end = strip * ROWS + r < rows ? width : 0;
    __global uint *words = skewed + ((size_t)strip * quads + q0) * ROWS + r;
    __global const uchar *upper = (__global const uchar *)(lowest + (size_t)strip * quads);
    __global uint *own = lowest + (size_t)(strip + 1) * quads + q0;
    int4 carried = state[strip * ROWS + r];
    if (slab == 0)
        carried = (int4)(0, r == 0 ? upper[2 * ROWS - 2] - LEAST : 0, 0, 0);
    for (int i = r; i < CLOCKS; i += ROWS) {
        const int clock = 4 * q0 + i + 2 * ROWS - 1;
        passed[2 * ROWS + i] = clock < 4 * quads ? (short)(upper[clock] - LEAST) : (short)0;
    }
    row_t row = {.error = carried.s0, .beside = carried.s1, .before = carried.s2};
    row.waiting = 7 * row.error + 5 * row.beside + row.before;
    passed[r] = (short)row.error;
    /* The row above leaves its errors in two places in turn; for the first row they lie in a line. */
    int at = r > 0 ? r - 1 : 2 * ROWS;
    const int step_1 = r > 0 ? ROWS : 1, step_2 = r > 0 ? 0 : 2, step_3 = r > 0 ? ROWS : 3, step_4 = r > 0 ? 0 : 4;
    int x = 4 * q0 - 2 * r;
    uint next = words[0], after = words[ROWS];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int q = 0; q < CLOCKS / 4; ++q, x += 4, at += step_4) {
        const uint word = next;
        next = after;
        if (q + 2 < CLOCKS / 4)
            after = words[(size_t)(q + 2) * ROWS];
        row.shown = 0, row.errors = 0;
        scan_pixel(&row, 0, word & 255u, passed[at], x, end);
        passed[ROWS + r] = (short)row.error;
        barrier(CLK_LOCAL_MEM_FENCE);
        scan_pixel(&row, 1, word >> 8 & 255u, passed[at + step_1], x + 1, end);
        passed[r] = (short)row.error;
        barrier(CLK_LOCAL_MEM_FENCE);
        scan_pixel(&row, 2, word >> 16 & 255u, passed[at + step_2], x + 2, end);
        passed[ROWS + r] = (short)row.error;
        barrier(CLK_LOCAL_MEM_FENCE);
        scan_pixel(&row, 3, word >> 24, passed[at + step_3], x + 3, end);
        passed[r] = (short)row.error;
        barrier(CLK_LOCAL_MEM_FENCE);
        words[(size_t)q * ROWS] = row.shown;
        if (r == ROWS - 1)
            own[q] = row.errors;
    }
    state[strip * ROWS + r] = (int4)(row.error, row.beside, row.before, 0);
}
