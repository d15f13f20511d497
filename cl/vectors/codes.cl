/* Codes of several numbers, the lowest bit of a byte first. */

/* Puts the numbers of rows in one codebook into their codes; those of the codebooks before are there.
 *
 * NDRange: 1-D, count work-items rounded up to whole groups of any size. numbers: count int. codes: count x width
 * bytes; bits from first_bit on are written, and the byte of the last one is filled with zeros.
 */
__kernel void pack_numbers(__global const int *numbers, const ulong count, const uint first_bit, const uint bits,
                           const uint width, __global uchar *codes)
{
    const size_t row = get_global_id(0);
    if (row >= count)
        return;
    const uint number = numbers[row];
    for (uint done = 0; done < bits;) {
        const uint bit = first_bit + done, place = bit % 8, taken = min(8 - place, bits - done);
        const uint own = number >> done & ((1u << taken) - 1);
        __global uchar *code = codes + row * width + bit / 8;
        *code = (uchar)((place > 0 ? *code : 0) | own << place);
        done += taken;
    }
}
