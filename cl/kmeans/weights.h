/* The type of points' weights: uint, or ulong where some may be 2^32 or more.
 *
 * The weights of all points add up to at most 2^39, and squared distances are below 2^24. So sums of weights, of weighted
 * coordinates (below 2^12) and of weighted squared distances stay below 2^63, in any order.
 * Constants: WIDE_WEIGHTS 1 for ulong.
 */
#if defined(WIDE_WEIGHTS) && WIDE_WEIGHTS
typedef ulong Weight;
#else
typedef uint Weight;
#endif
