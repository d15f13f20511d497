/* What all forms that assign points of tiles by work-items share (see kmeans/lloyd.cl for the layout, and why it is exact).
 */

/* The greatest lead that a center c has over the pivot s within a box: max over it of |x - s|^2 - |x - c|^2. */
float greatest_lead(const float *low, const float *high, const float *s, const float *c)
{
    float lead = 0.0f;
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
        const float at_low = (low[d] - s[d]) * (low[d] - s[d]) - (low[d] - c[d]) * (low[d] - c[d]);
        const float at_high = (high[d] - s[d]) * (high[d] - s[d]) - (high[d] - c[d]) * (high[d] - c[d]);
        lead += max(at_low, at_high);
    }
    return lead;
}

/* Unrolled, so that x stays in registers. PoCL 3.0 needs this to be right: LLVM retypes a private array of 16 bytes that
 * a loop fills and a vector is read from, and PoCL then takes the address of one work-item's array for all of them. */
void load_point(__global const float *points, uint stride, uint i, float *x)
{
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        x[d] = points[d * stride + i];
}
