/* The probability model and the entropy coder of .clvq files (docs/clvq-format.md): logarithms in eighths of a bit,
 * frequencies that add up to 2^15, and rANS, the range variant of asymmetric numeral systems (J. Duda, "Asymmetric
 * numeral systems", 2013), with states of 32 bits and words of 16.
 *
 * A state stays within 2^16 .. 2^32 - 1. Encoding: with x >> 17 < f after renormalization, x < f 2^17, so
 * (x / f) 2^15 + x % f + c < 2^32. Decoding: f (x >> 15) + slot - c < f 2^17 <= 2^32; it is at least 2 f >= 2, so one
 * word brings it to 2^16 again. A damaged stream cannot lead out of this range.
 */
#define TOTAL_BITS 15
#define TOTAL (1u << TOTAL_BITS)
#define LOW (1u << 16)

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

/* As `joint_weight`, of 16 symbols side by side. */
inline uint16 joint_weights(__global const uchar *above, __global const uchar *left)
{
    const uint16 sum = max(convert_uint16(vload16(0, above)) + convert_uint16(vload16(0, left)), (uint16)255) - 255;
    return (8 | (sum & 7)) << (sum >> 3) >> 3;
}

inline uint sum_of_16(uint16 x)
{
    const uint8 eight = x.lo + x.hi;
    const uint4 four = eight.lo + eight.hi;
    return four.x + four.y + four.z + four.w;
}

/* The sum of the weights of some symbols. */
inline uint sum_of_weights(__global const uchar *above, __global const uchar *left, uint symbols)
{
    uint sum = 0, i = 0;
    for (; i + 16 <= symbols; i += 16)
        sum += sum_of_16(joint_weights(above + i, left + i));
    for (; i < symbols; ++i)
        sum += joint_weight(above[i], left[i]);
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

/* The frequencies of one of `symbols` symbols: where its range begins in the low half, how long it is in the high. */
inline uint range_of(__global const uchar *above, __global const uchar *left, uint symbols, uint symbol)
{
    const uint before = sum_of_weights(above, left, symbol);
    const uint own = joint_weight(above[symbol], left[symbol]);
    const uint after = sum_of_weights(above + symbol + 1, left + symbol + 1, symbols - symbol - 1);
    const Spread spread = spread_of(before + own + after, symbols);
    const uint begin = spread_to(spread, before, symbol);
    const uint end = symbol + 1 == symbols ? TOTAL : spread_to(spread, before + own, symbol + 1);
    return begin | (end - begin) << 16;
}

/* The symbol whose range holds the low bits of a state, and the state after it, before renormalization. */
inline uint next_symbol(__global const uchar *above, __global const uchar *left, uint symbols, uint *state)
{
    uint sum = sum_of_weights(above, left, symbols);
    const Spread spread = spread_of(sum, symbols);
    const uint slot = *state & (TOTAL - 1);
    uint symbol = 0, begin = 0, end = TOTAL;
    sum = 0;
    for (uint i = 1; i < symbols; ++i) {
        sum += joint_weight(above[i - 1], left[i - 1]);
        const uint bound = spread_to(spread, sum, i);
        if (slot < bound) {
            end = bound;
            break;
        }
        begin = bound;
        symbol = i;
    }
    *state = (end - begin) * (*state >> TOTAL_BITS) + slot - begin;
    return symbol;
}

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
