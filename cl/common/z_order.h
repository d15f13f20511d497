/* Z-order of colours: the bits of the channels interleaved, highest bits first, red before green before blue before
 * alpha. Colours of one cube of side 2^s that is aligned to 2^s are consecutive in it. */

/* Bits 7..0 of v to every third bit. */
uint spread_by_3(uint v)
{
    v = (v | (v << 8)) & 0x00F00Fu;
    v = (v | (v << 4)) & 0x0C30C3u;
    return (v | (v << 2)) & 0x249249u;
}

uint gather_by_3(uint v)
{
    v &= 0x249249u;
    v = (v | (v >> 2)) & 0x0C30C3u;
    v = (v | (v >> 4)) & 0x00F00Fu;
    return (v | (v >> 8)) & 0xFFu;
}

/* Bits 7..0 of v to every fourth bit. */
uint spread_by_4(uint v)
{
    v = (v | (v << 12)) & 0x000F000Fu;
    v = (v | (v << 6)) & 0x03030303u;
    return (v | (v << 3)) & 0x11111111u;
}

uint gather_by_4(uint v)
{
    v &= 0x11111111u;
    v = (v | (v >> 3)) & 0x03030303u;
    v = (v | (v >> 6)) & 0x000F000Fu;
    return (v | (v >> 12)) & 0xFFu;
}

uint z_order_rgb(uint r, uint g, uint b)
{
    return (spread_by_3(r) << 2) | (spread_by_3(g) << 1) | spread_by_3(b);
}

uint z_order_rgba(uint r, uint g, uint b, uint a)
{
    return (spread_by_4(r) << 3) | (spread_by_4(g) << 2) | (spread_by_4(b) << 1) | spread_by_4(a);
}

/* The packed colour R | G << 8 | B << 16 | A << 24 of a Z-order code. */
uint packed_rgb(uint z)
{
    return gather_by_3(z >> 2) | (gather_by_3(z >> 1) << 8) | (gather_by_3(z) << 16) | 0xFF000000u;
}

uint packed_rgba(uint z)
{
    return gather_by_4(z >> 3) | (gather_by_4(z >> 2) << 8) | (gather_by_4(z >> 1) << 16) | (gather_by_4(z) << 24);
}
