/* What keeps the search near a pixel's colour: `within_reach` of dithering/reach.h, with the entry of the least score
 * among those that are: of more entries than other dithers look at, so its reach is 7/8 of theirs. After dithering/search_steps.h.
 *
 * Constants: those of mapping/nearest.h and dithering/reach.h.
 */
#include "mapping/nearest.h"
#include "dithering/reach.h"

/* Scores of entries that are never taken begin here. */
#define NEVER 1073741824.0f

inline float score_of(float4 entry, float norm, float4 point)
{
    float score = norm + entry.x * point.x + entry.y * point.y + entry.z * point.z;
#if DIMS == 4
    score += entry.w * point.w;
#endif
    return score;
}

/* What a pixel takes in place of an entry with a gap over SPECK. point, own_point: -2 times the point whose nearest entry
 * is wanted, and the colour's own; barred: an entry that is not to be taken, or -1. */
int entry_in_reach(int entry, int4 color, float4 point, float4 own_point, __global const float4 *entries,
                   __global const float *norms, int n_entries, int barred, __global const int4 *colors,
                   __global const int4 *bounds)
{
    int own = entry;
    float least = FLT_MAX;
    for (int j = 0; j < n_entries; j++) {
        const float score = score_of(entries[j], norms[j], own_point);
        if (score < least && j != barred) {
            least = score;
            own = j;
        }
    }
    int least_gap = gap(color, colors[own]);
#if CLOSEST
    if (least_gap > SPECK)
        least_gap = gap(color, colors[closest_entry(color, colors, n_entries)]);
#endif
    const int reach = max(SPECK, bounds[own].z / 8 * 7) + (least_gap > SPECK ? least_gap : 0);
    if (gap(color, colors[entry]) <= reach)
        return entry;
    int best = own;
    least = FLT_MAX;
    for (int j = 0; j < n_entries; j++) {
        const float score = score_of(entries[j], norms[j], point);
        if (score < least && j != barred && norms[j] < NEVER && gap(color, colors[j]) <= reach) {
            least = score;
            best = j;
        }
    }
    return best;
}
