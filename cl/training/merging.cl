/* Merging codewords with their nearest neighbours (Equitz, "A new vector quantization clustering algorithm", 1989), many
 * at a time: a codeword may go if that costs less error than if its neighbour went, so that of each pair one stays.
 *
 * Constants: P, Q, C, ALIGNED (training/block.h).
 */
#include "training/block.h"

#define COLUMNS (K + 1)
#define BEHIND (1UL << 63)

/* What each codeword's merge costs: d^2 n m / (n + m) for weights n and m in units of 2^shift, below 2^27, times 256.
 * So products are below 2^62, quotients below 2^34, and costs below 2^60.
 *
 * NDRange: 1-D, size work-items rounded up to whole groups of any size. neighbours: size ushort, the nearest other
 * codeword. totals: size x (K + 1) ulong, the last column weights. costs: size ulong.
 */
__kernel void vq_merge_costs(__global const uchar *codebook, __global const ushort *neighbours,
                             __global const ulong *totals, const uint size, const uint shift, __global ulong *costs)
{
    const uint j = get_global_id(0);
    if (j >= size)
        return;
    const uint i = neighbours[j];
    uint distance = 0;
    for (uint k = 0; k < K; ++k) {
        const int difference = (int)codebook[(size_t)j * K + k] - (int)codebook[(size_t)i * K + k];
        distance += (uint)(difference * difference);
    }
    const ulong own = totals[(size_t)j * COLUMNS + K] >> shift;
    const ulong other = totals[(size_t)i * COLUMNS + K] >> shift;
    costs[j] = 256 * own * other / max(own + other, 1UL) * distance;
}

/* Keys by which codewords go: their costs, behind all others if their neighbour should go before them.
 *
 * NDRange: as vq_merge_costs. keys: size ulong.
 */
__kernel void vq_merge_keys(__global const ulong *costs, __global const ushort *neighbours, const uint size,
                            __global ulong *keys)
{
    const uint j = get_global_id(0);
    if (j >= size)
        return;
    const uint i = neighbours[j];
    const bool before = costs[j] < costs[i] || (costs[j] == costs[i] && j < i);
    keys[j] = before ? costs[j] : costs[j] | BEHIND;
}
