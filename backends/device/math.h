/* What C11, CUDA C++ (nvcc, NVRTC) and OpenCL C bring along for the elementary functions, and those of integers. The
   functions of real numbers stand in elementary.py; backends/device/c_text.py prints them at the end of this text.

   Assumes: IEEE 754 binary32/binary64, round to nearest even, and a compiler that keeps the order of
   operations (no -ffast-math). The text is pasted into generated code, never found on an include path,
   where its name would hide the system's <math.h>. It includes nothing.
   Guarantees: only the operations below have a text per target; all else, in this and the generated part, is C without
   extensions, which OpenCL C is, too. Names that begin with nl__ are internal.
   Does not: set errno, or raise exceptions reliably. */
#ifndef NL_MATH_H
#define NL_MATH_H

typedef unsigned int nl_u32;
typedef unsigned long long nl_u64;
typedef int nl_i32;
typedef long long nl_i64;

#if defined(__CUDACC__)
#define NL_FN static __device__ __forceinline__ __attribute__((unused))
NL_FN nl_u32 nl__bits_f32(float x) { return __float_as_uint(x); }
NL_FN float nl__from_f32(nl_u32 u) { return __uint_as_float(u); }
NL_FN nl_u64 nl__bits_f64(double x) { return (nl_u64)__double_as_longlong(x); }
NL_FN double nl__from_f64(nl_u64 u) { return __longlong_as_double((nl_i64)u); }
NL_FN float nl_sqrt_f32(float x) { return __fsqrt_rn(x); }
NL_FN double nl_sqrt_f64(double x) { return __dsqrt_rn(x); }
/* x / y, correctly rounded, as the compiler divides, but without its branch for denormal numbers (elementary.py). */
NL_FN float nl_ratio_f32(float x, float y) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
    r = __fmaf_rn(__fmaf_rn(-y, r, 1.0f), r, r);
    float q = __fmul_rn(x, r);
    q = __fmaf_rn(__fmaf_rn(-y, q, x), r, q);
    return __fmaf_rn(__fmaf_rn(-y, q, x), r, q);
}
NL_FN float nl_floor_f32(float x) { return floorf(x); }
NL_FN double nl_floor_f64(double x) { return floor(x); }
NL_FN float nl_ceil_f32(float x) { return ceilf(x); }
NL_FN double nl_ceil_f64(double x) { return ceil(x); }
/* Half-way cases go to the even neighbour, as in Python and numpy. */
NL_FN float nl_round_f32(float x) { return rintf(x); }
NL_FN double nl_round_f64(double x) { return rint(x); }
#elif defined(__OPENCL_VERSION__)
#define NL_FN static inline
NL_FN nl_u32 nl__bits_f32(float x) { return as_uint(x); }
NL_FN float nl__from_f32(nl_u32 u) { return as_float(u); }
NL_FN nl_u64 nl__bits_f64(double x) { return as_ulong(x); }
NL_FN double nl__from_f64(nl_u64 u) { return as_double(u); }
NL_FN float nl_sqrt_f32(float x) { return sqrt(x); }
NL_FN double nl_sqrt_f64(double x) { return sqrt(x); }
NL_FN float nl_floor_f32(float x) { return floor(x); }
NL_FN double nl_floor_f64(double x) { return floor(x); }
NL_FN float nl_ceil_f32(float x) { return ceil(x); }
NL_FN double nl_ceil_f64(double x) { return ceil(x); }
/* Half-way cases go to the even neighbour, as in Python and numpy. */
NL_FN float nl_round_f32(float x) { return rint(x); }
NL_FN double nl_round_f64(double x) { return rint(x); }
#else
#define NL_FN static inline __attribute__((always_inline))
NL_FN nl_u32 nl__bits_f32(float x) { return ((union { float from; nl_u32 to; }){x}).to; }
NL_FN float nl__from_f32(nl_u32 u) { return ((union { nl_u32 from; float to; }){u}).to; }
NL_FN nl_u64 nl__bits_f64(double x) { return ((union { double from; nl_u64 to; }){x}).to; }
NL_FN double nl__from_f64(nl_u64 u) { return ((union { nl_u64 from; double to; }){u}).to; }
NL_FN float nl_sqrt_f32(float x) { return __builtin_sqrtf(x); }
NL_FN double nl_sqrt_f64(double x) { return __builtin_sqrt(x); }
NL_FN float nl_floor_f32(float x) { return __builtin_floorf(x); }
NL_FN double nl_floor_f64(double x) { return __builtin_floor(x); }
NL_FN float nl_ceil_f32(float x) { return __builtin_ceilf(x); }
NL_FN double nl_ceil_f64(double x) { return __builtin_ceil(x); }
/* Half-way cases go to the even neighbour, as in Python and numpy. */
NL_FN float nl_round_f32(float x) { return __builtin_rintf(x); }
NL_FN double nl_round_f64(double x) { return __builtin_rint(x); }
#endif

