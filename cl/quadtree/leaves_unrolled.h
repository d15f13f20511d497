// A tile's nodes for quadtree/leaves.cl, with levels that the compiler knows: finding where a level begins otherwise
// takes longer than loading it. For devices with registers for that; elsewhere it spills.

// Node i, in Morton order, of a tile's nodes of `level` (3 to TILE_LEVEL - 1), whose grid this is; 0 outside the
// picture.
inline uint tile_node(const tile_t *tile, __global const uint *grid, uint level, uint i) {
    uint cols = along(tile->width, level), x = (tile->x << (TILE_LEVEL - level)) + even_bits(i);
    uint y = (tile->y << (TILE_LEVEL - level)) + even_bits(i >> 1);
    return tile->whole || (x < cols && y < along(tile->height, level)) ? grid[y * cols + x] : 0u;
}

// Loads a tile's nodes of levels 3 to TILE_LEVEL - 1, one level after another in Morton order, and as many words of
// flags as it has cells: those of two places before any is kept, so that they do not wait for one another.
inline void load_tile(const tile_t *tile, __global const uint *nodes, __global const uchar *flags, __local uint *inner,
                      __local uint *block_flags) {
    for (uint start = get_local_id(0); start < CELLS; start += 2 * GROUP) {
        uint words[2 * (TILE_LEVEL - 3)], more[2];
#pragma unroll
        for (uint k = 0; k < 2; ++k) {
            uint i = start + k * GROUP;
            __global const uint *grid = nodes;
#pragma unroll
            for (uint level = 3; level < TILE_LEVEL; ++level) {
                words[2 * (level - 3) + k] = i < CELLS >> (2 * level - 6) ? tile_node(tile, grid, level, i) : 0u;
                grid += along(tile->width, level) * along(tile->height, level);
            }
            more[k] = i < CELLS ? tile_flags(tile, flags, i) : 0u;
        }
#pragma unroll
        for (uint k = 0; k < 2; ++k) {
            uint i = start + k * GROUP, at = i;
#pragma unroll
            for (uint level = 3; level < TILE_LEVEL; ++level) {
                if (i < CELLS >> (2 * level - 6))
                    inner[at] = words[2 * (level - 3) + k];
                at += CELLS >> (2 * level - 6);
            }
            if (i < CELLS)
                block_flags[i] = more[k];
        }
    }
}

// Mean word `w` of the node (x, y) of a level from 3 to TILE_LEVEL - 1: node_mean where it takes no loop.
inline uint inner_mean(const tile_t *tile, __global const ulong *stats, uint x, uint y, uint level, uint w) {
    __global const ulong *plane = stats;
    uint cols = along(tile->width, level), cells = cols * along(tile->height, level), word = 0;
    uint n = tile->whole ? 0u : (uint)pixels_inside(x, y, level, tile->width, tile->height);
#pragma unroll
    for (uint k = 3; k + 1 < TILE_LEVEL; ++k)
        plane += k < level ? BANDS * along(tile->width, k) * along(tile->height, k) : 0u;
    plane += y * cols + x;
    for (uint c = 4 * w; c < min(4 * w + 4, (uint)CHANNELS); ++c) {
        uint sum = (uint)(plane[c * cells] >> WIDE_SHIFT);
        word |= (tile->whole ? whole_mean(sum, level) : rounded_mean(sum, n)) << (8 * (c & 3u));
    }
    return word;
}
