/* Leaves in Morton order, as quadtree_leaves writes them: x, y, size (uint each), then a byte of the mean per channel,
 * padded to words. The picture's squares of a power of two are ranges of this order.
 *
 * Constants: CHANNELS, of the means. */
#define LEAF_WORDS (3 + (CHANNELS + 3) / 4)

/* Bit i of 16 becomes bit 2 i. */
inline uint spread(uint v)
{
    v = (v | v << 8) & 0x00FF00FFu;
    v = (v | v << 4) & 0x0F0F0F0Fu;
    v = (v | v << 2) & 0x33333333u;
    return (v | v << 1) & 0x55555555u;
}

inline uint morton(uint x, uint y)
{
    return spread(x) | spread(y) << 1;
}

inline __global const uint *leaf_at(__global const uint *leaves, uint i)
{
    return leaves + (ulong)i * LEAF_WORDS;
}

inline uint code_at(__global const uint *leaves, uint i)
{
    return morton(leaf_at(leaves, i)[0], leaf_at(leaves, i)[1]);
}

/* The last of `count` leaves whose code is at most `code`: the one that holds the pixel of that code. */
inline uint find_leaf(__global const uint *leaves, uint count, uint code)
{
    uint low = 0, high = count;
    while (high - low > 1) {
        const uint middle = low + (high - low) / 2;
        if (code_at(leaves, middle) <= code)
            low = middle;
        else
            high = middle;
    }
    return low;
}

inline uint mean_at(__global const uint *leaf, uint c)
{
    return leaf[3 + (c >> 2)] >> 8 * (c & 3u) & 255u;
}
