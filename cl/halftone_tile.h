/* What the forms with a tile in local memory share: a group's GROUP blocks lie there as uchar [pixel][PITCH], and what
 * their neighbours left them is read from `edges`. value_t and Rule are the kernel's. Constants: BLOCK, GROUP, TILE. */

#define PITCH (GROUP + 4) /* bytes between the pixels of a tile; 4 more than the lanes, against bank conflicts */

typedef struct {
    int threshold, first, second, third;
} Rule;

/* Threshold and weights of a record: uint [rows][256], threshold | weights << 12, 17, 22. */
inline Rule rule_at(global const uint *record, int row, int level) {
    const uint packed = record[row * 256 + level];
    Rule rule;
    rule.threshold = (int)(packed & 4095u);
    rule.first = (int)((packed >> 12) & 31u);
    rule.second = (int)((packed >> 17) & 31u);
    rule.third = (int)(packed >> 22);
    return rule;
}

#if TILE
#define QUADS (BLOCK / 4)
#define BATCH (BLOCK % 8 == 0 ? 16 : 4) /* quads of a work-item in flight at once; divides BLOCK * QUADS */

/* The group's i-th quad of pixels: quads of a row of a block, then blocks, then rows. */
typedef struct {
    size_t in_picture; /* its first pixel, from the group's first */
    int in_tile, lane;
} Quad;

inline Quad quad_at(int i, int dx, int dy) {
    const int x = i % QUADS * 4, lane = i / QUADS % GROUP, y = i / (QUADS * GROUP);
    const Quad quad = {(size_t)y * dy + (size_t)(lane * 2 * BLOCK + x) * dx, (y * BLOCK + x) * PITCH + lane, lane};
    return quad;
}

/* Copy the blocks of a group from the picture, in words of four pixels where those are aligned. */
inline void load_tile(global const uchar *image, local uchar *tile, int dx, int dy, int lanes_used, int aligned) {
    for (int begin = (int)get_local_id(0); begin < GROUP * QUADS * BLOCK; begin += GROUP * BATCH) {
        uint pixels[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const Quad quad = quad_at(begin + j * GROUP, dx, dy);
            global const uchar *from = image + quad.in_picture;
            pixels[j] = 0;
            if (quad.lane < lanes_used)
                pixels[j] = aligned ? *(global const uint *)from
                                    : from[0] | from[dx] << 8 | from[2 * dx] << 16 | (uint)from[3 * dx] << 24;
        }
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            local uchar *to = tile + quad_at(begin + j * GROUP, dx, dy).in_tile;
            to[0] = (uchar)pixels[j], to[PITCH] = (uchar)(pixels[j] >> 8);
            to[2 * PITCH] = (uchar)(pixels[j] >> 16), to[3 * PITCH] = (uchar)(pixels[j] >> 24);
        }
    }
}

inline void store_tile(global uchar *output, local const uchar *tile, int dx, int dy, int lanes_used, int aligned) {
    for (int i = (int)get_local_id(0); i < GROUP * QUADS * BLOCK; i += GROUP) {
        const Quad quad = quad_at(i, dx, dy);
        local const uchar *from = tile + quad.in_tile;
        global uchar *to = output + quad.in_picture;
        if (quad.lane >= lanes_used)
            continue;
        if (aligned) {
            *(global uint *)to = from[0] | from[PITCH] << 8 | from[2 * PITCH] << 16 | (uint)from[3 * PITCH] << 24;
        } else {
            for (int j = 0; j < 4; ++j)
                to[j * dx] = from[j * PITCH];
        }
    }
}
#endif

/* What the block at `beside` of `edges` left on its side's entry; 0 where there is none. */
inline int edge_sum(global const short *edges, int entry, int count, int beside) {
    return beside >= 0 ? edges[(size_t)entry * count + beside] : 0;
}

inline int block_beside(int x, int y, int channel, int4 picture, int4 blocks) {
    return outside(y * BLOCK, x * BLOCK, HEIGHT, WIDTH) ? -1 : edge_block(y, x, channel, blocks);
}
