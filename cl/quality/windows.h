/* Weighted means of values below 2^31 over symmetric windows: the weights are integers that sum to 2^32, so that a
 * mean, rounded, is the high word of a sum below 2^63 that begins with HALF. Two values of equal weight are added
 * first, in 32 bits. */
#define HALF (1UL << 31)

ulong4 weighted(uint4 values, uint weight)
{
    return convert_ulong4(values) * (ulong)weight;
}

uint4 mean_of(ulong4 sum)
{
    return convert_uint4(sum >> 32);
}
