/* Floyd and Steinberg's serial error diffusion of gray pictures in a form for NVIDIA's GPUs (compute capability 7.0 and
 * up), through inline PTX: a warp scans a strip of 32 rows, a row per work-item, and a row's errors pass to the next by
 * a shuffle. Arithmetic and sources: halftone/serial/tiles.cl.
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
/* A call would put a scan into memory. */
#define INLINE inline __attribute__((always_inline))

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

/* What a work-item of the scanning warp knows of its row. */
typedef struct {
    int r, width;
    int shared, fed; /* weights of what comes from the row above: 3 by the shuffle and 0 from memory, or 0 and 3 */
    int shift; /* by which pixels are out of step with words */
    int leaves; /* whether the row is the last one, and its errors are to be left now */
    int error; /* of the pixel before */
    int beside, before; /* errors of the row above that reach the present pixel: right above, and left of that */
    int arriving, leaving; /* errors of the row above that are on their way */
    int last_2, last_3; /* of the four pixels before, the last two errors */
    uint word; /* of the four pixels before */
    uint shown_before; /* what was black of these */
} row_t;

/* Pixel j of four. `value` is 16 times its level and the errors that reach it, whose sum a share of 16 is rounded
 * toward zero of, less what makes white: so value >> 4 is what it comes to before it is clamped, less 129, and its sign
 * says black. Signs are spread over words, as what depends on a comparison waits three times as long. Returns the
 * pixel's bits in a word of what is black. */
INLINE uint scan_pixel(row_t *row, int j, uint levels, int met, int inside)
{
    const int rest = times(met, row->fed, 5 * row->beside + row->before);
    const int sum = times(row->error, 7, times(row->arriving, row->shared, rest));
    const int lit_rest = times(row->arriving, row->shared, lit(levels, j, rest - 129 * 16));
    const int value = times(row->error, 7, lit_rest) + (int)((uint)sum >> 28);
    const int black = value >> 31, level = value >> 4;
    row->error = chosen(black, most_0(level + 129), least_0(level - 126));
    if (!inside)
        row->error = 0;
    row->before = row->beside, row->beside = row->r == 0 ? met : row->arriving;
    row->arriving = row->leaving, row->leaving = from_row_above(row->error);
    return (uint)black & 255u << 8 * j;
}

/* Four pixels from `x` on, of `word`; `met` are the errors that the first row meets there. Returns a word of results,
 * which is as far out of step with pixels as words of pixels are. What the last row leaves is two pixels late: the
 * errors of the four before's last two, and of these's first two. */
INLINE uint scan_four(row_t *row, int x, uint word, int4 met, __global int *below, int masked)
{
    const uint levels = (uint)(upsample(word, row->word) >> row->shift);
    row->word = word;
    uint shown = scan_pixel(row, 0, levels, met.s0, !masked || (uint)x < (uint)row->width);
    const int error_0 = row->error;
    shown |= scan_pixel(row, 1, levels, met.s1, !masked || (uint)(x + 1) < (uint)row->width);
    leave_if(row->leaves, below, (int4)(row->last_2, row->last_3, error_0, row->error));
    shown |= scan_pixel(row, 2, levels, met.s2, !masked || (uint)(x + 2) < (uint)row->width);
    row->last_2 = row->error;
    shown |= scan_pixel(row, 3, levels, met.s3, !masked || (uint)(x + 3) < (uint)row->width);
    row->last_3 = row->error;
    const uint whole = (uint)(upsample(~shown, ~row->shown_before) >> (32 - row->shift));
    row->shown_before = shown;
    return whole;
}

/* A step's pixels, four times four. */
INLINE uint4 scan_sixteen(row_t *row, int x, uint4 words, const int4 *met, __global int *below, int masked)
{
    uint4 whole;
    whole.s0 = scan_four(row, x, words.s0, met[0], below, masked);
    whole.s1 = scan_four(row, x + 4, words.s1, met[1], below + 4, masked);
    whole.s2 = scan_four(row, x + 8, words.s2, met[2], below + 8, masked);
    whole.s3 = scan_four(row, x + 12, words.s3, met[3], below + 12, masked);
    return whole;
}

/* What a work-item of the moving warp moves: a word of each eighth row. */
typedef struct {
    __global const uint *from[4];
    __global uint *to[4];
    int lowest[4]; /* the first k of which the picture has the word 4 k of `from` */
    uint available[4]; /* how many it has from there on */
    uint tail; /* what stands for the others: the picture's last pixels, if they are less than a word */
    int first[4]; /* column of a word's first pixel in step 0; `width` in rows below the picture */
    int width, lane, full; /* `full`: whether all rows are in the picture */
    __global const uchar *asked; /* the pixel that is asked for in step 0 */
    long asked_at, pixel_count; /* its place in the picture, and the picture's pixels */
} mover_t;

