/* Steps of the LBG algorithm (Linde, Buzo and Gray, "An Algorithm for Vector Quantizer Design", 1980) on whole-number
 * codewords, with the noise of stochastic relaxation (Zeger, Vaisey and Gersho, "Globally optimal vector quantizer
 * design by stochastic relaxation", 1992). No step needs the host: what it finds stays on the device.
 *
 * Blocks are rows of K components of at most LARGEST in pieces of at most 2^22. Weights W of all
 * blocks and squared errors are bounded by the host: LARGEST^2 K W < 2^63. So sums of weighted components times 256,
 * and the errors, are exact in 64 bits.
 *
 * Constants: P, Q, C, ALIGNED, DEEP, WEIGHTED (training/block.h); LARGEST (of components).
 * Sizes that all kernels share: `capacity`, codewords there is room for; `parts`, tables of sums; `pieces`, of the set.
 * Layouts: codebooks capacity x K. sums: parts x HALVES x capacity x (K + 1) sum_t, the last column for weights.
 * totals: capacity x (K + 1) ulong, likewise. worst: pieces x capacity uint. state: 3 ulong (DEAD, ERROR, RMS).
 */
#include "training/block.h"
#include "training/accumulate.h"
#include "common/philox.h"

#define DEAD 0  /* codewords without blocks */
#define ERROR 1 /* weighted squared error of all blocks */
#define RMS 2   /* root of the mean squared error per component, in 1/256 */
#define PLACE_BITS 22
#define PLACE_MASK ((1u << PLACE_BITS) - 1)
#define NOISE 2 /* purpose of random numbers */
#define GONE UINT_MAX

/* A sum over all tables, which are emptied. */
inline ulong take_sum(__global sum_t *sums, size_t place, uint capacity, uint parts)
{
    const size_t high = (size_t)capacity * COLUMNS;
    ulong total = 0;
    for (uint part = 0; part < parts; ++part) {
        __global sum_t *sum = sums + part * high * HALVES + place;
        total += sum[0];
        sum[0] = 0;
#if HALVES == 2
        total += (ulong)sum[high] << 32;
        sum[high] = 0;
#endif
    }
    return total;
}

/* The sums of a piece become part of the totals, and are emptied.
 *
 * NDRange: 1-D, groups of any size, one for each of `size` codewords; more do nothing. piece: its number. adds: whether
 * to what is there. errors: per codeword, its blocks' squared error less their squared lengths (|c|^2 n - 2 c.S; may
 * wrap below 0). worst: emptied.
 * Local memory: error, one ulong per work-item.
 */
__kernel void vq_fold(__global sum_t *sums, const uint size, const uint piece, const uint adds,
                      __global const value_t *codebook, __global ulong *totals, __global ulong *errors,
                      __global uint *worst, const uint capacity, const uint parts, __local ulong *error)
{
    const uint j = get_group_id(0);
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    if (j >= size)
        return;
    const size_t row = (size_t)j * COLUMNS;
    ulong own = 0;
    for (uint k = lane; k < COLUMNS; k += lanes) {
        const ulong sum = take_sum(sums, row + k, capacity, parts);
        totals[row + k] = (adds ? totals[row + k] : 0) + sum;
        if (k < K)
            own -= 2 * (ulong)codebook[(size_t)j * K + k] * sum;
        else
            own += (ulong)squared_length(codebook, j) * sum;
    }
    error[lane] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane > 0)
        return;
    for (uint i = 1; i < lanes; ++i)
        own += error[i];
    errors[j] = (adds ? errors[j] : 0) + own;
    worst[piece * capacity + j] = 0;
}

/* The whole root of a number below 2^32, or 2^48 with DEEP. */
inline squares_t root_of(squares_t square)
{
    squares_t root = 0;
    for (squares_t bit = 1u << (DEEP ? 23 : 15); bit > 0; bit >>= 1)
        root = (root + bit) * (root + bit) <= square ? root + bit : root;
    return root;
}

