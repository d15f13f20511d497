/* Pixels read four at a time, as whole words: a quad is pixels 4 q to 4 q + 3, wherever rows end. A tile is COLUMNS by
 * some rows of pixels; the quads that begin in one row of the tile are its part of that row.
 *
 * Constants: CHANNELS 1, 3 or 4 of the pixels, which are 4-byte aligned; COLUMNS, a multiple of 4; ALIGNED 1 where rows
 * begin with a quad, as their width and the number of pixels are multiples of 4: finding and loading a quad takes a
 * fraction of the operations then.
 */
#define QUADS (COLUMNS / 4)

/* The colours of a quad: R | G << 8 | B << 16, and alpha << 24 where there is one; gray alone. Beyond n they are 0. */
uint4 load_quad(__global const uchar *pixels, ulong quad, ulong n)
{
    uint4 keys = 0;
    if (4 * quad + 4 <= n) {
#if CHANNELS == 1
        const uint word = ((__global const uint *)pixels)[quad];
        keys = (uint4)(word & 255u, word >> 8 & 255u, word >> 16 & 255u, word >> 24);
#elif CHANNELS == 3
        const uint3 words = vload3(quad, (__global const uint *)pixels);
        keys = (uint4)(words.x & 0xFFFFFFu, words.x >> 24 | (words.y & 0xFFFFu) << 8,
                       words.y >> 16 | (words.z & 0xFFu) << 16, words.z >> 8);
#else
        keys = vload4(quad, (__global const uint *)pixels);
#endif
    } else {
        uint one[4] = {0, 0, 0, 0};
        for (uint j = 0; 4 * quad + j < n; j++)
            for (uint c = 0; c < CHANNELS; c++)
                one[j] |= (uint)pixels[CHANNELS * (4 * quad + j) + c] << 8 * c;
        keys = vload4(0, one);
    }
    return keys;
}

/* A tile's place: its first row, where its columns begin and end, and its first pixel. */
typedef struct {
    uint row;
    uint begin;
    uint end;
    ulong first;
} Tile;

Tile tile_of(uint group, uint width, uint rows)
{
    const uint across = (width + COLUMNS - 1) / COLUMNS;
    Tile tile;
    tile.row = group / across * rows;
    tile.begin = group % across * COLUMNS;
    tile.end = min(width, tile.begin + COLUMNS);
    tile.first = (ulong)tile.row * width + tile.begin;
    return tile;
}

/* The i-th quad of a tile, 0 <= i < QUADS * rows, and its column; there is none where that is not within the tile. The
 * pixels of the tile's rows are fewer than 2^32. */
ulong quad_of_tile(Tile tile, uint i, uint width, uint *column)
{
    const uint before = ((uint)tile.first & 3u) + i / QUADS * width;
    const uint quad = (before + 3) / 4 + i % QUADS;
    *column = tile.begin + 4 * quad - before;
    return tile.first / 4 + quad;
}

#if ALIGNED
#if CHANNELS == 1
typedef uint Words;
#elif CHANNELS == 3
typedef uint3 Words;
#else
typedef uint4 Words;
#endif

/* A tile in quads: its first one, those from one of its rows to the next, those of a row, and those from the first to
 * the picture's last, 0 where it is beyond. */
typedef struct {
    ulong first;
    uint across;
    uint columns;
    uint left;
} Quads;

Quads quads_of(Tile tile, uint width, ulong n)
{
    Quads quads;
    quads.first = tile.first / 4;
    quads.across = width / 4;
    quads.columns = (tile.end - tile.begin) / 4;
    quads.left = quads.first < n / 4 ? (uint)min(n / 4 - quads.first, (ulong)UINT_MAX) : 0;
    return quads;
}

/* Whether all quads of all rows are there: then none needs to be asked. */
int is_full(Quads quads, uint rows)
{
    return quads.columns == QUADS && (rows - 1) * quads.across + QUADS <= quads.left;
}

/* The i-th quad, counted from the first of the tile. */
uint place_of_quad(Quads quads, uint i)
{
    return i / QUADS * quads.across + i % QUADS;
}

int is_there(Quads quads, uint i)
{
    return i % QUADS < quads.columns && place_of_quad(quads, i) < quads.left;
}

/* The words of a quad at a place of what begins at `from`. */
Words words_of_quad(__global const uchar *from, uint place)
{
#if CHANNELS == 1
    return ((__global const uint *)from)[place];
#elif CHANNELS == 3
    return vload3(place, (__global const uint *)from);
#else
    return vload4(place, (__global const uint *)from);
#endif
}

/* The colours of these words; of three channels, with what comes after them in higher bits. */
uint4 keys_of_words(Words words)
{
#if CHANNELS == 1
    return (uint4)(words & 255u, words >> 8 & 255u, words >> 16 & 255u, words >> 24);
#elif CHANNELS == 3
    return (uint4)(words.x, words.x >> 24 | words.y << 8, words.y >> 16 | words.z << 16, words.z >> 8);
#else
    return words;
#endif
}
#endif