#if defined(__CUDACC__)
/* Functions of values that are rounded to bf16 have relative errors of at most 2^-17, that is 1/256 of what rounding
   loses, by the units for special functions. Arguments that are not finite give what the exact function does. */
NL_FN float nl__coarse_inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
NL_FN float nl_coarse_exp_f32(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.442695041f));
    return y;
}
NL_FN float nl_coarse_sigmoid_f32(float x) { return nl__coarse_inverse(1.0f + nl_coarse_exp_f32(-x)); }
/* Below 1/2 odd polynomials: their relative errors are 5e-7 and 1e-7. */
NL_FN float nl_coarse_tanh_f32(float x) {
    const float a = fabsf(x), z = x * x;
    const float near = (((-0.04440222f * z + 0.13190296f) * z - 0.33326318f) * z + 0.99999946f) * a;
    const float far = 1.0f - 2.0f * nl__coarse_inverse(1.0f + nl_coarse_exp_f32(2.0f * a));
    return copysignf(a < 0.5f ? near : far, x);
}
/* From 1/2 on by Abramowitz and Stegun 1964, 7.1.26. */
NL_FN float nl_coarse_erf_f32(float x) {
    const float a = fabsf(x), z = x * x, t = nl__coarse_inverse(1.0f + 0.3275911f * a);
    const float near = (((-0.02438931f * z + 0.11245629f) * z - 0.37610734f) * z + 1.12837902f) * a;
    const float p =
        ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    return copysignf(a < 0.5f ? near : 1.0f - p * nl_coarse_exp_f32(-z), x);
}
#else
NL_FN float nl_ratio_f32(float x, float y) { return x / y; }
/* Rounded to the 8 significant bits of bf16, half-way cases to even; CUDA texts have their own. */
NL_FN float nl_bf16_f32(float x) {
    nl_u32 u = nl__bits_f32(x), r = (u + (0x7fffu + (u >> 16 & 1u))) & 0xffff0000u;
    return x != x ? x : nl__from_f32(r);
}
#endif
NL_FN double nl_ratio_f64(double x, double y) { return x / y; }

/* ---- integers -------------------------------------------------------------------------------- */

NL_FN nl_i32 nl_min_i32(nl_i32 x, nl_i32 y) { return x < y ? x : y; }
NL_FN nl_i64 nl_min_i64(nl_i64 x, nl_i64 y) { return x < y ? x : y; }
NL_FN nl_i32 nl_max_i32(nl_i32 x, nl_i32 y) { return x > y ? x : y; }
NL_FN nl_i64 nl_max_i64(nl_i64 x, nl_i64 y) { return x > y ? x : y; }
NL_FN nl_i32 nl_abs_i32(nl_i32 x) { return x < 0 ? (nl_i32)(0u - (nl_u32)x) : x; }
NL_FN nl_i64 nl_abs_i64(nl_i64 x) { return x < 0 ? (nl_i64)((nl_u64)0 - (nl_u64)x) : x; }
NL_FN nl_i32 nl_sign_i32(nl_i32 x) { return (x > 0) - (x < 0); }
NL_FN nl_i64 nl_sign_i64(nl_i64 x) { return (x > 0) - (x < 0); }
NL_FN nl_i32 nl_clip_i32(nl_i32 x, nl_i32 lo, nl_i32 hi) {
    return nl_min_i32(nl_max_i32(x, lo), hi);
}
NL_FN nl_i64 nl_clip_i64(nl_i64 x, nl_i64 lo, nl_i64 hi) {
    return nl_min_i64(nl_max_i64(x, lo), hi);
}
/* Division with floor, as Python's // and %. */
NL_FN nl_i32 nl_floordiv_i32(nl_i32 x, nl_i32 y) {
    return x / y - ((x % y != 0) & ((x < 0) != (y < 0)));
}
NL_FN nl_i64 nl_floordiv_i64(nl_i64 x, nl_i64 y) {
    return x / y - ((x % y != 0) & ((x < 0) != (y < 0)));
}
NL_FN nl_i32 nl_mod_i32(nl_i32 x, nl_i32 y) {
    nl_i32 r = x % y;
    return r + (((r != 0) & ((r < 0) != (y < 0))) ? y : 0);
}
NL_FN nl_i64 nl_mod_i64(nl_i64 x, nl_i64 y) {
    nl_i64 r = x % y;
    return r + (((r != 0) & ((r < 0) != (y < 0))) ? y : 0);
}

#endif
