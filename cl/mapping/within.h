/* The entries of a palette that are near a colour in each of its channels; after mapping/nearest.h.
 *
 * within (axes of `gap`, 256, words) uint: by value, bits of the entries whose own is at most `speck` off, 32 in a word
 * (clquant/mapping/within.py).
 */

#define WORDS_OF(n_entries) (((n_entries) + 31) / 32)

/* Bits of those entries of a word that are no specks of a colour; of 16-bit values perhaps of others too. */
uint bits_within(int4 color, __global const uint *within, int words, int word)
{
    const int4 axes = gap_axes(color), at = axes >> (BITS - 8);
    within += word;
    uint bits = within[at.x * words] & within[(256 + at.y) * words] & within[(512 + at.z) * words];
#if SPACE_ALPHA
    const int4 white = (axes.wwww - axes) >> (BITS - 8);
    bits &= within[(768 + at.w) * words] & within[(1024 + white.x) * words];
    bits &= within[(1280 + white.y) * words] & within[(1536 + white.z) * words];
#endif
    return bits;
}

/* The entry of a word's lowest bit. */
int entry_of(uint bits, int word)
{
    return 32 * word + 31 - (int)clz(bits & -bits);
}
