/* What the kernels of Lloyd's algorithm share. See kmeans/lloyd.cl for the layout of points, centers, tiles and
 * statistics. */
#ifndef DIMS
#define DIMS 3
#endif
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
