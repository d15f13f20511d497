/* What kmeans/seeding.cl, which has the source and the layout, and kmeans/lloyd_grid_seeding.cl share. */

/* Four points' squared distances, lowered by the centers first .. first + count - 1. */
float4 lowered(float4 best, const float4 *x, CENTERS const float *centers, uint k_stride, uint first, uint count)
{
    FEW_TURNS
    for (uint j = first; j < first + count; j++) {
        float4 distance = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++) {
            const float4 difference = x[d] - centers[d * k_stride + j];
            distance += difference * difference;
        }
        best = min(best, distance);
    }
    return best;
}

/* Where the j-th of `count` draws from `total` falls, in its stratum; the center's random number is that of counter
 * (first + j, 0, 0, 0). */
ulong drawn_target(uint first, uint j, uint count, ulong total, uint2 key)
{
    const ulong stratum = max(total / count, (ulong)1);
    const uint4 random = philox4x32((uint4)(first + j, 0, 0, 0), key);
    const ulong wide = ((ulong)random.y << 32) | random.x;
    return min(j * stratum + mul_hi(wide, stratum), total ? total - 1 : 0);
}
