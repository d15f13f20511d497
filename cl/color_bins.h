/* A histogram of 2^24 colours by cubes of side 2: a cube's eight colours are neighbours, in Z-order (one memory sector
 * of 32 bytes); cubes are by red, then green, then blue, which takes fewer operations to find than Z-order does. */

#define CUBE_BITS 21

/* The bin of R | G << 8 | B << 16 (other bits are not looked at), or of gray where CHANNELS is 1. */
uint bin_of_color(uint key)
{
#if CHANNELS == 1
    key *= 0x010101u;
#endif
    const uint cube = (key >> 1 & 0x7Fu) | (key >> 2 & 0x3F80u) | (key >> 3 & 0x1FC000u);
    return cube << 3 | ((key & 0x010101u) * 0x40201u >> 16 & 7u);
}
