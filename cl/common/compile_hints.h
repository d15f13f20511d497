/* For code that runs for less time than it takes to compile: PoCL compiles a kernel at its first launch, which
 * common/pocl.h tells. SMALL: of a kernel, to be small rather than fast; FEW_TURNS: of a loop of a few turns, to be
 * not vectorized. Elsewhere nothing. */
#ifdef COMPILED_AT_LAUNCH
#define SMALL __attribute__((minsize))
#define FEW_TURNS _Pragma("clang loop vectorize(disable)")
#else
#define SMALL
#define FEW_TURNS
#endif
