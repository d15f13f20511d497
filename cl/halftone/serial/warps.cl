/* Floyd and Steinberg's serial error diffusion of gray pictures in a form for NVIDIA's GPUs (compute capability 7.0 and
 * up), through inline PTX: a warp scans a strip of 32 rows, a row a work-item, and a row's errors pass to the next by a
 * shuffle. Arithmetic and sources: halftone/serial/tiles.cl.
 *
 * A row is three pixels behind the one above, one more than it must be: so an error is on its way for two clocks, and
 * no work-item waits for it. Sixteen clocks are a step: in step k row r has the pixels x = 16 (k - 1) - 3 r to x + 15.
 * What scans waits for no memory but local: two more warps of the work-group bring in pixels and what the strip above
 * left, a step ahead, and take results out, a step behind. All meet after each step.
 *
 * All strips run in one launch, each seven steps or more behind the one above, whose last row's errors it finds in
 * memory. A group takes the next strip in turn when it begins, and so waits for groups alone that have begun before
 * it. */

#define ROWS 32
#define BEHIND 3
#define LAG (BEHIND * (ROWS - 1))
#define STEP 16 /* pixels of a row, and clocks */
#define LATER 6 /* steps after which what meets the first row leaves the last */
#define AHEAD 12 /* steps by which pixels are asked for before they are due */
#define ABSENT (-0x7fffffff) /* an error that was not yet left */

inline int from_row_above(int value)
{
    int out;
    __asm__ volatile("shfl.sync.up.b32 %0, %1, 1, 0, 0xffffffff;" : "=r"(out) : "r"(value));
    return out;
}

/* 16 times byte `j` of `bytes`, and `more`. */
inline int lit(uint bytes, int j, int more)
{
    int out;
    __asm__("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(bytes), "r"(16u << 8 * j), "r"(more));
    return out;
}

/* These in PTX, as compilers would make longer chains of them where an error depends on white or black. */
inline int times(int a, int b, int more)
{
    int out;
    __asm__("mad.lo.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(more));
    return out;
}

/* One instruction with the addition before it, if compilers do not see what it is. */
inline int least_0(int a)
{
    int out;
    __asm__("min.s32 %0, %1, 0;" : "=r"(out) : "r"(a));
    return out;
}

inline int most_0(int a)
{
    int out;
    __asm__("max.s32 %0, %1, 0;" : "=r"(out) : "r"(a));
    return out;
}

/* The bits of a where those of the mask are set, else of b. */
inline int chosen(int mask, int a, int b)
{
    int out;
    __asm__("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(out) : "r"(mask), "r"(a), "r"(b));
    return out;
}

/* Words that other groups write and read meanwhile, past the caches that groups have of their own. */
inline int look(__global const int *from)
{
    int out;
    __asm__ volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(out) : "l"(from));
    return out;
}

inline void leave_if(int leaves, __global int *to, int4 errors)
{
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %0, 0;\n\t"
                     "@p st.relaxed.gpu.global.v4.u32 [%1], {%2, %3, %4, %5};\n\t}"
                     :
                     : "r"(leaves), "l"(to), "r"(errors.x), "r"(errors.y), "r"(errors.z), "r"(errors.w)
                     : "memory");
}

/* Four words of local memory, by an address that compilers do not make anew for each. */
inline int4 four_at(uint at)
{
    int4 out;
    __asm__ volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
                     : "r"(at)
                     : "memory");
    return out;
}

inline void put_four(uint at, uint4 words)
{
    __asm__ volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "r"(at), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                     : "memory");
}

inline uint address(__local void *place)
{
    uint out;
    __asm__ volatile("mov.u32 %0, %1;" : "=r"(out) : "r"((uint)(size_t)place));
    return out;
}

/* Brings a line into the cache that all groups share; nothing waits for it. */
inline void ask_for(__global const uchar *from)
{
    __asm__ volatile("prefetch.global.L2 [%0];" : : "l"(from));
}

/* A barrier of the group, which its warps reach each in its own loop. */
inline void meet(void)
{
    __asm__ volatile("bar.sync 0;" : : : "memory");
}

/* Pixel j of four. `value` is 16 times its level and the errors that reach it, whose sum a share of 16 is rounded
 * toward zero of, less what makes white: so value >> 4 is what it comes to before it is clamped, less 129, and its sign
 * says black. Signs are spread over words, as what depends on a comparison waits three times as long. */
