/*
 * OpenCL C's built-ins as far as kernels here use them, for PoCL, in the place of its opencl-c.h: it reads that file's
 * 18,552 lines anew for every program, which takes longer than most programs. clquant/runtime/program/pocl.py builds
 * with this and -D_OPENCL_H_, the file's own guard; a program that needs more builds with the whole file.
 *
 * Types, attributes and overloads are those of opencl-c.h, since the names in PoCL's library follow from them.
 * Conversions are Clang's own (without a rounding mode OpenCL converts each element as C does); the library's go
 * element by element.
 */
#define COMPILED_AT_LAUNCH 1

#define OVERLOADED __attribute__((overloadable))
#define CONST __attribute__((overloadable, const))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;

#define VECTORS(type)                                         \
    typedef type type##2 __attribute__((ext_vector_type(2))); \
    typedef type type##3 __attribute__((ext_vector_type(3))); \
    typedef type type##4 __attribute__((ext_vector_type(4))); \
    typedef type type##8 __attribute__((ext_vector_type(8))); \
    typedef type type##16 __attribute__((ext_vector_type(16)));
VECTORS(char) VECTORS(uchar) VECTORS(short) VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long) VECTORS(ulong)
VECTORS(float)

#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 0xffffffff
#define ULONG_MAX 0xffffffffffffffffUL
#define FLT_MAX 0x1.fffffep127f
#define MAXFLOAT 0x1.fffffep127f

size_t CONST get_global_id(uint);
size_t CONST get_global_size(uint);
size_t CONST get_group_id(uint);
size_t CONST get_local_id(uint);
size_t CONST get_local_size(uint);
size_t CONST get_num_groups(uint);

typedef uint cl_mem_fence_flags;
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
void __attribute__((overloadable, convergent)) barrier(cl_mem_fence_flags);
void OVERLOADED mem_fence(cl_mem_fence_flags);

/* What takes a few instructions is written out, as OpenCL defines it: the library's functions are called by PoCL, and
 * callers keep no vector in a register over a call. */
#define INLINE static inline __attribute__((overloadable, always_inline))

/* X(a signed or floating type, the unsigned or integer type beside it), of a scalar, or of vectors */
#define VECTORS_OF(X, type, other) X(type##2, other##2) X(type##4, other##4) X(type##8, other##8) X(type##16, other##16)
#define WIDTHS(X, type, other) X(type, other) VECTORS_OF(X, type, other)
#define LIMITS(type) \
    INLINE type min(type x, type y) { return y < x ? y : x; } \
    INLINE type max(type x, type y) { return x < y ? y : x; } \
    INLINE type clamp(type x, type low, type high) { return min(max(x, low), high); }
#define FLOATS(type, other) \
    LIMITS(type) \
    INLINE type fabs(type x) { return __builtin_astype(__builtin_astype(x, other) & INT_MAX, type); }
#define INTEGERS(type, other) \
    LIMITS(type) \
    LIMITS(other) \
    INLINE other abs(type x) { return __builtin_astype((type)(x < (type)0 ? -x : x), other); } \
    INLINE other abs_diff(other x, other y) { return x < y ? y - x : x - y; } \
    INLINE other abs_diff(type x, type y) \
    { \
        const other a = __builtin_astype(x, other), b = __builtin_astype(y, other); \
        return x < y ? b - a : a - b; \
    }
#define BITS(type, other, wider, bits) \
    INLINE type mul_hi(type x, type y) { return (type)((wider)x * y >> bits); } \
    INLINE other mul_hi(other x, other y) { return (other)((unsigned wider)x * y >> bits); } \
    INLINE other clz(other x) { return (other)(x ? __builtin_clzl((ulong)x) - (64 - bits) : bits); } \
    INLINE type clz(type x) { return (type)clz((other)x); } \
    INLINE other popcount(other x) { return (other)__builtin_popcountl((ulong)x); }
