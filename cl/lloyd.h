/* What the kernels of Lloyd's algorithm share. See lloyd.cl for the layout of points, centers, tiles and statistics. */
#ifndef DIMS
#define DIMS 3
#endif
/* A center's statistics: weight, sums of coordinates, sums of squared differences. */
#define STATS (1 + 2 * DIMS)

/* Words of `state`. */
#define DONE 0
#define STEPS 1
#define INERTIA 2
#define ARRIVED 4
#define STATE_WORDS 5

/* The largest r with r * r <= v, v < 2^24. */
uint integer_root(uint v)
{
    uint root = 0;
    for (uint bit = 1u << 11; bit; bit >>= 1)
        if ((root + bit) * (root + bit) <= v)
            root += bit;
    return root;
}
