/* Words of rANS streams, each at the end of its own part of a buffer, joined.
 *
 * NDRange: 2-D, (the most words of a stream, streams), rounded up to whole groups of any size. words: streams x
 * capacity ushort. begins: streams + 1 uint, where each stream's words are to begin. joined: begins[streams] ushort,
 * written.
 */
__kernel void vq_join_streams(__global const ushort *words, const uint capacity, __global const uint *begins,
                              const uint streams, __global ushort *joined)
{
    const uint i = get_global_id(0);
    const uint stream = get_global_id(1);
    if (stream >= streams)
        return;
    const uint begin = begins[stream];
    const uint count = begins[stream + 1] - begin;
    if (i < count)
        joined[begin + i] = words[(size_t)stream * capacity + capacity - count + i];
}
