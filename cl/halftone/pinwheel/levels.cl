#include "common/philox.h"
#include "halftone/halftone.h"

#if BITS == 16
typedef ushort Sample;
/* The 8-bit input level that is nearest. */
#define LEVEL(sample) (((int)(sample) + 128) / 257)
/* A 16-bit value in 1/16 gray: what is below a unit is dithered by the pixel's place, so that means stay. finer: its worth
 * times 256 by value, then 16 x 16 thresholds 0..255. y counts in the picture that the picture is cut from. */
inline int worth_of(Sample sample, int y, int x, __global const int *finer)
{
    return (finer[sample] + finer[65536 + (y & 15) * 16 + (x & 15)]) >> 8;
}
#else
typedef uchar Sample;
#define LEVEL(sample) (int)(sample)
#endif

/* The output level for a decision value. */
inline int decide(int value, __global const uchar *nearest)
{
#if LEVELS == 2
    return value >= 2040;
#else
    return nearest[clamp(value >> 3, 0, 511)];
#endif
}

/* What the blocks around an inward block left for its rim. */
inline void gather_edges(__local short *waiting, int lanes, __global const ushort *rim, __global const short *edges,
                         int count, int block_y, int block_x, int channel, int4 picture, int4 blocks)
{
    for (int side = 0; side < 4; ++side) {
        const int y = block_y + (side == 2) - (side == 0), x = block_x + (side == 1) - (side == 3);
        if (outside(y * BLOCK, x * BLOCK, picture))
            continue;
        __global const short *from = edges + edge_block(y, x, channel, blocks);
        for (int i = 0; i < BLOCK; ++i)
            waiting[rim[side * BLOCK + i] * lanes] += from[(size_t)((side ^ 2) * BLOCK + i) * count];
    }
}

/* Portable form: one work-item halftones one channel of one block of its phase, pixel by pixel. With `cut_only` it
 * takes just the blocks that the picture's right or lower end cuts: those that the faster forms leave to it.
 * Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU",
 * section 2. The errors that wait for their pixels take SLOTS numbers (a turn of the spiral), not N * N.
 *
 * NDRange: (blocks of this phase in a row from `first_index` on, rows of blocks, channels); any work-group (n, 1, 1).
 * image, output  uchar [rows][width][channels] from picture row `origin_of` on.
 * path           ushort8 [PIXELS], see halftone/halftone.h.
 * rim            ushort [4 N]: at side * N + i (above, right, below, left) the slot of the error for the pixel beyond
 *                that side (outward) or of the block's own rim pixel there (inward).
 * record         short4 [rows][256]: by input level, decision shift and three weights in sixteenths.
 * tone           short4 [256]: worth of an input level, amplitude of the start error, half the threshold spread, 0.
 * worth, shown   short, uchar [LEVELS]: what an output level is worth, and what is written for it.
 * nearest        uchar [512]: the output level of a decision value in half gray levels.
 * edges          short [4 N][channels][edge rows][blocks of a phase in a row].
 * waiting        local short [SLOTS][work-group].
 * finer          int [65536 + 256], read if BITS is 16; see worth_of.
 * Constants: BLOCK, PIXELS, SLOTS, PHASE, LEVELS, NOISE (0 or 1), LAST_SLOT (forward share of the
 * last pixel of an outward block); BITS of the image's values: with 16 alpha is written too, as 8 bits. */
__kernel void halftone_blocks(__global const Sample *image, __global uchar *output, __global const ushort8 *path,
                              __global const ushort *rim, __global const short4 *record, __global const short4 *tone,
                              __global const short *worth, __global const uchar *shown, __global const uchar *nearest,
                              __global short *edges, __local short *all_waiting, int4 picture, int4 blocks,
                              int error_limit, uint4 key, int first_index, int cut_only, __global const int *finer)
{
    const int lanes = get_local_size(0);
    const int block_y = first_row_of(blocks) + (int)get_global_id(1), channel = (int)get_global_id(2);
    const int block_x = block_column(first_index + (int)get_global_id(0), block_y);
    const int y0 = block_y * BLOCK, x0 = block_x * BLOCK;
    if (outside(y0, x0, picture) || (cut_only && !outside(y0 + BLOCK - 1, x0 + BLOCK - 1, picture)))
        return;
    __local short *waiting = all_waiting + get_local_id(0);
    const int count = (int)get_global_size(2) * edge_rows_of(blocks) * half_of(blocks);
    /* Whether some pixel or receiver may lie outside the picture. */
    const int ragged = outside(y0 - 1, x0 - 1, picture) || outside(y0 + BLOCK, x0 + BLOCK, picture);
    for (int s = 0; s < SLOTS; ++s)
        waiting[s * lanes] = 0;
    if (PHASE == 1)
        gather_edges(waiting, lanes, rim, edges, count, block_y, block_x, channel, picture, blocks);
    int carry = 0;
    uint4 words = block_random(block_x, block_y, channel, 0u, key);
    const uint start_word = words.s0;
    for (int k = 0; k < PIXELS; ++k) {
        const ushort8 step = path[k];
        const int y = y0 + (step.s0 >> 8), x = x0 + (step.s0 & 255);
        const int slot = (step.s1 & 1023) * lanes;
        int error = carry + waiting[slot];
        waiting[slot] = 0;
#if NOISE
        if ((k & 127) == 0)
            words = block_random(block_x, block_y, channel, 1u + (uint)(k >> 7), key);
#endif
        if (ragged && outside(y, x, picture)) {
            carry = clamp(error, -error_limit, error_limit);
            continue;
        }
        const size_t at = pixel_index(y, x, channel, picture);
        const int level = LEVEL(image[at]);
        const short4 about = tone[level], rule = record[(step.s1 >> 10) * 256 + level];
        if (PHASE == 0 && k == 0)
            error += start_error(start_word, about.s1);
#if BITS == 16
        error += worth_of(image[at], y + (int)(key.w * BLOCK), x + (int)(key.z * BLOCK), finer);
        if (stride_of(picture) == 4 && channel == 0)
            output[at + 3] = (uchar)LEVEL(image[at + 3]);
#else
        error += about.s0;
#endif
        int decision = error - rule.s0;
#if NOISE
        decision += random_bit(words, (uint)k) ? about.s2 : -about.s2;
#endif
        const int out = decide(decision, nearest);
        output[at] = shown[out];
        error = clamp(error - worth[out], -error_limit, error_limit);
        int first = (error * rule.s1) >> 4, second = (error * rule.s2) >> 4, third = (error * rule.s3) >> 4;
        if (ragged) {
            first = outside(y + (step.s5 >> 8) - 2, x + (step.s5 & 255) - 2, picture) ? 0 : first;
            second = outside(y + (step.s6 >> 8) - 2, x + (step.s6 & 255) - 2, picture) ? 0 : second;
            third = outside(y + (step.s7 >> 8) - 2, x + (step.s7 & 255) - 2, picture) ? 0 : third;
        }
        waiting[step.s2 * lanes] += first;
        waiting[step.s3 * lanes] += second;
        waiting[step.s4 * lanes] += third;
        carry = error - first - second - third;
    }
    if (PHASE == 0) {
        waiting[LAST_SLOT * lanes] += carry;
        for (int entry = 0; entry < 4 * BLOCK; ++entry)
            edges[(size_t)entry * count + edge_block(block_y, block_x, channel, blocks)] = waiting[rim[entry] * lanes];
    }
}
