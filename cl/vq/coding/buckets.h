/* How codewords are cut into buckets, and how long the rows of tables of them are.
 *
 * Constants: BUCKET (codewords of a bucket, 1..256), MOST_BUCKETS (buckets that codebooks of as many bits have at most,
 * 1..256), so that programs serve codebooks of many sizes.
 */
#define WIDE (BUCKET >= 16)
#define MOST_SYMBOLS 256
#include "vq/coding/rans.h"

#define STRIDE (MOST_BUCKETS * BUCKET)                /* bytes of values of codewords */
#define BUCKET_STRIDE ((MOST_BUCKETS + 15) / 16 * 16) /* bytes of values of buckets */
#define PAIR_STRIDE ((MOST_BUCKETS + 7) / 8 * 8)      /* begins of ranges of buckets */

inline uint buckets_of(uint size)
{
    return (size + BUCKET - 1) / BUCKET;
}