#define CLOCK(j, inside)                                                                                               \
    {                                                                                                                  \
        const int rest = times(met.s##j, fed, 5 * beside + before);                                                    \
        const int sum = times(error, 7, times(arriving, shared, rest));                                                \
        const int value =                                                                                              \
            times(error, 7, times(arriving, shared, lit(levels, j, rest - 129 * 16))) + (int)((uint)sum >> 28);        \
        const int black = value >> 31, level = value >> 4;                                                             \
        error = chosen(black, most_0(level + 129), least_0(level - 126));                                              \
        if (!(inside))                                                                                                 \
            error = 0;                                                                                                 \
        error_##j = error;                                                                                             \
        shown |= (uint)black & 255u << 8 * (j);                                                                        \
        before = beside, beside = r == 0 ? met.s##j : arriving;                                                        \
        arriving = leaving, leaving = from_row_above(error);                                                           \
    }

#define WITHIN(j) (uint)(x + (j)) < (uint)width

/* Four pixels of a step. What the last row leaves is two pixels late: the errors of the four before's last two, and of
 * these's first two. */
#define FOUR(i, masked)                                                                                                \
    {                                                                                                                  \
        const int4 met = met_##i;                                                                                      \
        const int x = STEP * (k - 1) + 4 * (i) - BEHIND * r;                                                           \
        const uint levels = (uint)(upsample(words.s##i, word) >> shift);                                               \
        uint shown = 0;                                                                                                \
        word = words.s##i;                                                                                             \
        CLOCK(0, !(masked) || WITHIN(0))                                                                               \
        CLOCK(1, !(masked) || WITHIN(1))                                                                               \
        leave_if(leaves, below + STEP * k + 4 * (i), (int4)(last_2, last_3, error_0, error_1));                        \
        CLOCK(2, !(masked) || WITHIN(2))                                                                               \
        CLOCK(3, !(masked) || WITHIN(3))                                                                               \
        last_2 = error_2, last_3 = error_3;                                                                            \
        whole.s##i = (uint)(upsample(~shown, ~shown_before) >> (32 - shift));                                          \
        shown_before = shown;                                                                                          \
    }

#define SIXTEEN(masked)                                                                                                \
    FOUR(0, masked)                                                                                                    \
    FOUR(1, masked)                                                                                                    \
    FOUR(2, masked)                                                                                                    \
    FOUR(3, masked)

/* Word 4 k of row j of those that a work-item moves. */
#define WORD(j, k) ((uint)((k) - lowest[j]) < available[j] ? from[j][4 * (k)] : tail)

/* What is moved beside step t: pixels of the next step into local memory, those of the third from memory, and results
 * of the one before. */
#define MOVE(t, loaded)                                                                                                \
    {                                                                                                                  \
        const int out = (t) - 1;                                                                                       \
        if (asked + STEP * (t) >= 0 && asked + STEP * (t) < pixel_count)                                               \
            ask_for(image + asked + STEP * (t));                                                                       \
        _Pragma("unroll") for (int j = 0; j < 4; ++j)                                                                  \
        {                                                                                                              \
            ((__local uint *)pixels[((t) + 1) & 1])[32 * j + lane] = loaded[j];                                        \
            loaded[j] = WORD(j, (t) + 3);                                                                              \
        }                                                                                                              \
        if (out >= 0) {                                                                                                \
            uint whole[4];                                                                                             \
            _Pragma("unroll") for (int j = 0; j < 4; ++j) whole[j] =                                                   \
                ((__local uint *)results[out & 1])[32 * j + lane];                                                     \
            if (full && STEP * (out - 1) - LAG - 3 >= 0 && STEP * out <= width) {                                      \
                _Pragma("unroll") for (int j = 0; j < 4; ++j) to[j][4 * out] = whole[j];                               \
            } else {                                                                                                   \
                _Pragma("unroll") for (int j = 0; j < 4; ++j) for (int i = 0; i < 4;                                   \
                                                                   ++i) if ((uint)(first[j] + STEP * out + i) <        \
                                                                            (uint)width)(                              \
                    (__global uchar *)(to[j] + 4 * out))[i] = (uchar)(whole[j] >> 8 * i);                              \
            }                                                                                                          \
        }                                                                                                              \
        meet();                                                                                                        \
    }

/* NDRange: strips * 96, group 96: a warp scans, one moves pixels and results, one fetches errors.
 * image, output  uchar [rows][width]; output 0 or 255.
 * passed         int [strips + 1][slots][16], slots (width - 1) / 16 + 2: the errors of the last row of the strip
 *                above, slot i those of pixels 16 i - 15 to 16 i, 0 where there is none. The first strip's are given,
 *                the others ABSENT before the launch.
 * ticket         int [1], 0 before the launch. */
__kernel void halftone_warps(__global const uchar *image, __global uchar *output, __global int *passed,
                             __global int *ticket, int rows, int width, int slots)
{
    __local uint4 pixels[2][ROWS], results[2][ROWS];
    __local int4 handed[2][STEP / 4];
    __local int taken;
    const int warp = (int)get_local_id(0) / 32, lane = (int)get_local_id(0) % 32;
    if (get_local_id(0) == 0)
        taken = atomic_inc(ticket);
    meet();
    const int strip = taken, count = slots + LATER;
    /* Step k is between the meetings k + 1 and k + 2; the last results are moved beside none. */
    const int steps = (count + 2) & ~1;
    if (warp == 0) {
        const int r = lane, shared = r == 0 ? 0 : 3, fed = 3 - shared;
        const int shift = (int)(((long)min(strip * ROWS + r, rows - 1) * width - BEHIND * r) & 3) * 8;
        __global int *below = passed + ((size_t)(strip + 1) * slots - LATER) * STEP;
        const uint pixels_at = address(&pixels[0][r]), results_at = address(&results[0][r]);
        const uint handed_at = address(&handed[0][0]);
        int error = 0, beside = 0, before = 0, arriving = 0, leaving = 0;
        int error_0, error_1, error_2, error_3, last_2 = 0, last_3 = 0;
        uint word = 0, shown_before = 0;
        meet();
        for (int k = 0; k < steps; ++k) {
            const uint odd = (uint)k & 1u, handed_now = handed_at + odd * (4 * STEP);
            const uint4 words = as_uint4(four_at(pixels_at + odd * (16 * ROWS)));
            const int4 met_0 = four_at(handed_now), met_1 = four_at(handed_now + 16);
            const int4 met_2 = four_at(handed_now + 32), met_3 = four_at(handed_now + 48);
            const int leaves = r == ROWS - 1 && k >= LATER && k < count;
            uint4 whole;
            if (STEP * (k - 1) - LAG >= 0 && STEP * k <= width) {
                SIXTEEN(0)
            } else {
                SIXTEEN(1)
            }
            put_four(results_at + odd * (16 * ROWS), whole);
            meet();
        }
    } else if (warp == 1) {
        /* A work-item moves a word of each eighth row. */
        const int word = lane % 4, full = strip * ROWS + ROWS <= rows;
        const long pixel_count = (long)rows * width;
        __global const uint *from[4];
        __global uint *to[4];
        int lowest[4], first[4];
        uint available[4], tail = 0, even[4], odd[4];
        const long asked = (long)(strip * ROWS + lane) * width - BEHIND * lane + STEP * AHEAD;
        for (int i = 0; i < (int)(pixel_count & 3); ++i)
            tail |= (uint)image[pixel_count - (pixel_count & 3) + i] << 8 * i;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int r = lane / 4 + 8 * j, row = strip * ROWS + r;
            const long start = (long)min(row, rows - 1) * width - BEHIND * r, at = (start >> 2) - 3 + word;
            from[j] = (__global const uint *)image + at;
            to[j] = (__global uint *)output + at - 1;
            /* Words 4 k of `from` from k = lowest on, as many as are available. */
            lowest[j] = (int)max((3 - at) >> 2, (long)0);
            available[j] = (uint)(clamp(((pixel_count >> 2) - at + 3) >> 2, (long)lowest[j], (long)count) - lowest[j]);
            first[j] = row < rows ? 4 * word - STEP - BEHIND * r - (int)(start & 3) : width;
            ((__local uint *)pixels[0])[32 * j + lane] = WORD(j, 0);
            odd[j] = WORD(j, 1), even[j] = WORD(j, 2);
        }
        meet();
        for (int t = 0; t < steps; t += 2) {
            MOVE(t, odd)
            MOVE(t + 1, even)
        }
    } else {
        __global const int *above = passed + (size_t)strip * slots * STEP + lane % STEP;
        int met = look(above);
        for (int k = 0; k <= steps; ++k) {
            if (k < slots) {
                while (met == ABSENT)
                    met = look(above + k * STEP);
                if (lane < STEP)
                    ((__local int *)handed[k & 1])[lane] = met;
                met = look(above + min(k + 1, slots - 1) * STEP);
            }
            meet();
        }
    }
}
