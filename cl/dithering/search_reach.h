/* What keeps the search near a pixel's colour: `entry_in_reach` of dithering/reach.h, by scores. After
 * dithering/search_steps.h.
 *
 * Constants: those of mapping/nearest.h.
 */
#include "mapping/nearest.h"

/* What a pixel takes in place of a speck, an entry with a gap over `speck` to its colour: these cost `penalty`
 * more. point: -2 times the point whose nearest entry is wanted; barred: an entry that is not to be taken, or -1. */
int entry_in_reach(int4 color, float4 point, __global const float4 *entries, __global const float *norms, int n_entries,
                   int barred, __global const int4 *colors, int speck, float penalty)
{
    int best = 0;
    float least = FLT_MAX;
    for (int j = 0; j < n_entries; j++) {
        const float4 e = entries[j];
        float score = norms[j] + e.x * point.x + e.y * point.y + e.z * point.z;
#if DIMS == 4
        score += e.w * point.w;
#endif
#if defined(FOR_CPUS) && SPACE_ALPHA /* a branch costs less than a gap with alpha */
        if (score >= least)
            continue;
#endif
        score += gap(color, colors[j]) > speck ? penalty : 0.0f;
        if (score < least && j != barred) {
            least = score;
            best = j;
        }
    }
    return best;
}
