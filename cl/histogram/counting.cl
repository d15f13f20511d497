/* Counting the distinct colours of pictures.
 *
 * Opaque colours go through a histogram with one bin a 24-bit colour, in Z-order, from which bins.cl collects the
 * occupied ones. Colours with alpha go through a hash table of 32-bit keys, and are brought into Z-order afterwards.
 * All sums are integers below 2^32 (the host bounds the total weight), so their order does not matter.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels; WEIGHTED 1 if every pixel has a weight; LOADS 1 on NVIDIA, where a
 * volatile read is a relaxed atomic one (PTX ISA, ld.volatile), so that a slot is claimed only if it was seen free.
 */
#include "common/z_order.h"

#ifndef CHANNELS
#define CHANNELS 3
#endif
#ifndef WEIGHTED
#define WEIGHTED 0
#endif
#ifndef LOADS
#define LOADS 0
#endif
/* Pixel i as (R, G, B, alpha). */
uint4 load_pixel(__global const uchar *pixels, size_t i)
{
#if CHANNELS == 1
    const uint v = pixels[i];
    return (uint4)(v, v, v, 255);
#elif CHANNELS == 3
    return (uint4)(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2], 255);
#else
    return convert_uint4(vload4(i, pixels));
#endif
}

/* Four pixels from pixel 4 * i on, read as whole words. */
void load_4_pixels(__global const uchar *pixels, size_t i, uint4 *out)
{
#if CHANNELS == 3
    const uint3 w = vload3(i, (__global const uint *)pixels);
    out[0] = (uint4)(w.x & 255, (w.x >> 8) & 255, (w.x >> 16) & 255, 255);
    out[1] = (uint4)(w.x >> 24, w.y & 255, (w.y >> 8) & 255, 255);
    out[2] = (uint4)((w.y >> 16) & 255, w.y >> 24, w.z & 255, 255);
    out[3] = (uint4)((w.z >> 8) & 255, (w.z >> 16) & 255, w.z >> 24, 255);
#else
    for (int j = 0; j < 4; j++)
        out[j] = load_pixel(pixels, 4 * i + j);
#endif
}

/* What alpha values there are, whatever pixels weigh. */
#define PARTIAL 1
#define CLEAR 2

/* Adds the weight of one pixel to its bin if that is within the slice; alpha below 255 is only noted. */
void count_one(uint4 c, uint weight, __global uint *bins, uint first_bin, uint n_bins, uint *transparent, uint *alphas)
{
    if (c.w == 0) {
        *transparent += weight;
        *alphas |= CLEAR;
    } else if (c.w < 255)
        *alphas |= PARTIAL;
    else {
        const uint bin = z_order_rgb(c.x, c.y, c.z) - first_bin;
        if (bin < n_bins && weight)
            atomic_add(&bins[bin], weight);
    }
}

/* Histogram of opaque colours, bins first_bin .. first_bin + n_bins - 1 of 2^24.
 * NDRange: 1-D, any size; work-items stride over groups of four pixels.
 * pixels (n, CHANNELS) uchar, 4-byte aligned; weights (n) uint, read where WEIGHTED; bins (n_bins) uint, added to.
 * notes[0]: weight of pixels with alpha 0, added to; notes[1]: gets the bits PARTIAL and CLEAR. */
__kernel void count_opaque(__global const uchar *pixels, __global const uint *weights, uint n, uint first_bin,
                           uint n_bins, __global uint *bins, __global uint *notes)
{
    uint transparent = 0;
    uint alphas = 0;
    uint4 c[4];
    for (uint i = get_global_id(0); i < n / 4; i += get_global_size(0)) {
        load_4_pixels(pixels, i, c);
#if WEIGHTED
        for (int j = 0; j < 4; j++)
            count_one(c[j], weights[4 * i + j], bins, first_bin, n_bins, &transparent, &alphas);
#else
        const int4 same = (c[0] == c[1]) & (c[0] == c[2]) & (c[0] == c[3]);
        if (all(same))
            count_one(c[0], 4, bins, first_bin, n_bins, &transparent, &alphas);
        else
            for (int j = 0; j < 4; j++)
                count_one(c[j], 1, bins, first_bin, n_bins, &transparent, &alphas);
#endif
    }
    if (get_global_id(0) < n % 4) {
        const uint rest = n / 4 * 4 + get_global_id(0);
#if WEIGHTED
        count_one(load_pixel(pixels, rest), weights[rest], bins, first_bin, n_bins, &transparent, &alphas);
#else
        count_one(load_pixel(pixels, rest), 1, bins, first_bin, n_bins, &transparent, &alphas);
#endif
    }
    if (transparent)
        atomic_add(&notes[0], transparent);
    if (alphas)
        atomic_or(&notes[1], alphas);
}

/* Adds pixels to a hash table of Z-order codes; alpha 0 is only noted, so code 0 marks a free slot.
 * NDRange: 1-D, any size; work-items stride over pixels. keys, sums (mask + 1) uint, mask + 1 a power of two.
 * notes[0]: weight of alpha 0, added to; notes[1]: gets the bits PARTIAL and CLEAR; notes[2]: set to 1 where the table
 * is too full (then all of it is void). */
