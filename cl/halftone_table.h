/* The nearest palette entry of every opaque 8-bit colour, INDEX [2^24]: where a colour lies. Colours of a cube of
 * 8 x 8 x 8 are neighbours, so that similar colours share cache lines and candidate lists. */
inline uint table_place(int3 c) {
    const int cube = (c.z & 248) << 16 | (c.y & 248) << 11 | (c.x & 248) << 6;
    return (uint)(cube | (c.z & 7) << 6 | (c.y & 7) << 3 | (c.x & 7));
}

inline int3 table_color(uint place) {
    return (int3)((int)(place >> 6 & 248u | place & 7u), (int)(place >> 11 & 248u | place >> 3 & 7u),
                  (int)(place >> 16 & 248u | place >> 6 & 7u));
}
