/* What keeps dithers near a pixel's colour; after mapping/nearest.h. Kernels take bounds (entries) int4: the most of the
 * error that an entry passes on, of its first component and the alpha, of the others, and of the pinwheel's errors in
 * 1/16; n_entries; speck: entries with a larger `gap` to a pixel's colour are specks (clquant/dithering/bounds.py).
 *
 * Constants: PENALTY, what is added to a speck's squared distance.
 */

/* What a pixel shows in place of a speck: the entry nearest to a point with the penalty, the lowest of equals. */
int entry_in_reach(int4 point, int4 color, __global const int4 *points, __global const int4 *colors, int n_entries,
                   int speck)
{
    Squared least = MAX_SQUARED;
    int nearest = 0;
    for (int i = 0; i < n_entries; i++) {
        Squared distance = squared(point - points[i]);
#if defined(SEARCH) && SEARCH == IN_LANES /* CPUs: a branch costs less than a gap with alpha */
        if (distance >= least)
            continue;
#endif
        distance += gap(color, colors[i]) > speck ? PENALTY : 0;
        nearest = distance < least ? i : nearest;
        least = min(distance, least);
    }
    return nearest;
}
