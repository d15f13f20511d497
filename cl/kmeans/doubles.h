/* IEEE doubles from 0 up, for devices without: sums, squares and quotients, rounded to nearest even.
 *
 * Neither overflow nor subnormal numbers are provided for. */

/* mantissa * 2^exponent; the mantissa has 53 bits, or is 0. */
typedef struct {
    ulong mantissa;
    int exponent;
} Double;

/* (number + part) * 2^exponent, where 0 <= part < 1 and `part` tells whether it is above 0; then number is at least
 * 2^54. */
Double rounded(ulong number, int exponent, int part)
{
    const int shift = (int)clz(number);
    number <<= shift;
    const uint rest = (uint)(number & 2047);
    Double result = {number >> 11, exponent - shift + 11};
    if (rest > 1024 || (rest == 1024 && (part || (result.mantissa & 1))))
        result.mantissa++;
    if (result.mantissa >> 53) {
        result.mantissa >>= 1;
        result.exponent++;
    }
    return result;
}

/* The square of an integer below 2^53. */
Double square_of(ulong number)
{
    const Double zero = {0, 0};
    const ulong high = mul_hi(number, number);
    const ulong low = number * number;
    if (number == 0)
        return zero;
    if (high == 0)
        return rounded(low, 0, 0);
    const int shift = (int)clz(high); /* 22 at least */
    return rounded(high << shift | low >> (64 - shift), 64 - shift, low << shift != 0);
}

Double sum_of(Double a, Double b)
{
    if (a.mantissa == 0)
        return b;
    if (b.mantissa == 0)
        return a;
    const Double more = a.exponent < b.exponent ? b : a;
    const Double less = a.exponent < b.exponent ? a : b;
    const int shift = min(more.exponent - less.exponent, 63);
    const ulong added = less.mantissa << 10;
    const ulong whole = added >> shift;
    return rounded((more.mantissa << 10) + whole, more.exponent - 10, whole << shift != added);
}

/* A number divided by an integer, 1 to 2^39. */
Double quotient_of(Double a, ulong divisor)
{
    const int shift = (int)clz(divisor) - 24;
    divisor <<= shift; /* 2^39 to 2^40 - 1, so that remainders leave room for 24 bits more */
    ulong rest = a.mantissa << 11;
    const ulong high = rest / divisor; /* 2^23 to 2^25 */
    rest = rest - high * divisor << 24;
    const ulong middle = rest / divisor;
    rest = rest - middle * divisor << 8;
    const ulong low = rest / divisor;
    const Double zero = {0, 0};
    if (a.mantissa == 0)
        return zero;
    return rounded(high << 32 | middle << 8 | low, a.exponent + shift - 43, rest != low * divisor);
}

/* The bits of the number: integers in the same order. */
ulong bits_of(Double a)
{
    return a.mantissa ? (ulong)(a.exponent + 1075) << 52 | (a.mantissa & ((1UL << 52) - 1)) : 0;
}
