/* k-means palettes of many small pictures at once; clquant/kmeans/small_images.py launches these kernels in their order
 * here.
 *
 * Constants: GROUP work-items per group (a power of two up to SEGMENTS); LANES points per vector (1 or 16) and SEGMENTS of
 * a picture's points (results are the same); CHANNELS of a pixel (1 or 3); MOST_COLORS; STARTS, CANDIDATES, MOST_STEPS.
 * Arguments: k colours; least > k, the fewest points of a picture that is clustered; plane, the length of a picture's
 * planes of points, a multiple of LANES SEGMENTS. A task is one start of one picture: task = picture * STARTS + start.
 *
 * Arithmetic: points and centers are in eighths of a gray level, 0..2040, so a squared distance is below 2^24 and
 * (distance << 8 | center) a 32-bit key whose minimum is the nearest center, the lowest index among equals. A picture
 * has at most 2^14 pixels, so a sum of weight times (distance >> 6) stays below 2^14 * 3 * 255^2 < 2^32, and one of
 * weight times coordinate below 2^25: all sums are exact in 32 bits, whatever their order. */

#include "common/kmeans_plus_plus.h"

#define WORDS 1024 /* of the map of occupied cells: 32^3 bits */
#define PURPOSE 0x62617463u

#if LANES == 16
typedef int16 ints;
typedef uint16 uints;
#define LOAD(array, block) vload16(block, array)
#define STORE(value, array, block) vstore16(value, block, array)
#define TO_UINTS(x) as_uint16(x)
#else
typedef int ints;
typedef uint uints;
#define LOAD(array, block) (array)[block]
#define STORE(value, array, block) (array)[block] = (value)
#define TO_UINTS(x) as_uint(x)
#endif

#if GROUP == 1
#define ADD(address, value) (*(address) += (value))
#define OR(address, value) (*(address) |= (value))
#else
#define ADD(address, value) atomic_add(address, value)
#define OR(address, value) atomic_or(address, value)
#endif

inline uint sum_of(uints v)
{
#if LANES == 16
    const uint8 half_sums = v.lo + v.hi;
    const uint4 quarter_sums = half_sums.lo + half_sums.hi;
    return (quarter_sums.s0 + quarter_sums.s1) + (quarter_sums.s2 + quarter_sums.s3);
#else
    return v;
#endif
}

/* A picture's points: planes of coordinates and weights, and this task's squared distance (or key) of each. */
typedef struct {
    __global const int *x, *y, *z;
    __global const uint *weight;
    __global uint *near;
    uint count, blocks_per_segment;
} points_t;

inline points_t points_of(uint picture, __global const int *planes, __global const uint *counts, __global uint *near,
                          uint plane)
{
    points_t p;
    p.x = planes + (size_t)picture * 4 * plane;
    p.y = p.x + plane;
    p.z = p.y + plane;
    p.weight = (__global const uint *)(p.z + plane);
    p.near = near + (size_t)get_group_id(0) * plane;
    p.count = counts[picture];
    p.blocks_per_segment = (p.count + SEGMENTS * LANES - 1) / (SEGMENTS * LANES);
    return p;
}

inline uints squared(points_t p, uint block, int cx, int cy, int cz)
{
    ints dx = LOAD(p.x, block) - cx, dy = LOAD(p.y, block) - cy, dz = LOAD(p.z, block) - cz;
    return TO_UINTS(dx * dx + dy * dy + dz * dz);
}

/* Sum of weight times (distance >> 6) over this item's segments if `candidate` became a center; with `keep`, the new
 * distances and each segment's sum are stored. */
inline uint potential(points_t p, uint item, int cx, int cy, int cz, int keep, __local uint *segment_sums)
{
    uint total = 0;
    for (uint s = item; s < SEGMENTS; s += GROUP) {
        uints sums = (uints)(0);
        for (uint b = s * p.blocks_per_segment; b < (s + 1) * p.blocks_per_segment; ++b) {
            uints d = min(LOAD(p.near, b), squared(p, b, cx, cy, cz));
            if (keep)
                STORE(d, p.near, b);
            sums += LOAD(p.weight, b) * (d >> 6);
        }
        uint sum = sum_of(sums);
        if (keep)
            segment_sums[s] = sum;
        total += sum;
    }
    return total;
}