#define HIGH_PRODUCTS(type, wider) \
    INLINE type mul_hi(type x, type y) \
    { \
        return __builtin_convertvector( \
            __builtin_convertvector(x, wider) * __builtin_convertvector(y, wider) >> 8 * sizeof(x[0]), type); \
    }
/* A scalar's choice is by any bit, a vector's by the highest of each element. */
#define CHOICE(type, mask) \
    INLINE type select(type x, type y, mask chosen) { return chosen ? y : x; }
#define CHOICES(type, mask, sign) \
    INLINE type select(type x, type y, mask chosen) { return __builtin_astype(chosen, sign) < (sign)0 ? y : x; }
#define SCALAR_SELECT(type, other) CHOICE(type, type) CHOICE(type, other) CHOICE(other, type) CHOICE(other, other)
#define VECTOR_SELECT(type, other) \
    CHOICES(type, type, type) CHOICES(type, other, type) CHOICES(other, type, type) CHOICES(other, other, type)
#define FLOAT_SELECT(type, mask) CHOICES(type, mask, mask)
WIDTHS(FLOATS, float, int)
WIDTHS(INTEGERS, short, ushort)
WIDTHS(INTEGERS, int, uint)
WIDTHS(INTEGERS, long, ulong)
LIMITS(int3)
LIMITS(uchar16)
BITS(short, ushort, int, 16)
BITS(int, uint, long, 32)
BITS(long, ulong, __int128, 64)
HIGH_PRODUCTS(short8, int8)
HIGH_PRODUCTS(short16, int16)
INLINE uchar16 add_sat(uchar16 x, uchar16 y)
{
    const uchar16 sum = x + y;
    return sum < x ? (uchar16)255 : sum;
}
CHOICE(float, int)
VECTORS_OF(FLOAT_SELECT, float, int)
SCALAR_SELECT(short, ushort)
SCALAR_SELECT(int, uint)
SCALAR_SELECT(long, ulong)
VECTORS_OF(VECTOR_SELECT, short, ushort)
VECTORS_OF(VECTOR_SELECT, int, uint)
VECTORS_OF(VECTOR_SELECT, long, ulong)

/* Whether the highest bit of any element is set, or of all. */
#define TEST(type, half) \
    INLINE int any(type x) { return any((half)(x.lo | x.hi)); } \
    INLINE int all(type x) { return all((half)(x.lo & x.hi)); }
