/* dithering/diffusion_waves.cl's scan in the form for GPUs, of 8-bit values: a work-group takes a strip of ROWS rows,
 * and errors pass from row to row through local memory.
 *
 * Row r of a strip is LAG pixels behind row r - 1: at clock t it is at pixel x = t - LAG r. A launch takes every strip on
 * by CLOCKS. A strip's first rows need what the strip above leaves up to clock t + LAG ROWS, so it is
 * LAG ROWS / CLOCKS + 1 launches behind that.
 *
 * Constants: ROWS; CLOCKS, a divisor of LAG ROWS; LAG 2 or 3; those of dithering/error_diffusion.h.
 */
#include "dithering/error_diffusion.h"

/* Entries in place of specks are sought by all work-items of a group: else it would wait for the one whose pixel compares
 * every entry. SPECKS: the most that are listed at once; TEAM: the most work-items that look for one. */
#define SPECKS ROWS
#define TEAM 32

/* Of each speck the pixel's point and packed colour, the least distance and the entry. */
typedef struct {
    short4 point[SPECKS];
    uint color[SPECKS];
    Squared least[SPECKS];
    int entry[SPECKS];
} Specks;

/* How many work-items look for one speck's entry: few where there are few entries. */
int team_of(int n_entries)
{
    return min((int)get_local_size(0), clamp(n_entries / AT_ONCE, 1, TEAM));
}

/* How many specks are sought at once. */
int teams_of_group(int n_entries)
{
    return (int)get_local_size(0) / team_of(n_entries);
}

void list_speck(__local Specks *specks, int i, uint color, int4 point)
{
    specks->point[i] = convert_short4(point);
    specks->color[i] = color;
    specks->least[i] = MAX_SQUARED;
    specks->entry[i] = INT_MAX;
}

/* One round of `entry_in_reach` for the specks from `first` on, as many as `teams_of_group`; a barrier must lie between
 * their listing and this. Has barriers, so it belongs in a loop: of barriers in a condition PoCL makes many copies.
 * Returns the speck whose entry this work-item has to show, or -1. */
int find_in_reach(__local Specks *specks, int first, int count, __global const int4 *points,
                  __global const int4 *colors, int n_entries, int speck)
{
    const int team = team_of(n_entries), lid = (int)get_local_id(0), i = first + lid / team;
    const bool is_mine = lid / team < teams_of_group(n_entries) && i < count;
    Squared distance = MAX_SQUARED;
    int entry = 0;
    if (is_mine) {
        const int4 point = convert_int4(specks->point[i]), color = unpacked_color(specks->color[i]);
        distance = least_in_reach(point, color, points, colors, n_entries, speck, lid % team, team, &entry);
        atomic_min(&specks->least[i], distance);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_mine && distance == specks->least[i])
        atomic_min(&specks->entry[i], entry);
    barrier(CLK_LOCAL_MEM_FENCE);
    return is_mine && lid % team == 0 ? i : -1;
}

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
 * image Sample [rows][width][CHANNELS]; output INDEX [rows][width]; extent: largest value of each component; strength in
 * 1/256.
 * passed  short4 [strips + 1][DEPTH][width + 4]: the errors of the last rows above each strip, two columns of 0 on each
 *         side; the first strip's are given, the last entry is what the rows pass on in all.
 * kept    short4 [strips][ROWS][BACK]: each row's last errors in the launch before.
 * launch  number of this launch. */
__kernel void diffuse_strips(DIFFUSION_PARAMETERS, __global Error *passed, __global Error *kept, int rows, int width,
                             int launch, int first_strip)
{
    __local Error errors[(ROWS + DEPTH) * SPAN];
    __local uint pixels[ROWS * PITCH];
    __local Specks specks;
    __local int n_specks[CLOCKS];    /* of each clock; their rows and values: */
    __local int speck_row[ROWS];
    __local short4 speck_value[ROWS];
    const int lid = (int)get_local_id(0), size = (int)get_local_size(0);
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
    for (int i = lid; i < CLOCKS; i += size)
        n_specks[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int clock = 0; clock < CLOCKS; clock++) {
        for (int r = lid; r < ROWS; r += size) {
            const int here = place_of_error(r, clock), x = clock0 + clock - LAG * r;
            int4 error = 0;
            if (row0 + r < rows && x >= 0 && x < width) {
                const int4 color = unpacked_color(pixels[r * PITCH + clock]);
                int entry = max(transparent, 0);
                if (!is_transparent(color, transparent, missing)) {
                    __local const Error *reach = errors + here;
                    const int4 value = value_with(color, ARRIVING, tables, extent, strength);
                    const int4 point = point_of(value, tables);
                    entry = nearest_entry(point, PLAIN_ERRORS ? value : color, SEARCH_ARGUMENTS);
                    if (gap(color, colors[entry]) > speck) {
                        const int i = atomic_inc(&n_specks[clock]);
                        list_speck(&specks, i, pixels[r * PITCH + clock], point);
                        speck_row[i] = r;
                        speck_value[i] = convert_short4(value);
                        continue;
                    }
                    error = error_of(value, entry, points, colors, bounds);
                }
                pixels[r * PITCH + clock] = (uint)entry;
            }
            errors[here] = convert_error(error);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const int count = n_specks[clock];
        for (int first = 0; first < count; first += teams_of_group(n_entries)) {
            const int i = find_in_reach(&specks, first, count, points, colors, n_entries, speck);
            if (i >= 0) {
                const int r = speck_row[i], entry = specks.entry[i];
                const int4 error = error_of(convert_int4(speck_value[i]), entry, points, colors, bounds);
                errors[place_of_error(r, clock)] = convert_error(error);
                pixels[r * PITCH + clock] = (uint)entry;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
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