/* What concerns all codewords: the error, its root mean, and which codewords have no blocks.
 *
 * NDRange: one group of a power of two. size: codewords. mass: the sum of all weights, times K. squares: one ulong, the
 * weighted sum of the blocks' squared lengths. dead: codewords without blocks, in order.
 * Local memory: error, one ulong per work-item; empty, one uint per work-item.
 */
__kernel void vq_state(__global const ulong *errors, __global const ulong *totals, const uint size, const ulong mass,
                       __global const ulong *squares, __global ulong *state, __global uint *dead, __local ulong *error,
                       __local uint *empty)
{
    __local uint number; /* of codewords without blocks */
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    const uint share = (size + lanes - 1) / lanes;
    const uint end = min((lane + 1) * share, size);
    ulong sum = 0;
    uint without = 0;
    for (uint j = lane * share; j < end; ++j) {
        sum += errors[j];
        without += totals[(size_t)j * COLUMNS + K] == 0;
    }
    error[lane] = sum;
    empty[lane] = without;
    if (lane == 0)
        number = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (without > 0)
        atomic_add(&number, without);
    for (uint others = lanes / 2; others > 0; others /= 2) {
        if (lane < others)
            error[lane] += error[lane + others];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0) {
        const ulong whole = squares[0] + error[0];
        state[ERROR] = whole;
        state[RMS] = root_of((squares_t)((whole / mass << 16) + (whole % mass << 16) / mass));
        state[DEAD] = number;
        uint before = 0;
        for (uint i = 0; i < lanes && number > 0; ++i) {
            const uint own = empty[i];
            empty[i] = before;
            before += own;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint place = empty[lane];
    for (uint j = lane * share; j < end && without > 0; ++j)
        if (totals[(size_t)j * COLUMNS + K] == 0)
            dead[place++] = j;
}

/* Errors in steps of a sixteenth of their power of two, 0 for none: 10 bits for those below 2^63. */
inline uint level_of(ulong error)
{
    if (error == 0)
        return 0;
    const uint bits = 64 - (uint)clz(error);
    return bits << 4 | ((uint)((error << 4) >> (bits - 1)) & 15);
}

/* Of each codeword the block of the largest weighted error by level, the first one of these; if any codeword is dead.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. worst: level << 22 | 2^22 - 1 - block.
 */
__kernel void vq_worst(__global const value_t *blocks, __global const ushort *indices, const uint count,
                       __global const uint *weights, const uint piece, __global const value_t *codebook,
                       __global const ulong *state, __global uint *worst, const uint capacity)
{
    const uint which = get_global_id(0);
    if (which >= count || state[DEAD] == 0)
        return;
    const uint j = indices[which];
    const uint level = level_of((ulong)row_distance(blocks, which, codebook, j) * block_weight(weights, which));
    if (level > 0)
        atomic_max(&worst[piece * capacity + j], level << PLACE_BITS | (PLACE_MASK - which));
}

inline uint worst_level(__global const uint *worst, uint j, uint capacity, uint pieces)
{
    uint level = 0;
    for (uint piece = 0; piece < pieces; ++piece)
        level = max(level, worst[piece * capacity + j] >> PLACE_BITS);
    return level;
}

/* Keys of codewords by their worst blocks, below 2^10: the smaller, the worse these are; if any codeword is dead.
 *
 * NDRange: 1-D, size work-items rounded up to whole groups of any size. keys: size ulong.
 */
__kernel void vq_giver_keys(__global const uint *worst, const uint size, __global const ulong *state,
                            __global ulong *keys, const uint capacity, const uint pieces)
{
    const uint j = get_global_id(0);
    if (j < size && state[DEAD] > 0)
        keys[j] = 1023 - worst_level(worst, j, capacity, pieces);
}

/* Moves codewords to the means of their blocks, or past them and by noise.
 *
 * NDRange: 1-D, size * WORDS work-items rounded up to whole groups of any size, each for four components. places: the
 * codewords' new indices (GONE: none), read if `merging`. quarters: how far they go to the mean. amplitude: of
 * the noise, 2^16 / 147.8 for the root mean squared error (147.8 is the standard deviation of a sum of four random
 * bytes). step: which one, for the random numbers. moved: the new codebook. changes: one uint, 1 if anything moved.
 */
__kernel void vq_update(__global const value_t *codebook, __global const ulong *totals, const uint size,
                        __global const ulong *state, __global const uint *places, const uint merging,
                        const uint quarters, const uint amplitude, const uint step, const uint2 key,
                        __global value_t *moved, __global uint *changes, const uint turn)
{
    const uint item = get_global_id(0);
    const uint j = item / WORDS;
    if (j >= size)
        return;
    const uint place = merging ? places[j] : j;
    if (place == GONE)
        return;
    __global const ulong *total = totals + (size_t)j * COLUMNS;
    const ulong weight = total[K];
    const uint first = item % WORDS * 4;
    uint words[4];
    if (amplitude > 0)
        vstore4(philox4x32((uint4)(j, first / 4, step, NOISE), key), 0, words);
    uint change = 0;
    for (uint k = first; k < min(first + 4, (uint)K); ++k) {
        const value_t old = codebook[(size_t)j * K + k];
        value_t now = old;
        if (weight > 0 && quarters == 4 && amplitude == 0) {
            now = (value_t)((2 * total[k] + weight) / (2 * weight));
        } else if (weight > 0) {
            const long goal = (long)((256 * total[k] + weight / 2) / weight);
            long value = 256 * (long)old + ((goal - 256 * (long)old) * (long)quarters >> 2);
            if (amplitude > 0) {
                const uchar4 bytes = as_uchar4(words[k - first]);
                const long noise = (long)bytes.x + bytes.y + bytes.z + bytes.w - 510;
                value += (long)amplitude * (long)state[RMS] * noise >> 16;
            }
            now = (value_t)clamp((value + 128) >> 8, 0L, (long)LARGEST);
        }
        moved[(size_t)place * K + k] = now;
        change |= now != old;
    }
    if (change)
        atomic_or(&changes[turn], 1u);
}

/* Moves dead codewords to the worst blocks of the codewords in `order`, as far as those have an error.
 *
 * NDRange: 1-D, size work-items rounded up to whole groups of any size. blocks: of that piece.
 */
__kernel void vq_repair(__global const value_t *blocks, const uint piece, __global const uint *worst, const uint size,
                        __global const ulong *state, __global const uint *dead, __global const uint *order,
                        __global const value_t *codebook, __global value_t *moved, __global uint *changes,
                        const uint turn, const uint capacity, const uint pieces)
{
    const uint rank = get_global_id(0);
    if (rank >= size || rank >= state[DEAD])
        return;
    const uint giver = order[rank];
    const uint level = worst_level(worst, giver, capacity, pieces);
    uint holder = 0;
    while (worst[holder * capacity + giver] >> PLACE_BITS < level)
        ++holder;
    const uint j = dead[rank];
    if (level == 0 || holder != piece)
        return;
    const uint which = PLACE_MASK - (worst[piece * capacity + giver] & PLACE_MASK);
    uint change = 0;
    for (uint k = 0; k < K; ++k) {
        const value_t now = blocks[(size_t)which * K + k];
        change |= now != codebook[(size_t)j * K + k];
        moved[(size_t)j * K + k] = now;
    }
    if (change)
        atomic_or(&changes[turn], 1u);
}

/* Weighted sums of the blocks' squared lengths.
 *
 * NDRange: 1-D, any number of work-items, n of them, each for every n-th block. squares: a ulong per work-item of all
 * pieces, written from `first` on.
 */
__kernel void vq_squares(__global const value_t *blocks, const uint count, __global const uint *weights,
                         __global ulong *squares, const uint first)
{
    ulong total = 0;
    for (uint which = get_global_id(0); which < count; which += get_global_size(0))
        total += (ulong)squared_length(blocks, which) * block_weight(weights, which);
    squares[first + get_global_id(0)] = total;
}
