/* The probability model and the entropy coder of .clvq files (docs/clvq-format.md): logarithms in eighths of a bit,
 * frequencies that add up to 2^15, and rANS, the range variant of asymmetric numeral systems (J. Duda, "Asymmetric
 * numeral systems", 2013), with states of 32 bits and words of 16.
 *
 * A state stays within 2^16 .. 2^32 - 1. Encoding: with x >> 17 < f after renormalization, x < f 2^17, so
 * (x / f) 2^15 + x % f + c < 2^32. Decoding: f (x >> 15) + slot - c < f 2^17 <= 2^32; it is at least 2 f >= 2, so one
 * word brings it to 2^16 again. A damaged stream cannot lead out of this range.
 *
 * WIDE, defined before, tells that rows of values begin at multiples of 16 bytes and have room to the next one, with
 * MOST_SYMBOLS at most; NARROW, that vectors are not faster than as many numbers.
 */
#define TOTAL_BITS 15
#define TOTAL (1u << TOTAL_BITS)
#define LOW (1u << 16)
#define PLACES ((uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#ifndef WIDE
#define WIDE 0
#endif
#ifndef NARROW
#define NARROW 0
#endif

/* The weight of a logarithm v <= 167, in eighths of a bit: at most 15 * 2^17 < 2^21. */
inline uint weight_of(uint v)
{
    return (8 | (v & 7)) << (v >> 3) >> 3;
}

/* The weight of a symbol whose values by the neighbours above and to the left are `above` and `left`, 0..211. */
inline uint joint_weight(uchar above, uchar left)
{
    return weight_of(max((uint)above + left, 255u) - 255);
}

/* As `joint_weight`, of 16 symbols side by side, of which `symbols` are there; both pointers are multiples of 16. */
inline uint16 joint_weights(__global const uchar *above, __global const uchar *left, uint symbols)
{
    const uint16 a = convert_uint16(as_uchar16(*(__global const uint4 *)above));
    const uint16 b = convert_uint16(as_uchar16(*(__global const uint4 *)left));
    const uint16 value = max(a + b, (uint16)255) - 255;
    const uint16 weights = (8 | (value & 7)) << (value >> 3) >> 3;
    return select((uint16)0, weights, PLACES < (uint16)symbols);
}

inline uint sum_of_16(uint16 x)
{
    const uint8 eight = x.lo + x.hi;
    const uint4 four = eight.lo + eight.hi;
    return four.x + four.y + four.z + four.w;
}

/* Sums of all components up to and with each. */
inline uint16 running_sums(uint16 x)
{
    x += (uint16)(0, x.s0123, x.s4567, x.s89ab, x.scd, x.se);
    x += (uint16)(0, 0, x.s0123, x.s4567, x.s89ab, x.scd);
    x += (uint16)(0, 0, 0, 0, x.s0123, x.s4567, x.s89ab);
    x += (uint16)(0, 0, 0, 0, 0, 0, 0, 0, x.s01234567);
    return x;
}

/* The sum of the weights of some symbols. */
inline uint sum_of_weights(__global const uchar *above, __global const uchar *left, uint symbols)
{
    uint sum = 0;
#if WIDE
    for (uint i = 0; i < symbols; i += 16)
        sum += sum_of_16(joint_weights(above + i, left + i, symbols - i));
#else
    for (uint i = 0; i < symbols; ++i)
        sum += joint_weight(above[i], left[i]);
#endif
    return sum;
}

/* How a sum of weights, 1 .. 2^29, becomes frequencies: Z is scaled to 2^15 .. 2^16 - 1. */
typedef struct {
    uint top;   /* floor(log2(Z)) */
    uint ratio; /* floor((TOTAL - symbols) 2^16 / scaled Z), at most 2^16, so that the products below fit 32 bits */
} Spread;

inline uint scaled(uint sum, uint top)
{
    return top >= 15 ? sum >> (top - 15) : sum << (15 - top);
}

inline Spread spread_of(uint sum, uint symbols)
{
    Spread spread;
    spread.top = 31 - clz(sum);
    spread.ratio = ((TOTAL - symbols) << 16) / scaled(sum, spread.top);
    return spread;
}

/* The cumulative frequency of symbol i, before which the weights add up to `sum`. */
inline uint spread_to(Spread spread, uint sum, uint i)
{
    return (scaled(sum, spread.top) * spread.ratio >> 16) + i;
}

/* The range of a symbol before which the weights add up to `before`: where it begins in the low half, its length in the
 * high one. */
inline uint range_from(Spread spread, uint before, uint own, uint symbol, uint symbols)
{
    const uint begin = spread_to(spread, before, symbol);
    const uint end = symbol + 1 == symbols ? TOTAL : spread_to(spread, before + own, symbol + 1);
    return begin | (end - begin) << 16;
}

/* The range of one of `symbols` symbols. */
inline uint range_of(__global const uchar *above, __global const uchar *left, uint symbols, uint symbol)
{
    const Spread spread = spread_of(sum_of_weights(above, left, symbols), symbols);
    const uint before = sum_of_weights(above, left, symbol);
    return range_from(spread, before, joint_weight(above[symbol], left[symbol]), symbol, symbols);
}

