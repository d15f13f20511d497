/* GIF's LZW with loss: each pixel may be another symbol that stands for nearly its colour, where that continues a
 * string of the dictionary. Source: T. A. Welch, "A technique for high-performance data compression", 1984; GIF89a,
 * appendix F; the loss is this library's own. */

#define TABLE 8192 /* twice the strings there can be, for short searches; a power of two */
#define MOST_CODES 4096
#define MOST_BITS 12
#define EMPTY 0xffffffffu
#define TABLE_WORDS (TABLE + MOST_CODES / 32)

/* Where the table is: in local memory, if it fits. */
#if LOCAL_TABLE
#define SPACE __local
#else
#define SPACE __global
#endif

/* A stream of codes, the lowest bit first. */
typedef struct {
    __global uchar *bytes;
    uint length, held, bits;
} Stream;

static void put(Stream *stream, uint code, uint width)
{
    stream->held |= code << stream->bits;
    stream->bits += width;
    while (stream->bits >= 8) {
        stream->bytes[stream->length++] = (uchar)stream->held;
        stream->held >>= 8;
        stream->bits -= 8;
    }
}

/* Where the string of a code and a symbol is in the table, or the free place for it. An entry is key << 12 | code. */
static uint place_of(SPACE const uint *table, uint code, uint symbol)
{
    const uint key = code << 8 | symbol;
    uint place = (key * 2654435761u) >> 19;
    while (table[place] != EMPTY && table[place] >> MOST_BITS != key)
        place = (place + 1) & (TABLE - 1);
    return place;
}

/* Empties the table, and the notes of which codes are continued by a longer string. */
static void forget(SPACE uint *table)
{
    for (uint i = 0; i < TABLE; i++)
        table[i] = EMPTY;
    for (uint i = TABLE; i < TABLE_WORDS; i++)
        table[i] = 0;
}

static int weighted_square(int3 difference)
{
    return RED * difference.x * difference.x + GREEN * difference.y * difference.y + BLUE * difference.z * difference.z;
}

/* Packs pictures, one a work-item. Of the symbols that continue the string, a pixel takes the one nearest to its colour
 * and three quarters of what the pixels before it lack (rounded to 0), the first of equal ones: its own, `other`, the
 * near ones that are within the bound, so that flat areas keep their colour.
 * NDRange: 1-D, a work-item per picture, in groups of 1. wanted, other (pixels of all) uchar: each pixel's symbol, and
 * one that stands for the same colour; starts (count + 1) uint: where each picture begins; colors (count, 256, 3) uchar;
 * near (count, 256, NEAR) uchar: for each symbol those that may take its place, nearest first, filled up with itself;
 * code_bits (count) uint, 2 to 8; tables (count, TABLE_WORDS) uint, unless it is local; out (2 per pixel and 16 per
 * picture) uchar; lengths (count) uint: bytes of each; most: the bound, a weighted square. */
__kernel void pack_lzw(__global const uchar *wanted, __global const uchar *other, __global const uint *starts,
                       __global const uchar *colors, __global const uchar *near, __global const uint *code_bits,
                       __global uint *tables, __global uchar *out, __global uint *lengths, uint count, int most)
{
    const uint picture = (uint)get_global_id(0);
#if LOCAL_TABLE
    __local uint table[TABLE_WORDS];
#else
    __global uint *table = tables + (size_t)picture * TABLE_WORDS;
#endif
    if (picture >= count)
        return;
    const uint first = starts[picture], last = starts[picture + 1], clear = 1u << code_bits[picture];
    SPACE uint *continued = table + TABLE;
    __global const uchar *palette = colors + (size_t)picture * 256 * 3;
    __global const uchar *instead = near + (size_t)picture * 256 * NEAR;
    Stream stream = {out + 2 * (size_t)first + 16 * (size_t)picture, 0, 0, 0};
    uint width = code_bits[picture] + 1, next = clear + 2, code = wanted[first];
    int3 lacking = (int3)(0);
    forget(table);
    put(&stream, clear, width);
    for (uint i = first + 1; i < last; i++) {
        const uint symbol = wanted[i];
        const uint place = place_of(table, code, symbol);
        uint found = EMPTY;
        if (continued[code >> 5] >> (code & 31) & 1) {
            found = table[place];
            if (found == EMPTY && other[i] != symbol)
                found = table[place_of(table, code, other[i])];
            int least = found == EMPTY ? most + 1 : weighted_square(lacking);
            int3 left = lacking;
            for (uint k = 0; k < NEAR; k++) {
                const uint substitute = instead[symbol * NEAR + k];
                if (substitute == symbol)
                    break;
                const int3 error =
                    lacking + convert_int3(vload3(symbol, palette)) - convert_int3(vload3(substitute, palette));
                if (weighted_square(error) >= least)
                    continue;
                const uint there = table[place_of(table, code, substitute)];
                if (there == EMPTY)
                    continue;
                found = there;
                least = weighted_square(error);
                left = error;
            }
            lacking = left;
        }
        lacking = lacking * 3 / 4;
        if (found != EMPTY) {
            code = found & (MOST_CODES - 1);
            continue;
        }
        put(&stream, code, width);
        if (next == MOST_CODES) {
            put(&stream, clear, width);
            forget(table);
            width = code_bits[picture] + 1;
            next = clear + 2;
        } else {
            table[place] = (code << 8 | symbol) << MOST_BITS | next;
            continued[code >> 5] |= 1u << (code & 31);
            if (next == 1u << width && width < MOST_BITS)
                width++;
            next++;
        }
        code = symbol;
    }
    put(&stream, code, width);
    if (next == 1u << width && width < MOST_BITS)
        width++;
    put(&stream, clear + 1, width);
    if (stream.bits)
        put(&stream, 0, 8 - stream.bits);
    lengths[picture] = stream.length;
}