/* The first point whose running sum of weight times (distance >> 6) exceeds `target`. */
inline uint pick(points_t p, uint target, __local const uint *segment_sums)
{
    uint s = 0;
    while (s < SEGMENTS - 1 && target >= segment_sums[s])
        target -= segment_sums[s++];
    uint i = s * p.blocks_per_segment * LANES;
    for (;; ++i) {
        uint part = p.weight[i] * (p.near[i] >> 6);
        if (target < part)
            return i;
        target -= part;
    }
}

/* Item 0 only: give each empty center the point of largest weight times (distance >> 6), the first among equals;
 * a point is given once. */
inline void repair(points_t p, uint k, __local int *centers, __local const uint *sums)
{
    for (uint j = 0; j < k; ++j) {
        if (sums[4 * j] != 0)
            continue;
        uint best = 0, most = 0;
        for (uint i = 0; i < p.count; ++i) {
            uint error = p.weight[i] * (p.near[i] >> 14); /* near holds keys here */
            if (error > most) {
                most = error;
                best = i;
            }
        }
        if (most == 0)
            return;
        p.near[best] = 0;
        centers[3 * j] = p.x[best];
        centers[3 * j + 1] = p.y[best];
        centers[3 * j + 2] = p.z[best];
    }
}

/* Cells of 8 gray levels per side become points: their pixels' mean colour and number.
 * NDRange: groups * GROUP work-items; group g takes the pictures g, g + groups, ...
 * pixels: (total, CHANNELS) uint8, one picture after another; offsets: (pictures + 1) uint, where each begins.
 * histogram: (groups, 32768, 4) uint scratch, zero before and after. planes: (pictures, 4, plane) int: x, y, z,
 * weight, in the order of the cells, then weights of 0 up to a multiple of LANES SEGMENTS. counts: (pictures) uint. */
