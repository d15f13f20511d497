/* Work-groups of one launch that meet, so that a step of a chain need not be a launch of its own.
 *
 * OpenCL promises no group that others go on while it waits. So groups first find out whether all of them are there at
 * the same time, which they are where they are few and nothing else holds the device. Where not all come before one has
 * lost patience, that one does all of the work alone, as a launch of a single group would, and the others leave at
 * once: whatever happens, the launch ends, and sums of integers are the same.
 *
 * DEVICE_FENCE: a statement after which all other groups see what was written before, and this one what others wrote
 * before theirs. What groups hand each other must not be read through pointers that promise that nobody writes.
 * Layout: words (MEETING_WORDS) uint, 0 before and after every launch; but for tests that say by words[GATE] what is to
 * happen.
 */
#define GATE 0
#define COME 32
#define GONE 64
#define MEETING_WORDS 96

/* words[GATE]: all groups take part, or, from ALONE on, the group of that index above it alone. */
#define ALL 1u
#define ALONE 2u
/* Looks at the gate before patience is lost: some tenths of a second on a GPU at most. */
#ifndef PATIENCE
#define PATIENCE (1u << 17)
#endif

/* groups: how many take part, 0 for a group that is to leave; index: which of them this one is. */
typedef struct {
    __global uint *words;
    uint groups;
    uint index;
    uint come;
} Meeting;

uint look(__global const uint *word)
{
    return *(__global const volatile uint *)word;
}

/* Every group begins so, and goes to `leave` at the end or if it is to leave. told: a word of local memory. */
Meeting come(__global uint *words, __local uint *told)
{
    const uint all = get_num_groups(0);
    if (get_local_id(0) == 0) {
        if (atomic_inc(&words[COME]) + 1 == all)
            atomic_cmpxchg(&words[GATE], 0u, ALL);
        uint gate = look(&words[GATE]);
        for (uint turn = 0; gate == 0 && turn < PATIENCE; turn++)
            gate = look(&words[GATE]);
        if (gate == 0) {
            const uint before = atomic_cmpxchg(&words[GATE], 0u, ALONE + (uint)get_group_id(0));
            gate = before ? before : ALONE + (uint)get_group_id(0);
        }
        *told = gate;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    Meeting m;
    m.words = words;
    m.groups = *told == ALL ? all : *told == ALONE + get_group_id(0);
    m.index = *told == ALL ? (uint)get_group_id(0) : 0u;
    m.come = all;
    return m;
}

/* Waits for all groups that take part; what they wrote before it is seen after it. */
void meet(Meeting *m)
{
    m->come += m->groups;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0 && m->groups > 1) {
        DEVICE_FENCE;
        atomic_inc(&m->words[COME]);
        while ((int)(look(&m->words[COME]) - m->come) < 0)
            ;
        DEVICE_FENCE;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* The end of every group; whether it is the last of all, which finds what all wrote, and has made the words 0 again.
 * told: a word of local memory. */
int leave(const Meeting *m, __local uint *told)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        DEVICE_FENCE;
        const uint before = atomic_inc(&m->words[GONE]);
        DEVICE_FENCE;
        *told = before + 1 == get_num_groups(0);
        if (*told)
            m->words[GATE] = m->words[COME] = m->words[GONE] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return *told;
}
