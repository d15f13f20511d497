/* Kernels that measure how fast a device reads and adds at places that nobody can foretell, for
 * benchmarks/measure/access.py. Their results are checked there.
 *
 * Places are the high bits of linear congruential sequences, so that finding one costs a multiply-add and a shift.
 *
 * Constants: LOCAL_WORDS, a power of two: words of local memory that are read or added to.
 */

#define NEXT(x) x = x * 1664525u + 1013904223u

/* Where the sequence of a work-item begins. */
uint first_of(uint item)
{
    return item * 747796405u + 1u;
}

/* Reads of 4 bytes, four sequences a work-item, none of which waits for another.
 * NDRange: 1-D, any size. table (2^(32 - shift)) uint; rounds: reads of each sequence; out (items) uint: sums of what
 * was read. */
__kernel void measure_reads(__global uint *out, __global const uint *restrict table, const uint shift,
                            const uint rounds)
{
    uint a = first_of((uint)get_global_id(0));
    uint b = a ^ 0x5bd1e995u, c = a * 3u + 7u, d = a * 5u + 11u;
    uint sum = 0;
    for (uint i = 0; i < rounds; i++) {
        NEXT(a);
        NEXT(b);
        NEXT(c);
        NEXT(d);
        sum += (table[a >> shift] + table[b >> shift]) + (table[c >> shift] + table[d >> shift]);
    }
    out[get_global_id(0)] = sum;
}

/* The same from local memory, which is filled from the table first.
 * NDRange: 1-D, any size. table (LOCAL_WORDS) uint, 2^(32 - shift) of them. */
__kernel void measure_local_reads(__global uint *out, __global const uint *restrict table, const uint shift,
                                  const uint rounds)
{
    __local uint words[LOCAL_WORDS];
    for (uint i = get_local_id(0); i < LOCAL_WORDS; i += get_local_size(0))
        words[i] = table[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    uint a = first_of((uint)get_global_id(0));
    uint b = a ^ 0x5bd1e995u, c = a * 3u + 7u, d = a * 5u + 11u;
    uint sum = 0;
    for (uint i = 0; i < rounds; i++) {
        NEXT(a);
        NEXT(b);
        NEXT(c);
        NEXT(d);
        sum += (words[a >> shift] + words[b >> shift]) + (words[c >> shift] + words[d >> shift]);
    }
    out[get_global_id(0)] = sum;
}

/* Atomic additions of 1 whose old values are not used.
 * NDRange: 1-D, any size. bins (2^(32 - shift)) uint, added to; rounds: additions of a work-item. */
__kernel void measure_adds(__global uint *bins, const uint shift, const uint rounds)
{
    uint a = first_of((uint)get_global_id(0));
    for (uint i = 0; i < rounds; i++) {
        NEXT(a);
        atomic_add(&bins[a >> shift], 1u);
    }
}

/* The same in local memory, which is added to `bins` in the end.
 * NDRange: 1-D, any size. bins (LOCAL_WORDS) uint, 2^(32 - shift) of them. */
__kernel void measure_local_adds(__global uint *bins, const uint shift, const uint rounds)
{
    __local uint words[LOCAL_WORDS];
    for (uint i = get_local_id(0); i < LOCAL_WORDS; i += get_local_size(0))
        words[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint a = first_of((uint)get_global_id(0));
    for (uint i = 0; i < rounds; i++) {
        NEXT(a);
        atomic_add(&words[a >> shift], 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < LOCAL_WORDS; i += get_local_size(0))
        atomic_add(&bins[i], words[i]);
}

/* Reads each of which waits for the one before. NDRange: one work-item. table (any) uint: where to read next; out (1):
 * the place that is reached. */
__kernel void measure_chain(__global uint *out, __global const uint *restrict table, const uint rounds)
{
    uint at = 0;
    for (uint i = 0; i < rounds; i++)
        at = table[at];
    out[0] = at;
}

/* The same in local memory. NDRange: one work-item. table (LOCAL_WORDS) uint. */
__kernel void measure_local_chain(__global uint *out, __global const uint *restrict table, const uint rounds)
{
    __local uint words[LOCAL_WORDS];
    for (uint i = 0; i < LOCAL_WORDS; i++)
        words[i] = table[i];
    uint at = 0;
    for (uint i = 0; i < rounds; i++)
        at = words[at];
    out[0] = at;
}