__kernel void picture_points(__global const uchar *pixels, __global const uint *offsets, __global uint *histogram,
                             __global int *planes, __global uint *counts, const uint plane, const uint pictures)
{
    __local uint occupied[WORDS], before[GROUP + 1];
    const uint item = get_local_id(0);
    const uint words = WORDS / GROUP;
    __global uint *cells = histogram + (size_t)get_group_id(0) * 32768 * 4;
    for (uint picture = get_group_id(0); picture < pictures; picture += get_num_groups(0)) {
        __global int *x = planes + (size_t)picture * 4 * plane;
        for (uint w = item; w < WORDS; w += GROUP)
            occupied[w] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = offsets[picture] + item; i < offsets[picture + 1]; i += GROUP) {
            __global const uchar *v = pixels + (size_t)i * CHANNELS;
            const uint r = v[0], g = v[CHANNELS / 2], b = v[CHANNELS - 1];
            const uint cell = (r >> 3) << 10 | (g >> 3) << 5 | b >> 3;
            ADD(cells + 4 * cell, 1u);
            ADD(cells + 4 * cell + 1, r);
            ADD(cells + 4 * cell + 2, g);
            ADD(cells + 4 * cell + 3, b);
            OR(occupied + (cell >> 5), 1u << (cell & 31));
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        uint mine = 0;
        for (uint w = item * words; w < (item + 1) * words; ++w)
            mine += popcount(occupied[w]);
        before[item + 1] = mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item == 0) {
            before[0] = 0;
            for (uint i = 1; i <= GROUP; ++i)
                before[i] += before[i - 1];
            counts[picture] = before[GROUP];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        uint at = before[item];
        for (uint w = item * words; w < (item + 1) * words; ++w)
            for (uint bits = occupied[w]; bits != 0; bits &= bits - 1) {
                __global uint *cell = cells + 4 * (32 * w + 31 - clz(bits & -bits));
                const uint n = cell[0];
                for (uint a = 0; a < 3; ++a)
                    x[a * plane + at] = (int)((8 * cell[1 + a] + n / 2) / n);
                x[3 * plane + at++] = (int)n;
                cell[0] = cell[1] = cell[2] = cell[3] = 0;
            }
        const uint end = before[GROUP], padded = (end + LANES * SEGMENTS - 1) / (LANES * SEGMENTS) * (LANES * SEGMENTS);
        for (uint i = end + item; i < padded; i += GROUP)
            for (uint a = 0; a < 4; ++a)
                x[a * plane + i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}

/* Greedy k-means++ (the remark to section 2.2 of its paper): each center is the best of CANDIDATES draws.
 * NDRange: groups * GROUP work-items; group g takes the tasks g, g + groups, ...
 * planes, counts: as above. near: (groups, plane) uint scratch. centers: (tasks, k, 3) int. key: the seed. */
__kernel void seed_centers(__global const int *planes, __global const uint *counts, __global uint *near,
                           __global int *centers, const uint plane, const uint k, const uint least, const uint tasks,
                           const uint key_low, const uint key_high)
{
    __local uint segment_sums[SEGMENTS], picked[CANDIDATES], potentials[CANDIDATES];
    const uint item = get_local_id(0);
    for (uint task = get_group_id(0); task < tasks; task += get_num_groups(0)) {
        const points_t p = points_of(task / STARTS, planes, counts, near, plane);
        const uint steps = p.count >= least ? k : 0;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (uint s = item; s < SEGMENTS; s += GROUP) {
            uint sum = 0;
            for (uint i = s * p.blocks_per_segment * LANES; i < (s + 1) * p.blocks_per_segment * LANES; ++i) {
                p.near[i] = 1 << 6; /* so that the first draw is by weight alone */
                sum += p.weight[i];
            }
            segment_sums[s] = sum;
        }
        for (uint step = 0; step < steps; ++step) {
            const uint candidates = step == 0 ? 1 : CANDIDATES;
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            uint total = 0;
            for (uint s = 0; s < SEGMENTS; ++s)
                total += segment_sums[s];
            for (uint c = item; c < candidates; c += GROUP) {
                const uint4 counter = (uint4)(task % STARTS, step, c, PURPOSE);
                const uint target = drawn_word_below(total, counter, (uint2)(key_low, key_high));
                /* Where every error is 0 the first point is taken again; that center ends up empty. */
                picked[c] = total == 0 ? 0 : pick(p, target, segment_sums);
                potentials[c] = 0;
            }
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            for (uint s = item; s < SEGMENTS && step == 0; s += GROUP)
                for (uint b = s * p.blocks_per_segment; b < (s + 1) * p.blocks_per_segment; ++b)
                    STORE((uints)(0xFFFFFFu), p.near, b);
            for (uint c = 0; c < candidates && candidates > 1; ++c) {
                const uint i = picked[c];
                ADD(potentials + c, potential(p, item, p.x[i], p.y[i], p.z[i], 0, segment_sums));
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            uint best = 0;
            for (uint c = 1; c < candidates; ++c)
                if (potentials[c] < potentials[best])
                    best = c;
            const uint i = picked[best];
            potential(p, item, p.x[i], p.y[i], p.z[i], 1, segment_sums);
            if (item == 0)
                vstore3((int3)(p.x[i], p.y[i], p.z[i]), (size_t)task * k + step, centers);
        }
    }
}

/* Lloyd steps until no center moves, or MOST_STEPS of them. An empty center takes the point of largest weighted error.
 * NDRange, planes, counts, near: as seed_centers. centers: (tasks, k, 3) int, moved in place. inertia: (tasks) uint,
 * sum of weight times (squared distance in eighths of a gray level >> 6), as the last step found it. */
__kernel void lloyd_steps(__global const int *planes, __global const uint *counts, __global uint *near,
                          __global int *centers, __global uint *inertia, const uint plane, const uint k,
                          const uint least, const uint tasks)
{
    __local int here[3 * MOST_COLORS];
    __local uint sums[4 * MOST_COLORS], changed, empty, error;
    const uint item = get_local_id(0);
    for (uint task = get_group_id(0); task < tasks; task += get_num_groups(0)) {
        const points_t p = points_of(task / STARTS, planes, counts, near, plane);
        uint steps = p.count >= least ? MOST_STEPS : 0;
        __global int *own = centers + (size_t)task * 3 * k;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (uint j = item; j < 3 * k && steps > 0; j += GROUP)
            here[j] = own[j];
        for (uint step = 0; step < steps; ++step) {
            for (uint j = item; j < 4 * k; j += GROUP)
                sums[j] = 0;
            if (item == 0)
                changed = empty = error = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            uint mine = 0;
            for (uint b = item * (SEGMENTS / GROUP) * p.blocks_per_segment;
                 b < (item + 1) * (SEGMENTS / GROUP) * p.blocks_per_segment; ++b) {
                uints nearest = (uints)(0xFFFFFFFFu);
                for (uint j = 0; j < k; ++j)
                    nearest = min(nearest, squared(p, b, here[3 * j], here[3 * j + 1], here[3 * j + 2]) << 8 | j);
                STORE(nearest, p.near, b);
                mine += sum_of(LOAD(p.weight, b) * (nearest >> 14));
                for (uint i = b * LANES; i < (b + 1) * LANES; ++i) {
                    const uint w = p.weight[i], j = 4 * (p.near[i] & 255);
                    ADD(sums + j, w);
                    ADD(sums + j + 1, w * (uint)p.x[i]);
                    ADD(sums + j + 2, w * (uint)p.y[i]);
                    ADD(sums + j + 3, w * (uint)p.z[i]);
                }
            }
            ADD(&error, mine);
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            for (uint j = item; j < k; j += GROUP) {
                const uint w = sums[4 * j];
                if (w == 0)
                    OR(&empty, 1u);
                for (uint a = 0; a < 3 && w != 0; ++a) {
                    const int mean = (int)((sums[4 * j + 1 + a] + w / 2) / w);
                    if (mean != here[3 * j + a])
                        OR(&changed, 1u);
                    here[3 * j + a] = mean;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item == 0) {
                if (empty != 0)
                    repair(p, k, here, sums);
                inertia[task] = error;
            }
            if ((changed | empty) == 0)
                steps = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint j = item; j < 3 * k && p.count >= least; j += GROUP)
            own[j] = here[j];
    }
}

/* Palettes: the rounded centers of each picture's start of least inertia, the first among equals.
 * NDRange: a work-item per picture. counts, centers, inertia: as above. palettes: (pictures, k) uchar4. */
__kernel void write_palettes(__global const uint *counts, __global const int *centers, __global const uint *inertia,
                             __global uchar4 *palettes, const uint k, const uint least, const uint pictures)
{
    const uint picture = get_global_id(0);
    if (picture >= pictures || counts[picture] < least)
        return;
    uint best = picture * STARTS;
    for (uint task = best; task < (picture + 1) * STARTS; ++task)
        if (inertia[task] < inertia[best])
            best = task;
    for (uint j = 0; j < k; ++j) {
        const int3 c = (vload3((size_t)best * k + j, centers) + 4) >> 3;
        palettes[(size_t)picture * k + j] = (uchar4)(c.s0, c.s1, c.s2, 255);
    }
}

/* The distinct colours, in order of appearance, of pictures with few points; the others are left alone.
 * NDRange: a work-item per picture. pixels, offsets, counts: as above. palettes: (pictures, k) uchar4.
 * sizes: (pictures) uint: the number of colours, or k + 1 where there are more than k. */
__kernel void list_colors(__global const uchar *pixels, __global const uint *offsets, __global const uint *counts,
                          __global uchar4 *palettes, __global uint *sizes, const uint k, const uint least,
                          const uint pictures)
{
    const uint picture = get_global_id(0);
    if (picture >= pictures || counts[picture] >= least)
        return;
    __global uchar4 *colors = palettes + (size_t)picture * k;
    uint found = 0;
    for (uint i = offsets[picture]; i < offsets[picture + 1] && found <= k; ++i) {
        __global const uchar *v = pixels + (size_t)i * CHANNELS;
        const uchar4 color = (uchar4)(v[0], v[CHANNELS / 2], v[CHANNELS - 1], 255);
        uint j = 0;
        while (j < found && as_uint(colors[j]) != as_uint(color))
            ++j;
        if (j == found && found++ < k)
            colors[j] = color;
    }
    sizes[picture] = found;
}
