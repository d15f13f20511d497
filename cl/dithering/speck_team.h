/* Entries in place of specks, sought by all work-items of a group: in a scan the group would wait for the one whose
 * pixel compares every entry. After dithering/reach.h, for 8-bit values.
 *
 * Constants: SPECKS, the most that are listed at once; TEAM, the most work-items that look for one.
 */

/* Of each speck the pixel's point and packed colour, the least distance and the entry. */
typedef struct {
    short4 point[SPECKS];
    uint color[SPECKS];
    Squared least[SPECKS];
    int entry[SPECKS];
} Specks;

/* How many work-items look for one speck's entry: few where there are few entries. */
int team_of(int n_entries)
{
    return min((int)get_local_size(0), clamp(n_entries / AT_ONCE, 1, TEAM));
}

/* How many specks are sought at once. */
int teams_of_group(int n_entries)
{
    return (int)get_local_size(0) / team_of(n_entries);
}

void list_speck(__local Specks *specks, int i, uint color, int4 point)
{
    specks->point[i] = convert_short4(point);
    specks->color[i] = color;
    specks->least[i] = MAX_SQUARED;
    specks->entry[i] = INT_MAX;
}

/* One round of `entry_in_reach` for the specks from `first` on, as many as `teams_of_group`; a barrier must lie between
 * their listing and this. Has barriers, so it belongs in a loop: of barriers in a condition PoCL makes many copies.
 * Returns the speck whose entry this work-item has to show, or -1. */
int find_in_reach(__local Specks *specks, int first, int count, __global const int4 *points,
                  __global const int4 *colors, int n_entries, int speck)
{
    const int team = team_of(n_entries), lid = (int)get_local_id(0), i = first + lid / team;
    const bool is_mine = lid / team < teams_of_group(n_entries) && i < count;
    Squared distance = MAX_SQUARED;
    int entry = 0;
    if (is_mine) {
        const int4 point = convert_int4(specks->point[i]), color = unpacked_color(specks->color[i]);
        distance = least_in_reach(point, color, points, colors, n_entries, speck, lid % team, team, &entry);
        atomic_min(&specks->least[i], distance);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_mine && distance == specks->least[i])
        atomic_min(&specks->entry[i], entry);
    barrier(CLK_LOCAL_MEM_FENCE);
    return is_mine && lid % team == 0 ? i : -1;
}
