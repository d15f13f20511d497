/* How good a cut of a box is: what the means of both parts take off the sum of squares.
 *
 * Parts have a weight, then DIMS weighted coordinates. Constants: DIMS 3 or 4.
 */
#include "kmeans/doubles.h"

/* About the sum of |sum|^2 / weight over two parts, with coordinates from the mean of the whole on: 14 roundings of at
 * most 2^-24, or 2.5 times that of divisions, add only numbers from 0 up, so that it is right to 2^-19 of it. */
float rough_gain(const ulong *first, const ulong *whole, const ulong *mean)
{
    const ulong mass = whole[0] - first[0];
    float before = 0.0f;
    float after = 0.0f;
#pragma unroll
    for (uint d = 0; d < DIMS; d++) {
        const float a = (float)(long)(first[1 + d] - first[0] * mean[d]);
        const float b = (float)(long)(whole[1 + d] - first[1 + d] - mass * mean[d]);
        before += a * a;
        after += b * b;
    }
    return before / (float)first[0] + after / (float)mass;
}

/* The bits of the sum of |sum|^2 / weight over two parts, in doubles: first all squares of a part, axis by axis. */
ulong gain_of(const ulong *first, const ulong *whole)
{
    Double gain = {0, 0};
    FEW_TURNS
    for (uint part = 0; part < 2; part++) {
        Double squares = {0, 0};
        FEW_TURNS
        for (uint d = 1; d <= DIMS; d++)
            squares = sum_of(squares, square_of(part ? whole[d] - first[d] : first[d]));
        gain = sum_of(gain, quotient_of(squares, part ? whole[0] - first[0] : first[0]));
    }
    return bits_of(gain);
}
