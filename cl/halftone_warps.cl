/* Floyd and Steinberg's serial error diffusion of gray pictures in a form for NVIDIA's GPUs (compute capability 7.0 and
 * up), through inline PTX: a warp takes a strip of 32 rows, a row a work-item, and a row's errors pass to the next by a
 * shuffle, without local memory or barriers. Arithmetic and sources: halftone_floyd_steinberg.cl.
 *
 * A row is three pixels behind the one above, one more than it must be: so an error is on its way for two clocks, and
 * no work-item waits for it. Four clocks are a group; group q has the pixels x = 4 q - 3 r to 4 q - 3 r + 3 of row r.
 * All strips run in one launch, each behind the one above, whose last row's errors it finds in memory, four in a word:
 * none of them is 0, so a word that is not is whole. A group takes the next strip in turn when it begins, and so waits
 * for groups alone that have begun before it. */

#define ROWS 32
#define BEHIND 3
#define NO_ERROR 127 /* errors are -126 to 128; added, they are bytes, and never 0 */
#define GROUPS 8 /* groups whose pixels are read ahead together */
#define LAG (BEHIND * (ROWS - 1))
#define FIRST ((LAG + 1) / 4) /* the group in which the last row's first word is whole */

inline int from_row_above(int value) {
    int out;
    __asm__ volatile("shfl.sync.up.b32 %0, %1, 1, 0, 0xffffffff;" : "=r"(out) : "r"(value));
    return out;
}

