/* The colours of palette indices.
 *
 * Constants: INDEX, the indices' type; OUT_CHANNELS 3 or 4.
 *
 * NDRange: 1-D, a work-item four pixels, guarded by n. indices (n) INDEX, below k; colors (k) uint: R, G, B, A in the
 * order of their bytes; out (n, OUT_CHANNELS) uchar, beginning at a multiple of 4 bytes. */
__kernel void apply_palette(__global const INDEX *indices, __global const uint *colors, __global uchar *out, ulong n)
{
    const ulong first = 4 * (ulong)get_global_id(0);
    if (first + 4 <= n) {
        indices += first;
        const uint4 four = (uint4)(colors[indices[0]], colors[indices[1]], colors[indices[2]], colors[indices[3]]);
        __global uint *words = (__global uint *)(out + OUT_CHANNELS * first);
#if OUT_CHANNELS == 4
        vstore4(four, 0, words);
#else
        const uchar4 a = as_uchar4(four.x), b = as_uchar4(four.y), c = as_uchar4(four.z), d = as_uchar4(four.w);
        words[0] = as_uint((uchar4)(a.xyz, b.x));
        words[1] = as_uint((uchar4)(b.yz, c.xy));
        words[2] = as_uint((uchar4)(c.z, d.xyz));
#endif
        return;
    }
    for (ulong i = first; i < n; i++) {
        const uchar4 color = as_uchar4(colors[indices[i]]);
        out[OUT_CHANNELS * i] = color.x;
        out[OUT_CHANNELS * i + 1] = color.y;
        out[OUT_CHANNELS * i + 2] = color.z;
#if OUT_CHANNELS == 4
        out[OUT_CHANNELS * i + 3] = color.w;
#endif
    }
}
