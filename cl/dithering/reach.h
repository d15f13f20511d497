/* What keeps dithers near a pixel's colour; after mapping/nearest.h. bounds (entries) int4: the most of the error that
 * an entry passes on, of its first component and the alpha, and of the others; the reach of pixels whose nearest entry
 * it is, in values, to which its gap is added where that is over SPECK; the most of the pinwheel's errors, in 1/16 (clquant/dithering/bounds.py).
 *
 * Constants: SPECK, the largest gap to an entry that may always be shown, in values; FREE, a bound that is none;
 * CLOSEST, whether an own entry that is off by more than SPECK gives way to that of the least gap.
 */

/* What a pixel shows in place of an entry with a gap over SPECK; `own`: the nearest entry of its colour. */
int within_reach(int entry, int own, int4 color, __global const int4 *colors, __global const int4 *bounds,
                 int n_entries)
{
    const int off = gap(color, colors[entry]);
    const int reach = bounds[own].z;
    if (off <= reach)
        return entry;
#if CLOSEST
    if (gap(color, colors[own]) > SPECK)
        own = closest_entry(color, colors, n_entries);
#endif
    const int least = gap(color, colors[own]);
    if (least > SPECK && off <= reach + least)
        return entry;
    return own;
}
