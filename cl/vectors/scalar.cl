/* The optimal codebook of each of many sorted rows of numbers: the runs of least weighted squared error.
 *
 * Sources: X. Wu, "Optimal quantization by matrix searching", Journal of Algorithms 12 (1991); H. Wang, M. Song,
 * "Ckmeans.1d.dp", The R Journal 3 (2011). The beginnings of best last runs ascend with their ends, so each end has its
 * beginning between those of its neighbours on a coarser grid of ends.
 *
 * Constants from the host:
 *   LOCAL       work-items per group
 *   WEIGHTED    1 where the numbers have weights, otherwise each counts once
 *
 * Exactness: the host scales numbers so that (sum of weights) (largest number)^2 < 2^64; all sums are of unsigned 64-bit
 * integers and stay below that. */

typedef struct {
    __global const ulong *first, *second, *reciprocals;
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

/* floor(moment / mass). The product with floor((2^64 - 1) / mass) is below it by less than 1, as moment < 2^63. */
ulong mean_of(const sums_t sums, const ulong moment, const uint mass)
{
#if WEIGHTED
    return moment / mass;
#else
    const ulong guess = mul_hi(moment, sums.reciprocals[mass]);
    return guess + (moment - guess * mass >= mass);
#endif
}

/* The squared error of the numbers begin to end - 1 about their mean m, rounded down: the sum of squares less
 * m (2 moment - m mass). Products may wrap around 2^64; the difference is right. */
ulong run_cost(const sums_t sums, const uint begin, const uint end)
{
    const ulong moment = sums.first[end] - sums.first[begin];
    const uint mass = run_mass(sums, begin, end);
    const ulong mean = mean_of(sums, moment, mass);
    return sums.second[end] - sums.second[begin] - mean * (2 * moment - mean * mass);
}

/* Prefix sums of a row: moments, squares and weights of the numbers before each place. Ends with a barrier. */
void sum_row(__global const uint *numbers, __global const uint *weights, const uint n, __global ulong *first,
             __global ulong *second, __global uint *mass, __local ulong *moments, __local ulong *squares,
             __local uint *masses)
{
    const uint item = get_local_id(0), share = (n + LOCAL - 1) / LOCAL;
    const uint begin = item * share, end = begin + share; /* beyond n for the last work-items */
    ulong moment = 0, square = 0;
    uint total = 0;
    for (uint i = begin; i < n && i < end; ++i) {
        const ulong number = numbers[i];
        const uint weight = WEIGHTED ? weights[i] : 1;
        moment += number * weight;
        square += number * number * weight;
        total += weight;
    }
    moments[item] = moment;
    squares[item] = square;
    masses[item] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    moment = square = total = 0;
    for (uint i = 0; i < item; ++i) {
        moment += moments[i];
        square += squares[i];
        total += masses[i];
    }
    if (item == 0)
        first[0] = second[0] = 0;
    if (WEIGHTED && item == 0)
        mass[0] = 0;
    for (uint i = begin; i < n && i < end; ++i) {
        const ulong number = numbers[i];
        const uint weight = WEIGHTED ? weights[i] : 1;
        first[i + 1] = moment += number * weight;
        second[i + 1] = square += number * number * weight;
        total += weight;
        if (WEIGHTED)
            mass[i + 1] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* Where the last of run + 1 runs begins and what they cost together, for the ends stride, 3 stride, 5 stride, ... that
 * are above `run`. Several work-items share an end while there are fewer ends than work-items. Ends with a barrier. */
void find_beginnings(const sums_t sums, const uint n, const uint run, const uint stride, __global const ulong *before,
                     __global ulong *after, __global const ushort *fewer, __global ushort *begins, __local ulong *costs,
                     __local uint *places)
{
    const uint item = get_local_id(0), ends = (n / stride + 1) / 2;
    uint sharing = 1;
    while (2 * sharing * ends <= LOCAL)
        sharing *= 2;
    const uint at_once = LOCAL / sharing, part = item % sharing;
    for (uint base = 0; base < ends; base += at_once) {
        const uint number = base + item / sharing, end = stride * (2 * number + 1);
        const bool wanted = item / sharing < at_once && number < ends && end > run;
        ulong least = ULONG_MAX;
        uint place = 0;
        if (wanted) {
            const uint left = end - stride > run ? begins[end - stride] : run;
            const uint low = max((uint)fewer[end], left);
            const uint high = end + stride <= n ? begins[end + stride] : end - 1;
            place = low;
            for (uint begin = low + part; begin <= high && begin < end; begin += sharing) {
                const ulong cost = before[begin] + run_cost(sums, begin, end);
                place = cost < least ? begin : place;
                least = min(cost, least);
            }
        }
        costs[item] = least;
        places[item] = place;
        for (uint half_way = sharing / 2; half_way > 0; half_way /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (part < half_way) {
                const ulong other = costs[item + half_way];
                const uint there = places[item + half_way];
                if (other < costs[item] || (other == costs[item] && there < places[item])) {
                    costs[item] = other;
                    places[item] = there;
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (wanted && part == 0) {
            after[end] = costs[item];
            begins[end] = (ushort)places[item];
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}

/* The runs of each row; those of a row of fewer than k numbers end with empty ones.
 * NDRange: (groups * LOCAL); group g takes the rows g, g + groups, ...
 *   numbers     uint (rows, n), each row's own ones ascending
 *   weights     uint (rows, n), above 0, each row's sum below 2^32; not read unless WEIGHTED
 *   lengths     uint (rows), 1 to n: how many numbers a row has
 *   reciprocals ulong (n + 1): floor((2^64 - 1) / i) at i > 0; not read if WEIGHTED
 *   scratch     ulong (groups, 4, n + 1): prefix sums of numbers and of squares, costs before and with a further run
 *   mass        uint (groups, n + 1) if WEIGHTED
 *   begins      ushort (groups, k, n + 1): where the last of 1 to k runs begins, by its end
 *   ends        uint (rows, k): where each run ends
 *   sizes       rows, n from 1 to 65,536, k
 * Local memory: 24 bytes per work-item. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void scalar_codebooks(
    __global const uint *restrict numbers, __global const uint *restrict weights,
    __global const ulong *restrict reciprocals, __global const uint *restrict lengths, __global ulong *scratch,
    __global uint *mass, __global ushort *begins, __global uint *restrict ends, const uint4 sizes)
{
    __local ulong costs[LOCAL], squares[LOCAL];
    __local uint places[LOCAL];
    const uint item = get_local_id(0), k = sizes.s2, group = get_group_id(0), pitch = sizes.s1 + 1;
    __global ulong *first = scratch + (size_t)group * 4 * pitch, *second = first + pitch;
    __global uint *own_mass = mass + (size_t)(WEIGHTED ? group : 0) * pitch;
    __global ushort *own_begins = begins + (size_t)group * k * pitch;
    const sums_t sums = {first, second, reciprocals, own_mass};
    for (uint row = group; row < sizes.s0; row += get_num_groups(0)) {
        const size_t at = (size_t)row * sizes.s1;
        const uint n = lengths[row], runs = min(k, n);
        __global ulong *before = second + pitch, *after = before + pitch;
        uint top = 1;
        while (2 * top <= n)
            top *= 2;
        sum_row(numbers + at, weights + (WEIGHTED ? at : 0), n, first, second, own_mass, costs, squares, places);
        for (uint end = 1 + item; end <= n; end += LOCAL) {
            before[end] = run_cost(sums, 0, end);
            own_begins[end] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (uint run = 1; run < runs; ++run) {
            __global ushort *here = own_begins + (size_t)run * pitch;
            /* Of all runs only the last end is wanted. */
            const uint least = run + 1 < runs ? 1 : n;
            for (uint stride = run + 1 < runs ? top : n; stride >= least; stride /= 2)
                find_beginnings(sums, n, run, stride, before, after, here - pitch, here, costs, places);
            __global ulong *swapped = before;
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
