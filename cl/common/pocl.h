/*
 * OpenCL C's built-ins as far as kernels here use them, for PoCL, in the place of its opencl-c.h: it reads that file's
 * 18,552 lines anew for every program, which takes longer than most programs. clquant/runtime/program/pocl.py builds
 * with this and -D_OPENCL_H_, the file's own guard; a program that needs more builds with the whole file.
 *
 * Types, attributes and overloads are those of opencl-c.h, since the names in PoCL's library follow from them.
 * Conversions are Clang's own (without a rounding mode OpenCL converts each element as C does); the library's go
 * element by element. The macros as_* and convert_* are written by pocl.py; the others end in an underscore, so that
 * kernels may have their names.
 */
#define COMPILED_AT_LAUNCH 1

#define OVERLOADED_ __attribute__((overloadable))
#define CONST_ __attribute__((overloadable, const))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;

#define VECTORS_(type)                                         \
    typedef type type##2 __attribute__((ext_vector_type(2))); \
    typedef type type##3 __attribute__((ext_vector_type(3))); \
    typedef type type##4 __attribute__((ext_vector_type(4))); \
    typedef type type##8 __attribute__((ext_vector_type(8))); \
    typedef type type##16 __attribute__((ext_vector_type(16)));
VECTORS_(char) VECTORS_(uchar) VECTORS_(short) VECTORS_(ushort) VECTORS_(int) VECTORS_(uint) VECTORS_(long) VECTORS_(ulong)
VECTORS_(float)

#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 0xffffffff
#define ULONG_MAX 0xffffffffffffffffUL
#define FLT_MAX 0x1.fffffep127f
#define MAXFLOAT 0x1.fffffep127f

size_t CONST_ get_global_id(uint);
size_t CONST_ get_global_size(uint);
size_t CONST_ get_group_id(uint);
size_t CONST_ get_local_id(uint);
size_t CONST_ get_local_size(uint);
size_t CONST_ get_num_groups(uint);

typedef uint cl_mem_fence_flags;
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
void __attribute__((overloadable, convergent)) barrier(cl_mem_fence_flags);
void OVERLOADED_ mem_fence(cl_mem_fence_flags); /* what tests give kmeans/lloyd_grid.cl as its fence */

/* What takes a few instructions is written out, as OpenCL defines it: the library's functions are called by PoCL, and
 * callers keep no vector in a register over a call. */
#define INLINE_ static inline __attribute__((overloadable, always_inline))

/* X(a signed or floating type, the unsigned or integer type beside it), of a scalar, or of vectors */
#define VECTORS_OF_(X, type, other) X(type##2, other##2) X(type##4, other##4) X(type##8, other##8) X(type##16, other##16)
#define WIDTHS_(X, type, other) X(type, other) VECTORS_OF_(X, type, other)
#define LIMITS_(type) \
    INLINE_ type min(type x, type y) { return y < x ? y : x; } \
    INLINE_ type max(type x, type y) { return x < y ? y : x; } \
    INLINE_ type clamp(type x, type low, type high) { return min(max(x, low), high); }
#define FLOATS_(type, other) \
    LIMITS_(type) \
    INLINE_ type fabs(type x) { return __builtin_astype(__builtin_astype(x, other) & INT_MAX, type); }
#define INTEGERS_(type, other) \
    LIMITS_(type) \
    LIMITS_(other) \
    INLINE_ other abs(type x) { return __builtin_astype((type)(x < (type)0 ? -x : x), other); } \
    INLINE_ other abs_diff(other x, other y) { return x < y ? y - x : x - y; } \
    INLINE_ other abs_diff(type x, type y) \
    { \
        const other a = __builtin_astype(x, other), b = __builtin_astype(y, other); \
        return x < y ? b - a : a - b; \
    }
#define BITS_(type, other, wider, bits) \
    INLINE_ type mul_hi(type x, type y) { return (type)((wider)x * y >> bits); } \
    INLINE_ other mul_hi(other x, other y) { return (other)((unsigned wider)x * y >> bits); } \
    INLINE_ other clz(other x) { return (other)(x ? __builtin_clzl((ulong)x) - (64 - bits) : bits); } \
    INLINE_ type clz(type x) { return (type)clz((other)x); } \
    INLINE_ other popcount(other x) { return (other)__builtin_popcountl((ulong)x); }
#define HIGH_PRODUCTS_(type, wider) \
    INLINE_ type mul_hi(type x, type y) \
    { \
        return __builtin_convertvector( \
            __builtin_convertvector(x, wider) * __builtin_convertvector(y, wider) >> 8 * sizeof(x[0]), type); \
    }
/* A scalar's choice is by any bit, a vector's by the highest of each element. */
#define CHOICE_(type, mask) \
    INLINE_ type select(type x, type y, mask chosen) { return chosen ? y : x; }
