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
#define BINS 65536
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

/* Counts of all keys of a row, by atomics on integers. Ends with a barrier. */
void count_row(__global const ushort *row, const uint n, __global uint *bins)
{
    for (uint i = get_local_id(0); i < BINS; i += LOCAL)
        bins[i] = 0;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < n; i += LOCAL)
        atomic_inc(&bins[key_of(row[i])]);
    barrier(CLK_GLOBAL_MEM_FENCE);
}

/* The different numbers of each row, above its first, times a power of two such that n (largest)^2 < 2^64.
 * NDRange: (groups * LOCAL); group g takes the rows g, g + groups, ...
 *   given     ushort (rows, n): the bits of the numbers; integers of 8 bits widened
 *   bins      uint (groups, BINS)
 *   keys      ushort (rows, n), numbers, counts uint (rows, n): the first of each row are written
 *   lengths   uint (rows): how many
 *   sizes     rows, n
 * Local memory: 12 bytes per work-item. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void scalar_counts(
    __global const ushort *restrict given, __global uint *bins, __global ushort *restrict keys,
    __global uint *restrict numbers, __global uint *restrict counts, __global uint *restrict lengths, const uint2 sizes)
{
    __local uint different[LOCAL], lowest[LOCAL], highest[LOCAL];
    const uint item = get_local_id(0), group = get_group_id(0), share = (BINS + LOCAL - 1) / LOCAL;
    const uint begin = min(item * share, (uint)BINS), end = min(begin + share, (uint)BINS);
    __global uint *own = bins + (size_t)group * BINS;
    for (uint row = group; row < sizes.s0; row += get_num_groups(0)) {
        const size_t at = (size_t)row * sizes.s1;
        count_row(given + at, sizes.s1, own);
        uint found = 0, low = BINS, high = 0;
        for (uint key = begin; key < end; ++key)
            if (own[key]) {
                low = min(low, key);
                high = key;
                ++found;
            }
        different[item] = found;
        lowest[item] = low;
        highest[item] = high;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint place = 0, all = 0;
        for (uint i = 0; i < LOCAL; ++i) {
            place += i < item ? different[i] : 0;
            all += different[i];
            low = min(low, lowest[i]);
            high = max(high, highest[i]);
        }
        const long first = whole_of(low), last = whole_of(high);
        int finer = 0; /* bits by which whole numbers become finer */
        if (KIND == HALF)
            finer = FLOAT_BITS - bit_length(max(abs(first), abs(last)));
        const int wanted = min((64 - bit_length(sizes.s1)) / 2, 31) - bit_length((ulong)(last - first) << finer);
        const int left = max(wanted, 0), right = max(-wanted, 0);
        const ulong half_way = (1UL << right) >> 1;
        for (uint key = begin; key < end; ++key)
            if (own[key]) {
                const ulong above = (ulong)(whole_of(key) - first) << finer;
                numbers[at + place] = (uint)(((above << left) + half_way) >> right);
                counts[at + place] = own[key];
                keys[at + place++] = (ushort)key;
            }
        if (item == 0)
            lengths[row] = all;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
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
