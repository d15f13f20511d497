/* Warps: work-items of a group that go in step, and need no barriers among themselves. All lanes of a warp call these.
 *
 * Constants: WARP: work-items of a warp: 32, by inline PTX for NVIDIA's GPUs of compute capability 8.0 and up, or 1.
 */
#define INLINED __attribute__((always_inline))

/* Lanes of a part of a warp. */
#define TAKERS (WARP < 8 ? WARP : 8)
#define PARTS (WARP / TAKERS)

#if WARP == 1
#define wait_for_lanes()
#define votes(whether) ((uint)(whether))
#define least_of_lanes(value) (value)
#define union_of_lanes(bits) (bits)
#define sum_of_lanes(value) (value)
#define sum_of_parts(value) (value)
#else
#define wait_for_lanes() __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory")

/* The lanes that say yes, a bit each. */
uint votes(int whether)
{
    uint out;
    __asm__ volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                     : "=r"(out)
                     : "r"(whether));
    return out;
}

uint least_of_lanes(uint value)
{
    uint out;
    __asm__ volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(out) : "r"(value));
    return out;
}

ulong union_of_lanes(ulong bits)
{
    uint low, high;
    __asm__ volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(low) : "r"((uint)bits));
    __asm__ volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(high) : "r"((uint)(bits >> 32)));
    return ((ulong)high << 32) | low;
}

uint narrow_sum(uint value)
{
    uint out;
    __asm__ volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(out) : "r"(value));
    return out;
}

/* The sum of 64-bit values, in parts of 27 bits of which 32 do not pass 32 bits. */
ulong sum_of_lanes(ulong value)
{
    const uint part = (1u << 27) - 1;
    return narrow_sum((uint)value & part) + ((ulong)narrow_sum((uint)(value >> 27) & part) << 27) +
           ((ulong)narrow_sum((uint)(value >> 54)) << 54);
}

/* The sum of the values of the lanes that are multiples of TAKERS apart. */
ulong sum_of_parts(ulong value)
{
    for (uint step = TAKERS; step < WARP; step *= 2) {
        uint low, high;
        const uint own = (uint)(value >> 32);
        __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(low) : "r"((uint)value), "r"(step));
        __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(high) : "r"(own), "r"(step));
        value += ((ulong)high << 32) | low;
    }
    return value;
}
#endif
