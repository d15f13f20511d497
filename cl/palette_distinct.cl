// The distinct colours of a picture, if they are few.
//
// Constants from the host:
//   CHANNELS  bytes a pixel: 1, 3 or 4
//   SLOTS     entries of the hash table, a power of two, at least twice `most` + 1

// Enters the colours of pixels, R | G << 8 | B << 16 | alpha << 24, in an open-addressing table until there are more
// than `most`; then only alpha values are looked at. Which slot a colour takes depends on scheduling; which colours
// there are does not, nor whether there are too many.
//
// NDRange: any; work-items take pixels in turn.
//   pixels  uchar (count, CHANNELS)
//   table   uint (SLOTS), 0 is free: pixels of alpha 0 are not entered
//   found   uint (2), zero before the first launch: colours entered; bit 0: some alpha is 0, bit 1: some is 1 to 254
__kernel void palette_distinct(__global const uchar *restrict pixels, const uint count, const uint most,
                               volatile __global uint *table, volatile __global uint *found)
{
    uint last = 0, seen = 0;
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
#if CHANNELS == 1
        const uint color = 0xff000000u | pixels[i] * 0x010101u;
#elif CHANNELS == 3
        const uint color = 0xff000000u | pixels[3 * i] | pixels[3 * i + 1] << 8 | pixels[3 * i + 2] << 16;
#else
        const uint alpha = pixels[4 * i + 3];
        const uint color = alpha << 24 | pixels[4 * i] | pixels[4 * i + 1] << 8 | pixels[4 * i + 2] << 16;
        seen |= alpha == 0 ? 1u : alpha < 255 ? 2u : 0u;
        if (alpha == 0)
            continue;
#endif
        if (color == last)
            continue;
        last = color;
        uint slot = (color * 2654435769u) >> 7;
        bool open = true;
        while (open && found[0] <= most) {
            slot &= SLOTS - 1;
            uint there = table[slot];
            if (there == 0) {
                there = atomic_cmpxchg(&table[slot], 0u, color);
                if (there == 0)
                    atomic_inc(&found[0]);
            }
            open = there != 0 && there != color;
            ++slot;
        }
#if CHANNELS < 4
        if (open)
            break;
#endif
    }
    if (seen & ~found[1])
        atomic_or(&found[1], seen);
}
