/* Side-match vector quantization (T. Kim, "Side match and overlap match vector quantizers for images", 1992): a block
 * is coded by its codeword's rank in a state codebook, the STATE codewords that best continue the blocks above and to
 * the left.
 *
 * Side-match distance of a codeword: squared differences between its first row and the last row of the codeword above,
 * plus those between its first column and the last column of the codeword to the left; at most 65025 (P + Q) C < 2^24,
 * as blocks have at most 256 pixels. Codewords are ranked by this distance, the lower index first on ties.
 *
 * One launch codes blocks of one anti-diagonal, which do not depend on each other; a group works on one block.
 *
 * Constants: P, Q, C (block rows, block columns, channels), STATE (1..255).
 */
#define ROW_BYTES (Q * C)
#define K (P * Q * C)
#define ESCAPE 255
#define DISTANCE_BITS 24

inline uint side_distance(__global const uchar *above, __global const uchar *left, __global const uchar *codeword)
{
    uint sum = 0;
    for (uint x = 0; x < ROW_BYTES; ++x) {
        const int difference = (int)above[K - ROW_BYTES + x] - (int)codeword[x];
        sum += (uint)(difference * difference);
    }
    for (uint y = 0; y < P; ++y)
        for (uint c = 0; c < C; ++c) {
            const int difference = (int)left[(y + 1) * ROW_BYTES - C + c] - (int)codeword[y * ROW_BYTES + c];
            sum += (uint)(difference * difference);
        }
    return sum;
}

/* The side-match distances of the codewords begin .. end - 1 for the block `here`. */
inline void measure_sides(__global const uchar *codebook, __global const ushort *chosen, size_t here, uint columns,
                          uint begin, uint end, __global uint *distances)
{
    __global const uchar *above = codebook + (size_t)chosen[here - columns] * K;
    __global const uchar *left = codebook + (size_t)chosen[here - 1] * K;
    for (uint j = begin; j < end; ++j)
        distances[j] = side_distance(above, left, codebook + (size_t)j * K);
}

inline uint block_error(__global const uchar *block, __global const uchar *codeword)
{
    uint sum = 0;
    for (uint k = 0; k < K; ++k) {
        const int difference = (int)block[k] - (int)codeword[k];
        sum += (uint)(difference * difference);
    }
    return sum;
}

/* The sum of every work-item's value, known to all; two barriers, so it stands where the whole group comes by. */
#define GROUP_SUM(result, value)                                                                                       \
    partial[lane] = (value);                                                                                           \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                      \
    result = 0;                                                                                                        \
    for (uint i = 0; i < lanes; ++i)                                                                                   \
        result += partial[i];                                                                                          \
    barrier(CLK_LOCAL_MEM_FENCE);

/* The least distance that more than `below` codewords do not exceed, by halving its 24 bits from above. */
#define FIND_DISTANCE(result, below)                                                                                   \
    result = 0;                                                                                                        \
    for (int bit = DISTANCE_BITS - 1; bit >= 0; --bit) {                                                               \
        const uint trial = result | 1u << bit;                                                                         \
        uint mine = 0, all;                                                                                            \
        for (uint j = begin; j < end; ++j)                                                                             \
            mine += distances[j] < trial;                                                                              \
        GROUP_SUM(all, mine)                                                                                           \
        result = all <= (below) ? trial : result;                                                                      \
    }

/* Codes blocks of an anti-diagonal.
 *
 * NDRange: 1-D, one group of any size per block; group g works on block (first_row + g, diagonal - first_row - g),
 * which has neighbours above and to the left. codebook: size x K bytes. blocks: rows x columns x K bytes, row by row.
 * chosen: rows x columns ushort; on entry the nearest codeword of every block, replaced where another codeword is taken
 * that is in the state codebook and whose squared error is larger by less than `tolerance`. symbols: rows x columns
 * uchar, ESCAPE on entry; ranks are written. scratch: groups x size uint. Local memory: partial and place, one uint
 * each per work-item.
 */
