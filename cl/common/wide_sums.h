/* 64-bit sums by 32-bit atomics, for devices without those of 64 bits: a sum is two words, the low one first. */

#define ADD_WIDE(name, SPACE)                                                                                          \
    void name(SPACE volatile uint *sum, ulong value)                                                                   \
    {                                                                                                                  \
        const uint low = (uint)value;                                                                                  \
        uint high = (uint)(value >> 32);                                                                               \
        if (low) /* a carry goes with what the high word gets */                                                       \
            high += (uint)(atomic_add(&sum[0], low) + low) < low;                                                      \
        if (high)                                                                                                      \
            atomic_add(&sum[1], high);                                                                                 \
    }

ADD_WIDE(add_wide_local, __local)
ADD_WIDE(add_wide_global, __global)
