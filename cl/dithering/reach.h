/* What keeps dithers near a pixel's colour; after mapping/nearest.h. Kernels take n_entries; speck: entries with a
 * larger `gap` to a pixel's colour are specks (clquant/dithering/bounds.py); within: mapping/within.h; and how much of
 * an error each entry passes on at most.
 *
 * Constants: PENALTY, what is added to a speck's squared distance; REACH_POINTS, a pointer to the entries' points where
 * they are not int4 in global memory.
 */
#include "mapping/within.h"

#ifndef REACH_POINTS
#define REACH_POINTS __global const int4 *
#endif

/* Entries whose loads do not wait for each other. */
#ifdef FOR_CPUS
#define AT_ONCE 1
#else
#define AT_ONCE 4
#endif

/* The nearest of at most 16 entries whose points are their values; `penalty` is added for specks. */
#ifndef FEW_COUNT /* how often entries are compared, the last one again and again, where a loop is to be unrolled */
#define FEW_COUNT n_entries
#endif
int entry_of_few(int4 point, int4 color, REACH_POINTS points, int n_entries, int speck, int penalty)
{
    int best = INT_MAX;
    for (int i = 0; i < FEW_COUNT; i++) {
        const int4 other = convert_int4(points[min(i, n_entries - 1)]);
        const int distance = (int)squared(point - other) + (gap(color, other) > speck ? penalty : 0);
        best = min(best, distance << 8 | i);
    }
    return best & 255;
}

/* Added to the squared distances of specks where a colour is opaque and no entry is. */
#define BARRED (MAX_SQUARED / 4)

/* What a pixel shows in place of a speck: the entry nearest to a point with the penalty, the lowest of equals. All are
 * compared only where a speck may win; of an opaque colour the opaque ones, which `within` has at alpha 255. */
int entry_in_reach(int4 point, int4 color, REACH_POINTS points, __global const int4 *colors,
                   __global const uint *within, int n_entries, int speck)
{
    const int words = WORDS_OF(n_entries);
    int nearest = 0, entry[AT_ONCE];
    Squared least = MAX_SQUARED, distance[AT_ONCE];
    uint next = bits_within(color, within, words, 0);
    for (int word = 0; word < words; word++) {
        uint bits = next;
        next = word + 1 < words ? bits_within(color, within, words, word + 1) : 0;
        while (bits) {
            for (int j = 0; j < AT_ONCE; j++, bits &= bits - 1) {
                entry[j] = bits ? entry_of(bits, word) : entry[0];
                distance[j] = squared(point - convert_int4(points[entry[j]]));
            }
            for (int j = 0; j < AT_ONCE; j++)
                if (distance[j] < least && (BITS == 8 || gap(color, colors[entry[j]]) <= speck)) {
                    least = distance[j];
                    nearest = entry[j];
                }
        }
    }
    if (least < PENALTY)
        return nearest;
    int has_opaque = 0;
    Squared extra = PENALTY;
#if SPACE_ALPHA
    extra += color.w == WHITE ? BARRED : 0;
    for (int word = 0; color.w == WHITE && word < words; word++)
        for (uint bits = within[(768 + 255) * words + word]; bits; bits &= bits - 1) {
            const int i = entry_of(bits, word);
            if (colors[i].w < WHITE)
                continue;
            has_opaque = 1;
            const Squared other = squared(point - convert_int4(points[i])) + PENALTY;
            if (other < least || (other == least && i < nearest)) {
                least = other;
                nearest = i;
            }
        }
#endif
    for (int i = 0; i < n_entries && !has_opaque; i++) {
        const Squared other = squared(point - convert_int4(points[i])) + extra;
        if (other < least || (other == least && i < nearest)) {
            least = other;
            nearest = i;
        }
    }
    return nearest;
}
