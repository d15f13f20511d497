/* The order of points in which those of like colours come together: along a Z-order curve through the box that they
 * fill, whatever its size. Kept points, as in neuquant/search_lanes.h; those that are passed over come behind most
 * others. */

#define LAST_KEY 65535u
#define CELL_BITS 6

/* The box of some points: its lowest corner, and by how much its longest side, below 2^bits, exceeds CELL_BITS. */
typedef struct {
    ushort4 low;
    int bits;
} extent_t;

extent_t extent_of(__global const ushort4 *points, const uint count)
{
    ushort4 low = (ushort4)(65535), high = (ushort4)(0);
    FEW_TURNS
    for (uint i = 0; i < count; ++i) {
        const ushort4 point = points[i];
        low = min(low, point.s0 ? point : (ushort4)(65535));
        high = max(high, point);
    }
    const ushort4 side = high - min(low, high);
    const extent_t extent = {low, 32 - (int)clz((uint)max(max(side.s1, side.s2), side.s3))};
    return extent;
}

/* Sixteen bits: in turn one bit of each coordinate, from the highest on, and of the last ones the second's only. */
uint order_key(const ushort4 point, const extent_t extent)
{
    if (point.s0 == 0)
        return LAST_KEY;
    uint4 c = convert_uint4(point - extent.low);
    c = extent.bits > CELL_BITS ? c >> (uint)(extent.bits - CELL_BITS) : c << (uint)(CELL_BITS - extent.bits);
    c = (c | c << 8u) & 0x0300f00fu;
    c = (c | c << 4u) & 0x030c30c3u;
    c = (c | c << 2u) & 0x09249249u;
    return (c.s1 | c.s3 << 1 | c.s2 << 2) >> 2;
}

/* One pass of a radix sort by eight bits of keys above numbers, from bit `shift` on. */
void order_by_bits(__global const uint *from, __global uint *to, const uint count, const uint shift)
{
    uint starts[256];
    FEW_TURNS
    for (int k = 0; k < 256; ++k)
        starts[k] = 0;
    FEW_TURNS
    for (uint i = 0; i < count; ++i)
        ++starts[from[i] >> shift & 255];
    uint sum = 0;
    FEW_TURNS
    for (int k = 0; k < 256; ++k) {
        const uint here = starts[k];
        starts[k] = sum;
        sum += here;
    }
    FEW_TURNS
    for (uint i = 0; i < count; ++i) {
        const uint word = from[i];
        to[starts[word >> shift & 255]++] = word;
    }
}

/* Numbers of at most 2^16 points, in the low halves of words, in the order of their keys, which are above them. */
void order_points(__global const ushort4 *points, const uint count, __global uint *order, __global uint *other)
{
    const extent_t extent = extent_of(points, count);
    FEW_TURNS
    for (uint i = 0; i < count; ++i)
        order[i] = order_key(points[i], extent) << 16 | i;
    order_by_bits(order, other, count, 16);
    order_by_bits(other, order, count, 24);
}
