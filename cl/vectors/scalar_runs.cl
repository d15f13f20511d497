/* The optimal codebook of each of many sorted rows of numbers: the runs of least weighted squared error.
 *
 * Sources: X. Wu, "Optimal quantization by matrix searching", Journal of Algorithms 12 (1991); H. Wang, M. Song,
 * "Ckmeans.1d.dp", The R Journal 3 (2011). The beginnings of best last runs ascend with their ends, so each end has its
 * beginning between those of its neighbours on a coarser grid of ends.
 *
 * Constants from the host:
 *   LOCAL       work-items per group
 *   WEIGHTED    1 where the numbers have weights, otherwise each counts once
 *   RADIX       ends of a grid per end of the next coarser one; any gives the same bits
 *   DIVIDES     1 where weights may be larger than the table of reciprocals
 *
 * Exactness: the host scales numbers so that (sum of weights) (largest number)^2 < 2^64. What a run explains of the sum
 * of squares stays below that, in unsigned 64-bit integers; the runs that explain most leave the least error. */

typedef struct {
    __global const ulong *reciprocals;
    __global const uint *mass;
} sums_t;

uint run_mass(const sums_t sums, const uint begin, const uint end)
{
#if WEIGHTED
    return sums.mass[end] - sums.mass[begin];
#else
    return end - begin;
#endif
}

/* The sum of squares of numbers less that about their mean m = floor(moment / mass) < 2^31: m (2 moment - m mass). */
ulong explained(const sums_t sums, const ulong moment, const uint mass)
{
#if DIVIDES
    const uint mean = (uint)(moment / mass);
    const ulong rest = moment - (ulong)mean * mass;
#else
    /* The product with floor((2^64 - 1) / mass) is below the quotient by less than 1, as moment < 2^63. */
    uint mean = (uint)mul_hi(moment, sums.reciprocals[mass]);
    ulong rest = moment - (ulong)mean * mass;
    if (rest >= mass) {
        ++mean;
        rest -= mass;
    }
#endif
    return mean * (moment + rest);
}

/* Prefix sums of a row: of the numbers before each place the moment, what one run of them explains, and the weight.
 * Ends with a barrier. */
