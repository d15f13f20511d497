// The leaves of a tile in their order by one work-item: the form for CPUs. Same records as the kernel of that name in
// quadtree_leaves.cl, after whose functions this comes.

// Writes the record `slot` of the list at `leaves`, all but its means.
inline void write_place(__global uint *leaves, uint slot, uint x, uint y, uint size) {
    leaves[slot * RECORD_WORDS] = x;
    leaves[slot * RECORD_WORDS + 1] = y;
    leaves[slot * RECORD_WORDS + 2] = size;
}

// The leaf of one pixel.
inline void write_pixel(__global uint *leaves, uint slot, uint x, uint y, __global const uchar *pixel) {
    uint words[MEAN_WORDS] = {0};
#pragma unroll
    for (uint c = 0; c < CHANNELS; ++c)
        words[c >> 2] |= (uint)pixel[c] << (8 * (c & 3u));
#if RECORD_WORDS == 4
    ((__global uint4 *)leaves)[slot] = (uint4)(x, y, 1, words[0]);
#else
    write_place(leaves, slot, x, y, 1);
    for (uint w = 0; w < MEAN_WORDS; ++w)
        leaves[slot * RECORD_WORDS + 3 + w] = words[w];
#endif
}

// The leaf of a node of level 1 or 2 of which `columns` by `rows` pixels lie inside the picture.
inline void write_small(__global uint *leaves, uint slot, uint x, uint y, uint size, uint columns, uint rows,
                        __global const uchar *pixel, uint pitch) {
    uint words[MEAN_WORDS] = {0}, sum[CHANNELS];
    for (uint c = 0; c < CHANNELS; ++c)
        sum[c] = 0;
    for (uint r = 0; r < rows; ++r)
        for (uint i = 0; i < columns; ++i)
            for (uint c = 0; c < CHANNELS; ++c)
                sum[c] += pixel[r * pitch + i * CHANNELS + c];
    for (uint c = 0; c < CHANNELS; ++c)
        words[c >> 2] |= rounded_mean(sum[c], columns * rows) << (8 * (c & 3u));
    write_place(leaves, slot, x, y, size);
    for (uint w = 0; w < MEAN_WORDS; ++w)
        leaves[slot * RECORD_WORDS + 3 + w] = words[w];
}

// The leaves of the 4x4 block at (x, y) of the subtree, from `slot` on; gives back the next free one.
inline uint write_block(__global const uchar *pixel, uint pitch, uint flag, int whole, uint x, uint y, uint width,
                        uint height, uint left, uint top, __global uint *leaves, uint slot) {
    uint columns = whole ? 4u : min(4u, width - x), rows = whole ? 4u : min(4u, height - y);
    if (flag & 16u) {
        write_small(leaves, slot, left + x, top + y, 4, columns, rows, pixel, pitch);
        return slot + 1;
    }
#pragma unroll
    for (uint q = 0; q < 4; ++q) {
        uint qx = 2 * (q & 1u), qy = q & 2u;
        if (!whole && (qx >= columns || qy >= rows))
            continue;
        __global const uchar *corner = pixel + qy * pitch + qx * CHANNELS;
        if (flag >> q & 1u) {
            write_small(leaves, slot++, left + x + qx, top + y + qy, 2, whole ? 2u : min(2u, columns - qx),
                        whole ? 2u : min(2u, rows - qy), corner, pitch);
            continue;
        }
#pragma unroll
        for (uint p = 0; p < 4; ++p) {
            uint px = p & 1u, py = p >> 1;
            if (whole || (qx + px < columns && qy + py < rows))
                write_pixel(leaves, slot++, left + x + qx + px, top + y + qy + py, corner + py * pitch + px * CHANNELS);
        }
    }
    return slot;
}

// As quadtree_leaves in quadtree_leaves.cl.
//
// NDRange: one work-group of one work-item a tile, in row order. Buffers: as there.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void quadtree_leaves(
    __global const uchar *pixels, ulong origin, uint pitch, uint width, uint height, uint left, uint top,
    uint last_level, __global const uchar *flags, __global const ulong *stats, __global const ulong *upper,
    __global const uint *nodes, __global uint *leaves) {
    uint square = get_group_id(0), square_cols = along(width, TILE_LEVEL), cols2 = along(width, 2);
    uint square_x = square % square_cols, square_y = square / square_cols;
    uint block_x = square_x << (TILE_LEVEL - 2), block_y = square_y << (TILE_LEVEL - 2);
    int whole = (square_x + 1) << TILE_LEVEL <= width && (square_y + 1) << TILE_LEVEL <= height;
    uint covering = 0, offset = 0, slot = 0;
    for (uint i = 0; TILE_LEVEL + i <= last_level; ++i)
        take_step(step_of(nodes, square_x >> i, square_y >> i, TILE_LEVEL + i, width, height), TILE_LEVEL + i, &offset,
                  &covering);
    __global uint *list = leaves + (ulong)offset * RECORD_WORDS;
    if (covering > 0) {
        uint shift = covering - TILE_LEVEL, nx = square_x >> shift, ny = square_y >> shift;
        if (nx << shift == square_x && ny << shift == square_y) {
            write_place(list, 0, left + (nx << covering), top + (ny << covering), 1u << covering);
            for (uint w = 0; w < MEAN_WORDS; ++w)
                list[3 + w] = node_mean(stats, upper, 0, nx, ny, covering, w, width, height);
        }
        return;
    }
    for (uint b = 0; b < BLOCKS; ++b) {
        uint x = block_x + even_bits(b), y = block_y + even_bits(b >> 1), leaf = 0;
        if (!whole && (4 * x >= width || 4 * y >= height))
            continue;
        // Nodes within the square that begin at this block, the greatest first.
        for (uint level = TILE_LEVEL - 1; level >= 3 && leaf == 0; --level)
            if ((b & ((1u << (2 * level - 4)) - 1u)) == 0) {
                uint cols = along(width, level), node = (y >> (level - 2)) * cols + (x >> (level - 2));
                leaf = nodes[level_base(width, height, 3, level) + node] & STOP ? level : 0u;
            }
        if (leaf > 0) {
            write_place(list, slot, left + 4 * x, top + 4 * y, 1u << leaf);
            for (uint w = 0; w < MEAN_WORDS; ++w)
                list[slot * RECORD_WORDS + 3 + w] =
                    node_mean(stats, upper, whole, x >> (leaf - 2), y >> (leaf - 2), leaf, w, width, height);
            ++slot;
            b += (1u << (2 * leaf - 4)) - 1u;
            continue;
        }
        __global const uchar *pixel = pixels + origin + (ulong)(4 * y) * pitch + (ulong)(4 * x) * CHANNELS;
        uint flag = flags[y * cols2 + x];
        if (whole)
            slot = write_block(pixel, pitch, flag, 1, 4 * x, 4 * y, width, height, left, top, list, slot);
        else
            slot = write_block(pixel, pitch, flag, 0, 4 * x, 4 * y, width, height, left, top, list, slot);
    }
}