/* Word 4 k of row j of those that a work-item moves. */
INLINE uint word_of(const mover_t *mover, int j, int k)
{
    return (uint)(k - mover->lowest[j]) < mover->available[j] ? mover->from[j][4 * k] : mover->tail;
}

/* The results of step `out`, from local memory into the picture. */
INLINE void store_results(const mover_t *mover, int out, __local const uint *results)
{
    uint whole[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        whole[j] = results[32 * j + mover->lane];
    if (mover->full && STEP * (out - 1) - LAG - 3 >= 0 && STEP * out <= mover->width) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            mover->to[j][4 * out] = whole[j];
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 4; ++i)
                if ((uint)(mover->first[j] + STEP * out + i) < (uint)mover->width)
                    ((__global uchar *)(mover->to[j] + 4 * out))[i] = (uchar)(whole[j] >> 8 * i);
    }
}

/* What is moved beside step t: pixels of the next step into local memory, those of the third from memory, and results
 * of the one before. */
INLINE void move_words(const mover_t *mover, int t, uint *loaded, __local uint *pixels, __local const uint *results)
{
    const long asked_at = mover->asked_at + STEP * t;
    if (asked_at >= 0 && asked_at < mover->pixel_count)
        ask_for(mover->asked + STEP * t);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        pixels[32 * j + mover->lane] = loaded[j];
        loaded[j] = word_of(mover, j, t + 3);
    }
    if (t >= 1)
        store_results(mover, t - 1, results);
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
        const int r = lane;
        row_t row = {.r = r, .width = width, .shared = r == 0 ? 0 : 3, .fed = r == 0 ? 3 : 0};
        row.shift = (int)(((long)min(strip * ROWS + r, rows - 1) * width - BEHIND * r) & 3) * 8;
        __global int *below = passed + ((size_t)(strip + 1) * slots - LATER) * STEP;
        const uint pixels_at = address(&pixels[0][r]), results_at = address(&results[0][r]);
        const uint handed_at = address(&handed[0][0]);
        meet();
        for (int k = 0; k < steps; ++k) {
            const uint odd = (uint)k & 1u, handed_now = handed_at + odd * (4 * STEP);
            const uint4 words = as_uint4(four_at(pixels_at + odd * (16 * ROWS)));
            const int4 met[4] = {four_at(handed_now), four_at(handed_now + 16), four_at(handed_now + 32),
                                 four_at(handed_now + 48)};
            const int x = STEP * (k - 1) - BEHIND * r;
            row.leaves = r == ROWS - 1 && k >= LATER && k < count;
            uint4 whole;
            if (STEP * (k - 1) - LAG >= 0 && STEP * k <= width)
                whole = scan_sixteen(&row, x, words, met, below + STEP * k, 0);
            else
                whole = scan_sixteen(&row, x, words, met, below + STEP * k, 1);
            put_four(results_at + odd * (16 * ROWS), whole);
            meet();
        }
    } else if (warp == 1) {
        const int word = lane % 4;
        mover_t mover = {.width = width, .lane = lane, .full = strip * ROWS + ROWS <= rows, .tail = 0};
        mover.pixel_count = (long)rows * width;
        mover.asked_at = (long)(strip * ROWS + lane) * width - BEHIND * lane + STEP * AHEAD;
        mover.asked = image + mover.asked_at;
        uint even[4], odd[4];
        for (int i = 0; i < (int)(mover.pixel_count & 3); ++i)
            mover.tail |= (uint)image[mover.pixel_count - (mover.pixel_count & 3) + i] << 8 * i;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int r = lane / 4 + 8 * j, row = strip * ROWS + r;
            const long start = (long)min(row, rows - 1) * width - BEHIND * r, at = (start >> 2) - 3 + word;
            mover.from[j] = (__global const uint *)image + at;
            mover.to[j] = (__global uint *)output + at - 1;
            const int lowest = (int)max((3 - at) >> 2, (long)0);
            const long end = clamp(((mover.pixel_count >> 2) - at + 3) >> 2, (long)lowest, (long)count);
            mover.lowest[j] = lowest, mover.available[j] = (uint)(end - lowest);
            mover.first[j] = row < rows ? 4 * word - STEP - BEHIND * r - (int)(start & 3) : width;
            ((__local uint *)pixels[0])[32 * j + lane] = word_of(&mover, j, 0);
            odd[j] = word_of(&mover, j, 1), even[j] = word_of(&mover, j, 2);
        }
        meet();
        for (int t = 0; t < steps; t += 2) {
            move_words(&mover, t, odd, (__local uint *)pixels[1], (__local const uint *)results[1]);
            meet();
            move_words(&mover, t + 1, even, (__local uint *)pixels[0], (__local const uint *)results[0]);
            meet();
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