void sum_row(const sums_t sums, __global const uint *numbers, __global const uint *weights, const uint n,
             __global ulong2 *before, __global uint *mass, __local ulong *shared, __local uint *masses)
{
    const uint item = get_local_id(0), share = (n + LOCAL - 1) / LOCAL;
    const uint begin = item * share, end = begin + share; /* beyond n for the last work-items */
    ulong moment = 0;
    uint total = 0;
    for (uint i = begin; i < n && i < end; ++i) {
        const uint weight = WEIGHTED ? weights[i] : 1;
        moment += (ulong)numbers[i] * weight;
        total += weight;
    }
    shared[item] = moment;
    masses[item] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    moment = total = 0;
    for (uint i = 0; i < item; ++i) {
        moment += shared[i];
        total += masses[i];
    }
    if (WEIGHTED && item == 0)
        mass[0] = 0;
    for (uint i = begin; i < n && i < end; ++i) {
        const uint weight = WEIGHTED ? weights[i] : 1;
        moment += (ulong)numbers[i] * weight;
        total += weight;
        before[i + 1] = (ulong2)(moment, explained(sums, moment, total));
        if (WEIGHTED)
            mass[i + 1] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* Take a beginning if it explains more than the best so far. */
void compare(const sums_t sums, __global const ulong2 *before, const ulong moment, const uint begin, const uint end,
             ulong *most, uint *place)
{
    const ulong2 there = before[begin];
    const ulong value = there.y + explained(sums, moment - there.x, run_mass(sums, begin, end));
    *place = value > *most ? begin : *place;
    *most = max(value, *most);
}

/* Where the last of run + 1 runs begins and what they explain together, for the ends stride, 2 stride, ... above `run`
 * that are in no coarser grid. Several work-items share an end while ends are fewer. Ends with a barrier. */
void find_beginnings(const sums_t sums, const uint n, const uint run, const uint stride, __global const ulong2 *before,
                     __global ulong2 *after, __global const ushort *fewer, __global ushort *begins,
                     __local ulong *values, __local uint *places)
{
    const uint item = get_local_id(0), ends = n / stride - n / stride / RADIX;
    uint sharing = 1;
    while (2 * sharing * ends <= LOCAL)
        sharing *= 2;
    const uint at_once = LOCAL / sharing, part = item % sharing;
    for (uint base = 0; base < ends; base += at_once) {
        const uint number = base + item / sharing, coarse = number / (RADIX - 1) * RADIX;
        const uint end = stride * (coarse + number % (RADIX - 1) + 1);
        const uint left_end = stride * coarse, right_end = stride * (coarse + RADIX);
        const bool wanted = item / sharing < at_once && number < ends && end > run;
        ulong moment = 0, most = 0;
        uint place = 0;
        if (wanted) {
            const uint left = left_end > run ? begins[left_end] : run;
            const uint low = max((uint)fewer[end], left);
            const uint high = min(end - 1, right_end <= n ? begins[right_end] : end - 1);
            moment = before[end].x;
            place = low;
            for (uint begin = low + part; begin <= high; begin += sharing)
                compare(sums, before, moment, begin, end, &most, &place);
        }
        if (sharing > 1) {
            values[item] = most;
            places[item] = place;
            for (uint half_way = sharing / 2; half_way > 0; half_way /= 2) {
                barrier(CLK_LOCAL_MEM_FENCE);
                if (part < half_way) {
                    const ulong other = values[item + half_way];
                    const uint there = places[item + half_way];
                    if (other > values[item] || (other == values[item] && there < places[item])) {
                        values[item] = other;
                        places[item] = there;
                    }
                }
            }
            most = values[item];
            place = places[item];
        }
        if (wanted && part == 0) {
            after[end] = (ulong2)(moment, most);
            begins[end] = (ushort)place;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* The runs of each row; those of a row of fewer than k numbers end with empty ones.
 * NDRange: (groups * LOCAL); group g takes the rows g, g + groups, ...
 *   numbers     uint (rows, n), each row's own ones ascending
 *   weights     uint (rows, n), above 0, each row's sum below 2^32; not read unless WEIGHTED
 *   lengths     uint (rows), 1 to n: how many numbers a row has
 *   reciprocals ulong: floor((2^64 - 1) / i) at i from 1 to the largest sum of weights; not read if DIVIDES
 *   scratch     ulong2 (groups, 2, n + 1): prefix sums of numbers and what runs explain, before and with a further run
 *   mass        uint (groups, n + 1) if WEIGHTED
 *   begins      ushort (groups, k, n + 1): where the last of 1 to k runs begins, by its end
 *   ends        uint (rows, k): where each run ends
 *   sizes       rows, n from 1 to 65,536, k
 * Local memory: 12 bytes per work-item. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void scalar_codebooks(
    __global const uint *restrict numbers, __global const uint *restrict weights,
    __global const ulong *restrict reciprocals, __global const uint *restrict lengths, __global ulong2 *scratch,
    __global uint *mass, __global ushort *begins, __global uint *restrict ends, const uint4 sizes)
{
    __local ulong values[LOCAL];
    __local uint places[LOCAL];
    const uint item = get_local_id(0), k = sizes.s2, group = get_group_id(0), pitch = sizes.s1 + 1;
    __global uint *own_mass = mass + (size_t)(WEIGHTED ? group : 0) * pitch;
    __global ushort *own_begins = begins + (size_t)group * k * pitch;
    const sums_t sums = {reciprocals, own_mass};
    for (uint row = group; row < sizes.s0; row += get_num_groups(0)) {
        const size_t at = (size_t)row * sizes.s1;
        const uint n = lengths[row], runs = min(k, n);
        __global ulong2 *before = scratch + (size_t)group * 2 * pitch, *after = before + pitch;
        uint top = 1;
        while (RADIX * top <= n)
            top *= RADIX;
        for (uint end = item; end <= n; end += LOCAL)
            own_begins[end] = 0;
        sum_row(sums, numbers + at, weights + (WEIGHTED ? at : 0), n, before, own_mass, values, places);
        for (uint run = 1; run < runs; ++run) {
            __global ushort *here = own_begins + (size_t)run * pitch;
            /* Of all runs only the last end is wanted. */
            const uint least = run + 1 < runs ? 1 : n;
            for (uint stride = run + 1 < runs ? top : n; stride >= least; stride /= RADIX)
                find_beginnings(sums, n, run, stride, before, after, here - pitch, here, values, places);
            __global ulong2 *swapped = before;
            before = after;
            after = swapped;
        }
        if (item == 0) {
            for (uint run = runs; run < k; ++run)
                ends[(size_t)row * k + run] = n;
            uint end = n;
            for (uint run = runs; run-- > 0;) {
                ends[(size_t)row * k + run] = end;
                end = own_begins[(size_t)run * pitch + end];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
