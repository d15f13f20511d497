/* Blocks of an image as words of four packed components.
 *
 * Component k of block (row, column) is component k % (Q*C) of the block's pixel row k / (Q*C); pixels beyond the image
 * repeat its last row and column. A block has K = P*Q*C components, padded with zeros to WORDS = ceil(K / 4) words,
 * each in the order of memory (component 4w is the first one).
 * ALIGNED promises that Q*C and width*C are multiples of 4 and width is a multiple of Q, so that words can be read
 * whole. DEEP: components have 16 bits, else 8. WEIGHTED, of training: blocks carry weights of 0..2^30, else they weigh 1.
 */
#if DEEP
typedef ushort value_t;
typedef ushort4 values_t;
typedef ulong packed_t;  /* four components */
typedef ulong squares_t; /* sums of squares: below 2^32 K */
#define PACKED(values) as_ulong(values)
#define UNPACKED(packed) as_ushort4(packed)
#else
typedef uchar value_t;
typedef uchar4 values_t;
typedef uint packed_t;
typedef uint squares_t; /* at most 65025 K < 2^27 for K <= 2048 */
#define PACKED(values) as_uint(values)
#define UNPACKED(packed) as_uchar4(packed)
#endif

#define ROW_VALUES (Q * C)
#define K (P * Q * C)
#define WORDS ((K + 3) / 4)

inline value_t block_component(__global const value_t *image, uint height, uint width, uint row, uint column, uint k)
{
    const uint y = min(row * P + k / ROW_VALUES, height - 1);
    const uint x = min(column * Q + k % ROW_VALUES / C, width - 1);
    return image[((size_t)y * width + x) * C + k % C];
}

inline packed_t block_word(__global const value_t *image, uint height, uint width, uint row, uint column, uint w)
{
#if ALIGNED
    const uint y = min(row * P + 4 * w / ROW_VALUES, height - 1);
    const size_t place = (size_t)y * width * C + column * ROW_VALUES + 4 * w % ROW_VALUES;
    return ((__global const packed_t *)image)[place / 4];
#else
    values_t values = (values_t)(0);
    values.x = block_component(image, height, width, row, column, 4 * w);
    if (4 * w + 1 < K)
        values.y = block_component(image, height, width, row, column, 4 * w + 1);
    if (4 * w + 2 < K)
        values.z = block_component(image, height, width, row, column, 4 * w + 2);
    if (4 * w + 3 < K)
        values.w = block_component(image, height, width, row, column, 4 * w + 3);
    return PACKED(values);
#endif
}

/* Four components of a row of K; zeros beyond the last. */
inline values_t row_word(__global const value_t *blocks, size_t which, uint w)
{
#if K % 4 == 0
    return ((__global const values_t *)blocks)[which * WORDS + w];
#else
    __global const value_t *block = blocks + which * K;
    values_t values = (values_t)(0);
    values.x = block[4 * w];
    if (4 * w + 1 < K)
        values.y = block[4 * w + 1];
    if (4 * w + 2 < K)
        values.z = block[4 * w + 2];
    if (4 * w + 3 < K)
        values.w = block[4 * w + 3];
    return values;
#endif
}

inline uint block_weight(__global const uint *weights, size_t which)
{
#if WEIGHTED
    return weights[which];
#else
    return 1;
#endif
}

inline squares_t square_of(int difference)
{
#if DEEP
    return (ulong)((long)difference * difference);
#else
    return (uint)(difference * difference);
#endif
}

/* The squared distance of two rows of K, by words. */
inline squares_t row_distance(__global const value_t *rows, size_t which, __global const value_t *others, size_t other)
{
    squares_t sum = 0;
    for (uint w = 0; w < WORDS; ++w) {
        const int4 difference = convert_int4(row_word(rows, which, w)) - convert_int4(row_word(others, other, w));
        sum += square_of(difference.x) + square_of(difference.y) + square_of(difference.z) + square_of(difference.w);
    }
    return sum;
}

inline squares_t squared_length(__global const value_t *rows, size_t which)
{
    squares_t sum = 0;
    for (uint w = 0; w < WORDS; ++w) {
        const int4 values = convert_int4(row_word(rows, which, w));
        sum += square_of(values.x) + square_of(values.y) + square_of(values.z) + square_of(values.w);
    }
    return sum;
}