/* The sum of four bytes, each times that of `weights`, and `more`. */
inline int weighed(uint bytes, uint weights, int more) {
    int out;
    __asm__("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(bytes), "r"(weights), "r"(more));
    return out;
}

/* These three in PTX, as compilers would make two longer chains of them where an error depends on white or black. */
inline int times_7(int a, int more) {
    int out;
    __asm__("mad.lo.s32 %0, %1, 7, %2;" : "=r"(out) : "r"(a), "r"(more));
    return out;
}

inline int least(int a, int b) {
    int out;
    __asm__("min.s32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

inline int most(int a, int b) {
    int out;
    __asm__("max.s32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Words that other groups write and read meanwhile, past the caches that groups have of their own. */
inline uint look(global const uint *from) {
    uint out;
    __asm__ volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(out) : "l"(from));
    return out;
}

inline void leave(global uint *to, uint word) {
    __asm__ volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(to), "r"(word));
}

/* Pixel j of a group. `value` is 16 times its level and the errors that reach it, whose sum a share of 16 is rounded
 * toward zero of, so that value >> 4 is what it comes to before it is clamped. After pixel 1 the last row has a word:
 * the errors of the group before's pixels 2 and 3, and of this one's 0 and 1. */
#define CLOCK(j, inside)                                                                                               \
    {                                                                                                                  \
        const int fed = weighed(met, 1u << 8 * (j), -NO_ERROR), up = r == 0 ? fed : arriving;                          \
        const int others = 3 * up + 5 * beside + before, sum = times_7(error, others);                                 \
        const int value = times_7(error, weighed(levels, 16u << 8 * (j), others)) + (int)((uint)sum >> 28);            \
        const int white = value >= 129 * 16, low = least((value >> 4) - 255, 0), high = most(value >> 4, 0);           \
        error = white ? low : high;                                                                                    \
        if (!(inside))                                                                                                 \
            error = 0;                                                                                                 \
        error_##j = error;                                                                                             \
        shown |= white ? 255u << 8 * (j) : 0u;                                                                         \
        before = beside, beside = up;                                                                                  \
        arriving = leaving, leaving = from_row_above(error);                                                           \
        if ((j) == 1 && r == ROWS - 1 && q >= FIRST && q <= last)                                                      \
            leave(below + (q - FIRST), (uint)((((error_1 * 256 + error_0) * 256 + last_3) * 256 + last_2) +            \
                                              NO_ERROR * 0x1010101));                                                  \
    }

#define WITHIN(j) (uint)(x + (j)) < (uint)width

/* Group q, and on to the next: `word` holds what the strip above left for it, 0 where that was not yet to be seen, and
 * gets what it leaves for group q + 4. With `masked` some pixels may lie outside the row. */
#define GROUP(i, word, masked)                                                                                         \
    {                                                                                                                  \
        const int x = 4 * q - BEHIND * r, begin = x - shift / 8;                                                       \
        levels = (uint)(upsample(now[(i) + 1], now[i]) >> shift);                                                      \
        shown_before = shown, shown = 0;                                                                               \
        met = word;                                                                                                    \
        word = look(above + min(q + 5, words - 1));                                                                    \
        while (met == 0)                                                                                               \
            met = look(above + min(q + 1, words - 1));                                                                 \
        CLOCK(0, !(masked) || WITHIN(0))                                                                               \
        CLOCK(1, !(masked) || WITHIN(1))                                                                               \
        CLOCK(2, !(masked) || WITHIN(2))                                                                               \
        CLOCK(3, !(masked) || WITHIN(3))                                                                               \
        last_2 = error_2, last_3 = error_3;                                                                            \
        const uint whole = (uint)(upsample(shown, shown_before) >> (32 - shift));                                      \
        if (own && (!(masked) || (begin >= 0 && begin + 3 < width))) {                                                 \
            to[q] = whole;                                                                                             \
        } else if (own && begin > -4 && begin < width) {                                                               \
            for (int j = max(-begin, 0); j < min(4, width - begin); ++j)                                               \
                ((global uchar *)(to + q))[j] = (uchar)(whole >> 8 * j);                                               \
        }                                                                                                              \
        ++q;                                                                                                           \
    }

#define ALL_GROUPS(masked)                                                                                             \
    GROUP(0, met_0, masked)                                                                                            \
    GROUP(1, met_1, masked)                                                                                            \
    GROUP(2, met_2, masked)                                                                                            \
    GROUP(3, met_3, masked)                                                                                            \
    GROUP(4, met_0, masked)                                                                                            \
    GROUP(5, met_1, masked)                                                                                            \
    GROUP(6, met_2, masked)                                                                                            \
    GROUP(7, met_3, masked)

/* The row's i-th word from that of clock 0 on; `tail`, the picture's last pixels, where the picture has none. */
#define PIXELS_AT(i) ((uint)((i) - lowest) < available ? from[i] : tail)

/* NDRange: strips * ROWS, group ROWS.
 * image, output  uchar [rows][width]; output 0 or 255.
 * passed         uint [strips + 1][words], words (width - 1) / 4 + 2: NO_ERROR and the errors of the last
 *                row of the strip above, word i those of pixels 4 i - 3 to 4 i. The first strip's are given, the
 *                others 0 before the launch.
 * ticket         int [1], 0 before the launch. */
kernel void halftone_warps(global const uchar *image, global uchar *output, global uint *passed, global int *ticket,
                           int rows, int width, int words) {
    local int taken;
    const int r = (int)get_local_id(0);
    if (r == 0)
        taken = atomic_inc(ticket);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int strip = taken, row = strip * ROWS + r, own = row < rows;
    global const uint *above = passed + (size_t)strip * words;
    global uint *below = passed + (size_t)(strip + 1) * words;
    const long pixels = (long)rows * width, start = (long)min(row, rows - 1) * width - BEHIND * r;
    const int shift = (int)(start & 3) * 8;
    global const uint *from = (global const uint *)image + (start >> 2);
    global uint *to = (global uint *)output + (start >> 2);
    const int lowest = (int)max(-(start >> 2), (long)-4);
    const uint available = (uint)(min((pixels >> 2) - (start >> 2), (long)width + LAG) - lowest);
    uint tail = 0;
    for (int i = 0; i < (int)(pixels & 3); ++i)
        tail |= (uint)image[pixels - (pixels & 3) + i] << 8 * i;
    const int last = (width - 1) / 4 + FIRST + 1;
    int error = 0, beside = 0, before = 0, arriving = 0, leaving = 0;
    int error_0 = 0, error_1 = 0, error_2 = 0, error_3 = 0, last_2 = 0, last_3 = 0;
    uint met, met_0 = look(above), met_1 = look(above + min(1, words - 1)), met_2 = look(above + min(2, words - 1));
    uint met_3 = look(above + min(3, words - 1)), shown = 0, shown_before, levels, now[GROUPS + 1], next[GROUPS];
#pragma unroll
    for (int i = 0; i <= GROUPS; ++i)
        now[i] = PIXELS_AT(i - 1);
    for (int q = -1; q <= last;) {
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
            next[i] = PIXELS_AT(q + GROUPS + 1 + i);
        if (4 * q - LAG - 3 >= 0 && 4 * (q + GROUPS) <= width) {
            ALL_GROUPS(0)
        } else {
            ALL_GROUPS(1)
        }
        now[0] = now[GROUPS];
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
            now[i + 1] = next[i];
    }
}