#define TESTS(type) \
    INLINE int any(type x) { return x < 0; } \
    INLINE int all(type x) { return x < 0; } \
    TEST(type##2, type) TEST(type##4, type##2) TEST(type##8, type##4) TEST(type##16, type##8)
TESTS(char)
TESTS(short)
TESTS(int)
TESTS(long)
#ifdef cl_khr_fp64
double CONST sqrt(double);
#endif
ulong CONST upsample(uint, uint);

/* Vectors of which only the elements are aligned. */
#define MOVED_(type, n, space) \
    INLINE type##n vload##n(size_t i, const space type *p) \
    { \
        typedef type##n __attribute__((aligned(sizeof(type)))) Loose; \
        return *(const space Loose *)(p + n * i); \
    } \
    INLINE void vstore##n(type##n x, size_t i, space type *p) \
    { \
        typedef type##n __attribute__((aligned(sizeof(type)))) Loose; \
        *(space Loose *)(p + n * i) = x; \
    }
#define THREE_(type, space) \
    INLINE type##3 vload3(size_t i, const space type *p) { return (type##3)(p[3 * i], p[3 * i + 1], p[3 * i + 2]); } \
    INLINE void vstore3(type##3 x, size_t i, space type *p) \
    { \
        p[3 * i] = x.x; \
        p[3 * i + 1] = x.y; \
        p[3 * i + 2] = x.z; \
    }
#define SPACES(X, ...) X(__VA_ARGS__, __global) X(__VA_ARGS__, __local) X(__VA_ARGS__, __private)
#define VECTORS_MOVED(type) \
    SPACES(MOVED_, type, 2) \
    SPACES(THREE_, type) SPACES(MOVED_, type, 4) SPACES(MOVED_, type, 8) SPACES(MOVED_, type, 16)
VECTORS_MOVED(uchar)
VECTORS_MOVED(short)
VECTORS_MOVED(ushort)
VECTORS_MOVED(int)
VECTORS_MOVED(uint)
VECTORS_MOVED(ulong)
VECTORS_MOVED(float)

#define ATOMIC(type, space)                                            \
    type OVERLOADED atomic_add(volatile space type *, type);           \
    type OVERLOADED atomic_sub(volatile space type *, type);           \
    type OVERLOADED atomic_inc(volatile space type *);                 \
    type OVERLOADED atomic_dec(volatile space type *);                 \
    type OVERLOADED atomic_xchg(volatile space type *, type);          \
    type OVERLOADED atomic_cmpxchg(volatile space type *, type, type); \
    type OVERLOADED atomic_min(volatile space type *, type);           \
    type OVERLOADED atomic_max(volatile space type *, type);           \
    type OVERLOADED atomic_and(volatile space type *, type);           \
    type OVERLOADED atomic_or(volatile space type *, type);            \
    type OVERLOADED atomic_xor(volatile space type *, type);
ATOMIC(int, __global)
ATOMIC(uint, __global)
ATOMIC(int, __local)
ATOMIC(uint, __local)
#ifdef cl_khr_int64_base_atomics
ulong OVERLOADED atom_add(volatile __global ulong *, ulong);
#endif

#define as_uchar(x) __builtin_astype(x, uchar)
#define as_uchar2(x) __builtin_astype(x, uchar2)
#define as_uchar3(x) __builtin_astype(x, uchar3)
#define as_uchar4(x) __builtin_astype(x, uchar4)
#define as_uchar8(x) __builtin_astype(x, uchar8)
#define as_uchar16(x) __builtin_astype(x, uchar16)
#define as_short(x) __builtin_astype(x, short)
#define as_short2(x) __builtin_astype(x, short2)
#define as_short3(x) __builtin_astype(x, short3)
#define as_short4(x) __builtin_astype(x, short4)
#define as_short8(x) __builtin_astype(x, short8)
#define as_short16(x) __builtin_astype(x, short16)
#define as_ushort(x) __builtin_astype(x, ushort)
#define as_ushort2(x) __builtin_astype(x, ushort2)
#define as_ushort3(x) __builtin_astype(x, ushort3)
#define as_ushort4(x) __builtin_astype(x, ushort4)
#define as_ushort8(x) __builtin_astype(x, ushort8)
#define as_ushort16(x) __builtin_astype(x, ushort16)
#define as_int(x) __builtin_astype(x, int)
#define as_int2(x) __builtin_astype(x, int2)
#define as_int3(x) __builtin_astype(x, int3)
#define as_int4(x) __builtin_astype(x, int4)
#define as_int8(x) __builtin_astype(x, int8)
#define as_int16(x) __builtin_astype(x, int16)
#define as_uint(x) __builtin_astype(x, uint)
#define as_uint2(x) __builtin_astype(x, uint2)
#define as_uint3(x) __builtin_astype(x, uint3)
#define as_uint4(x) __builtin_astype(x, uint4)
#define as_uint8(x) __builtin_astype(x, uint8)
#define as_uint16(x) __builtin_astype(x, uint16)
#define as_long(x) __builtin_astype(x, long)
#define as_long2(x) __builtin_astype(x, long2)
#define as_long3(x) __builtin_astype(x, long3)
#define as_long4(x) __builtin_astype(x, long4)
#define as_long8(x) __builtin_astype(x, long8)
#define as_long16(x) __builtin_astype(x, long16)
#define as_ulong(x) __builtin_astype(x, ulong)
#define as_ulong2(x) __builtin_astype(x, ulong2)
#define as_ulong3(x) __builtin_astype(x, ulong3)
#define as_ulong4(x) __builtin_astype(x, ulong4)
#define as_ulong8(x) __builtin_astype(x, ulong8)
#define as_ulong16(x) __builtin_astype(x, ulong16)
#define as_float(x) __builtin_astype(x, float)
#define as_float2(x) __builtin_astype(x, float2)
#define as_float3(x) __builtin_astype(x, float3)
#define as_float4(x) __builtin_astype(x, float4)
#define as_float8(x) __builtin_astype(x, float8)
#define as_float16(x) __builtin_astype(x, float16)
#define convert_char16(x) __builtin_convertvector(x, char16)
#define convert_uchar2(x) __builtin_convertvector(x, uchar2)
#define convert_uchar3(x) __builtin_convertvector(x, uchar3)
#define convert_uchar4(x) __builtin_convertvector(x, uchar4)
#define convert_uchar8(x) __builtin_convertvector(x, uchar8)
#define convert_uchar16(x) __builtin_convertvector(x, uchar16)
#define convert_short2(x) __builtin_convertvector(x, short2)
#define convert_short3(x) __builtin_convertvector(x, short3)
#define convert_short4(x) __builtin_convertvector(x, short4)
#define convert_short8(x) __builtin_convertvector(x, short8)
#define convert_short16(x) __builtin_convertvector(x, short16)
#define convert_ushort2(x) __builtin_convertvector(x, ushort2)
#define convert_ushort3(x) __builtin_convertvector(x, ushort3)
#define convert_ushort4(x) __builtin_convertvector(x, ushort4)
#define convert_ushort8(x) __builtin_convertvector(x, ushort8)
#define convert_ushort16(x) __builtin_convertvector(x, ushort16)
#define convert_int2(x) __builtin_convertvector(x, int2)
#define convert_int3(x) __builtin_convertvector(x, int3)
#define convert_int4(x) __builtin_convertvector(x, int4)
#define convert_int8(x) __builtin_convertvector(x, int8)
#define convert_int16(x) __builtin_convertvector(x, int16)
#define convert_uint2(x) __builtin_convertvector(x, uint2)
#define convert_uint3(x) __builtin_convertvector(x, uint3)
#define convert_uint4(x) __builtin_convertvector(x, uint4)
#define convert_uint8(x) __builtin_convertvector(x, uint8)
#define convert_uint16(x) __builtin_convertvector(x, uint16)
#define convert_long2(x) __builtin_convertvector(x, long2)
#define convert_long3(x) __builtin_convertvector(x, long3)
#define convert_long4(x) __builtin_convertvector(x, long4)
#define convert_long8(x) __builtin_convertvector(x, long8)
#define convert_long16(x) __builtin_convertvector(x, long16)
#define convert_ulong2(x) __builtin_convertvector(x, ulong2)
#define convert_ulong3(x) __builtin_convertvector(x, ulong3)
#define convert_ulong4(x) __builtin_convertvector(x, ulong4)
#define convert_ulong8(x) __builtin_convertvector(x, ulong8)
#define convert_ulong16(x) __builtin_convertvector(x, ulong16)
#define convert_float2(x) __builtin_convertvector(x, float2)
#define convert_float3(x) __builtin_convertvector(x, float3)
#define convert_float4(x) __builtin_convertvector(x, float4)
#define convert_float8(x) __builtin_convertvector(x, float8)
#define convert_float16(x) __builtin_convertvector(x, float16)

#undef OVERLOADED
#undef CONST
#undef INLINE
#undef VECTORS
#undef VECTORS_OF
#undef WIDTHS
#undef LIMITS
#undef FLOATS
#undef INTEGERS
#undef BITS
#undef HIGH_PRODUCTS
#undef CHOICE
#undef CHOICES
#undef SCALAR_SELECT
#undef VECTOR_SELECT
#undef FLOAT_SELECT
#undef TEST
#undef TESTS
#undef MOVED_
#undef THREE_
#undef SPACES
#undef VECTORS_MOVED
#undef ATOMIC
