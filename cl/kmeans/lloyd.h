/* What the kernels of Lloyd's algorithm share. See kmeans/lloyd.cl for the layout of points, centers, tiles and
 * statistics. */
/* A center's statistics: weight, sums of coordinates, sums of squared differences. */
#define STATS (1 + 2 * DIMS)
/* A statistic of center j in `totals` of k centers. */
#ifndef TOTAL
#define TOTAL(totals, k, statistic, j) (totals)[(statistic) * (k) + (j)]
#endif
/* The address space of centers that are moved. */
#ifndef CENTERS
#define CENTERS __global
#endif

/* Words of `state`. */
#define DONE 0
#define STEPS 1
#define INERTIA 2
#define STATE_WORDS 4

/* The largest r with r * r <= v, v < 2^24. */
uint integer_root(uint v)
{
    uint root = 0;
    for (uint bit = 1u << 11; bit; bit >>= 1)
        if ((root + bit) * (root + bit) <= v)
            root += bit;
    return root;
}

/* Puts center `taker` above and center `giver` below where the latter is by a standard deviation, rounded down and at
 * least 1, within 0..extents: on one axis, or with axis = DIMS on all. The variance is below 2^24. */
void set_apart(CENTERS float *centers, uint k_stride, int4 extents, uint giver, uint taker, int axis, ulong variance)
{
    const float deviation = (float)max(integer_root((uint)variance), 1u);
    const int extent[4] = {extents.x, extents.y, extents.z, extents.w};
    float place[DIMS];
    for (int d = 0; d < DIMS; d++)
        place[d] = centers[d * k_stride + giver];
    for (int d = 0; d < DIMS; d++) {
        const float shift = axis == d || axis == DIMS ? deviation : 0.0f;
        centers[d * k_stride + taker] = min(place[d] + shift, (float)extent[d]);
        centers[d * k_stride + giver] = max(place[d] - shift, 0.0f);
    }
}

/* A mean, rounded half up, below 2^12; weight above 0. Divided in floats, whose rounding may put the quotient one off,
 * and then made right: a 64-bit division takes many times as long on a GPU. */
float mean_of(ulong sum, ulong weight)
{
    const ulong twice = 2 * sum + weight;
    int mean = (int)((float)twice / (float)(2 * weight));
    const long rest = (long)(twice - 2 * weight * (uint)mean);
    mean += rest < 0 ? -1 : rest >= (long)(2 * weight);
    return (float)mean;
}

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
