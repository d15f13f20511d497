/* What the kernels that list candidates share. */

#include "common/squared.h"

/* Whether p is somewhere from low to high as near as the pivot, of which at_low and at_high are the squared differences
 * from the two. */
int is_near(int4 p, int4 low, int4 high, Squared4 at_low, Squared4 at_high)
{
    const Squared4 lead = max(at_low - squared_by_axis(p - low), at_high - squared_by_axis(p - high));
    return lead.x + lead.y + lead.z + lead.w >= 0;
}

/* The number of the cell that holds another of a grid whose cells are 2^step times as long. The last layer of both is
 * that of opaque colours, if alpha is an axis. */
int parent_of(int4 at, int4 grid, int4 parent_grid, int step)
{
    int4 above = at >> step;
    above.w = at.w == grid.w - 1 ? parent_grid.w - 1 : above.w;
    return ((above.w * parent_grid.z + above.z) * parent_grid.y + above.y) * parent_grid.x + above.x;
}

/* Where a cell is in its grid. */
int4 place_of(int cell, int4 grid)
{
    int4 at;
    at.x = cell % grid.x;
    at.y = cell / grid.x % grid.y;
    at.z = cell / (grid.x * grid.y) % grid.z;
    at.w = cell / (grid.x * grid.y * grid.z);
    return at;
}