#define CHOICES_(type, mask, sign) \
    INLINE_ type select(type x, type y, mask chosen) { return __builtin_astype(chosen, sign) < (sign)0 ? y : x; }
#define SCALAR_SELECT_(type, other) CHOICE_(type, type) CHOICE_(type, other) CHOICE_(other, type) CHOICE_(other, other)
#define VECTOR_SELECT_(type, other) \
    CHOICES_(type, type, type) CHOICES_(type, other, type) CHOICES_(other, type, type) CHOICES_(other, other, type)
#define FLOAT_SELECT_(type, mask) CHOICES_(type, mask, mask)
WIDTHS_(FLOATS_, float, int)
WIDTHS_(INTEGERS_, short, ushort)
WIDTHS_(INTEGERS_, int, uint)
WIDTHS_(INTEGERS_, long, ulong)
LIMITS_(int3)
LIMITS_(uchar16)
BITS_(short, ushort, int, 16)
BITS_(int, uint, long, 32)
BITS_(long, ulong, __int128, 64)
HIGH_PRODUCTS_(short8, int8)
HIGH_PRODUCTS_(short16, int16)
CHOICE_(float, int)
VECTORS_OF_(FLOAT_SELECT_, float, int)
SCALAR_SELECT_(short, ushort)
SCALAR_SELECT_(int, uint)
SCALAR_SELECT_(long, ulong)
VECTORS_OF_(VECTOR_SELECT_, short, ushort)
VECTORS_OF_(VECTOR_SELECT_, int, uint)
VECTORS_OF_(VECTOR_SELECT_, long, ulong)

/* Whether the highest bit of any element is set, or of all. */
#define TEST_(type, half) \
    INLINE_ int any(type x) { return any((half)(x.lo | x.hi)); } \
    INLINE_ int all(type x) { return all((half)(x.lo & x.hi)); }
#define TESTS_(type) \
    INLINE_ int any(type x) { return x < 0; } \
    INLINE_ int all(type x) { return x < 0; } \
    TEST_(type##2, type) TEST_(type##4, type##2) TEST_(type##8, type##4) TEST_(type##16, type##8)
TESTS_(char)
TESTS_(short)
TESTS_(int)
TESTS_(long)
#ifdef cl_khr_fp64
double CONST_ sqrt(double);
#endif
ulong CONST_ upsample(uint, uint);

/* Vectors of which only the elements are aligned. */
#define MOVED_(type, n, space) \
    INLINE_ type##n vload##n(size_t i, const space type *p) \
    { \
        typedef type##n __attribute__((aligned(sizeof(type)))) Loose; \
        return *(const space Loose *)(p + n * i); \
    } \
    INLINE_ void vstore##n(type##n x, size_t i, space type *p) \
    { \
        typedef type##n __attribute__((aligned(sizeof(type)))) Loose; \
        *(space Loose *)(p + n * i) = x; \
    }
#define THREE_(type, space) \
    INLINE_ type##3 vload3(size_t i, const space type *p) { return (type##3)(p[3 * i], p[3 * i + 1], p[3 * i + 2]); } \
    INLINE_ void vstore3(type##3 x, size_t i, space type *p) \
    { \
        p[3 * i] = x.x; \
        p[3 * i + 1] = x.y; \
        p[3 * i + 2] = x.z; \
    }
#define SPACES_(X, ...) X(__VA_ARGS__, __global) X(__VA_ARGS__, __local) X(__VA_ARGS__, __private)
#define VECTORS_MOVED_(type) \
    SPACES_(MOVED_, type, 2) \
    SPACES_(THREE_, type) SPACES_(MOVED_, type, 4) SPACES_(MOVED_, type, 8) SPACES_(MOVED_, type, 16)
VECTORS_MOVED_(uchar)
VECTORS_MOVED_(short)
VECTORS_MOVED_(ushort)
VECTORS_MOVED_(int)
VECTORS_MOVED_(uint)
VECTORS_MOVED_(ulong)
VECTORS_MOVED_(float)

#define ATOMIC_(type, space)                                            \
    type OVERLOADED_ atomic_add(volatile space type *, type);           \
    type OVERLOADED_ atomic_inc(volatile space type *);                 \
    type OVERLOADED_ atomic_cmpxchg(volatile space type *, type, type); \
    type OVERLOADED_ atomic_min(volatile space type *, type);           \
    type OVERLOADED_ atomic_max(volatile space type *, type);           \
    type OVERLOADED_ atomic_or(volatile space type *, type);
ATOMIC_(int, __global)
ATOMIC_(uint, __global)
ATOMIC_(int, __local)
ATOMIC_(uint, __local)
#ifdef cl_khr_int64_base_atomics
ulong OVERLOADED_ atom_add(volatile __global ulong *, ulong);
#endif
