/* The draw of k-means++: a place with a chance in proportion to its mass, weight times squared distance to the nearest
 * center so far. Its users keep running sums of blocks of masses, draw a number below the total, seek the block and go
 * through it.
 *
 * D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007. On the host:
 * clquant/palette/host_clusters.py. */
#include "common/philox.h"

/* A random number from 0 to total - 1, by 64 random bits of a counter. */
ulong drawn_below(ulong total, uint4 counter, uint2 key)
{
    const uint4 words = philox4x32(counter, key);
    return mul_hi((ulong)words.y << 32 | words.x, total);
}

/* The same of a total below 2^32, by 32 bits. */
uint drawn_word_below(uint total, uint4 counter, uint2 key)
{
    return mul_hi(philox4x32(counter, key).x, total);
}

/* The first of n running sums that is above a number; the last one if none is. */
uint first_above(__global const ulong *sums, uint n, ulong number)
{
    uint low = 0;
    uint high = n - 1;
    while (low < high) {
        const uint middle = (low + high) / 2;
        if (sums[middle] > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
