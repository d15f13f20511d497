/* Codebooks in .clvq files (docs/clvq-format.md): every component is predicted from those before it in its codeword,
 * and the residuals are coded by rANS, each by one of 16 fixed tables of frequencies; which one, its class says, that
 * is how much the components around it change.
 *
 * A run of codewords is coded by one state; runs do not depend on each other.
 *
 * Constants: P, Q, C (block rows, block columns, channels).
 */
#include "vq/coding/rans.h"

#define K (P * Q * C)
#define CLASSES 12 /* per kind of channel: the first, the others */
#define SYMBOLS 256

/* A prediction and the class of its residual. */
typedef struct {
    int value;
    uint kind;
} Prediction;

/* The prediction of a component from those of its channel, and in `activity` how much these change. */
inline int plane_prediction(__global const uchar *word, uint y, uint x, uint c, int before, uint *activity)
{
    __global const uchar *here = word + (y * Q + x) * C + c;
    if (x && y) {
        const int left = here[-C], up = here[-Q * C], corner = here[-Q * C - C];
        *activity = abs(left - corner) + abs(up - corner);
        return clamp(left + up - corner, min(left, up), max(left, up));
    }
    if (y) {
        const int up = here[-Q * C];
        *activity = Q > 1 ? 2 * abs(here[-Q * C + C] - up) : 0;
        return up;
    }
    if (x) {
        const int left = here[-C];
        *activity = x > 1 ? 2 * abs(left - here[-2 * C]) : 20;
        return left;
    }
    *activity = 40;
    return before;
}

/* The prediction of component c of the pixel in row y and column x of a codeword; `before` is that of the first
 * pixel's.
 */
inline Prediction predict(__global const uchar *word, uint y, uint x, uint c, int before)
{
    Prediction made;
    uint activity, other;
    made.value = plane_prediction(word, y, x, c, before, &activity);
    if (c) {
        const int error = (int)word[(y * Q + x) * C + c - 1] - plane_prediction(word, y, x, c - 1, before, &other);
        made.value = clamp(made.value + error, 0, 255);
        activity = abs(error) + activity / 2;
    }
    made.kind = min(CLASSES - 1u, 31 - clz((activity + 1) * (activity + 1))) + (c ? CLASSES : 0);
    return made;
}

/* What the first components of a codeword are predicted by: the rounded mean of the codeword before it in its run. */
inline int mean_of(__global const uchar *word)
{
    uint sum = 0;
    for (uint k = 0; k < K; ++k)
        sum += word[k];
    return (int)((2 * sum + K) / (2 * K));
}

/* The class and the residual of every component.
 *
 * NDRange: 1-D, size * K work-items rounded up to whole groups of any size. codebook: size x K bytes. run: codewords of
 * a run. residuals: size x K ushort: the class in the high byte, the residual modulo 256 in the low one.
 */
__kernel void vq_codebook_residuals(__global const uchar *codebook, const uint size, const uint run,
                                    __global ushort *residuals)
{
    const uint item = get_global_id(0);
    const uint j = item / K, k = item % K;
    if (j >= size)
        return;
    __global const uchar *word = codebook + (size_t)j * K;
    const Prediction guess = predict(word, k / (Q * C), k / C % Q, k % C, k < C && j % run ? mean_of(word - K) : 128);
    residuals[item] = (ushort)(guess.kind << 8 | (uint)((int)word[k] - guess.value & 255));
}

/* Words and states of runs.
 *
 * NDRange: 1-D, a work-item per run, rounded up to whole groups of any size. residuals: as above. count: runs. tables:
 * 16 x (SYMBOLS + 1) ushort, cumulative frequencies. scales: 2 * CLASSES bytes, the table of each class. words: count x
 * run * K ushort; a run's fill the end of its part. states, counts: count uint.
 */
__kernel void vq_codebook_encode(__global const ushort *residuals, const uint size, const uint run, const uint count,
                                 __global const ushort *tables, __global const uchar *scales, __global ushort *words,
                                 __global uint *states, __global uint *counts)
{
    const uint which = get_global_id(0);
    if (which >= count)
        return;
    const uint capacity = run * K;
    const size_t first = (size_t)which * capacity;
    uint state = LOW, at = capacity;
    for (uint i = min(run, size - which * run) * K; i-- > 0;) {
        const uint residual = residuals[first + i];
        __global const ushort *table = tables + scales[residual >> 8] * (SYMBOLS + 1) + (residual & 255);
        const uint range = table[0] | (uint)(table[1] - table[0]) << 16;
        if (is_full(state, range)) {
            words[first + --at] = (ushort)state;
            state >>= 16;
        }
        state = pushed(state, range);
    }
    states[which] = state;
    counts[which] = capacity - at;
}

/* Codewords of runs.
 *
 * NDRange, run, count, tables, scales: as in vq_codebook_encode. words: ushort, all runs'. begins: count + 1 uint,
 * where each run's begin. states: count uint, at least LOW each. codebook: size x K bytes, written. wrong: one uint,
 * set to 1 if a run's words are too few or too many, or its state does not end where encoders begin.
 */
__kernel void vq_codebook_decode(__global const ushort *words, __global const uint *begins, __global const uint *states,
                                 const uint size, const uint run, const uint count, __global const ushort *tables,
                                 __global const uchar *scales, __global uchar *codebook, __global uint *wrong)
{
    const uint which = get_global_id(0);
    if (which >= count)
        return;
    const uint end = begins[which + 1];
    uint state = states[which], at = begins[which];
    bool fine = true;
    for (uint j = which * run; j < min(which * run + run, size); ++j) {
        __global uchar *word = codebook + (size_t)j * K;
        const int before = j > which * run ? mean_of(word - K) : 128;
        for (uint y = 0; y < P; ++y)
            for (uint x = 0; x < Q; ++x)
                for (uint c = 0; c < C; ++c) {
                    const Prediction guess = predict(word, y, x, c, before);
                    __global const ushort *table = tables + scales[guess.kind] * (SYMBOLS + 1);
                    const uint slot = state & (TOTAL - 1);
                    uint symbol = 0;
#pragma unroll
                    for (uint step = SYMBOLS / 2; step; step /= 2)
                        symbol += table[symbol + step] <= slot ? step : 0;
                    state = popped(state, table[symbol] | (uint)(table[symbol + 1] - table[symbol]) << 16);
                    if (state < LOW) {
                        fine = fine && at < end;
                        state = state << 16 | (at < end ? words[at] : 0);
                        ++at;
                    }
                    word[(y * Q + x) * C + c] = (uchar)(guess.value + (int)symbol);
                }
    }
    if (!fine || state != LOW || at != end)
        *wrong = 1;
}
