/* What the kernels of Lloyd's algorithm share. See lloyd.cl for the layout of points, centers, tiles and statistics. */
#ifndef DIMS
#define DIMS 3
#endif
/* A center's statistics: weight, sums of coordinates, sums of squared differences by axis. */
#define STATS (1 + 2 * DIMS)

/* Words of `state`. */
#define DONE 0
#define STEPS 1
#define EMPTY 2
#define INERTIA 4

/* The largest r with r * r <= v, v < 2^24. */
uint integer_root(uint v)
{
    uint root = 0;
    for (uint bit = 1u << 11; bit; bit >>= 1)
        if ((root + bit) * (root + bit) <= v)
            root += bit;
    return root;
}

/* The axis along which center j's points differ most, ties to the lowest. totals (STATS, k). */
int widest_axis(__global const ulong *totals, uint k, uint j)
{
    int axis = 0;
    for (int d = 1; d < DIMS; d++)
        axis = totals[(1 + DIMS + d) * k + j] > totals[(1 + DIMS + axis) * k + j] ? d : axis;
    return axis;
}

/* Puts center `taker` one standard deviation of center `giver`, rounded down and at least 1, above it along its widest
 * axis, and `giver` as far below, both within 0..extents. */
void split_center(__global const ulong *totals, uint k, uint k_stride, int4 extents, uint giver, uint taker,
                  __global float *centers)
{
    const int axis = widest_axis(totals, k, giver);
    const uint deviation = integer_root((uint)(totals[(1 + DIMS + axis) * k + giver] / totals[giver]));
    const int extent[4] = {extents.x, extents.y, extents.z, extents.w};
    for (int d = 0; d < DIMS; d++) {
        const float mean = centers[d * k_stride + giver];
        const float shift = d == axis ? (float)max(deviation, 1u) : 0.0f;
        centers[d * k_stride + taker] = min(mean + shift, (float)extent[d]);
        centers[d * k_stride + giver] = max(mean - shift, 0.0f);
    }
}
