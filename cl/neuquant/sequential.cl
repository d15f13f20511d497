/* Dekker's NeuQuant to the letter, one independent network per picture.
 *
 * Source: A. H. Dekker, "Kohonen neural networks for optimal colour quantization", Network: Computation in Neural
 * Systems 5 (1994), and the integer program published with it.
 *
 * Constants from the host:
 *   COLORS  nodes of a network, 2 to 1024
 *   DIMS    coordinates of a colour, 3 or 4
 *   LOCAL   work-items of a group, a power of two from 1 to 1024
 *   WIDE    1 if a coordinate may exceed 511, so that a pull needs 64 bits */

#define NODES_PER_ITEM ((COLORS + LOCAL - 1) / LOCAL)
#define CHUNK (LOCAL < 32 ? 32 : LOCAL)
#define NO_NODE 0xffffffffu

#if WIDE
typedef long pull_t;
#else
typedef int pull_t;
#endif

/* Key of a node in a contest: its distance, raised to be positive, above its index, so that the least key is the
 * nearest node and the lowest index among equals. Distances are below 2^18 (four coordinates in 1/16), biases
 * between -2^14 and 2^14, so a key stays below 2^29. */
uint contest_key(const int distance, const int node)
{
    return ((uint)(distance + 16384) << 10) | (uint)node;
}

/* Trains the network of one picture through the cycles first_cycle .. last_cycle - 1. Between two launches the
 * network rests in `networks` and `frequencies`.
 *
 * NDRange: (pictures * LOCAL), groups of LOCAL; group p trains picture p.
 *   points       ushort4 per sample, x = 65535 marks one that is passed over; for each picture in turn the samples of
 *                these cycles in the order of training
 *   pictures     uint2 per picture: its first point here, its samples in all cycles
 *   cycles       int2 per cycle: alpha (1024 is 1), radius in nodes (0: the winner alone)
 *   networks     int, (pictures, COLORS, DIMS), in 1/16 of a coordinate
 *   frequencies  int, (pictures, COLORS), 65536 is always; the bias is 1024 * (65536 / COLORS - frequency)
 * Local memory: the two keys of every work-item, twice; CHUNK points; the pull of each distance from the winner. */
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void neuquant_sequential(
    __global const ushort4 *restrict points, __global const uint2 *restrict pictures,
    __global const int2 *restrict cycles, __global int *restrict networks, __global int *restrict frequencies,
    const uint first_cycle, const uint last_cycle)
{
#if LOCAL > 1
    __local uint2 keys[2 * LOCAL];
    uint parity = 0;
#endif
    __local ushort4 chunk[CHUNK];
    __local int pull[COLORS / 8 + 1];
    const uint item = get_local_id(0);
    const uint2 picture = pictures[get_group_id(0)];
    __global int *network = networks + (ulong)get_group_id(0) * COLORS * DIMS;
    __global int *frequency = frequencies + (ulong)get_group_id(0) * COLORS;
    const uint samples = picture.y;
    const uint per_cycle = max(samples / 100u, 1u);
    const int usual = 65536 / COLORS;

    int node[NODES_PER_ITEM][DIMS];
    int often[NODES_PER_ITEM];
    for (int k = 0; k < NODES_PER_ITEM; ++k) {
        const int i = item + k * LOCAL;
        for (int c = 0; c < DIMS; ++c)
            node[k][c] = i < COLORS ? network[i * DIMS + c] : 0;
        often[k] = i < COLORS ? frequency[i] : 0;
    }

    const uint begin = min(first_cycle * per_cycle, samples);
    const uint slice_end = min(last_cycle * per_cycle, samples);
    uint filled = begin;  /* samples below this one are, or were, in the chunk */
    uint sample = begin;
    for (uint cycle = first_cycle; cycle < last_cycle && sample < slice_end; ++cycle) {
        const int alpha = cycles[cycle].x;
        const int radius = cycles[cycle].y;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = item; d < radius; d += LOCAL)
            pull[d] = alpha * (((radius * radius - d * d) * 256) / (radius * radius));
        barrier(CLK_LOCAL_MEM_FENCE);

        const uint end = min((cycle + 1) * per_cycle, samples);
        for (; sample < end; ++sample) {
            if (sample == filled) {
#if LOCAL == 1
                /* PoCL 3 makes a faster program of this bound, by a tenth, than of the one below. */
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint k = item; k < CHUNK && sample + k < slice_end; k += LOCAL)
#else
                /* No conditional bound of a loop after a barrier in a group: PoCL 5 and 6 abort on it. */
                const uint taken = min((uint)CHUNK, slice_end - sample);
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint k = item; k < taken; k += LOCAL)
#endif
                    chunk[k] = points[picture.x + sample - begin + k];
                filled = sample + CHUNK;
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            /* A sample that its group passes over has its contest too, whose keys may wrap, and changes nothing: PoCL 6
             * miscompiles a loop that goes on before its barrier, though the whole group does. */
            const ushort4 point = chunk[sample + CHUNK - filled];
#if LOCAL == 1
            if (point.x == 65535)
                continue;
            const bool teaches = true;
#else
            const bool teaches = point.x != 65535;
#endif
            int value[4];
            value[0] = (int)point.x << 4;
            value[1] = (int)point.y << 4;
            value[2] = (int)point.z << 4;
            value[3] = (int)point.w << 4;

            /* The contest: `near` the nearest node, `fair` the nearest after each distance is less its node's bias. */
            uint near = NO_NODE, fair = NO_NODE;
            for (int k = 0; k < NODES_PER_ITEM; ++k) {
                const int i = item + k * LOCAL;
                int distance = 0;
                for (int c = 0; c < DIMS; ++c)
                    distance += (int)abs(node[k][c] - value[c]);
                const int bias = (usual - often[k]) * 1024;
                const uint near_key = contest_key(distance, i), fair_key = contest_key(distance - (bias >> 12), i);
                if (i < COLORS) {
                    near = min(near, near_key);
                    fair = min(fair, fair_key);
                }
                often[k] -= teaches ? often[k] >> 10 : 0;
            }
#if LOCAL > 1
            __local uint2 *row = keys + parity * LOCAL;
            row[item] = (uint2)(near, fair);
            parity ^= 1;  /* the next sample writes the other row, so one barrier per sample is enough */
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int k = 0; k < LOCAL; ++k) {
                near = min(near, row[k].x);
                fair = min(fair, row[k].y);
            }
#endif
            const int nearest = near & 1023, winner = fair & 1023;

            /* The winner moves by alpha, a node at distance d < radius by pull[d]; the nearest is seen more often. */
            for (int k = 0; k < NODES_PER_ITEM; ++k) {
                const int i = item + k * LOCAL;
                if (teaches && i == nearest)
                    often[k] += 64;
                const int d = teaches ? (int)abs(i - winner) : COLORS;
                if (d == 0) {
                    for (int c = 0; c < DIMS; ++c)
                        node[k][c] -= (alpha * (node[k][c] - value[c])) / 1024;
                } else if (d < radius) {
                    for (int c = 0; c < DIMS; ++c)
                        node[k][c] -= (int)(((pull_t)pull[d] * (node[k][c] - value[c])) / 262144);
                }
            }
        }
    }

    for (int k = 0; k < NODES_PER_ITEM; ++k) {
        const int i = item + k * LOCAL;
        if (i < COLORS) {
            for (int c = 0; c < DIMS; ++c)
                network[i * DIMS + c] = node[k][c];
            frequency[i] = often[k];
        }
    }
}
