/* A barrier of all work-groups of a launch, so that a step of a chain need not be a launch of its own.
 *
 * OpenCL does not promise that a group runs while another waits for it. So the groups first find out whether all of them
 * run at the same time, as they do if they are few and nothing else uses the device. If not all have arrived after
 * MAX_LOOKS looks at the gate, one group does all the work alone, as a launch of a single group would, and the others
 * leave at once. Either way the launch ends, and sums of integers are the same.
 *
 * DEVICE_FENCE: a statement after which other groups see what this one wrote before, and this one what they wrote before
 * theirs. Data that groups exchange must not be read through `restrict` or constant pointers.
 * Layout: words (GRID_WORDS) uint, 0 before and after every launch, except that tests set words[GATE].
 */
#define GATE 0
#define ARRIVED 32
#define LEFT 64
#define GRID_WORDS 96

/* words[GATE]: ALL if all groups take part, ALONE + g if group g works alone. */
#define ALL 1u
#define ALONE 2u
/* Looks at the gate before a group works alone: a few tenths of a second on a GPU. */
#ifndef MAX_LOOKS
#define MAX_LOOKS (1u << 17)
#endif

/* groups: how many take part, 0 for a group that has to leave; index: which of them this one is. */
typedef struct {
    __global uint *words;
    uint groups;
    uint index;
    uint arrivals; /* of words[ARRIVED] after the next barrier */
} GridBarrier;

uint look(__global const uint *word)
{
    return *(__global const volatile uint *)word;
}

/* The first call of every group; the last is grid_exit, also of a group that has to leave. told: a word of local
 * memory. */
GridBarrier grid_enter(__global uint *words, __local uint *told)
{
    const uint all = get_num_groups(0);
    if (get_local_id(0) == 0) {
        if (atomic_inc(&words[ARRIVED]) + 1 == all)
            atomic_cmpxchg(&words[GATE], 0u, ALL);
        uint gate = look(&words[GATE]);
        for (uint turn = 0; gate == 0 && turn < MAX_LOOKS; turn++)
            gate = look(&words[GATE]);
        if (gate == 0) {
            const uint before = atomic_cmpxchg(&words[GATE], 0u, ALONE + (uint)get_group_id(0));
            gate = before ? before : ALONE + (uint)get_group_id(0);
        }
        *told = gate;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    GridBarrier grid;
    grid.words = words;
    grid.groups = *told == ALL ? all : *told == ALONE + get_group_id(0);
    grid.index = *told == ALL ? (uint)get_group_id(0) : 0u;
    grid.arrivals = all;
    return grid;
}

/* Waits for all groups that take part. After it each sees what the others wrote before it. */
void grid_sync(GridBarrier *grid)
{
    grid->arrivals += grid->groups;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0 && grid->groups > 1) {
        DEVICE_FENCE;
        atomic_inc(&grid->words[ARRIVED]);
        while ((int)(look(&grid->words[ARRIVED]) - grid->arrivals) < 0)
            ;
        DEVICE_FENCE;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* The last call of every group. Returns whether it is the last group of all, which sees what all wrote and has set the
 * words to 0 again. told: a word of local memory. */
int grid_exit(const GridBarrier *grid, __local uint *told)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        DEVICE_FENCE;
        const uint before = atomic_inc(&grid->words[LEFT]);
        DEVICE_FENCE;
        *told = before + 1 == get_num_groups(0);
        if (*told)
            grid->words[GATE] = grid->words[ARRIVED] = grid->words[LEFT] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return *told;
}
