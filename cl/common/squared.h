/* Squared distances of integer points: 32-bit for 8-bit values, where they are at most 2^24 for points and 4 * 255^2 for
 * colours; 64-bit for 16-bit values (coordinates below 2^17, so they are below 2^36, and of doubled points below 2^38).
 *
 * Constants: BITS 8 or 16.
 */
#ifndef MAX_SQUARED
#if defined(BITS) && BITS == 16
typedef long Squared;
typedef long4 Squared4;
#define MAX_SQUARED LONG_MAX
#define convert_squared4 convert_long4
#else
typedef int Squared;
typedef int4 Squared4;
#define MAX_SQUARED INT_MAX
#define convert_squared4 convert_int4
#endif

Squared4 squared_by_axis(int4 d)
{
    const Squared4 wide = convert_squared4(d);
    return wide * wide;
}

Squared squared(int4 d)
{
    const Squared4 each = squared_by_axis(d);
    return each.x + each.y + each.z + each.w;
}
#endif
