/* The channels of sixteen RGB pixels side by side, for CPUs. */

/* A whole vector wherever it lies: compilers load what vload16 asks for in pieces where a shuffle follows. */
typedef uchar16 __attribute__((aligned(1))) bytes_t;

/* Every third byte of three vectors: the places of a channel in them are 0, 2 and 1 apart, so that they fill one. */
inline void split_channels(uchar16 a, uchar16 b, uchar16 c, uchar16 *channels)
{
    const uchar16 m = (uchar16)(255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255);
    const uchar16 n = (uchar16)(0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0);
    const uchar16 o = ~(m | n);
    channels[0] = ((a & m) | (b & o) | (c & n)).s0369cf258be147ad;
    channels[1] = ((a & n) | (b & m) | (c & o)).s147ad0369cf258be;
    channels[2] = ((a & o) | (b & n) | (c & m)).s258be147ad0369cf;
}
