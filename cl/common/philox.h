/* Philox4x32-10: counter-based random numbers, keyed by seed and position, never by scheduling.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 * Twin of clquant/runtime/philox.py, which gives the same bits. */

inline uint4 philox4x32(uint4 counter, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        uint high_0 = mul_hi(0xD2511F53u, counter.s0);
        uint low_0 = 0xD2511F53u * counter.s0;
        uint high_1 = mul_hi(0xCD9E8D57u, counter.s2);
        uint low_1 = 0xCD9E8D57u * counter.s2;
        counter = (uint4)(high_1 ^ counter.s1 ^ key.s0, low_1, high_0 ^ counter.s3 ^ key.s1, low_0);
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}
