/* Ordered dithering: what its forms share. After mapping/nearest.h, whose constants it takes.
 *
 * With c the pixel's point, a the nearest entry, and b the nearest to c + r (c - a), clamped to the space, for the
 * first r of 2, 8, 32, 128 for which it is not a: the share of b in a mix of both that is nearest to c is
 * f = (c - a).(b - a) / |b - a|^2. Of the two, the lighter one stands where the mask's threshold is below its share, so
 * that pixels in which a and b change roles use the mask alike.
 *
 * The thresholds are (t + 1/2) / n for mask values t = 0..n - 1. All in integers: dot products stay below 2^24 in
 * magnitude (both vectors are shorter than 2^12), times 2 n <= 2^17 and strength <= 2^8: within 64 bits. Of 16-bit values
 * vectors are shorter than 2^18, so that these products stay below 2^61.
 */

/* Axes' weights in lightness, to order two entries; alpha counts so that transparent and opaque have an order too. */
#if SPACE == 2
#define LIGHTNESS ((int4)(256, 0, 0, 64))
#elif SPACE == 1
#define LIGHTNESS ((int4)(54, 183, 19, 64))
#else
#define LIGHTNESS ((int4)(77, 150, 29, 64))
#endif

Squared dot4(int4 a, int4 b)
{
    const Squared4 each = convert_squared4(a) * convert_squared4(b);
    return each.x + each.y + each.z + each.w;
}

/* The nearest entry of any point of the space; ties go to the lowest index. */
int nearest_to_point(int4 point, __global const int4 *points, __global const uint *starts, __global const ushort *list,
                     int4 grid, int shift)
{
    const int cell = cell_of(point, grid, shift);
    const uint begin = starts[cell];
    const uint end = starts[cell + 1];
    int index = list[begin];
    if (end - begin == 1)
        return index;
    Squared least = squared(point - points[index]);
    for (uint j = begin + 1; j < end; j++) {
        const Squared distance = squared(point - points[list[j]]);
        index = distance < least ? (int)list[j] : index;
        least = min(least, distance);
    }
    return index;
}

/* The entry b of a point and its nearest entry, a itself where there is none. */
int other_side(int4 point, int first, int4 extent, __global const int4 *points, __global const uint *starts,
               __global const ushort *list, int4 grid, int shift)
{
    const int4 error = point - points[first];
    int second = first;
    if (squared(error) > 0)
        for (int reach = 2; reach <= 128 && second == first; reach *= 4)
            second = nearest_to_point(clamp(point + reach * error, (int4)(0), extent), points, PALETTE_CELLS);
    return second;
}

/* Which of two entries stands at the number t of a mask of `values` numbers. */
int mixed(int4 point, int first, int second, __global const int4 *points, int t, int values, int strength)
{
    const int4 step = points[second] - points[first];
    if (dot4(step, LIGHTNESS) < 0)
        t = values - 1 - t;
    const long share = (long)dot4(point - points[first], step) * strength * (2 * (long)values);
    const long threshold = (long)squared(step) * 256 * (2 * (long)t + 1);
    return share > threshold ? second : first;
}

/* A colour's whole answer, as the second entry stands for those thresholds that are below its share: one of two entries
 * stands at the numbers of the mask below `from`, the other from it on. */
typedef struct {
    ushort from;
    INDEX below;
    INDEX above;
} Answer;

/* How many of the numbers t = 0, 1, ... satisfy share > step (2 t + 1), at most `values`. */
int thresholds_below(long share, long step, int values)
{
    return share <= step ? 0 : (int)min((share + step - 1) / (2 * step), (long)values);
}

/* The answer for a point between two entries. */
Answer answer_of(int4 point, uint first, uint second, __global const int4 *points, int values, int strength)
{
    const int4 step = points[second] - points[first];
    const Squared dot = dot4(point - points[first], step);
    int often;
#if SPACE == 0 && !SPACE_ALPHA && BITS == 8
    /* Here dot products are below 2^18 in magnitude: with both sides over 256, masks of 2^7 to 2^12 numbers fit 32
     * bits, in which a division takes a fraction of the time. */
    if (values >= 128 && values <= 4096) {
        const int share = dot * strength * (values / 128);
        const int unit = squared(step);
        often = share <= unit ? 0 : min((int)(((uint)share + (uint)unit - 1) / (2 * (uint)unit)), values);
    } else
#endif
        often = thresholds_below((long)dot * strength * (2 * (long)values), (long)squared(step) * 256, values);
    Answer answer = {0, (INDEX)first, (INDEX)(often ? second : first)};
    if (often > 0 && often < values) {
        const int darker = dot4(step, LIGHTNESS) < 0;
        answer.from = (ushort)(darker ? values - often : often);
        answer.below = (INDEX)(darker ? first : second);
        answer.above = (INDEX)(darker ? second : first);
    }
    return answer;
}
