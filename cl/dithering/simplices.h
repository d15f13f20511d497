/* Ordered dithering to entries that are far apart: the up to four entries that mix to a pixel's colour are the corners
 * of the simplex that it lies in (clquant/dithering/simplices.py). After mapping/nearest.h.
 *
 * The simplex is found by a walk from the one that `walks` has for the middle of the pixel's cell of the space, through
 * the first side that the pixel is beyond; in a regular triangulation such walks end. Corners are in the order of their
 * lightness, the lightest first. Weights are exact integers below 2^46; corners of weight 0 and the outer ones are left
 * out, so that all simplices with a pixel on their sides give one mixture. All in integers.
 *
 * Constants: SIMPLICES: 0 where nothing of this is used, 1 where pixels are mixed so that are opaque, 2 where all are, as
 * the palette has no alpha; cells have WALK_SIDE along an axis, and a width of 1 << WALK_SHIFT.
 */

#if SIMPLICES
#define SIMPLEX_PARAMETERS , __global const Simplex *simplices, __global const int *walks
#define SIMPLEX_ARGUMENTS , simplices, walks
#define IS_MIXED(alpha) (SIMPLICES == 2 || (alpha) == WHITE)
#define WITHOUT_NEAREST(alpha, strength) (IS_MIXED(alpha) && (strength) == 256)

/* A simplex: six times its volume, times the barycentric weights, is planes . (x, y, z, 1); the corners' entries, or -1
 * for outer ones; what is beyond the side opposite to each corner. */
typedef struct {
    long4 planes[4];
    int entries[4];
    int beyond[4];
} Simplex;

/* Four entries: the one of number i stands at the numbers of the mask from ends[i - 1] (0 for the first) to below
 * ends[i], the last one from ends[2] on. */
typedef struct {
    INDEX entries[4];
    int ends[3];
} Mixture;

INDEX entry_at(const Mixture *mixture, int number)
{
    const INDEX low = number < mixture->ends[0] ? mixture->entries[0] : mixture->entries[1];
    const INDEX high = number < mixture->ends[2] ? mixture->entries[2] : mixture->entries[3];
    return number < mixture->ends[1] ? low : high;
}

#define WITH_WAYS 1024

/* Rounds shares / total to whole numbers of the mask's `values`; shares are sums of weights up to an entry, `count` of
 * them below the total. Of few values the way is taken whose mean is nearest to the mixture's in all axes; of equals
 * the first. Errors stay below 2^27. */
void round_ends(int *ends, const int *entries, const long *shares, long total, int count, int values,
                __global const int4 *points)
{
    if (values >= WITH_WAYS) {
        for (int i = 0; i < count; i++)
            ends[i] = (int)((shares[i] * values + total / 2) / total);
        return;
    }
    int floors[3] = {values, values, values};
    int4 off = 0, steps[3] = {0, 0, 0};
    for (int i = 0; i < count; i++) {
        const int scaled = (int)(shares[i] * (256 * values) / total);
        floors[i] = scaled >> 8;
        steps[i] = points[entries[i]] - points[entries[i + 1]];
        off += (scaled & 255) * steps[i];
    }
#ifdef WAYS_IN_LANES
    const int8 ways = (int8)(0, 1, 2, 3, 4, 5, 6, 7), one = ways & 1, two = ways >> 1 & 1, three = ways >> 2;
    const int8 x = off.x - 256 * (one * steps[0].x + two * steps[1].x + three * steps[2].x);
    const int8 y = off.y - 256 * (one * steps[0].y + two * steps[1].y + three * steps[2].y);
    const int8 z = off.z - 256 * (one * steps[0].z + two * steps[1].z + three * steps[2].z);
    const int8 largest = max(max(max(x, -x), max(y, -y)), max(z, -z));
    const int8 grows = (floors[0] + one <= floors[1] + two) & (floors[1] + two <= floors[2] + three);
    const int8 order = (grows & (floors[2] + three <= values)) ? largest * 8 + ways : (int8)(INT_MAX);
    const int4 four = min(order.lo, order.hi);
    const int2 least = min(four.lo, four.hi);
    const int way = min(least.x, least.y);
#else
    /* In vectors NVIDIA's compiler (580.159) chose other ways. */
    uint least = UINT_MAX;
    int way = 0;
    for (int other = 0; other < 1 << count; other++) {
        int4 error = off;
        int last = 0, grows = 1;
        for (int i = 0; i < count; i++) {
            const int up = other >> i & 1, end = floors[i] + up;
            grows &= end >= last && end <= values;
            last = end;
            error -= 256 * up * steps[i];
        }
        const uint4 far = abs(error);
        const uint largest = max(max(far.x, far.y), far.z);
        if (grows && largest < least) {
            least = largest;
            way = other;
        }
    }
#endif
    for (int i = 0; i < 3; i++)
        ends[i] = floors[i] + (way >> i & 1);
}

/* A point that is only `strength` / 256 of the way from the nearest entry's; also rounded from the steps of 16-bit
 * values to those of 8-bit ones. */
int4 point_to_mix(int4 point, int4 nearest, int strength)
{
    return (nearest + (((point - nearest) * strength + 128) >> 8) + SPACE_SCALE / 2) / SPACE_SCALE;
}

/* The mixture for an opaque colour's point. */
Mixture mixture_of(int4 point, __global const int4 *points, __global const Simplex *simplices,
                   __global const int *walks, int values)
{
    const long x = point.x, y = point.y, z = point.z;
    const int4 cell = point >> WALK_SHIFT;
    __global const Simplex *simplex = 0;
    long weights[4];
    for (int at = walks[(cell.x * WALK_SIDE + cell.y) * WALK_SIDE + cell.z]; at >= 0;) {
        simplex = simplices + at;
        at = -1;
#pragma unroll
        for (int corner = 3; corner >= 0; corner--) {
            const long4 plane = simplex->planes[corner];
            weights[corner] = plane.x * x + plane.y * y + plane.z * z + plane.w;
            at = weights[corner] < 0 ? simplex->beyond[corner] : at;
        }
    }
    Mixture mixture = {{0, 0, 0, 0}, {values, values, values}};
    long shares[4], total = 0;
    int entries[4], count = 0;
    for (int i = 0; i < 4; i++)
        if (weights[i] > 0 && simplex->entries[i] >= 0) {
            total += weights[i];
            entries[count] = simplex->entries[i];
            mixture.entries[count] = (INDEX)entries[count];
            shares[count++] = total;
        }
    round_ends(mixture.ends, entries, shares, total, count - 1, values, points);
    return mixture;
}
#else
#define WITHOUT_NEAREST(alpha, strength) 0
#define SIMPLEX_PARAMETERS
#define SIMPLEX_ARGUMENTS
#endif
