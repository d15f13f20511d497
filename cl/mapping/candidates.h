/* What the kernels that list candidates share. */

int squared(int4 d)
{
    return d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
}

/* Whether p is somewhere from low to high as near as the pivot, of which at_low and at_high are the squared differences
 * from the two. */
int is_near(int4 p, int4 low, int4 high, int4 at_low, int4 at_high)
{
    const int4 from_low = p - low;
    const int4 from_high = p - high;
    const int4 lead = max(at_low - from_low * from_low, at_high - from_high * from_high);
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
