/* A histogram of 2^24 colours R | G << 8 | B << 16 by cubes of side 2: a cube's eight colours are neighbours, in
 * Z-order (one memory sector of 32 bytes); cubes are by red, then green, then blue, which takes fewer operations to
 * find than Z-order does. */

/* The bits of a colour that say which cube it is of. */
#define CUBE_MASK 0xFEFEFEu

/* The bin of a colour: `of_cube` are its bits of CUBE_MASK, `within` its place among the eight of the cube. */
uint bin_in_cube(uint of_cube, uint within)
{
    return ((of_cube >> 1 & 0x7Fu) | (of_cube >> 2 & 0x3F80u) | (of_cube >> 3 & 0x1FC000u)) << 3 | within;
}
