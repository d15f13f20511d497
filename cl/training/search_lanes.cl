/* The search for CPUs: LANES blocks side by side in explicit vectors; the same indices as training/search.cl, by the
 * same scores.
 *
 * Bytes are taken from words in little-endian order; the host asks for that.
 *
 * Products and sums are written `a * b + c`, which compilers may fuse: every partial sum is exact either way.
 *
 * Constants: P, Q, C, ALIGNED, DEEP, EXCLUDING (training/scores.h), INDEX, VECTORS (vectors of LANES blocks per
 * work-item), SPAN (codewords at once).
 */
#include "training/scores.h"

#define LANES 16
#define BITS (DEEP ? 16 : 8)

#if DEEP
typedef int16 operands_t;
typedef long16 scores_t, places_t;
#define CONVERT convert_int16
#define WIDENED convert_long16
#elif FLOATS
typedef float16 operands_t, scores_t;
typedef int16 places_t;
#define CONVERT convert_float16
#define WIDENED
#else
typedef int16 operands_t, scores_t, places_t;
#define CONVERT convert_int16
#define WIDENED
#endif

#if K <= 16
#define UNROLL_COMPONENTS _Pragma("unroll")
#else
#define UNROLL_COMPONENTS _Pragma("nounroll")
#endif

/* Nearest codewords of LANES * VECTORS blocks per work-item.
 *
 * NDRange: 1-D, ceil(count / (LANES * VECTORS)) work-items rounded up to whole groups of any size.
 * image, height, width, columns, count, indices, offset, own: as in vq_encode. codebook: padded x K number_t,
 * and bias: padded score_t, -|c|^2, both padded to a multiple of SPAN codewords with zeros and LOSES.
 */
__kernel void vq_encode_lanes(__global const value_t *image, const uint height, const uint width, const uint columns,
                              const uint count, __global const number_t *codebook, __global const score_t *bias,
                              const uint padded, __global INDEX *indices, const uint offset, __global const INDEX *own)
{
    const uint first = get_global_id(0) * LANES * VECTORS;
    if (first >= count)
        return;
    operands_t block[VECTORS][4 * WORDS];
    scores_t best[VECTORS];
    places_t index[VECTORS], passed[VECTORS];
#pragma unroll
    for (uint v = 0; v < VECTORS; ++v) {
        best[v] = (scores_t)(LOWEST);
        index[v] = (places_t)(0);
        uint row[LANES], column[LANES];
        int excluded[LANES];
        for (uint l = 0; l < LANES; ++l) {
            const uint which = min(first + v * LANES + l, count - 1);
            row[l] = which / columns;
            column[l] = which % columns;
            excluded[l] = EXCLUDING ? own[which] : 0;
        }
        passed[v] = WIDENED(vload16(0, excluded));
#pragma nounroll
        for (uint w = 0; w < WORDS; ++w) {
            packed_t words[LANES];
#pragma unroll
            for (uint l = 0; l < LANES; ++l)
                words[l] = block_word(image, height, width, row[l], column[l], w);
#pragma unroll
            for (uint k = 0; k < 4; ++k)
                block[v][4 * w + k] = 2 * CONVERT(vload16(0, words) >> (BITS * k) & ((1 << BITS) - 1));
        }
    }
    for (uint start = 0; start < padded; start += SPAN) {
        scores_t sum[VECTORS][SPAN];
#pragma unroll
        for (uint s = 0; s < SPAN; ++s)
#pragma unroll
            for (uint v = 0; v < VECTORS; ++v)
                sum[v][s] = (scores_t)(bias[start + s]);
        UNROLL_COMPONENTS
        for (uint k = 0; k < K; ++k)
#pragma unroll
            for (uint s = 0; s < SPAN; ++s) {
                const score_t component = codebook[(size_t)(start + s) * K + k];
#pragma unroll
                for (uint v = 0; v < VECTORS; ++v)
                    sum[v][s] = WIDENED(block[v][k]) * component + sum[v][s];
            }
#pragma unroll
        for (uint s = 0; s < SPAN; ++s)
#pragma unroll
            for (uint v = 0; v < VECTORS; ++v) {
                const places_t allowed = EXCLUDING ? passed[v] != (places_t)(start + s) : (places_t)(-1);
                const places_t better = (sum[v][s] > best[v]) & allowed;
                best[v] = better ? sum[v][s] : best[v];
                index[v] = better ? (places_t)(start + s) : index[v];
            }
    }
#pragma unroll
    for (uint v = 0; v < VECTORS; ++v) {
        int out[LANES];
        vstore16(convert_int16(index[v]), 0, out);
        for (uint l = 0; l < LANES; ++l)
            if (first + v * LANES + l < count)
                indices[offset + first + v * LANES + l] = (INDEX)out[l];
    }
}
