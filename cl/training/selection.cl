/* The smallest of some keys, by their digits from the highest (radix selection), the lowest index on ties. */
#define DIGITS 256
#define GONE UINT_MAX

/* Chooses the `number` smallest keys.
 *
 * NDRange: one group of any size. keys: size ulong below 256^digits, digits at most 8. number: how many, at most size;
 * with from_state, the number is state[0] instead. places: size uint, GONE for chosen keys, for others how many of
 * those before are not chosen. chosen: number uint, the indices of the chosen, increasing.
 * Local memory: counts, DIGITS uint; found, two uint; before, two uint per work-item.
 */
__kernel void vq_select(__global const ulong *keys, const uint size, const uint number, const uint digits,
                        const uint from_state, __global const ulong *state, __global uint *places,
                        __global uint *chosen, __local uint *counts, __local uint *found, __local uint *before)
{
    const uint lane = get_local_id(0);
    const uint lanes = get_local_size(0);
    uint left = from_state ? (uint)state[0] : number;
    if (left == 0)
        return;
    ulong limit = 0; /* the digits so far of the last key to be chosen; `left` of those that have them are */
    for (int digit = (int)digits - 1; digit >= 0; --digit) {
        for (uint d = lane; d < DIGITS; d += lanes)
            counts[d] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = lane; j < size; j += lanes)
            if (digit == 7 || keys[j] >> (8 * digit + 8) == limit)
                atomic_inc(&counts[keys[j] >> (8 * digit) & (DIGITS - 1)]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0) {
            uint d = 0;
            for (; counts[d] < left; ++d)
                left -= counts[d];
            found[0] = d;
            found[1] = left;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        limit = limit << 8 | found[0];
        left = found[1];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const uint share = (size + lanes - 1) / lanes;
    const uint end = min((lane + 1) * share, size);
    uint less = 0;
    uint equal = 0;
    for (uint j = lane * share; j < end; ++j) {
        less += keys[j] < limit;
        equal += keys[j] == limit;
    }
    before[2 * lane] = less;
    before[2 * lane + 1] = equal;
    barrier(CLK_LOCAL_MEM_FENCE);
    less = 0;
    equal = 0;
    for (uint i = 0; i < lane; ++i) {
        less += before[2 * i];
        equal += before[2 * i + 1];
    }
    for (uint j = lane * share; j < end; ++j) {
        const uint rank = less + min(equal, left);
        const bool taken = keys[j] < limit || (keys[j] == limit && equal < left);
        less += keys[j] < limit;
        equal += keys[j] == limit;
        places[j] = taken ? GONE : j - rank;
        if (taken)
            chosen[rank] = j;
    }
}
