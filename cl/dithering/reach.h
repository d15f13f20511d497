/* What keeps dithers near a pixel's colour; after mapping/nearest.h. Kernels take bounds (entries) int4: the most of the
 * error that an entry passes on, of its first component and the alpha, of the others, and of the pinwheel's errors in
 * 1/16; n_entries; speck: entries with a larger `gap` to a pixel's colour are specks (clquant/dithering/bounds.py).
 *
 * Constants: PENALTY, what is added to a speck's squared distance.
 */

/* Entries whose loads do not wait for each other. On CPUs a branch costs less than a gap with alpha. */
#ifdef FOR_CPUS
#define AT_ONCE 1
#else
#define AT_ONCE 4
#endif
#define POINTS_ARE_VALUES (SPACE == 0 && !SPACE_ALPHA)

/* The least distance of a point to the entries `first`, `first + step`, ..., of specks with the penalty; of equals the
 * lowest. */
Squared least_in_reach(int4 point, int4 color, __global const int4 *points, __global const int4 *colors, int n_entries,
                       int speck, int first, int step, int *nearest)
{
    Squared least = MAX_SQUARED;
    for (int i = first; i < n_entries; i += AT_ONCE * step) {
        int4 at[AT_ONCE], value[AT_ONCE];
        int entry[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++) {
            entry[j] = min(i + j * step, n_entries - 1);
            at[j] = points[entry[j]];
            value[j] = POINTS_ARE_VALUES ? at[j] : colors[entry[j]];
        }
        for (int j = 0; j < AT_ONCE; j++) {
            Squared distance = squared(point - at[j]);
            if (AT_ONCE == 1 && distance >= least)
                continue;
            distance += gap(color, value[j]) > speck ? PENALTY : 0;
            *nearest = distance < least ? entry[j] : *nearest;
            least = min(distance, least);
        }
    }
    return least;
}

/* What a pixel shows in place of a speck: the entry nearest to a point with the penalty, the lowest of equals. */
int entry_in_reach(int4 point, int4 color, __global const int4 *points, __global const int4 *colors, int n_entries,
                   int speck)
{
    int nearest = 0;
    least_in_reach(point, color, points, colors, n_entries, speck, 0, 1, &nearest);
    return nearest;
}