/* The state after the symbol of a range was decoded, before renormalization. */
inline uint popped(uint state, uint range)
{
    return (range >> 16) * (state >> TOTAL_BITS) + (state & (TOTAL - 1)) - (range & 0xffff);
}

/* A symbol and its range. */
typedef struct {
    uint symbol, range;
} Found;

/* The symbol whose range holds a slot, 0 .. TOTAL - 1. */
#if WIDE && NARROW
inline Found symbol_at(__global const uchar *above, __global const uchar *left, uint symbols, uint slot)
{
    const Spread spread = spread_of(sum_of_weights(above, left, symbols), symbols);
    Found found = {0, 0};
    uint sum = 0;
    for (uint i = 0; i < symbols; i += 16) {
        const uint16 weights = joint_weights(above + i, left + i, symbols - i);
        const uint4 pairs = weights.s048c + weights.s159d;
        const uint4 quarters = pairs + weights.s26ae + weights.s37bf;
        const uint second = sum + quarters.x, third = second + quarters.y, fourth = third + quarters.z;
        if (i > 0 && spread_to(spread, sum, i) > slot)
            break;
        /* Places without a symbol weigh nothing, so that their ranges would begin behind all others. */
        uint q = 0;
        q += i + 4 < symbols && spread_to(spread, second, i + 4) <= slot;
        q += i + 8 < symbols && spread_to(spread, third, i + 8) <= slot;
        q += i + 12 < symbols && spread_to(spread, fourth, i + 12) <= slot;
        const uint4 four = q < 2 ? (q < 1 ? weights.lo.lo : weights.lo.hi) : (q < 3 ? weights.hi.lo : weights.hi.hi);
        const uint first = i + 4 * q;
        uint before = q < 2 ? (q < 1 ? sum : second) : (q < 3 ? third : fourth), own = four.x, k = 0;
        const uint after = before + four.x, last = after + four.y + four.z;
        if (first + 1 < symbols && spread_to(spread, after, first + 1) <= slot)
            before = after, own = four.y, k = 1;
        if (first + 2 < symbols && spread_to(spread, after + four.y, first + 2) <= slot)
            before = after + four.y, own = four.z, k = 2;
        if (first + 3 < symbols && spread_to(spread, last, first + 3) <= slot)
            before = last, own = four.w, k = 3;
        found.symbol = first + k;
        found.range = range_from(spread, before, own, found.symbol, symbols);
        sum = fourth + quarters.w;
    }
    return found;
}
#elif WIDE
inline Found symbol_at(__global const uchar *above, __global const uchar *left, uint symbols, uint slot)
{
    uint begins[MOST_SYMBOLS / 16]; /* what the weights before each 16 symbols add up to */
    uint sum = 0;
    for (uint i = 0; i < symbols; i += 16) {
        begins[i / 16] = sum;
        sum += sum_of_16(joint_weights(above + i, left + i, symbols - i));
    }
    const Spread spread = spread_of(sum, symbols);
    uint first = 0;
    while (first + 16 < symbols && spread_to(spread, begins[first / 16 + 1], first + 16) <= slot)
        first += 16;
    const uint16 weights = joint_weights(above + first, left + first, symbols - first);
    const uint16 firsts = running_sums(weights) - weights + begins[first / 16];
    const uint16 cut = spread.top >= 15 ? firsts >> (spread.top - 15) : firsts << (15 - spread.top);
    const uint16 starts = (cut * spread.ratio >> 16) + PLACES + first; /* as spread_to */
    const uint there = min(symbols - first, 16u);
    const uint last = sum_of_16(select((uint16)0, (uint16)1, (starts <= (uint16)slot) & (PLACES < (uint16)there))) - 1;
    const uint before = sum_of_16(select((uint16)0, firsts, PLACES == (uint16)last));
    const uint own = sum_of_16(select((uint16)0, weights, PLACES == (uint16)last));
    Found found;
    found.symbol = first + last;
    found.range = range_from(spread, before, own, found.symbol, symbols);
    return found;
}
#else
inline Found symbol_at(__global const uchar *above, __global const uchar *left, uint symbols, uint slot)
{
    const Spread spread = spread_of(sum_of_weights(above, left, symbols), symbols);
    uint symbol = 0, before = 0, own = joint_weight(above[0], left[0]);
    for (uint i = 1; i < symbols; ++i) {
        const uint sum = before + own;
        if (slot < spread_to(spread, sum, i))
            break;
        symbol = i;
        before = sum;
        own = joint_weight(above[i], left[i]);
    }
    Found found;
    found.symbol = symbol;
    found.range = range_from(spread, before, own, symbol, symbols);
    return found;
}
#endif

/* Whether a state must give a word away before a symbol of this range is encoded. */
inline bool is_full(uint state, uint range)
{
    return state >> 17 >= range >> 16;
}

/* The state after a symbol of this range was encoded, backwards. */
inline uint pushed(uint state, uint range)
{
    const uint frequency = range >> 16;
    return (state / frequency << TOTAL_BITS) + state % frequency + (range & 0xffff);
}
