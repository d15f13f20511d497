/* What the forms of the search by toggles share.
 *
 * Errors lie in planes by phase: the pixel (x, y) belongs to phase 4 (y mod 4) + x mod 4 and to the cell
 * (x / 4 + MARGIN, y / 4 + MARGIN), so that the pixels of a phase are neighbours in memory. A plane has `stride` cells
 * per row. A channel has 17 planes: one per phase, and a spare one that takes the phase being decided, since its
 * pixels read each other's errors. Cells outside the picture hold the error 0 and the state FIXED.
 *
 * A state is FIXED, or an entry's index with OPAQUE where the pixel has alpha 255.
 *
 * Constants: DIMS 3, or 4 where alpha is an axis.
 */
#define MARGIN 2
#define FIXED (-1)
#define OPAQUE (1 << 20)
#define INDEX_MASK (OPAQUE - 1)
/* Most of a coordinate of the point whose nearest entry is taken; the host's proof of exactness uses it. */
#define FARTHEST 2048
