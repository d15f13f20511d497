#define COMPONENTS 3
#include "mapping/candidates_lanes.h"
#include "dithering/reach.h"
typedef short8 lanes_t;
#define LOAD(from) vload8(0, from)
#define STORE(lanes, to) vstore8(lanes, 0, to)
#define LAST(lanes) (lanes).s7
/* Errors of the rows above: those of the rows moved on by one, after that of the row above them all. */
#define FROM_ABOVE(errors, above) (lanes_t)(above, (errors).s0123, (errors).s45, (errors).s6)
#define EACH_LANE(f, a, b)                                                                                             \
    f(a, b, 0), f(a, b, 1), f(a, b, 2), f(a, b, 3), f(a, b, 4), f(a, b, 5), f(a, b, 6), f(a, b, 7)
#define PARAMETERS                                                                                                     \
    LANE_PARAMETERS, __global const uint *shades, __global const int4 *points, __global const int4 *colors,            \
        __global const uint *within, int n_entries, int speck, __global const uchar *image, __global INDEX *output
#define NEEDED tables, LANE_CELLS, transparent, missing, shades, points, colors, within, n_entries, speck, image, output

/* How far the last row is behind the first. */
#define BEHIND (2 * (LANES - 1))
#define ALL ((1u << LANES) - 1)

/* The lanes' pixels: `at`, `at` + `step`, ...; `inside` has a bit for each that is in the picture. */
typedef struct {
    long at, step;
    uint inside;
} pixels_t;

inline int is_inside(const pixels_t *pixels, uint lane)
{
    return pixels->inside >> lane & 1;
}

/* A lane's pixel, or any where it is outside the picture. */
inline long pixel_of(const pixels_t *pixels, uint lane)
{
    return is_inside(pixels, lane) ? pixels->at + lane * pixels->step : 0;
}

inline short value_of(__global const uchar *image, const pixels_t *pixels, uint lane)
{
    return image[CHANNELS * pixel_of(pixels, lane)];
}

inline uint shade_of(__global const uint *shades, const uint *entries, uint lane)
{
    return shades[entries[lane]];
}

/* All bits of lanes that are inside. */
inline lanes_t inside_of(const pixels_t *pixels)
{
    return ((lanes_t)((short)pixels->inside) & (lanes_t)(1, 2, 4, 8, 16, 32, 64, 128)) != (lanes_t)0;
}

inline void load(__global const uchar *image, const pixels_t *pixels, lanes_t *value)
{
    value[0] = (lanes_t)(EACH_LANE(value_of, image, pixels));
    value[1] = (lanes_t)(EACH_LANE(value_of, image + CHANNELS / 2, pixels));
    value[2] = (lanes_t)(EACH_LANE(value_of, image + CHANNELS - 1, pixels));
}

/* The nearest entries of the lanes' values, and their points. */
inline void search(PARAMETERS, const lanes_t *value, uint *entries, int8 *point)
{
    int at[COMPONENTS][LANES];
    uint keys[LANES], cells[LANES];
    for (int c = 0; c < COMPONENTS; ++c) {
        point[c] = convert_int8(value[c]);
        vstore8(point[c], 0, at[c]);
    }
    vstore8(as_uint8(point[0] | point[1] << 8 | point[2] << 16) | 255u << 24, 0, keys);
#if SPACE
#pragma unroll
    for (uint lane = 0; lane < LANES; ++lane) {
        const int4 found = space_coordinates((int4)(at[0][lane], at[1][lane], at[2][lane], 255), tables);
        at[0][lane] = found.x;
        at[1][lane] = found.y;
        at[2][lane] = found.z;
    }
    for (int c = 0; c < COMPONENTS; ++c)
        point[c] = vload8(0, at[c]);
#endif
    const int8 layer = (point[2] >> shift) * grid.y + (point[1] >> shift);
    vstore8(as_uint8(layer * grid.x + (point[0] >> shift)), 0, cells);
#pragma unroll
    for (uint lane = 0; lane < LANES; ++lane)
        entries[lane] = nearest_in_lanes(&at[0][lane], LANES, keys[lane], spans[cells[lane]], blocks);
}

/* The largest differences of two colours' channels. */
inline lanes_t gap_in_lanes(const lanes_t *a, const lanes_t *b)
{
    lanes_t most = 0;
    for (int c = 0; c < COMPONENTS; ++c)
        most = max(most, max(a[c] - b[c], b[c] - a[c]));
    return most;
}

/* What entries show, and the most of an error that each passes on. */
inline lanes_t show_entries(__global const uint *shades, const uint *entries, lanes_t *shown)
{
    const uint8 found = (uint8)(EACH_LANE(shade_of, shades, entries));
    for (int c = 0; c < COMPONENTS; ++c)
        shown[c] = convert_short8(found >> (uint)(8 * c) & 255u);
    return convert_short8(found >> 24u);
}

/* `entry_in_reach` of the lanes that are `far`. */
inline void show_in_reach(PARAMETERS, const int8 *point, const lanes_t *color, lanes_t far, uint *entries)
{
    int at[COMPONENTS][LANES], value[COMPONENTS][LANES], is_far[LANES];
    for (int c = 0; c < COMPONENTS; ++c) {
        vstore8(point[c], 0, at[c]);
        vstore8(convert_int8(color[c]), 0, value[c]);
    }
    vstore8(convert_int8(far), 0, is_far);
    for (uint i = 0; i < LANES; ++i)
        if (is_far[i])
            entries[i] = (uint)entry_in_reach((int4)(at[0][i], at[1][i], at[2][i], 0),
                                              (int4)(value[0][i], value[1][i], value[2][i], WHITE), points, colors,
                                              within, n_entries, speck);
}

