/* What the kernels that list candidates share. */

#include "common/squared.h"

/* Whether p is somewhere from low to high as near as the pivot, of which at_low and at_high are the squared differences
 * from the two. */
int is_near(int4 p, int4 low, int4 high, Squared4 at_low, Squared4 at_high)
{
    const Squared4 lead = max(at_low - squared_by_axis(p - low), at_high - squared_by_axis(p - high));
    return lead.x + lead.y + lead.z + lead.w >= 0;
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
