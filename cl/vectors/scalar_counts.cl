/* Rows of numbers of 8 or 16 bits as their different numbers, ascending, with counts, which cl/vectors/scalar_runs.cl
 * takes; and the sums of the runs that it finds.
 *
 * Constants from the host:
 *   LOCAL       work-items per group
 *   KIND        UNSIGNED, SIGNED or HALF: integers without and with a sign, float16
 *
 * Exactness: integers alone. A float16 is a whole number below 2^40 in units of 2^-24. */

#define UNSIGNED 0
#define SIGNED 1
#define HALF 2
#define KEYS 65536
#define WORDS (KEYS / 32)
#define LEAST_INFINITY 0x3ff /* the key of minus infinity; those of NaN lie below it, and above infinity's */
#define INFINITY_KEY 0xfc00
#define FLOAT_BITS 40

/* Bits of a number as one that ascends with it, and back. */
uint key_of(const uint bits)
{
#if KIND == HALF
    return bits & 0x8000 ? ~bits & 0xffff : bits | 0x8000;
#else
    return bits ^ (KIND == SIGNED ? 0x8000 : 0);
#endif
}

/* A number by its key: the integer itself, or a float16 in units of 2^-24. */
long whole_of(const uint key)
{
#if KIND == HALF
    const uint size = key & 0x8000 ? key & 0x7fff : ~key & 0x7fff, exponent = size >> 10, digits = size & 1023;
    const long whole = exponent ? (long)(digits | 1024) << (exponent - 1) : digits;
    return key & 0x8000 ? whole : -whole;
#else
    return (long)key - (KIND == SIGNED ? 0x8000 : 0);
#endif
}

int bit_length(const ulong number)
{
    return 64 - (int)clz(number);
}

/* The lowest key of a word of marks. */
uint lowest_of(const uint w, const uint word)
{
    return 32 * w + 31 - clz(word & -word);
}

/* The bits that stand for a row's numbers, and how many are set before each word of them. Ends with a barrier.
 * `ends`: the lowest and the highest key, and how many there are. */
void mark_row(__global const ushort *row, const uint n, __local uint *marks, __local ushort *before, __local uint *set,
              __local uint *ends)
{
    const uint item = get_local_id(0), share = (WORDS + LOCAL - 1) / LOCAL;
    const uint begin = min(item * share, (uint)WORDS), end = min(begin + share, (uint)WORDS);
    for (uint w = item; w < WORDS; w += LOCAL)
        marks[w] = 0;
    if (item == 0) {
        ends[0] = KEYS;
        ends[1] = ends[2] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < n; i += LOCAL) {
        const uint key = key_of(row[i]);
        atomic_or(&marks[key / 32], 1u << key % 32);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint own = 0, low = KEYS, high = 0;
    for (uint w = begin; w < end; ++w)
        if (marks[w]) {
            own += popcount(marks[w]);
            low = min(low, lowest_of(w, marks[w]));
            high = 32 * w + 31 - clz(marks[w]);
        }
    set[item] = own;
    atomic_min(&ends[0], low);
    atomic_max(&ends[1], high);
    atomic_add(&ends[2], own);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint place = 0;
    for (uint i = 0; i < item; ++i)
        place += set[i];
    for (uint w = begin; w < end; ++w) {
        before[w] = (ushort)place;
        place += popcount(marks[w]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The numbers of a row's keys, above the first, times a power of two such that n (largest)^2 < 2^64, with counts of 0. */
void write_row(const uint n, __local const uint *marks, __local const ushort *before, __local const uint *ends,
               __global ushort *keys, __global uint *numbers, __global uint *counts)
{
    const long first = whole_of(ends[0]), last = whole_of(ends[1]);
    int finer = 0; /* bits by which whole numbers become finer */
    if (KIND == HALF)
        finer = max(FLOAT_BITS - bit_length(max(abs(first), abs(last))), 0);
    const int wanted = min((64 - bit_length(n)) / 2, 31) - bit_length((ulong)(last - first) << finer);
    const int left = max(wanted, 0), right = max(-wanted, 0);
    const ulong half_way = (1UL << right) >> 1;
    for (uint w = get_local_id(0); w < WORDS; w += LOCAL) {
        uint place = before[w];
        for (uint rest = marks[w]; rest; rest &= rest - 1) {
            const uint key = lowest_of(w, rest);
            const ulong above = (ulong)(whole_of(key) - first) << finer;
            numbers[place] = (uint)(((above << left) + half_way) >> right);
            counts[place] = 0;
            keys[place++] = (ushort)key;
        }
    }
}

/* The different numbers of each row, for cl/vectors/scalar_runs.cl.
 * NDRange: (rows * LOCAL), a group for each row.
 *   given     ushort (rows, n) from place `first` on: the bits of the numbers; integers of 8 bits widened
 *   keys      ushort (rows, n), numbers, counts uint (rows, n): the first of each row are written
 *   lengths   uint (rows): how many; 0 of a row with a number that is not finite
 * Local memory: 12 KiB, 4 bytes per work-item. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void scalar_counts(
    __global const ushort *restrict given, const ulong first, __global ushort *restrict keys,
    __global uint *restrict numbers, __global uint *restrict counts, __global uint *restrict lengths, const uint n)
{
    __local uint marks[WORDS], set[LOCAL], ends[3];
    __local ushort before[WORDS];
    const uint item = get_local_id(0), row = get_group_id(0);
    const size_t at = (size_t)row * n;
    mark_row(given + first + at, n, marks, before, set, ends);
    write_row(n, marks, before, ends, keys + at, numbers + at, counts + at);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint i = item; i < n; i += LOCAL) {
        const uint key = key_of(given[first + at + i]), below = marks[key / 32] & ((1u << key % 32) - 1);
        atomic_inc(&counts[at + before[key / 32] + popcount(below)]);
    }
    if (item == 0)
        lengths[row] = KIND != HALF || (ends[0] > LEAST_INFINITY && ends[1] < INFINITY_KEY) ? ends[2] : 0;
}

/* The sums of runs and how many numbers they have.
 * NDRange: rows * k, rounded up to whole groups of any size.
 *   ends      uint (rows, k), of cl/vectors/scalar_runs.cl
 *   sums      long (rows, k), in units of 1 or 2^-24; masses uint (rows, k)
 *   sizes     rows, n, k */
__kernel void run_sums(__global const ushort *restrict keys, __global const uint *restrict counts,
                       __global const uint *restrict ends, __global long *restrict sums, __global uint *restrict masses,
                       const uint4 sizes)
{
    const size_t item = get_global_id(0);
    if (item >= (size_t)sizes.s0 * sizes.s2)
        return;
    const size_t at = item / sizes.s2 * sizes.s1;
    long sum = 0;
    uint mass = 0;
    for (uint i = item % sizes.s2 ? ends[item - 1] : 0; i < ends[item]; ++i) {
        sum += whole_of(keys[at + i]) * (long)counts[at + i];
        mass += counts[at + i];
    }
    sums[item] = sum;
    masses[item] = mass;
}
