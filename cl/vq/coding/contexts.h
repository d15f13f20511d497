/* What the forms of vq/coding/contexts.cl share: logarithms in eighths of a bit and their bounds.
 *
 * Constants: BUCKET, MOST_BUCKETS (vq/coding/buckets.h).
 */
#include "vq/coding/buckets.h"

#define BINS 32
#define NO_NEIGHBOUR 170
#define HIGHEST 211
#define LEAST 32 /* of the logarithms that buckets are averaged from, so that 256 weights add up to less than 2^32 */

/* The logarithm of a number from 1 on, in eighths of a bit. */
inline uint log_of(uint n)
{
    const uint top = 31 - clz(n);
    return 8 * top + ((top >= 3 ? n >> (top - 3) : n << (3 - top)) & 7);
}

/* a - b, or 0 if that is negative; both below 2^31. In signed numbers, as Oclgrind has no saturating subtraction, which
 * its compiler makes of a comparison of unsigned ones.
 */
inline uint reduced(uint a, uint b)
{
    return (uint)max((int)a - (int)b, 0);
}
