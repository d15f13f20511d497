/* Merging codewords with their nearest neighbours (Equitz, "A new vector quantization clustering algorithm", 1989),
 * many at a time: a codeword may go if that costs less error than if its neighbour went, so that of each pair one
 * stays.
 *
 * Constants: P, Q, C, ALIGNED, DEEP (training/block.h), DISTANCE_SHIFT.
 */
#include "training/block.h"

#define COLUMNS (K + 1)
#define BEHIND (1UL << 63)

/* What a codeword's merge with its neighbour costs: d^2 n m / (n + m) for weights n and m in units of 2^shift, below
 * 2^27, times 256. So products are below 2^62, quotients below 2^34, and costs below 2^61. With DEEP, where distances are
 * below 2^(26 + DISTANCE_SHIFT), costs are divided by 2^DISTANCE_SHIFT.
 */
inline ulong cost_of(__global const value_t *codebook, __global const ushort *neighbours, __global const ulong *totals,
                     uint j, uint shift)
{
    const uint i = neighbours[j];
    const squares_t distance = row_distance(codebook, j, codebook, i);
    const ulong own = totals[(size_t)j * COLUMNS + K] >> shift;
    const ulong other = totals[(size_t)i * COLUMNS + K] >> shift;
    const ulong share = 256 * own * other / max(own + other, 1UL);
#if DEEP
    return mul_hi(share << 30, distance << (34 - DISTANCE_SHIFT));
#else
    return share * distance;
#endif
}

/* Keys by which codewords go: their costs, behind all others if their neighbour should go before them.
 *
 * NDRange: 1-D, size work-items rounded up to whole groups of any size. neighbours: size ushort, the nearest other
 * codeword. totals: size x (K + 1) ulong, the last column weights. keys: size ulong.
 */
__kernel void vq_merge_keys(__global const value_t *codebook, __global const ushort *neighbours,
                            __global const ulong *totals, const uint size, const uint shift, __global ulong *keys)
{
    const uint j = get_global_id(0);
    if (j >= size)
        return;
    const uint i = neighbours[j];
    const ulong own = cost_of(codebook, neighbours, totals, j, shift);
    const ulong other = cost_of(codebook, neighbours, totals, i, shift);
    keys[j] = own < other || (own == other && j < i) ? own : own | BEHIND;
}
