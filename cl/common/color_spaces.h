/* Colour spaces as integer coordinates: the device's twin of clquant/color/spaces.py, equal to it bit for bit.
 *
 * Constants: SPACE 0 sRGB, 1 linear, 2 OKLab, 3 Y Cb Cr; SPACE_ALPHA 1 where alpha is an axis; BITS 8, or 16 for 16-bit
 * values.
 * SPACE_LIGHTNESS has the axes' weights in lightness; alpha's gives transparent and opaque an order too.
 * `tables` is Space.tables() of the host. Definitions, extents and sources are in that module's text.
 * All intermediate values fit 31 bits: roots <= 2^14 and |weights| < 9949, so a row's sum is < 2^29;
 * points <= 2048 times 255 < 2^20. Of 16-bit values roots are <= 2^17, and the terms of a row below 2^30.3 with signs
 * that keep every partial sum below 2^31; colours are mixed with mid-gray in 64 bits.
 */
#ifndef BITS
#define BITS 8
#endif
#define WHITE ((1 << BITS) - 1)
#if BITS == 16
#define SPACE_SCALE (SPACE == 0 ? 257 : SPACE == 3 ? 1 : 32)
typedef ushort Sample;
typedef long4 Blended;
#define convert_blended convert_long4
#else
#define SPACE_SCALE 1
typedef uchar Sample;
typedef int4 Blended;
#define convert_blended convert_int4
#endif

#if SPACE == 3 && BITS == 16
int4 space_point(int4 c, __global const int *tables)
{
    (void)tables;
    const long4 wide = convert_long4(c);
    const long half_unit = 1 << 15;
    const int luma = (int)((19595 * wide.x + 38470 * wide.y + 7471 * wide.z + half_unit) >> 16);
    const int blue = (int)((-11059 * wide.x - 21709 * wide.y + 32768 * wide.z + half_unit) >> 16);
    const int red = (int)((32768 * wide.x - 27439 * wide.y - 5329 * wide.z + half_unit) >> 16);
    return (int4)(luma + 16448, blue + 49216, red + 49216, 0);
}
#define SPACE_NEUTRAL ((int4)(49216, 49216, 49216, 0))
#define SPACE_DEPTH 32767
#elif SPACE == 3
int4 space_point(int4 c, __global const int *tables)
{
    (void)tables;
    const int half_unit = 1 << 13;
    const int luma = (19595 * c.x + 38470 * c.y + 7471 * c.z + half_unit) >> 14;
    const int blue = (-11059 * c.x - 21709 * c.y + 32768 * c.z + half_unit) >> 14;
    const int red = (32768 * c.x - 27439 * c.y - 5329 * c.z + half_unit) >> 14;
    return (int4)(luma + 256, blue + 766, red + 766, 0);
}
#define SPACE_NEUTRAL ((int4)(766, 766, 766, 0))
#define SPACE_DEPTH 510
#elif SPACE == 2
/* Cube root times 2^ROOT_BITS of x / 2^24, 0 <= x <= 2^24: x scaled by powers of 8 into [2^21, 2^24], where the table of
 * roots is read with linear interpolation. */
#define ROOT_BITS (BITS == 16 ? 17 : 14)
int space_cube_root(int x, __global const int *roots)
{
    if (x <= 0)
        return 0;
    const int shift = (x < (1 << 21)) ? ((int)clz(x) - 8) / 3 : 0;
    x <<= 3 * shift;
    const int index = max((x >> 14) - 128, 0);
    const int low = roots[index];
    const int root = low + (((roots[index + 1] - low) * (x & 16383)) >> 14);
    const int drop = 20 - ROOT_BITS + shift;
    return (root + (1 << (drop - 1))) >> drop;
}

int4 space_point(int4 c, __global const int *tables)
{
    const int codes = WHITE + 1;
    __global const int *roots = tables + 9 * codes;
    int lms[3];
    for (int row = 0; row < 3; row++) {
        __global const int *t = tables + row * 3 * codes;
        lms[row] = space_cube_root(min(t[c.x] + t[codes + c.y] + t[2 * codes + c.z], 1 << 24), roots);
    }
    const int drop = BITS == 16 ? 13 : 15;
    const int half_unit = 1 << (drop - 1);
    const int lightness = (862 * lms[0] + 3251 * lms[1] - 17 * lms[2] + half_unit) >> drop;
    const int a = (8102 * lms[0] - 9948 * lms[1] + 1846 * lms[2] + half_unit) >> drop;
    const int b = (106 * lms[0] + 3206 * lms[1] - 3312 * lms[2] + half_unit) >> drop;
    return (int4)(max(lightness, 0), max(a + 480 * SPACE_SCALE, 0), max(b + 640 * SPACE_SCALE, 0), 0);
}
#define SPACE_NEUTRAL ((int4)(1024, 480, 640, 0))
#define SPACE_DEPTH 1024
#define SPACE_LIGHTNESS ((int4)(256, 0, 0, 64))
#elif SPACE == 1
int4 space_point(int4 c, __global const int *tables)
{
    return (int4)(tables[c.x], tables[c.y], tables[c.z], 0);
}
#define SPACE_NEUTRAL ((int4)(1024, 1024, 1024, 0))
#define SPACE_DEPTH 1773
#define SPACE_LIGHTNESS ((int4)(54, 183, 19, 64))
#else
int4 space_point(int4 c, __global const int *tables)
{
    (void)tables;
    return (int4)(c.x << SPACE_ALPHA, c.y << SPACE_ALPHA, c.z << SPACE_ALPHA, 0);
}
#define SPACE_NEUTRAL ((int4)(255, 255, 255, 0))
#define SPACE_DEPTH 442
#define SPACE_LIGHTNESS ((int4)(77, 150, 29, 64))
#endif

/* Coordinates of a colour (R, G, B, alpha) of BITS a value; the fourth is 0 where alpha is no axis. */
int4 space_coordinates(int4 c, __global const int *tables)
{
    int4 point = space_point(c, tables);
#if SPACE_ALPHA
    if (c.w < WHITE) {
        const Blended neutral = convert_blended(SPACE_NEUTRAL * SPACE_SCALE);
        point = convert_int4((convert_blended(point) * c.w + neutral * (WHITE - c.w) + WHITE / 2) / WHITE);
    }
#if BITS == 16
    point.w = (int)(((long)c.w * (SPACE_DEPTH * SPACE_SCALE) + WHITE / 2) / WHITE);
#else
    point.w = (c.w * SPACE_DEPTH + WHITE / 2) / WHITE;
#endif
#endif
    return point;
}
