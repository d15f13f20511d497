/* Counting the distinct colours of 16 bits per value in a hash table.
 *
 * A key has 64 bits, and OpenCL C 1.2 has no atomics for them. So a slot holds the number of a pixel instead, plus 1: the
 * one that claimed the slot. A pixel of another colour reads that pixel's colour and goes on to the next slot. Which pixel
 * stands for a colour depends on the order in which they come; the colours and their sums do not.
 *
 * Constants: CHANNELS 1, 3 or 4; BITS of the values, 16, or 8 for v that counts as 257 v; RUN: pixels or slots that
 * follow each other and are one work-item's; ALONE: see count_levels.
 */
#ifndef CHANNELS
#define CHANNELS 3
#endif
#ifndef BITS
#define BITS 16
#endif
#ifndef RUN
#define RUN 16
#endif
#ifndef ALONE
#define ALONE 0
#endif
#if BITS == 16
typedef ushort Sample;
#define WIDE(v) ((ulong)(v))
#else
typedef uchar Sample;
#define WIDE(v) ((ulong)(v) * 257)
#endif

/* What alpha values there are, whatever pixels weigh. */
#define PARTIAL 1
#define CLEAR 2

/* Pixel i: red, green, blue and alpha, 16 bits each, red lowest. */
ulong load_color(__global const Sample *pixels, size_t i)
{
#if CHANNELS == 1
    return WIDE(pixels[i]) * 0x000100010001UL | 0xFFFF000000000000UL;
#else
    const ulong alpha = CHANNELS == 4 ? WIDE(pixels[CHANNELS * i + CHANNELS - 1]) : 0xFFFFUL;
    return WIDE(pixels[CHANNELS * i]) | WIDE(pixels[CHANNELS * i + 1]) << 16 | WIDE(pixels[CHANNELS * i + 2]) << 32 |
           alpha << 48;
#endif
}

/* Adds the pixels of a colour, which pixel i has, to its slot; 1 if it is the slot's first. The table has more slots than
 * there are pixels, so the search ends. */
uint add_color(__global const Sample *pixels, size_t i, ulong color, uint count, uint mask,
               __global volatile uint *owners, __global uint *sums)
{
    const ulong mixed = (color ^ color >> 29) * 0x9E3779B97F4A7C15UL;
    uint slot = (uint)(mixed >> 32) & mask;
    uint owner = atomic_cmpxchg(&owners[slot], 0u, (uint)i + 1);
    while (owner != 0 && load_color(pixels, owner - 1) != color) {
        slot = (slot + 1) & mask;
        owner = atomic_cmpxchg(&owners[slot], 0u, (uint)i + 1);
    }
    atomic_add(&sums[slot], count);
    return owner == 0;
}

/* Adds pixels to the table; those of alpha 0 are only noted.
 * NDRange: 1-D, any size; work-items stride over runs. pixels (n, CHANNELS) Sample, n below 2^31; owners,
 * sums (mask + 1) uint, all 0 before, mask + 1 a power of two above n. notes[0]: pixels of alpha 0, added
 * to (the host bounds their total); notes[1]: gets the bits PARTIAL and CLEAR; notes[2]: colours, added to. */
__kernel void count_deep(__global const Sample *pixels, uint n, uint mask, __global volatile uint *owners,
                         __global uint *sums, __global uint *notes)
{
    uint transparent = 0;
    uint alphas = 0;
    uint found = 0;
    for (size_t begin = (size_t)get_global_id(0) * RUN; begin < n; begin += (size_t)get_global_size(0) * RUN) {
        const size_t end = min(begin + RUN, (size_t)n);
        /* Equal neighbours are counted together. */
        ulong color = load_color(pixels, begin);
        uint count = 0;
        for (size_t i = begin; i < end; i++) {
            const ulong next = load_color(pixels, i);
            const uint alpha = (uint)(next >> 48);
            if (alpha == 0)
                transparent++;
            alphas |= alpha == 0 ? CLEAR : alpha < 65535 ? PARTIAL : 0;
            if (next != color) {
                if (count && color >> 48)
                    found += add_color(pixels, i - 1, color, count, mask, owners, sums);
                color = next;
                count = 0;
            }
            count++;
        }
        if (count && color >> 48)
            found += add_color(pixels, end - 1, color, count, mask, owners, sums);
    }
    if (transparent)
        atomic_add(&notes[0], transparent);
    if (alphas)
        atomic_or(&notes[1], alphas);
    if (found)
        atomic_add(&notes[2], found);
}

/* Counts the levels of gray pixels.
 * NDRange: 1-D, any size; work-items stride over runs. pixels (n) Sample; counts
 * (copies, 65536) uint, added to; each work-group adds to one copy, with ALONE (1) nobody else to it. */
__kernel void count_levels(__global const Sample *pixels, uint n, uint copies, __global uint *counts)
{
    __global uint *own = counts + ((size_t)(get_group_id(0) % copies) << 16);
    for (size_t begin = (size_t)get_global_id(0) * RUN; begin < n; begin += (size_t)get_global_size(0) * RUN) {
        const size_t end = min(begin + RUN, (size_t)n);
        for (size_t i = begin; i < end; i++) {
            const uint level = (uint)WIDE(pixels[i]);
#if ALONE
            own[level]++;
#else
            atomic_inc(&own[level]);
#endif
        }
    }
}

/* Writes the table's colours and sums, in any order.
 * NDRange: 1-D, any size; work-items stride over runs of slots. cursor (1) uint, 0 before; colors (n) ulong; counts (n)
 * uint. */
__kernel void collect_deep(__global const Sample *pixels, __global const uint *owners, __global const uint *sums,
                           uint slots, __global uint *cursor, __global ulong *colors, __global uint *counts)
{
    for (size_t begin = (size_t)get_global_id(0) * RUN; begin < slots; begin += (size_t)get_global_size(0) * RUN) {
        const size_t end = min(begin + RUN, (size_t)slots);
        uint taken = 0;
        for (size_t slot = begin; slot < end; slot++)
            taken += owners[slot] != 0;
        if (taken == 0)
            continue;
        uint at = atomic_add(cursor, taken);
        for (size_t slot = begin; slot < end; slot++)
            if (owners[slot] != 0) {
                colors[at] = load_color(pixels, owners[slot] - 1);
                counts[at] = sums[slot];
                at++;
            }
    }
}