__kernel void count_hashed(__global const uchar *pixels, __global const uint *weights, uint n, uint mask,
                           __global volatile uint *keys, __global uint *sums, __global uint *notes)
{
    const uint most_probes = 64;
    uint transparent = 0;
    uint alphas = 0;
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint4 c = load_pixel(pixels, i);
#if WEIGHTED
        const uint weight = weights[i];
#else
        const uint weight = 1;
#endif
        if (c.w == 0) {
            transparent += weight;
            alphas |= CLEAR;
            continue;
        }
        if (c.w < 255)
            alphas |= PARTIAL;
        const uint key = z_order_rgba(c.x, c.y, c.z, c.w);
        uint slot = (key * 0x9E3779B1u) ^ (key >> 15);
        uint probes = weight ? 0 : most_probes + 1;
        while (probes < most_probes) {
            slot &= mask;
            uint held = LOADS ? keys[slot] : 0;
            if (held == 0)
                held = atomic_cmpxchg(&keys[slot], 0u, key);
            if (held == 0 || held == key) {
                atomic_add(&sums[slot], weight);
                probes = most_probes + 1;
            } else {
                slot++;
                probes++;
            }
        }
        if (probes == most_probes)
            atomic_or(&notes[2], 1u);
    }
    if (transparent)
        atomic_add(&notes[0], transparent);
    if (alphas)
        atomic_or(&notes[1], alphas);
}

/* Files the taken slots of a hash table under cells of the colour space: the high 16 bits of the code.
 * NDRange: 1-D, a work-item a slot, guarded by slots. With `place` 0 counts each cell's colours into cursors (2^16);
 * with 1 cursors holds where each cell's colours go, is moved on, and codes and counts are written there, in any order
 * within a cell. */
__kernel void file_hashed(__global const uint *keys, __global const uint *sums, uint slots, int place,
                          __global uint *cursors, __global uint *codes, __global uint *counts)
{
    const uint slot = get_global_id(0);
    if (slot >= slots || keys[slot] == 0)
        return;
    const uint at = atomic_inc(&cursors[keys[slot] >> 16]);
    if (place) {
        codes[at] = keys[slot];
        counts[at] = sums[slot];
    }
}

/* Orders each cell's colours by code, each going to the place that its rank gives: for few colours.
 * NDRange: 1-D, a work-item per colour, guarded by n. starts (2^16 + 1) uint; codes, code_counts (n) uint as
 * file_hashed leaves them; colors (n) uint packed; counts (n) uint. */
__kernel void order_cells(uint n, __global const uint *starts, __global const uint *codes,
                          __global const uint *code_counts, __global uint *colors, __global uint *counts)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const uint code = codes[i];
    const uint first = starts[code >> 16];
    const uint end = starts[(code >> 16) + 1];
    uint rank = first;
    for (uint j = first; j < end; j++)
        rank += codes[j] < code;
    colors[rank] = packed_rgba(code);
    counts[rank] = code_counts[i];
}

/* The words of a cell's bitmap, and how many of them are counted together. */
#define BITMAP (1 << 11)
#define CHUNK 8

/* The same for many colours: a cell's codes are distinct, so those below one are the bits below its own in a bitmap.
 * NDRange: 1-D, 2^16 work-groups of any size, one a cell. bits: BITMAP uint; before: BITMAP / CHUNK uint. */
__kernel void rank_cells(__global const uint *starts, __global const uint *codes, __global const uint *code_counts,
                         __global uint *colors, __global uint *counts, __local uint *bits, __local uint *before)
{
    const uint lid = get_local_id(0);
    const uint size = get_local_size(0);
    const uint first = starts[get_group_id(0)];
    const uint end = starts[get_group_id(0) + 1];
    const uint words = end > first ? BITMAP : 0;
    for (uint i = lid; i < words; i += size)
        bits[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = first + lid; i < end; i += size)
        atomic_or(&bits[(codes[i] & 0xFFFF) >> 5], 1u << (codes[i] & 31));
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint chunk = lid; chunk < words / CHUNK; chunk += size) {
        uint found = 0;
        for (uint i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++)
            found += popcount(bits[i]);
        before[chunk] = found;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint sum = 0;
    for (uint chunk = 0; chunk < (lid == 0 ? words / CHUNK : 0); chunk++) {
        const uint found = before[chunk];
        before[chunk] = sum;
        sum += found;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = first + lid; i < end; i += size) {
        const uint word = (codes[i] & 0xFFFF) >> 5;
        uint rank = first + before[word / CHUNK] + popcount(bits[word] & ((1u << (codes[i] & 31)) - 1));
        for (uint w = word / CHUNK * CHUNK; w < word; w++)
            rank += popcount(bits[w]);
        colors[rank] = packed_rgba(codes[i]);
        counts[rank] = code_counts[i];
    }
}
