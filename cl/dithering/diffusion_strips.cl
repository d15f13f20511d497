/* dithering/diffusion_waves.cl's scan in the form for GPUs, of 8-bit values: a work-group takes a strip of ROWS rows,
 * and errors pass from row to row through local memory.
 *
 * Row r of a strip is LAG pixels behind row r - 1: at clock t it is at pixel x = t - LAG r. A launch takes every strip on
 * by CLOCKS. A strip's first rows need what the strip above leaves up to clock t + LAG ROWS, so it is
 * LAG ROWS / CLOCKS + 1 launches behind that.
 *
 * Constants: ROWS; CLOCKS, a divisor of LAG ROWS; LAG 2 or 3; NEAR_ENTRIES (1: at most MOST_NEAR, held in local memory);
 * those of dithering/error_diffusion.h.
 */
#if NEAR_ENTRIES
#define ENTRIES __local const Error *
#endif
#include "dithering/error_diffusion.h"

#define DEPTH 2            /* rows below a pixel that get a share at most */
#define BACK (2 * LAG + 2) /* clocks that a share is on its way at most: from DEPTH rows above, two pixels back */
#define SPAN (CLOCKS + BACK + 1 - (CLOCKS + BACK) % 2) /* odd, so that the rows' places are in different banks */
#define PITCH (CLOCKS + 1 - CLOCKS % 2)

/* Where the error is that row `row` of a strip, -2 to ROWS - 1, makes at a clock of the launch, -BACK to CLOCKS - 1. */
inline int place_of_error(int row, int clock)
{
    return (row + DEPTH) * SPAN + BACK + clock;
}

inline int4 error_at(__local const Error *reach, int columns, int below)
{
    return convert_int4(reach[-below * (SPAN + LAG) - columns]);
}

/* All strips on by CLOCKS. NDRange: one group, of any size, a strip, from `first_strip` on.
 * entries as in dithering/error_diffusion.h. image Sample [rows][width][CHANNELS]; output INDEX [rows][width]; extent:
 * largest value of each component; strength in 1/256.
 * passed  short4 [strips + 1][DEPTH][width + 4]: the errors of the last rows above each strip, two columns of 0 on each
 *         side; the first strip's are given, the last entry is what the rows pass on in all.
 * kept    short4 [strips][ROWS][BACK]: each row's last errors in the launch before.
 * launch  number of this launch. */
__kernel void diffuse_strips(DIFFUSION_PARAMETERS, __global Error *passed, __global Error *kept, int rows, int width,
                             int launch, int first_strip)
{
    __local Error errors[(ROWS + DEPTH) * SPAN];
    __local uint pixels[ROWS * PITCH];
    const int lid = (int)get_local_id(0), size = (int)get_local_size(0);
#if NEAR_ENTRIES
    __local Error near[3 * MOST_NEAR];
    for (int i = lid; i < 3 * n_entries; i += size)
        near[i] = entries[i];
#else
    __global const Error *near = entries;
#endif
    const Entries found = entries_from(near, n_entries);
    const int strip = first_strip + (int)get_group_id(0), row0 = strip * ROWS;
    const int slab = launch - strip * (LAG * ROWS / CLOCKS + 1), clock0 = slab * CLOCKS;
    __global const Error *above = passed + (size_t)strip * DEPTH * (width + 4) + 2;
    __global Error *below = passed + (size_t)(strip + 1) * DEPTH * (width + 4) + 2;
    __global Error *last = passed + (size_t)((rows + ROWS - 1) / ROWS) * DEPTH * (width + 4) + 2;
    kept += (size_t)row0 * BACK;
    for (int i = lid; i < ROWS * CLOCKS; i += size) {
        const int r = i / CLOCKS, clock = i % CLOCKS, x = clock0 + clock - LAG * r;
        if (row0 + r < rows && x >= 0 && x < width)
            pixels[r * PITCH + clock] = packed_color(load_pixel(image, (size_t)(row0 + r) * width + x));
    }
    for (int i = lid; i < DEPTH * (CLOCKS + BACK); i += size) {
        const int r = i / (CLOCKS + BACK) - DEPTH, clock = i % (CLOCKS + BACK) - BACK, x = clock0 + clock - LAG * r;
        errors[place_of_error(r, clock)] = x >= 0 && x < width ? above[(r + DEPTH) * (width + 4) + x] : (Error)(0);
    }
    for (int i = lid; i < ROWS * BACK; i += size)
        errors[place_of_error(i / BACK, i % BACK - BACK)] = slab > 0 ? kept[i] : (Error)(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int clock = 0; clock < CLOCKS; clock++) {
        for (int r = lid; r < ROWS; r += size) {
            const int here = place_of_error(r, clock), x = clock0 + clock - LAG * r;
            int4 error = 0;
            if (row0 + r < rows && x >= 0 && x < width) {
                const int4 color = unpacked_color(pixels[r * PITCH + clock]);
                __local const Error *reach = errors + here;
                pixels[r * PITCH + clock] = (uint)choose(CHOICE_ARGUMENTS, &found, color, ARRIVING, &error);
            }
            errors[here] = convert_error(error);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = lid; i < ROWS * CLOCKS; i += size) {
        const int r = i / CLOCKS, clock = i % CLOCKS, x = clock0 + clock - LAG * r, y = row0 + r;
        if (y < rows && x >= 0 && x < width) {
            output[(size_t)y * width + x] = (INDEX)pixels[r * PITCH + clock];
            const Error error = errors[place_of_error(r, clock)];
            if (r >= ROWS - DEPTH && row0 + ROWS < rows)
                below[(r - (ROWS - DEPTH)) * (width + 4) + x] = error;
            if (y >= rows - DEPTH)
                last[(y - (rows - DEPTH)) * (width + 4) + x] = error;
        }
    }
    for (int i = lid; i < ROWS * BACK; i += size)
        kept[i] = errors[place_of_error(i / BACK, i % BACK + CLOCKS - BACK)];
}