/* Shows the lanes' pixels. `errors` holds what is added to them, and gets what they pass on, which is 0 outside. */
inline void show(PARAMETERS, const pixels_t *pixels, lanes_t *errors)
{
    lanes_t color[COMPONENTS], value[COMPONENTS], shown[COMPONENTS];
    uint entries[LANES];
    load(image, pixels, color);
    for (int c = 0; c < COMPONENTS; ++c)
        value[c] = clamp(color[c] + errors[c], (lanes_t)0, (lanes_t)255);
    int8 point[COMPONENTS];
    search(NEEDED, value, entries, point);
    lanes_t most = show_entries(shades, entries, shown);
    const lanes_t far = gap_in_lanes(color, shown) > (lanes_t)(short)speck;
    const ulong2 any_far = as_ulong2(far);
    if (any_far.x | any_far.y) {
        show_in_reach(NEEDED, point, color, far, entries);
        most = show_entries(shades, entries, shown);
    }
    for (uint lane = 0; lane < LANES; ++lane)
        if (is_inside(pixels, lane))
            output[pixel_of(pixels, lane)] = (INDEX)entries[lane];
    for (int c = 0; c < COMPONENTS; ++c)
        errors[c] = clamp(value[c] - shown[c], -most, most) & inside_of(pixels);
}

/* dithering/diffusion_waves.cl's wavefronts in the shape that CPUs run fast, equal bit for bit: LANES rows in the lanes
 * of a vector, each two pixels behind the one above, so that what a pixel needs is in the vectors of the last three
 * steps. Opaque pictures and palettes alone; gray pictures in two levels: halftone/serial/lanes_gray.cl.
 *
 * Tiles are of `strips` times LANES rows by `columns` pixels, else as in that file; a work-item takes a tile, strip by
 * strip.
 *
 * NDRange: one work-item per tile.
 * image          uchar [rows][width][CHANNELS]; output INDEX [rows][width].
 * state          short [strips in all][3][COMPONENTS][LANES]: the vectors at the end of a strip's tile.
 * top            short [COMPONENTS][width]: the errors of the picture's row before.
 * lowest         short [strips in all][COMPONENTS][width]: the errors of each strip's last row.
 * shades         uint [entries]: R | G << 8 | B << 16 | the most of an error that is passed on, 255 being all, << 24.
 * points, colors int4 [entries]: mapping/nearest.h; within, n_entries, speck: dithering/reach.h.
 * Constants: those of dithering/reach.h and of mapping/candidates_lanes.h. */
__kernel void halftone_serial_lanes(PARAMETERS, __global short *state, __global const short *top,
                                    __global short *lowest, int rows, int width, int strips, int columns, int wave,
                                    int first_tile)
{
    const int tile_row = first_tile + (int)get_global_id(0);
    const int begin = (wave - 2 * tile_row) * columns;
    for (int strip = tile_row * strips; strip < (tile_row + 1) * strips && strip * LANES < rows; ++strip) {
        const int row = strip * LANES, x0 = begin - 2 * (row - tile_row * strips * LANES);
        __global short *kept = state + (size_t)strip * 3 * COMPONENTS * LANES;
        __global short *below = lowest + (size_t)strip * COMPONENTS * width;
        __global const short *above = strip ? below - (size_t)COMPONENTS * width : top;
        lanes_t left[COMPONENTS], upper[COMPONENTS], upper_left[COMPONENTS];
        for (int c = 0; c < COMPONENTS; ++c) {
            left[c] = begin ? LOAD(kept + c * LANES) : (lanes_t)0;
            upper[c] = begin ? LOAD(kept + (COMPONENTS + c) * LANES) : FROM_ABOVE((lanes_t)0, above[c * width]);
            upper_left[c] = begin ? LOAD(kept + (2 * COMPONENTS + c) * LANES) : (lanes_t)0;
        }
        const int end = min(x0 + columns, width + BEHIND);
        for (int x = max(x0, 0); x < end; ++x) {
            uint inside = ALL;
            if (x < BEHIND || x >= width || row + LANES > rows) {
                const int first = x < width ? 0 : (x - width) / 2 + 1;
                const int last = min(min(x / 2, LANES - 1), rows - row - 1);
                inside = first > last ? 0 : (2u << last) - (1u << first);
            }
            const int next = x + 1;
            lanes_t errors[COMPONENTS];
            for (int c = 0; c < COMPONENTS; ++c) {
                const lanes_t upper_right = FROM_ABOVE(left[c], next < width ? above[c * width + next] : (short)0);
                const lanes_t sum = (short)7 * left[c] + (short)3 * upper_right + (short)5 * upper[c] + upper_left[c];
                errors[c] = sum / (short)16;
                upper_left[c] = upper[c];
                upper[c] = upper_right;
            }
            const long at = (long)row * width + x;
            if (inside == ALL) {
                const pixels_t whole = {at, width - 2, ALL};
                show(NEEDED, &whole, errors);
            } else {
                const pixels_t part = {at, width - 2, inside};
                show(NEEDED, &part, errors);
            }
            for (int c = 0; c < COMPONENTS; ++c) {
                left[c] = errors[c];
                if (x >= BEHIND)
                    below[c * width + x - BEHIND] = LAST(errors[c]);
            }
        }
        for (int c = 0; c < COMPONENTS; ++c) {
            STORE(left[c], kept + c * LANES);
            STORE(upper[c], kept + (COMPONENTS + c) * LANES);
            STORE(upper_left[c], kept + (2 * COMPONENTS + c) * LANES);
        }
    }
}
