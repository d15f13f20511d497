/* The distinct colours of many small pictures, a work-group each.
 *
 * Constants from the host:
 *   LOCAL     work-items of a group, a power of two
 *   CHANNELS  of a pixel: 1, 3 or 4
 *   PLACES    1: pixels' places in the list of colours are noted, as is done on CPUs, where LOCAL is 1 */

#define TRANSPARENT 1u
#define PARTIAL 2u

#if LOCAL == 1
uint put(__global uint *slot, const uint color)
{
    const uint there = *slot;
    if (there == 0)
        *slot = color;
    return there;
}
#define ADD(address, value) (*(address) += (value))
#define NEXT(address) ((*(address))++)
#define OR(address, value) (*(address) |= (value))
#else
#define put(slot, color) atomic_cmpxchg(slot, 0u, color)
#define ADD(address, value) atomic_add(address, value)
#define NEXT(address) atomic_inc(address)
#define OR(address, value) atomic_or(address, value)
#endif

/* R, G, B, alpha in one word, the lowest byte first. */
uint packed_color(__global const uchar *pixels, const uint pixel)
{
    __global const uchar *p = pixels + (size_t)pixel * CHANNELS;
#if CHANNELS == 1
    return 0xff000000u | p[0] * 0x10101u;
#elif CHANNELS == 3
    return 0xff000000u | (uint)p[2] << 16 | (uint)p[1] << 8 | p[0];
#else
    return (uint)p[3] << 24 | (uint)p[2] << 16 | (uint)p[1] << 8 | p[0];
#endif
}

#if PLACES
/* What follows, by one work-item: `table` has colours and their places. */
uint list_colors(__global const uchar *restrict pixels, const uint begin, const uint end, const uint slots,
                 const uint most, __global uint *restrict table, __global uint *restrict colors,
                 __global uint2 *restrict listed, __global ushort *restrict places, uint *alphas)
{
    const uint shift = clz(slots) + 1;
    uint number = 0, last = 0, place = 0;
    for (uint i = begin; i < end; ++i) {
        const uint color = packed_color(pixels, i);
        colors[i] = color;
#if CHANNELS == 4
        const uint alpha = color >> 24;
        if (alpha < 255)
            *alphas |= alpha == 0 ? TRANSPARENT : PARTIAL;
        if (alpha == 0)
            continue;
#endif
        if (color != last && number <= most) {
            last = color;
            uint slot = color * 2654435769u >> shift;
            while (table[2 * slot] != 0 && table[2 * slot] != color)
                slot = (slot + 1) & (slots - 1);
            if (table[2 * slot] == 0) {
                vstore2((uint2)(color, number), slot, table);
                listed[begin + number++] = (uint2)(color, 0);
            }
            place = table[2 * slot + 1];
        }
        ++listed[begin + place].y;
        places[i] = (ushort)place;
    }
    for (uint slot = 0; slot < slots; ++slot)
        vstore2((uint2)(0), slot, table);
    return number;
}
#endif

/* Colours with alpha above 0 and how many pixels have each, until there are more than `most`; what alphas there are.
 *
 * NDRange: (groups * LOCAL); group g takes the pictures g, g + groups, ...
 *   pixels    uchar (all pixels, CHANNELS), picture after picture
 *   offsets   uint (pictures + 1): each one's first pixel
 *   tables    uint2 (groups, slots), zero before and after: scratch
 *   colors    uint (all pixels): each pixel's colour
 *   listed    uint2 (all pixels): from each picture's first pixel on its colours, in any order, and their pixels
 *   firsts    uint (pictures, asked): the first of these
 *   found     uint2 (pictures): how many, or more than `most`; TRANSPARENT | PARTIAL
 *   places    ushort (all pixels), if PLACES: where each pixel's colour stands in its picture's list; left as it is
 *             if alpha is 0, and if there are more than `most`
 *   sizes     pictures, slots (a power of two, at least twice as many as a picture has pixels or as most + LOCAL),
 *             most, asked */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void neuquant_many_colors(
    __global const uchar *restrict pixels, __global const uint *restrict offsets, __global uint *restrict tables,
    __global uint *restrict colors, __global uint2 *restrict listed, __global uint *restrict firsts,
    __global uint2 *restrict found, const uint4 sizes
#if PLACES
    ,
    __global ushort *restrict places
#endif
)
{
    const uint pictures = sizes.s0, slots = sizes.s1, most = sizes.s2, asked = sizes.s3;
    __global uint *table = tables + (size_t)get_group_id(0) * 2 * slots;
#if PLACES
    for (uint picture = get_group_id(0); picture < pictures; picture += get_num_groups(0)) {
        const uint begin = offsets[picture];
        uint alphas = 0;
        const uint number =
            list_colors(pixels, begin, offsets[picture + 1], slots, most, table, colors, listed, places, &alphas);
        for (uint i = 0; i < min(number, asked); ++i)
            firsts[picture * asked + i] = listed[begin + i].x;
        found[picture] = (uint2)(number, alphas);
    }
#else
    const uint item = get_local_id(0), shift = clz(slots) + 1;
    __local uint number, alphas, place;
    for (uint picture = get_group_id(0); picture < pictures; picture += get_num_groups(0)) {
        const uint begin = offsets[picture], end = offsets[picture + 1];
        if (item == 0)
            number = alphas = place = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint last = 0, run = 0, last_slot = 0, full = 0;
        for (uint i = begin + item; i < end; i += LOCAL) {
            const uint color = packed_color(pixels, i);
            colors[i] = color;
#if CHANNELS == 4
            const uint alpha = color >> 24;
            if (alpha < 255)
                OR(&alphas, alpha == 0 ? TRANSPARENT : PARTIAL);
            if (alpha == 0)
                continue;
#endif
            if (color == last) {
                ++run;
                continue;
            }
            if (run > 0)
                ADD(&table[2 * last_slot + 1], run);
            last = run = 0;
            if (full)
                continue;
            uint slot = color * 2654435769u >> shift;
            uint there = put(&table[2 * slot], color);
            while (there != 0 && there != color) {
                slot = (slot + 1) & (slots - 1);
                there = put(&table[2 * slot], color);
            }
            if (there == 0)
                full = NEXT(&number) >= most;
            last = color;
            last_slot = slot;
            run = 1;
        }
        if (run > 0)
            ADD(&table[2 * last_slot + 1], run);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (uint slot = item; slot < slots; slot += LOCAL) {
            const uint2 entry = vload2(slot, table);
            if (entry.x != 0) {
                const uint at = NEXT(&place);
                vstore2((uint2)(0), slot, table);
                listed[begin + at] = entry;
                if (at < asked)
                    firsts[picture * asked + at] = entry.x;
            }
        }
        if (item == 0)
            found[picture] = (uint2)(number, alphas);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
#endif
}
