/* Sum of squared differences of 8-bit samples, exact: a lane's sum of BLOCK squares is below 2^16 * 255^2 < 2^32. */
#define BLOCK 65536

ulong sum_of_lanes(uint16 lanes)
{
    const ulong8 eight = convert_ulong8(lanes.lo) + convert_ulong8(lanes.hi);
    const ulong4 four = eight.lo + eight.hi;
    return four.x + four.y + four.z + four.w;
}

/* NDRange: 1-D, any size. first, second: n samples. sums: a ulong per work-item, of the vectors i, i + items, ... of 16
 * samples, the last work-item's with what is left. */
__kernel void squared_error(__global const uchar *first, __global const uchar *second, ulong n, __global ulong *sums)
{
    const size_t items = get_global_size(0);
    const ulong vectors = n / 16;
    ulong sum = 0;
    size_t i = get_global_id(0);
    while (i < vectors) {
        uint16 lanes = 0;
        for (uint k = 0; k < BLOCK && i < vectors; k++, i += items) {
            const short16 d = convert_short16(vload16(i, first)) - convert_short16(vload16(i, second));
            const int16 wide = convert_int16(d);
            lanes += as_uint16(wide * wide);
        }
        sum += sum_of_lanes(lanes);
    }
    if (get_global_id(0) == items - 1)
        for (ulong k = 16 * vectors; k < n; k++) {
            const int d = (int)first[k] - second[k];
            sum += (ulong)(d * d);
        }
    sums[get_global_id(0)] = sum;
}
