/* What keeps the search near a pixel's colour: `entry_in_reach` of dithering/reach.h, by scores. After
 * dithering/search_steps.h.
 *
 * Constants: those of mapping/nearest.h.
 */
#include "mapping/nearest.h"
#include "mapping/within.h"

/* What a pixel takes in place of a speck, which costs `penalty` more. point: -2 times the point to which `best` is
 * nearest, with the score `least`. */
int entry_in_reach(int4 color, float4 point, __global const float4 *entries, __global const float *norms, int n_entries,
                   __global const uint *within, int best, float least, float penalty)
{
    const int words = WORDS_OF(n_entries);
    least += penalty;
    for (int word = 0; word < words; word++)
        for (uint bits = bits_within(color, within, words, word); bits; bits &= bits - 1) {
            const int j = entry_of(bits, word);
            const float4 e = entries[j];
            float score = norms[j] + e.x * point.x + e.y * point.y + e.z * point.z;
#if DIMS == 4
            score += e.w * point.w;
#endif
            if (score < least || (score == least && j < best)) {
                least = score;
                best = j;
            }
        }
    return best;
}
