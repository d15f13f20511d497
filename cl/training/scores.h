/* Scores of codewords: |x - c|^2 = |x|^2 - (2 x.c - |c|^2), so the nearest codeword has the largest score 2 x.c - |c|^2.
 *
 * The sum starts at -|c|^2 >= -65025 K, every term 2 x_k c_k is non-negative, and it ends at |x|^2 - |x - c|^2 <= 65025
 * K. All partial sums are therefore integers of magnitude at most 65025 K: exact in fp32 for K <= 258 (below 2^24), and
 * in 32-bit integers for every K allowed here (K <= 2048). With DEEP they stay below 2^45. The host asserts all three.
 *
 * Constants: those of training/block.h. EXCLUDING, of searches: 1 where each block passes over one codeword, so that the
 * second nearest is found. TENSORS, defined before, tells that operands are bytes, which tensor cores multiply.
 */
#include "training/block.h"

#ifndef TENSORS
#define TENSORS 0
#endif
#define FLOATS (K <= 258 && !DEEP && !TENSORS)

/* number_t: of operands; score_t: of scores, which are above LOWEST; LOSES: the bias, below every score, of codewords
 * that are there as padding. */
#if DEEP
typedef int number_t;
typedef long score_t;
#define LOWEST LONG_MIN
#define LOSES (-(1L << 46))
#elif FLOATS
typedef float number_t, score_t;
#define LOWEST (-3.0e7f)
#define LOSES (-(float)(1 << 24))
#else
typedef int number_t, score_t;
#define LOWEST INT_MIN
#define LOSES (-INT_MAX)
#endif

#define IS_ALLOWED(codeword, passed) (!EXCLUDING || (codeword) != (passed))
