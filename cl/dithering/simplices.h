/* Ordered dithering to entries that are far apart: the up to four entries that mix to a pixel's colour are the corners
 * of the simplex that it lies in (clquant/dithering/simplices.py). After mapping/nearest.h.
 *
 * The simplex is found by a walk from the one that `walks` has for the pixel's nearest entry, through the first side that the pixel is beyond;
 * in a regular triangulation such walks end. Corners are in the order of their lightness, the lightest first. Weights
 * are exact integers below 2^46; corners of weight 0 and the outer ones are left out, so that all simplices with a
 * pixel on their sides give one mixture. All in integers.
 *
 * Constants: SIMPLICES: 0 where nothing of this is used, 1 where pixels are mixed so that are opaque, 2 where all are, as
 * the palette has no alpha.
 */

#if SIMPLICES
#define SIMPLEX_PARAMETERS , __global const Simplex *simplices, __global const int *walks
#define SIMPLEX_ARGUMENTS , simplices, walks
#define IS_MIXED(alpha) (SIMPLICES == 2 || (alpha) == WHITE)

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
 * the first. */
void round_ends(int *ends, const int *entries, const long *shares, long total, int count, int values,
                __global const int4 *points)
{
    int parts[3] = {0, 0, 0}, floors[3] = {values, values, values};
    const int is_fine = values >= WITH_WAYS;
    int4 steps[3];
    for (int i = 0; i < count; i++) {
        const long scaled = is_fine ? (shares[i] * values + total / 2) / total : shares[i] * (256 * values) / total;
        floors[i] = (int)(is_fine ? scaled : scaled >> 8);
        parts[i] = is_fine ? 0 : (int)(scaled & 255);
        steps[i] = points[entries[i]] - points[entries[i + 1]];
    }
    uint least = UINT_MAX;
    for (int way = 0; way < (is_fine ? 1 : 1 << count); way++) {
        int4 off = 0;
        int last = 0, grows = 1;
        for (int i = 0; i < count; i++) {
            const int up = way >> i & 1, end = floors[i] + up;
            grows &= end >= last;
            last = end;
            off += (parts[i] - 256 * up) * steps[i];
        }
        const uint4 error = abs(off);
        const uint largest = max(max(error.x, error.y), error.z);
        if (grows && last <= values && largest < least) {
            least = largest;
            for (int i = 0; i < 3; i++)
                ends[i] = floors[i] + (way >> i & 1);
        }
    }
}

/* A point that is only `strength` / 256 of the way from the nearest entry's; also rounded from the steps of 16-bit
 * values to those of 8-bit ones. */
int4 point_to_mix(int4 point, int4 nearest, int strength)
{
    return (nearest + ((point - nearest) * strength + 128 >> 8) + SPACE_SCALE / 2) / SPACE_SCALE;
}

/* The mixture for an opaque colour's point; `at`: where the walk begins, and has ended. */
Mixture mixture_of(int4 point, int *at, __global const int4 *points, __global const Simplex *simplices, int values)
{
    const long x = point.x, y = point.y, z = point.z;
    long weights[4];
    for (int corner = 0; corner < 4;) {
        const long4 plane = simplices[*at].planes[corner];
        weights[corner] = plane.x * x + plane.y * y + plane.z * z + plane.w;
        if (weights[corner] < 0) {
            *at = simplices[*at].beyond[corner];
            corner = 0;
        } else {
            corner++;
        }
    }
    Mixture mixture = {{0, 0, 0, 0}, {values, values, values}};
    long shares[4], total = 0;
    int entries[4], count = 0;
    for (int i = 0; i < 4; i++)
        if (weights[i] > 0 && simplices[*at].entries[i] >= 0) {
            total += weights[i];
            entries[count] = simplices[*at].entries[i];
            mixture.entries[count] = (INDEX)entries[count];
            shares[count++] = total;
        }
    round_ends(mixture.ends, entries, shares, total, count - 1, values, points);
    return mixture;
}
#else
#define SIMPLEX_PARAMETERS
#define SIMPLEX_ARGUMENTS
#endif
