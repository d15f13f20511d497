/* Pictures of a list of leaves. A work-item paints a square of SQUARE x SQUARE pixels: the leaf that holds its corner,
 * and those that follow in Morton order until the square is full.
 *
 * Constants: CHANNELS of the means; OUT channels of the picture, CHANNELS or 3; OUTLINE 1 to draw borders; BASE
 * channels of the picture under them, 0 for the leaves' means; SQUARE, a power of two. */
#include "quadtree/leaf_list.h"

#if BASE == 0
#define SHOWN CHANNELS
#else
#define SHOWN BASE
#endif
/* The channel that channel c of the picture shows: of fewer than three the first, as gray. */
#define SOURCE(c) (OUT == SHOWN || SHOWN >= 3 ? (c) : 0)

/* NDRange: 1-D, any work-group size, at least a work-item per square of a piece of the picture, row by row.
 * leaves: those that meet the piece, `count` of them. left, top: of the piece, multiples of SQUARE. width, height: its
 * pixels. base: (height, width, BASE). ink: R | G << 8 | B << 16. picture: (height, width, OUT). */
__kernel void quadtree_paint(__global const uint *leaves, uint count, uint left, uint top, uint width, uint height,
                             __global const uchar *base, uint ink, __global uchar *picture)
{
    const uint columns = (width + SQUARE - 1) / SQUARE, id = get_global_id(0);
    const uint x0 = left + id % columns * SQUARE, y0 = top + id / columns * SQUARE;
    if (y0 - top >= height)
        return;
    const uint right = min(x0 + SQUARE, left + width), bottom = min(y0 + SQUARE, top + height);
    const uint code = morton(x0, y0), first = find_leaf(leaves, count, code);
    for (uint i = first; i < count; i++) {
        __global const uint *leaf = leaf_at(leaves, i);
        const uint x = leaf[0], y = leaf[1], size = leaf[2];
        if (i > first && morton(x, y) - code >= SQUARE * SQUARE)
            break;
        uchar shown[OUT];
        for (uint c = 0; c < OUT; c++)
            shown[c] = (uchar)mean_at(leaf, SOURCE(c) < CHANNELS ? SOURCE(c) : 0);
        const uint x_end = min(x + size, right), y_end = min(y + size, bottom);
        for (uint py = max(y, y0); py < y_end; py++)
            for (uint px = max(x, x0); px < x_end; px++) {
                const ulong at = (ulong)(py - top) * width + (px - left);
#if OUTLINE
                const uint edge = (px == x && x > 0) || (py == y && y > 0);
                for (uint c = 0; c < OUT; c++) {
#if BASE
                    const uchar under = base[at * BASE + SOURCE(c)];
#else
                    const uchar under = shown[c];
#endif
                    picture[at * OUT + c] = edge ? (uchar)(ink >> 8 * c) : under;
                }
#else
                for (uint c = 0; c < OUT; c++)
                    picture[at * OUT + c] = shown[c];
#endif
            }
    }
}