__kernel void vq_side_encode(__global const uchar *codebook, const uint size, __global const uchar *blocks,
                             const uint columns, const uint first_row, const uint diagonal, const uint tolerance,
                             __global ushort *chosen, __global uchar *symbols, __global uint *scratch,
                             __local uint *partial, __local uint *place)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint row = first_row + get_group_id(0);
    const size_t here = (size_t)row * columns + (diagonal - row);
    const uint share = (size + lanes - 1) / lanes;
    const uint begin = min(lane * share, size);
    const uint end = min(begin + share, size);
    __global uint *distances = scratch + (size_t)get_group_id(0) * size;
    measure_sides(codebook, chosen, here, columns, begin, end, distances);
    barrier(CLK_GLOBAL_MEM_FENCE);

    uint last, equals = 0, before = 0, total;
    FIND_DISTANCE(last, STATE - 1)
    for (uint j = begin; j < end; ++j) {
        equals += distances[j] == last;
        before += distances[j] < last;
    }
    GROUP_SUM(total, before)
    const uint wanted = STATE - total; /* of those at distance `last`, the first ones belong to the state codebook */
    partial[lane] = equals;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint seen = 0;
    for (uint i = 0; i < lane; ++i)
        seen += partial[i];
    barrier(CLK_LOCAL_MEM_FENCE);

    __global const uchar *block = blocks + here * K;
    const uint nearest = chosen[here];
    uint best = UINT_MAX, where = 0;
    for (uint j = begin; j < end; ++j) {
        const bool tied = distances[j] == last;
        const bool member = distances[j] < last || (tied && seen < wanted);
        seen += tied;
        const uint error = member ? block_error(block, codebook + (size_t)j * K) : UINT_MAX;
        where = error < best ? j : where;
        best = min(error, best);
    }
    partial[lane] = best;
    place[lane] = where;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* all have read chosen[here] */
    uint least = 0; /* lanes have ascending codewords, so the first of the best is the lowest index */
    for (uint i = 1; i < lanes; ++i)
        least = partial[i] < partial[least] ? i : least;
    best = partial[least];
    where = place[least];
    barrier(CLK_LOCAL_MEM_FENCE);

    const bool taken = where == nearest || best < block_error(block, codebook + (size_t)nearest * K) + tolerance;
    uint rank, ahead = 0;
    for (uint j = begin; j < end; ++j)
        ahead += distances[j] < distances[where] || (distances[j] == distances[where] && j < where);
    GROUP_SUM(rank, ahead)
    if (lane == 0 && taken) {
        chosen[here] = (ushort)where;
        symbols[here] = (uchar)rank;
    }
}

/* Turns ranks of blocks of an anti-diagonal back into codewords.
 *
 * NDRange, codebook, size, columns, first_row, diagonal, scratch: as in vq_side_encode. symbols: ranks below STATE or
 * ESCAPE. chosen: rows x columns ushort; on entry right for ESCAPEs, on exit for these blocks too. Local memory:
 * partial, one uint per work-item.
 */
__kernel void vq_side_decode(__global const uchar *codebook, const uint size, const uint columns, const uint first_row,
                             const uint diagonal, __global const uchar *symbols, __global ushort *chosen,
                             __global uint *scratch, __local uint *partial)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint row = first_row + get_group_id(0);
    const size_t here = (size_t)row * columns + (diagonal - row);
    const uint share = (size + lanes - 1) / lanes;
    const uint begin = min(lane * share, size);
    const uint end = min(begin + share, size);
    __global uint *distances = scratch + (size_t)get_group_id(0) * size;
    const uint rank = symbols[here];
    measure_sides(codebook, chosen, here, columns, begin, end, distances);
    barrier(CLK_GLOBAL_MEM_FENCE);

    uint value, equals = 0, before = 0, total;
    FIND_DISTANCE(value, rank)
    for (uint j = begin; j < end; ++j) {
        equals += distances[j] == value;
        before += distances[j] < value;
    }
    GROUP_SUM(total, before)
    partial[lane] = equals;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint seen = total;
    for (uint i = 0; i < lane; ++i)
        seen += partial[i];
    if (rank != ESCAPE)
        for (uint j = begin; j < end; ++j)
            if (distances[j] == value && seen++ == rank)
                chosen[here] = (ushort)j;
}
