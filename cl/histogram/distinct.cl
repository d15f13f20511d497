/* The distinct colours of a picture and how often each occurs, if they are few.
 *
 * Constants from the host:
 *   CHANNELS  bytes per pixel: 1, 3 or 4
 *   SLOTS     entries of the hash table, a power of two, at least twice `most` + 1
 *   RUN       neighbouring pixels that a work-item takes in turn, so that runs of a colour are entered once
 *   LOADS     1 on NVIDIA, where a volatile read is a relaxed atomic one (PTX ISA, ld.volatile) and cheaper than a
 *   claim;
 *             0 elsewhere: OpenCL C 1.2 reads atomically by an operation that changes nothing
 *   MEMO      1 where a work-item counts by itself before it adds pixels to the table: on CPUs */

uint atomic_read(volatile __global uint *word)
{
#if LOADS
    return *word;
#else
    return atomic_or(word, 0u);
#endif
}

/* The table of colours, of open addresses, and on CPUs what a work-item counts by itself; see `palette_distinct`. */
typedef struct {
    uint most;
    volatile __global uint *colors, *counts, *found;
#if MEMO
    __global uint2 *memo;
    uint memo_bits;
#endif
} table_t;

/* Adds `often` pixels of a colour, R | G << 8 | B << 16 | alpha << 24, never 0, to the table. Returns whether more than
 * `most` colours were seen to be in it; nothing is promised of the table then. */
uint enter(const table_t *table, uint color, uint often)
{
    uint slot = (color * 2654435769u) >> 7;
    for (;;) {
        slot &= SLOTS - 1;
        uint there = LOADS ? atomic_read(&table->colors[slot]) : 0;
        uint full = 0;
        if (there == 0) {
            there = atomic_cmpxchg(&table->colors[slot], 0u, color);
            if (there == 0)
                full = atomic_inc(&table->found[0]) >= table->most;
        }
        if (there == 0 || there == color) {
            atomic_add(&table->counts[slot], often);
            return full;
        }
        if (atomic_read(&table->found[0]) > table->most)
            return 1;
        ++slot;
    }
}

#if MEMO
/* The same through a work-item's own counts: a colour is entered when it is first seen, the pixels that follow when
 * another colour takes its place. */
uint count_run(const table_t *table, uint color, uint often)
{
    __global uint2 *place = table->memo + (color * 2654435769u >> (32 - table->memo_bits));
    const uint2 held = *place;
    if (held.x == color) {
        place->y = held.y + often;
        return 0;
    }
    *place = (uint2)(color, 0);
    const uint full = held.y > 0 ? enter(table, held.x, held.y) : 0;
    return full || enter(table, color, often);
}

/* Enters what a work-item has counted. */
void end_counts(const table_t *table)
{
    uint full = 0;
    for (uint i = 0; i < 1u << table->memo_bits && !full; ++i)
        if (table->memo[i].y > 0)
            full = enter(table, table->memo[i].x, table->memo[i].y);
}
#else
uint count_run(const table_t *table, uint color, uint often)
{
    return enter(table, color, often);
}
#endif

/* Counts the colours of pixels until there are more than `most` of them; then only alpha values are looked at. Which
 * slot a colour takes depends on scheduling; which colours there are and their counts do not, nor whether they are too
 * many.
 *
 * NDRange: any; work-items take runs of pixels in turn.
 *   pixels  uchar (count, CHANNELS)
 *   colors  uint (SLOTS), 0 is free: pixels of alpha 0 are not entered
 *   counts  uint (SLOTS), zero before the first launch
 *   found   uint (2), zero before the first launch: colours entered; bit 0: some alpha is 0, bit 1: some is 1 to 254
 *   memos   uint2 (work-items, 2^memo_bits), scratch, memo_bits 1 to 31: a colour, pixels not in `counts` yet */
__kernel void palette_distinct(__global const uchar *restrict pixels, const uint count, const uint most,
                               volatile __global uint *colors, volatile __global uint *counts,
                               volatile __global uint *found
#if MEMO
                               ,
                               __global uint2 *memos, const uint memo_bits
#endif
)
{
    table_t table = {.most = most, .colors = colors, .counts = counts, .found = found};
#if MEMO
    table.memo = memos + (get_global_id(0) << memo_bits), table.memo_bits = memo_bits;
    for (uint i = 0; i < 1u << memo_bits; ++i)
        table.memo[i] = (uint2)(0, 0);
#endif
    uint last = 0, often = 0, seen = 0, full = 0;
    for (ulong begin = (ulong)get_global_id(0) * RUN; begin < count; begin += (ulong)get_global_size(0) * RUN) {
        full = full || atomic_read(&found[0]) > most;
#if CHANNELS < 4
        if (full)
            return;
#endif
        const ulong end = min(begin + RUN, (ulong)count);
        for (ulong i = begin; i < end; ++i) {
#if CHANNELS == 1
            const uint color = 0xff000000u | pixels[i] * 0x010101u;
#elif CHANNELS == 3
            const uint color = 0xff000000u | pixels[3 * i] | pixels[3 * i + 1] << 8 | pixels[3 * i + 2] << 16;
#else
            const uint alpha = pixels[4 * i + 3];
            const uint color =
                alpha == 0 ? 0 : alpha << 24 | pixels[4 * i] | pixels[4 * i + 1] << 8 | pixels[4 * i + 2] << 16;
            seen |= alpha == 0 ? 1u : alpha < 255 ? 2u : 0u;
#endif
            if (color != last) {
                if (often > 0 && last != 0 && !full)
                    full = count_run(&table, last, often);
                last = color;
                often = 0;
            }
            ++often;
        }
    }
    if (often > 0 && last != 0 && !full)
        full = count_run(&table, last, often);
#if MEMO
    if (!full)
        end_counts(&table);
#endif
    if (seen && (!LOADS || (seen & ~atomic_read(&found[1]))))
        atomic_or(&found[1], seen);
}
