/* Elementary functions in float32 and float64, one text for C11 and for CUDA C++ (nvcc, NVRTC).

   Assumes: IEEE 754 binary32/binary64, round to nearest even, and a compiler that keeps the order of
   operations (no -ffast-math). The text is pasted into generated code, never found on an include path,
   where its name would hide the system's <math.h>. It includes nothing.
   Guarantees: at most 2 ulp (tests/numeric/test_elementary.py holds the bound of each function); only
   + - * / sqrt, floor-type built-ins, comparisons and integer operations on the bits, so with
   -ffp-contract=off (C) or --fmad=false (CUDA) every result has the same bits as
   backends/reference/elementary.py. Contracting a*b+c may change last bits but breaks no algorithm: the
   halves of double-length numbers are cut by integer masks, never by a product. No branches, no tables:
   loops over these functions become vector code.
   Does not: set errno, raise exceptions reliably, or define the sign and payload of a NaN. Where the
   caller flushes denormals to zero, denormal arguments and results count as zero.
   sin, cos and tan give NaN for |x| > 2**30, where an angle has lost its meaning in float32.

   Methods: argument reduction and double-length steps after fdlibm (Sun Microsystems, 1993); tanh in
   float64 below 0.625 after Cephes (Moshier); exp in float32 a minimax polynomial (Lawson's iteration);
   all other coefficients by interpolation at Chebyshev nodes in 300-bit arithmetic, then rounded. Names
   that begin with nl__ are internal. */
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
NL_FN float nl_floor_f32(float x) { return floorf(x); }
NL_FN double nl_floor_f64(double x) { return floor(x); }
NL_FN float nl_ceil_f32(float x) { return ceilf(x); }
NL_FN double nl_ceil_f64(double x) { return ceil(x); }
/* Half-way cases go to the even neighbour, as in Python and numpy. */
NL_FN float nl_round_f32(float x) { return rintf(x); }
NL_FN double nl_round_f64(double x) { return rint(x); }
#else
#define NL_FN static inline __attribute__((always_inline))
NL_FN nl_u32 nl__bits_f32(float x) {
    nl_u32 u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
NL_FN float nl__from_f32(nl_u32 u) {
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
NL_FN nl_u64 nl__bits_f64(double x) {
    nl_u64 u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
NL_FN double nl__from_f64(nl_u64 u) {
    double x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
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

/* ---- simple functions ------------------------------------------------------------------------ */

NL_FN float nl_abs_f32(float x) { return nl__from_f32(nl__bits_f32(x) & 0x7fffffffu); }
NL_FN double nl_abs_f64(double x) {
    return nl__from_f64(nl__bits_f64(x) & 0x7fffffffffffffffull);
}
/* |x| with the sign bit of y. */
NL_FN float nl__copysign_f32(float x, float y) {
    return nl__from_f32((nl__bits_f32(x) & 0x7fffffffu) | (nl__bits_f32(y) & 0x80000000u));
}
NL_FN double nl__copysign_f64(double x, double y) {
    return nl__from_f64((nl__bits_f64(x) & 0x7fffffffffffffffull) |
                        (nl__bits_f64(y) & 0x8000000000000000ull));
}
/* -1, 0 or 1; the sign of a zero is dropped, a NaN stays. */
NL_FN float nl_sign_f32(float x) {
    float r = x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : 0.0f);
    return x != x ? x : r;
}
NL_FN double nl_sign_f64(double x) {
    double r = x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : 0.0);
    return x != x ? x : r;
}
/* A NaN on either side is the result (numpy's minimum and maximum, not C's fmin and fmax); of two
   equal arguments the second is taken, which shows for +0 and -0 only. */
NL_FN float nl_min_f32(float x, float y) {
    float r = x < y ? x : y;
    return x != x ? x : r;
}
NL_FN double nl_min_f64(double x, double y) {
    double r = x < y ? x : y;
    return x != x ? x : r;
}
NL_FN float nl_max_f32(float x, float y) {
    float r = x > y ? x : y;
    return x != x ? x : r;
}
NL_FN double nl_max_f64(double x, double y) {
    double r = x > y ? x : y;
    return x != x ? x : r;
}
/* min(max(x, lo), hi): where lo > hi the result is hi. */
NL_FN float nl_clip_f32(float x, float lo, float hi) { return nl_min_f32(nl_max_f32(x, lo), hi); }
NL_FN double nl_clip_f64(double x, double lo, double hi) {
    return nl_min_f64(nl_max_f64(x, lo), hi);
}
NL_FN nl_i32 nl_min_i32(nl_i32 x, nl_i32 y) { return x < y ? x : y; }
NL_FN nl_i64 nl_min_i64(nl_i64 x, nl_i64 y) { return x < y ? x : y; }
NL_FN nl_i32 nl_max_i32(nl_i32 x, nl_i32 y) { return x > y ? x : y; }
NL_FN nl_i64 nl_max_i64(nl_i64 x, nl_i64 y) { return x > y ? x : y; }
NL_FN nl_i32 nl_abs_i32(nl_i32 x) { return x < 0 ? (nl_i32)(0u - (nl_u32)x) : x; }
NL_FN nl_i64 nl_abs_i64(nl_i64 x) { return x < 0 ? (nl_i64)(0ull - (nl_u64)x) : x; }
NL_FN nl_i32 nl_sign_i32(nl_i32 x) { return (x > 0) - (x < 0); }
NL_FN nl_i64 nl_sign_i64(nl_i64 x) { return (x > 0) - (x < 0); }
NL_FN nl_i32 nl_clip_i32(nl_i32 x, nl_i32 lo, nl_i32 hi) {
    return nl_min_i32(nl_max_i32(x, lo), hi);
}
NL_FN nl_i64 nl_clip_i64(nl_i64 x, nl_i64 lo, nl_i64 hi) {
    return nl_min_i64(nl_max_i64(x, lo), hi);
}

/* ---- exponentials ---------------------------------------------------------------------------- */

/* x = k ln 2 + r; *hi + *t = exp(r) - 1 with *hi exact (Cody and Waite); *zb has k in its low bits:
   adding 1.5 * 2**23 (2**52) rounds x / ln 2 to a whole number and leaves it there. |x| < 2**7 (2**10). */
NL_FN void nl__expm1_parts_f32(float x, nl_u32 *zb, float *k, float *hi, float *t) {
    float z = x * 1.4426950f + 12582912.0f;
    float lo, r, q;
    *zb = nl__bits_f32(z);
    *k = z - 12582912.0f;
    *hi = x - *k * 0.693145752f;
    lo = *k * 1.42860677e-06f;
    r = *hi - lo;
    q = 1.3950559e-03f;
    q = q * r + 8.3689289e-03f;
    q = q * r + 4.1666206e-02f;
    q = q * r + 1.6666518e-01f;
    q = q * r + 0.5f;
    *t = r * r * q - lo;
}
NL_FN void nl__expm1_parts_f64(double x, nl_u64 *zb, double *k, double *hi, double *t) {
    double z = x * 1.4426950408889634 + 6755399441055744.0;
    double lo, r, q;
    *zb = nl__bits_f64(z);
    *k = z - 6755399441055744.0;
    *hi = x - *k * 6.93147180369123816490e-01;
    lo = *k * 1.90821492927058770002e-10;
    r = *hi - lo;
    q = 2.0914624971597965e-09;
    q = q * r + 2.5105217004720745e-08;
    q = q * r + 2.7557273847932753e-07;
    q = q * r + 2.7557255400206422e-06;
    q = q * r + 2.4801587325301673e-05;
    q = q * r + 0.00019841269874820627;
    q = q * r + 0.0013888888888883878;
    q = q * r + 0.008333333333326136;
    q = q * r + 0.04166666666666667;
    q = q * r + 0.1666666666666667;
    q = q * r + 0.5;
    *t = r * r * q - lo;
}
/* y * 2**(k + adjust), rounded once, for results from denormal to infinite: two factors. */
NL_FN float nl__scale_f32(float y, nl_u32 zb, float k, nl_u32 adjust) {
    nl_u32 half = nl__bits_f32(k * 0.5f + 12582912.0f);
    return y * nl__from_f32((half + 127u) << 23) *
           nl__from_f32((zb - half + 127u + adjust) << 23);
}
NL_FN double nl__scale_f64(double y, nl_u64 zb, double k, nl_u64 adjust) {
    nl_u64 half = nl__bits_f64(k * 0.5 + 6755399441055744.0);
    return y * nl__from_f64((half + 1023u) << 52) *
           nl__from_f64((zb - half + 1023u + adjust) << 52);
}
/* exp(x) * 2**adjust. */
NL_FN float nl__exp_times_f32(float x, nl_u32 adjust) {
    nl_u32 zb;
    float k, hi, t;
    x = x > 100.0f ? 100.0f : x;
    x = x < -110.0f ? -110.0f : x;
    nl__expm1_parts_f32(x, &zb, &k, &hi, &t);
    return nl__scale_f32(1.0f + (hi + t), zb, k, adjust);
}
NL_FN double nl__exp_times_f64(double x, nl_u64 adjust) {
    nl_u64 zb;
    double k, hi, t;
    x = x > 750.0 ? 750.0 : x;
    x = x < -760.0 ? -760.0 : x;
    nl__expm1_parts_f64(x, &zb, &k, &hi, &t);
    return nl__scale_f64(1.0 + (hi + t), zb, k, adjust);
}
NL_FN float nl_exp_f32(float x) { return nl__exp_times_f32(x, 0u); }
NL_FN double nl_exp_f64(double x) { return nl__exp_times_f64(x, 0u); }

/* expm1(x) * 2**-8 (2**-11): finite where expm1 is not, which exprel needs. For x that is not tiny. */
NL_FN float nl__expm1_small_f32(float x) {
    nl_u32 zb;
    float k, hi, t, s, a, w;
    x = x > 93.9f ? 93.9f : x; /* k - 8 <= 127 */
    x = x < -30.0f ? -30.0f : x;
    nl__expm1_parts_f32(x, &zb, &k, &hi, &t);
    s = nl__from_f32((zb + (127u - 8u)) << 23);
    a = s - 0.00390625f;
    w = a + s * hi;
    return w + (((a - w) + s * hi) + s * t);
}
NL_FN double nl__expm1_small_f64(double x) {
    nl_u64 zb;
    double k, hi, t, s, a, w;
    x = x > 717.0 ? 717.0 : x; /* k - 11 <= 1023 */
    x = x < -50.0 ? -50.0 : x;
    nl__expm1_parts_f64(x, &zb, &k, &hi, &t);
    s = nl__from_f64((zb + (1023u - 11u)) << 52);
    a = s - 0.00048828125;
    w = a + s * hi;
    return w + (((a - w) + s * hi) + s * t);
}
NL_FN float nl_expm1_f32(float x) {
    float r = nl__expm1_small_f32(x) * 256.0f;
    return nl_abs_f32(x) < 2.98023224e-08f ? x : r;
}
NL_FN double nl_expm1_f64(double x) {
    double r = nl__expm1_small_f64(x) * 2048.0;
    return nl_abs_f64(x) < 5.551115123125783e-17 ? x : r;
}
/* expm1(x) / x, and 1 at 0. For x > 0 the quotient is taken before the last factor, where it is finite
   for longer; for x < 0 after it, where it is normal for longer. */
NL_FN float nl_exprel_f32(float x) {
    float m = nl__expm1_small_f32(x), r;
    r = (x < 0.0f ? m * 256.0f : m) / x * (x < 0.0f ? 1.0f : 256.0f);
    r = nl_abs_f32(x) < 2.98023224e-08f ? 1.0f : r;
    return x > 93.9f ? x + nl__from_f32(0x7f800000u) : r;
}
NL_FN double nl_exprel_f64(double x) {
    double m = nl__expm1_small_f64(x), r;
    r = (x < 0.0 ? m * 2048.0 : m) / x * (x < 0.0 ? 1.0 : 2048.0);
    r = nl_abs_f64(x) < 5.551115123125783e-17 ? 1.0 : r;
    return x > 717.0 ? x + nl__from_f64(0x7ff0000000000000ull) : r;
}

/* ---- logarithms ------------------------------------------------------------------------------ */

/* x = 2**k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for x > 0; denormals are scaled up first. */
NL_FN void nl__split_f32(float x, float *k, float *f) {
    int small = x < 1.17549435e-38f;
    nl_u32 u = nl__bits_f32(small ? x * 33554432.0f : x) + (0x3f800000u - 0x3f3504f3u);
    *k = (float)(nl_i32)(u >> 23) - (small ? 152.0f : 127.0f);
    *f = nl__from_f32((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
}
NL_FN void nl__split_f64(double x, double *k, double *f) {
    int small = x < 2.2250738585072014e-308;
    nl_u64 u = nl__bits_f64(small ? x * 18014398509481984.0 : x) +
               (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
    /* the exponent becomes a double without a 64-bit conversion, which AVX2 lacks */
    *k = nl__from_f64((u >> 52) | 0x4330000000000000ull) -
         (small ? 4503599627371573.0 : 4503599627371519.0);
    *f = nl__from_f64((u & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
}
/* s (h + R) with s = f / (2 + f), h = f*f / 2, so that log(1 + f) = f - (h - that). */
NL_FN float nl__log_tail_f32(float f, float h) {
    float s = f / (2.0f + f);
    float z = s * s;
    float p = 2.3330583e-01f;
    p = p * z + 2.8550816e-01f;
    p = p * z + 4.0000123e-01f;
    p = p * z + 6.666667e-01f;
    return s * (h + z * p);
}
NL_FN double nl__log_tail_f64(double f, double h) {
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 0.14616585424888623;
    p = p * z + 0.15331710618210773;
    p = p * z + 0.18182889455674947;
    p = p * z + 0.22222211130259878;
    p = p * z + 0.2857142862600327;
    p = p * z + 0.39999999999899444;
    p = p * z + 0.666666666666667;
    return s * (h + z * p);
}
/* The value at 0, at infinity, below 0 and at NaN, which all logarithms share. */
NL_FN float nl__log_edges_f32(float r, float x) {
    r = x < nl__from_f32(0x7f800000u) ? r : x;
    r = x < 0.0f ? nl__from_f32(0x7fc00000u) : r;
    return x == 0.0f ? nl__from_f32(0xff800000u) : r;
}
NL_FN double nl__log_edges_f64(double r, double x) {
    r = x < nl__from_f64(0x7ff0000000000000ull) ? r : x;
    r = x < 0.0 ? nl__from_f64(0x7ff8000000000000ull) : r;
    return x == 0.0 ? nl__from_f64(0xfff0000000000000ull) : r;
}
NL_FN float nl_log_f32(float x) {
    float k, f, h, t;
    nl__split_f32(x, &k, &f);
    h = 0.5f * f * f;
    t = nl__log_tail_f32(f, h) + k * 1.42860677e-06f;
    return nl__log_edges_f32(k * 0.693145752f - ((h - t) - f), x);
}
NL_FN double nl_log_f64(double x) {
    double k, f, h, t;
    nl__split_f64(x, &k, &f);
    h = 0.5 * f * f;
    t = nl__log_tail_f64(f, h) + k * 1.90821492927058770002e-10;
    return nl__log_edges_f64(k * 6.93147180369123816490e-01 - ((h - t) - f), x);
}
NL_FN float nl_log1p_f32(float x) {
    float u = 1.0f + x, k, f, h, c, r;
    nl__split_f32(u, &k, &f);
    c = (k > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f)) / u; /* what rounding 1 + x lost */
    c = k == 0.0f ? 0.0f : c;
    f = k == 0.0f ? x : f;
    h = 0.5f * f * f;
    r = k * 0.693145752f - ((h - (nl__log_tail_f32(f, h) + (k * 1.42860677e-06f + c))) - f);
    r = nl_abs_f32(x) < 2.98023224e-08f ? x : r;
    return nl__log_edges_f32(r, u);
}
NL_FN double nl_log1p_f64(double x) {
    double u = 1.0 + x, k, f, h, c, r;
    nl__split_f64(u, &k, &f);
    c = (k > 1.0 ? 1.0 - (u - x) : x - (u - 1.0)) / u;
    c = k == 0.0 ? 0.0 : c;
    f = k == 0.0 ? x : f;
    h = 0.5 * f * f;
    r = k * 6.93147180369123816490e-01 -
        ((h - (nl__log_tail_f64(f, h) + (k * 1.90821492927058770002e-10 + c))) - f);
    r = nl_abs_f64(x) < 5.551115123125783e-17 ? x : r;
    return nl__log_edges_f64(r, u);
}
/* Other bases: log(1 + f) as hi + lo with a short hi, times 1 / ln(base) in the same two parts. */
NL_FN float nl_log2_f32(float x) {
    float k, f, h, hi, lo, a, b, w;
    nl__split_f32(x, &k, &f);
    h = 0.5f * f * f;
    hi = nl__from_f32(nl__bits_f32(f - h) & 0xfffff000u);
    lo = ((f - hi) - h) + nl__log_tail_f32(f, h);
    a = hi * 1.44287109f;
    b = (lo + hi) * -1.76052854e-04f + lo * 1.44287109f;
    w = k + a;
    return nl__log_edges_f32((b + ((k - w) + a)) + w, x);
}
NL_FN double nl_log2_f64(double x) {
    double k, f, h, hi, lo, a, b, w;
    nl__split_f64(x, &k, &f);
    h = 0.5 * f * f;
    hi = nl__from_f64(nl__bits_f64(f - h) & 0xffffffff00000000ull);
    lo = ((f - hi) - h) + nl__log_tail_f64(f, h);
    a = hi * 1.44269504072144627571e+00;
    b = (lo + hi) * 1.67517131648865118353e-10 + lo * 1.44269504072144627571e+00;
    w = k + a;
    return nl__log_edges_f64((b + ((k - w) + a)) + w, x);
}
NL_FN float nl_log10_f32(float x) {
    float k, f, h, hi, lo, a, b, c, w;
    nl__split_f32(x, &k, &f);
    h = 0.5f * f * f;
    hi = nl__from_f32(nl__bits_f32(f - h) & 0xfffff000u);
    lo = ((f - hi) - h) + nl__log_tail_f32(f, h);
    a = hi * 4.34326172e-01f;
    b = k * 7.90341517e-07f + ((lo + hi) * -3.16899714e-05f + lo * 4.34326172e-01f);
    c = k * 3.01029205e-01f;
    w = c + a;
    return nl__log_edges_f32((b + ((c - w) + a)) + w, x);
}
NL_FN double nl_log10_f64(double x) {
    double k, f, h, hi, lo, a, b, c, w;
    nl__split_f64(x, &k, &f);
    h = 0.5 * f * f;
    hi = nl__from_f64(nl__bits_f64(f - h) & 0xffffffff00000000ull);
    lo = ((f - hi) - h) + nl__log_tail_f64(f, h);
    a = hi * 4.34294481878168880939e-01;
    b = k * 3.69423907715893078616e-13 +
        ((lo + hi) * 2.50829467116452752298e-11 + lo * 4.34294481878168880939e-01);
    c = k * 3.01029995663611771306e-01;
    w = c + a;
    return nl__log_edges_f64((b + ((c - w) + a)) + w, x);
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* Signs, zeros, infinities and NaN of pow (IEEE 754 and C, annex F); r = |x|**y elsewhere. */
NL_FN float nl__pow_edges_f32(float r, float x, float y) {
    float a = nl_abs_f32(x), inf = nl__from_f32(0x7f800000u), half = 0.5f * y;
    int whole = nl_floor_f32(y) == y;
    int odd = whole & (nl_floor_f32(half) != half);
    float zero_to = y > 0.0f ? 0.0f : inf, inf_to = y > 0.0f ? inf : 0.0f;
    r = a == 0.0f ? zero_to : r;
    r = a == inf ? inf_to : r;
    r = odd ? nl__copysign_f32(r, x) : r;
    r = ((x < 0.0f) & (a < inf) & !whole) ? nl__from_f32(0x7fc00000u) : r;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((x == 1.0f) | (y == 0.0f)) ? 1.0f : r;
}
NL_FN double nl__pow_edges_f64(double r, double x, double y) {
    double a = nl_abs_f64(x), inf = nl__from_f64(0x7ff0000000000000ull), half = 0.5 * y;
    int whole = nl_floor_f64(y) == y;
    int odd = whole & (nl_floor_f64(half) != half);
    double zero_to = y > 0.0 ? 0.0 : inf, inf_to = y > 0.0 ? inf : 0.0;
    r = a == 0.0 ? zero_to : r;
    r = a == inf ? inf_to : r;
    r = odd ? nl__copysign_f64(r, x) : r;
    r = ((x < 0.0) & (a < inf) & !whole) ? nl__from_f64(0x7ff8000000000000ull) : r;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((x == 1.0) | (y == 0.0)) ? 1.0 : r;
}
/* float32: 2**(y log2 |x|) in float64, rounded once at the end. */
NL_FN float nl_pow_f32(float x, float y) {
    double yd = (double)y, k, f, s, z, p, w, n, r, q;
    nl_u64 zb;
    yd = yd > 1e40 ? 1e40 : yd; /* infinity times log2(1) would be NaN */
    yd = yd < -1e40 ? -1e40 : yd;
    nl__split_f64((double)nl_abs_f32(x), &k, &f);
    s = f / (2.0 + f);
    z = s * s;
    p = 0.19362776836747533;
    p = p * z + 0.22191394493175057;
    p = p * z + 0.2857175463573276;
    p = p * z + 0.39999998796848674;
    p = p * z + 0.6666666666737545;
    w = yd * (k + (s * (2.0 + z * p)) * 1.4426950408889634);
    w = w > 200.0 ? 200.0 : w;
    w = w < -200.0 ? -200.0 : w;
    n = w + 6755399441055744.0;
    zb = nl__bits_f64(n);
    r = (w - (n - 6755399441055744.0)) * 0.6931471805599453;
    q = 1.9890991e-04;
    q = q * r + 1.393365e-03;
    q = q * r + 8.3333105e-03;
    q = q * r + 4.1666467e-02;
    q = q * r + 1.6666667e-01;
    q = q * r + 0.5;
    r = 1.0 + (r + r * r * q);
    return nl__pow_edges_f32((float)(r * nl__from_f64((zb + 1023u) << 52)), x, y);
}
/* float64: log2 |x| to about 65 bits as t1 + t2 (fdlibm e_pow.c, here with one interval), then the
   product with y = y1 + (y - y1), then 2**(hi + lo). Masked halves make the long products exact. */
NL_FN double nl_pow_f64(double x, double y) {
    const nl_u64 upper = 0xffffffff00000000ull;
    double k, f, m, v, ss, sh, sl, th, tl, s2, r, u, ph, pl, zh, zl, t1, t2, yc, y1, z, n, t, w, q;
    nl_u64 zb;
    int over;
    nl__split_f64(nl_abs_f64(x), &k, &f);
    m = 1.0 + f;
    v = 1.0 / (m + 1.0);
    ss = f * v;
    sh = nl__from_f64(nl__bits_f64(ss) & upper);
    th = nl__from_f64(nl__bits_f64(m + 1.0) & upper);
    tl = m - (th - 1.0);
    sl = v * ((f - sh * th) - sh * tl);
    s2 = ss * ss;
    r = 0.17584767935814777;
    r = r * s2 + 0.1755935450923681;
    r = r * s2 + 0.20002207040770967;
    r = r * s2 + 0.23076892443777647;
    r = r * s2 + 0.272727275030892;
    r = r * s2 + 0.3333333333248383;
    r = r * s2 + 0.4285714285714405;
    r = r * s2 + 0.6;
    r = s2 * s2 * r + sl * (sh + ss);
    s2 = sh * sh;
    th = nl__from_f64(nl__bits_f64(3.0 + s2 + r) & upper);
    tl = r - ((th - 3.0) - s2);
    u = sh * th;
    v = sl * th + tl * ss;
    ph = nl__from_f64(nl__bits_f64(u + v) & upper);
    pl = v - (ph - u);
    zh = 9.61796700954437255859e-01 * ph;
    zl = -7.02846165095275826516e-09 * ph + pl * 9.61796693925975554329e-01;
    t1 = nl__from_f64(nl__bits_f64((zh + zl) + k) & upper);
    t2 = zl - ((t1 - k) - zh);
    yc = y > 1.1805916207174113e21 ? 1.1805916207174113e21 : y; /* 2**70: enough to over- or underflow */
    yc = yc < -1.1805916207174113e21 ? -1.1805916207174113e21 : yc;
    y1 = nl__from_f64(nl__bits_f64(yc) & upper);
    pl = (yc - y1) * t1 + yc * t2;
    ph = y1 * t1;
    z = pl + ph;
    over = (z > 1100.0) | (z < -1100.0);
    z = z > 1100.0 ? 1100.0 : z;
    z = z < -1100.0 ? -1100.0 : z;
    ph = over ? z : ph;
    pl = over ? 0.0 : pl;
    n = z + 6755399441055744.0;
    zb = nl__bits_f64(n);
    k = n - 6755399441055744.0;
    ph = ph - k;
    t = nl__from_f64(nl__bits_f64(pl + ph) & upper);
    u = t * 6.93147182464599609375e-01;
    v = (pl - (t - ph)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09;
    z = u + v;
    w = v - (z - u);
    q = 2.0914624971597965e-09;
    q = q * z + 2.5105217004720745e-08;
    q = q * z + 2.7557273847932753e-07;
    q = q * z + 2.7557255400206422e-06;
    q = q * z + 2.4801587325301673e-05;
    q = q * z + 0.00019841269874820627;
    q = q * z + 0.0013888888888883878;
    q = q * z + 0.008333333333326136;
    q = q * z + 0.04166666666666667;
    q = q * z + 0.1666666666666667;
    q = q * z + 0.5;
    r = 1.0 + (z + (z * z * q + (w + z * w)));
    return nl__pow_edges_f64(nl__scale_f64(r, zb, k, 0u), x, y);
}

/* ---- hyperbolic functions and activations ---------------------------------------------------- */

/* m / (m + 2) with m = exp(2 |x|) - 1, below 1/2 as |x| + (m - |x| (m + 2)) / (m + 2), which rounds less. */
NL_FN float nl_tanh_f32(float x) {
    nl_u32 zb;
    float k, hi, t, s, m, a = nl_abs_f32(x), d = 2.0f * a;
    int small = a < 0.5f;
    d = d > 40.0f ? 40.0f : d;
    nl__expm1_parts_f32(d, &zb, &k, &hi, &t);
    s = nl__from_f32((zb + 127u) << 23);
    m = s * (hi + t) + (s - 1.0f);
    t = small ? (m - d) - a * m : m;
    return nl__copysign_f32((small ? a : 0.0f) + t / (m + 2.0f), x);
}
/* Near 0 a rational function, else 1 - 2 / (exp(2 |x|) + 1); one division. */
NL_FN double nl_tanh_f64(double x) {
    double a = nl_abs_f64(x), z = a * a, p, q, num, den;
    int small = a < 0.625;
    p = -9.64399179425052238628e-01;
    p = p * z + -9.92877231001918586564e+01;
    p = p * z + -1.61468768441708447952e+03;
    q = z + 1.12811678491632931402e+02;
    q = q * z + 2.23548839060100448583e+03;
    q = q * z + 4.84406305325125486048e+03;
    num = small ? a * (z * p) : -2.0;
    den = small ? q : nl_exp_f64(2.0 * a) + 1.0;
    return nl__copysign_f64((small ? a : 1.0) + num / den, x);
}
/* 1 / (1 + exp(|x|)), or 1 minus that; numerator and denominator times 2**-25 (2**-54), so that they stay finite where
   the result is denormal. What rounding 2**k + 1 loses is carried along. */
NL_FN float nl_sigmoid_f32(float x) {
    nl_u32 zb;
    float k, hi, t, s, w, a = nl_abs_f32(x);
    a = a > 104.0f ? 104.0f : a;
    nl__expm1_parts_f32(a, &zb, &k, &hi, &t);
    s = nl__from_f32((zb + (127u - 25u)) << 23);
    w = s + 2.98023224e-08f;
    w = w + (s * (hi + t) + (2.98023224e-08f - (w - s)));
    w = 2.98023224e-08f / w;
    return x < 0.0f ? w : 1.0f - w;
}
NL_FN double nl_sigmoid_f64(double x) {
    nl_u64 zb;
    double k, hi, t, s, w, a = nl_abs_f64(x);
    a = a > 746.0 ? 746.0 : a;
    nl__expm1_parts_f64(a, &zb, &k, &hi, &t);
    s = nl__from_f64((zb + (1023u - 54u)) << 52);
    w = s + 5.551115123125783e-17;
    w = w + (s * (hi + t) + (5.551115123125783e-17 - (w - s)));
    w = 5.551115123125783e-17 / w;
    return x < 0.0 ? w : 1.0 - w;
}
NL_FN float nl_softplus_f32(float x) {
    return (x < 0.0f ? 0.0f : x) + nl_log1p_f32(nl_exp_f32(-nl_abs_f32(x)));
}
NL_FN double nl_softplus_f64(double x) {
    return (x < 0.0 ? 0.0 : x) + nl_log1p_f64(nl_exp_f64(-nl_abs_f64(x)));
}
/* With h = exp(|x|) / 2: sinh = h - 1/(4h) from 1 on, cosh = h + 1/(4h). */
NL_FN float nl_sinh_f32(float x) {
    float a = nl_abs_f32(x), z = a * a, h = nl__exp_times_f32(a, 0xffffffffu), p;
    p = 2.8062855e-06f;
    p = p * z + 1.98381e-04f;
    p = p * z + 8.333339e-03f;
    p = p * z + 1.6666667e-01f;
    return nl__copysign_f32(a < 1.0f ? a + a * (z * p) : h - 0.25f / h, x);
}
NL_FN double nl_sinh_f64(double x) {
    double a = nl_abs_f64(x), z = a * a, h = nl__exp_times_f64(a, 0xffffffffffffffffull), p;
    p = 2.8445297426378895e-15;
    p = p * z + 7.646625253572627e-13;
    p = p * z + 1.6059048397722392e-10;
    p = p * z + 2.5052108364049466e-08;
    p = p * z + 2.7557319224040365e-06;
    p = p * z + 0.00019841269841269773;
    p = p * z + 0.008333333333333333;
    p = p * z + 0.16666666666666666;
    return nl__copysign_f64(a < 1.0 ? a + a * (z * p) : h - 0.25 / h, x);
}
NL_FN float nl_cosh_f32(float x) {
    float h = nl__exp_times_f32(nl_abs_f32(x), 0xffffffffu);
    return h + 0.25f / h;
}
NL_FN double nl_cosh_f64(double x) {
    double h = nl__exp_times_f64(nl_abs_f64(x), 0xffffffffffffffffull);
    return h + 0.25 / h;
}

/* ---- trigonometric functions ----------------------------------------------------------------- */

/* sin and cos of r + rl for |r| <= pi/4 (and a little beyond). */
NL_FN double nl__sin_poly_f64(double r, double rl) {
    double z = r * r, p = 1.591805913698281e-10;
    p = p * z + -2.5051130870968297e-08;
    p = p * z + 2.755731609787775e-06;
    p = p * z + -0.0001984126983674956;
    p = p * z + 0.008333333333330943;
    p = p * z + -0.16666666666666666;
    return r * z * p + rl * (1.0 - 0.5 * z); /* to be added to r */
}
NL_FN double nl__cos_poly_f64(double r, double rl) {
    double z = r * r, p = -1.1382588535352522e-11;
    p = p * z + 2.0876145659059344e-09;
    p = p * z + -2.755731726880539e-07;
    p = p * z + 2.4801587298760048e-05;
    p = p * z + -0.0013888888888887393;
    p = p * z + 0.041666666666666664;
    return z * z * p - r * rl; /* to be added to 1 - z/2 */
}
/* The same to float32 accuracy, whole. */
NL_FN double nl__sin_short(double r) {
    double z = r * r, p = 2.724977294115182e-06;
    p = p * z + -0.00019840085556195348;
    p = p * z + 0.008333331872526864;
    p = p * z + -0.16666666663849675;
    return r + r * z * p;
}
NL_FN double nl__cos_short(double r) {
    double z = r * r, p = -2.730083162069671e-07;
    p = p * z + 2.480059939299715e-05;
    p = p * z + -0.0013888887670194634;
    p = p * z + 0.041666666664316516;
    return (1.0 - 0.5 * z) + z * z * p;
}
/* x = q pi/2 + r (Cody and Waite); pieces of pi/2 have 23 bits, so that their products with q are exact. */
NL_FN double nl__quadrant_f32(double x, nl_u64 *q) {
    double z = x * 0.6366197723675814 + 6755399441055744.0, k = z - 6755399441055744.0;
    *q = nl__bits_f64(z);
    return ((x - k * 1.570796251296997) - k * 7.549789415861596e-08) - k * 5.390302858158119e-15;
}
/* float64: x = q pi/2 + r + rl, two exact differences and then two TwoSums. */
NL_FN double nl__quadrant_f64(double x, nl_u64 *q, double *rl) {
    double z = x * 0.6366197723675814 + 6755399441055744.0, k = z - 6755399441055744.0;
    double t = (x - k * 1.570796251296997) - k * 7.549789415861596e-08;
    double b, s, d, e, s2, e2, lo, r;
    *q = nl__bits_f64(z);
    b = k * 5.390302529957765e-15;
    s = t - b;
    d = s - t;
    e = (t - (s - d)) - (b + d);
    b = k * 3.2820031633724233e-22;
    s2 = s - b;
    d = s2 - s;
    e2 = (s - (s2 - d)) - (b + d);
    lo = (e + e2) - k * 3.7950107727212256e-29;
    r = s2 + lo;
    *rl = lo - (r - s2);
    return r;
}
NL_FN float nl__trig_edges_f32(float r, float x) {
    return nl_abs_f32(x) <= 1073741824.0f ? r : nl__from_f32(0x7fc00000u);
}
NL_FN double nl__trig_edges_f64(double r, double x) {
    return nl_abs_f64(x) <= 1073741824.0 ? r : nl__from_f64(0x7ff8000000000000ull);
}
NL_FN float nl_sin_f32(float x) {
    nl_u64 q;
    double r = nl__quadrant_f32((double)x, &q), v;
    v = (q & 1u) ? nl__cos_short(r) : nl__sin_short(r);
    v = (q & 2u) ? -v : v;
    return nl__trig_edges_f32(x == 0.0f ? x : (float)v, x);
}
NL_FN float nl_cos_f32(float x) {
    nl_u64 q;
    double r = nl__quadrant_f32((double)x, &q), v;
    v = (q & 1u) ? nl__sin_short(r) : nl__cos_short(r);
    v = ((q + 1u) & 2u) ? -v : v;
    return nl__trig_edges_f32((float)v, x);
}
NL_FN float nl_tan_f32(float x) {
    nl_u64 q;
    double r = nl__quadrant_f32((double)x, &q), s = nl__sin_short(r), c = nl__cos_short(r), v;
    v = ((q & 1u) ? -c : s) / ((q & 1u) ? s : c);
    return nl__trig_edges_f32(x == 0.0f ? x : (float)v, x);
}
NL_FN double nl_sin_f64(double x) {
    nl_u64 q;
    double rl, r = nl__quadrant_f64(x, &q, &rl), h = 0.5 * (r * r), w = 1.0 - h, v;
    v = w + (((1.0 - w) - h) + nl__cos_poly_f64(r, rl));
    v = (q & 1u) ? v : r + nl__sin_poly_f64(r, rl);
    v = (q & 2u) ? -v : v;
    return nl__trig_edges_f64(nl_abs_f64(x) < 7.450580596923828e-09 ? x : v, x);
}
NL_FN double nl_cos_f64(double x) {
    nl_u64 q;
    double rl, r = nl__quadrant_f64(x, &q, &rl), h = 0.5 * (r * r), w = 1.0 - h, v;
    v = w + (((1.0 - w) - h) + nl__cos_poly_f64(r, rl));
    v = (q & 1u) ? r + nl__sin_poly_f64(r, rl) : v;
    v = ((q + 1u) & 2u) ? -v : v;
    return nl__trig_edges_f64(v, x);
}
/* sin / cos with the rounding errors of both as a correction of the quotient. */
NL_FN double nl_tan_f64(double x) {
    nl_u64 q;
    double rl, r = nl__quadrant_f64(x, &q, &rl), h = 0.5 * (r * r), w = 1.0 - h;
    double c1 = ((1.0 - w) - h) + nl__cos_poly_f64(r, rl), s1 = nl__sin_poly_f64(r, rl);
    double c = w + c1, cl = c1 - (c - w), s = r + s1, sl = s1 - (s - r);
    double num = (q & 1u) ? -c : s, numl = (q & 1u) ? -cl : sl;
    double den = (q & 1u) ? s : c, denl = (q & 1u) ? sl : cl;
    double v = num / den;
    v = v + (numl - v * denl) / den;
    return nl__trig_edges_f64(nl_abs_f64(x) < 7.450580596923828e-09 ? x : v, x);
}

/* ---- inverse trigonometric functions --------------------------------------------------------- */

/* (asin(sqrt(z)) / sqrt(z) - 1) for 0 <= z <= 1/4. */
NL_FN float nl__asin_poly_f32(float z) {
    float p = 3.3690847e-02f;
    p = p * z + 1.7149238e-02f;
    p = p * z + 3.1100662e-02f;
    p = p * z + 4.4599403e-02f;
    p = p * z + 7.500094e-02f;
    p = p * z + 1.6666666e-01f;
    return p * z;
}
NL_FN double nl__asin_poly_f64(double z) {
    double p = 0.028757851367421566;
    p = p * z + -0.014851887071247204;
    p = p * z + 0.01740087944269402;
    p = p * z + 0.005457506718640358;
    p = p * z + 0.01032281435018578;
    p = p * z + 0.011479177415184906;
    p = p * z + 0.013971212973552933;
    p = p * z + 0.017352392720869973;
    p = p * z + 0.02237217294214989;
    p = p * z + 0.030381944138531247;
    p = p * z + 0.04464285714635543;
    p = p * z + 0.07499999999998433;
    p = p * z + 0.16666666666666669;
    return p * z;
}
/* Above 1/2: asin x = pi/2 - 2 asin sqrt((1 - x) / 2). */
NL_FN float nl_asin_f32(float x) {
    float a = nl_abs_f32(x);
    int big = a > 0.5f;
    float z = big ? (1.0f - a) * 0.5f : a * a;
    float s = big ? nl_sqrt_f32(z) : a;
    float t = s * nl__asin_poly_f32(z);
    float w = 1.57079637f - 2.0f * s;
    float r = big ? w + (((1.57079637f - w) - 2.0f * s) - (2.0f * t - -4.37113883e-08f)) : s + t;
    return nl__copysign_f32(r, x);
}
NL_FN double nl_asin_f64(double x) {
    double a = nl_abs_f64(x);
    int big = a > 0.5;
    double z = big ? (1.0 - a) * 0.5 : a * a;
    double s = big ? nl_sqrt_f64(z) : a;
    double t = s * nl__asin_poly_f64(z);
    double w = 1.5707963267948966 - 2.0 * s;
    double r = big ? w + (((1.5707963267948966 - w) - 2.0 * s) - (2.0 * t - 6.123233995736766e-17)) : s + t;
    return nl__copysign_f64(r, x);
}
NL_FN float nl_acos_f32(float x) {
    float a = nl_abs_f32(x);
    int big = a > 0.5f;
    float z = big ? (1.0f - a) * 0.5f : a * a;
    float s = big ? nl_sqrt_f32(z) : x;
    float t = s * nl__asin_poly_f32(z);
    float p = 2.0f * (s + t);
    float mid = 1.57079637f - (x - (-4.37113883e-08f - t));
    float far = x < 0.0f ? 3.14159274f - (p - -8.74227766e-08f) : p;
    return big ? far : mid;
}
NL_FN double nl_acos_f64(double x) {
    double a = nl_abs_f64(x);
    int big = a > 0.5;
    double z = big ? (1.0 - a) * 0.5 : a * a;
    double s = big ? nl_sqrt_f64(z) : x;
    double t = s * nl__asin_poly_f64(z);
    double p = 2.0 * (s + t);
    double mid = 1.5707963267948966 - (x - (6.123233995736766e-17 - t));
    double far = x < 0.0 ? 3.141592653589793 - (p - 1.2246467991473532e-16) : p;
    return big ? far : mid;
}
/* atan(a / b) for a, b >= 0, not both infinite: the angle is brought into |t| <= tan(pi/8) by 0, 45 or 90
   degrees before the one division. */
NL_FN float nl__atan_ratio_f32(float a, float b) {
    int steep = a > 2.41421366f * b, mid = a > 0.414213562f * b;
    float num = steep ? -b : (mid ? a - b : a);
    float den = steep ? a : (mid ? a + b : b);
    float base = steep ? 1.57079637f : (mid ? 0.785398185f : 0.0f);
    float rest = steep ? -4.37113883e-08f : (mid ? -2.18556941e-08f : 0.0f);
    float t = num / (den == 0.0f ? 1.0f : den), z = t * t, p;
    p = -6.450882e-02f;
    p = p * z + 1.0743415e-01f;
    p = p * z + -1.4263926e-01f;
    p = p * z + 1.999954e-01f;
    p = p * z + -3.333333e-01f;
    return base + (t + (t * (z * p) + rest));
}
NL_FN double nl__atan_ratio_f64(double a, double b) {
    int steep = a > 2.414213562373095 * b, mid = a > 0.41421356237309503 * b;
    double num = steep ? -b : (mid ? a - b : a);
    double den = steep ? a : (mid ? a + b : b);
    double base = steep ? 1.5707963267948966 : (mid ? 0.7853981633974483 : 0.0);
    double rest = steep ? 6.123233995736766e-17 : (mid ? 3.061616997868383e-17 : 0.0);
    double t = num / (den == 0.0 ? 1.0 : den), z = t * t, p;
    p = 0.01627884915138577;
    p = p * z + -0.03456432733540151;
    p = p * z + 0.04551350736874263;
    p = p * z + -0.05230401099058019;
    p = p * z + 0.05878921776625797;
    p = p * z + -0.06666424257540567;
    p = p * z + 0.07692296340047557;
    p = p * z + -0.09090908752290591;
    p = p * z + 0.11111111105131119;
    p = p * z + -0.1428571428565958;
    p = p * z + 0.19999999999999804;
    p = p * z + -0.3333333333333333;
    return base + (t + (t * (z * p) + rest));
}
NL_FN float nl_atan_f32(float x) {
    return nl__copysign_f32(nl__atan_ratio_f32(nl_abs_f32(x), 1.0f), x);
}
NL_FN double nl_atan_f64(double x) {
    return nl__copysign_f64(nl__atan_ratio_f64(nl_abs_f64(x), 1.0), x);
}
/* Angle of the point (x, y) in [-pi, pi]; signed zeros as in C, annex F. */
NL_FN float nl_atan2_f32(float y, float x) {
    float a = nl_abs_f32(y), b = nl_abs_f32(x), inf = nl__from_f32(0x7f800000u), f, r;
    int both = (a == inf) & (b == inf);
    a = both ? 1.0f : a;
    b = both ? 1.0f : b;
    f = ((a > 4.2535296e37f) | (b > 4.2535296e37f)) ? 0.25f : 1.0f; /* 2**125: a + b stays finite */
    r = nl__atan_ratio_f32(a * f, b * f);
    r = (nl__bits_f32(x) >> 31) ? 3.14159274f - (r - -8.74227766e-08f) : r;
    return nl__copysign_f32(r, y);
}
NL_FN double nl_atan2_f64(double y, double x) {
    double a = nl_abs_f64(y), b = nl_abs_f64(x), inf = nl__from_f64(0x7ff0000000000000ull), f, r;
    int both = (a == inf) & (b == inf);
    a = both ? 1.0 : a;
    b = both ? 1.0 : b;
    f = ((a > 2.247116418577895e307) | (b > 2.247116418577895e307)) ? 0.25 : 1.0; /* 2**1021 */
    r = nl__atan_ratio_f64(a * f, b * f);
    r = (nl__bits_f64(x) >> 63) ? 3.141592653589793 - (r - 1.2246467991473532e-16) : r;
    return nl__copysign_f64(r, y);
}

/* ---- error function -------------------------------------------------------------------------- */

/* Below 1 an odd polynomial; above, 1 - exp(-x*x) T(u) with u = (|x| - 2) / (|x| + 2). */
NL_FN float nl_erf_f32(float x) {
    float a = nl_abs_f32(x), z = a * a, c = a > 4.0f ? 4.0f : a, u = (c - 2.0f) / (c + 2.0f), p, t;
    p = 7.875546e-05f;
    p = p * z + -8.0167735e-04f;
    p = p * z + 5.189078e-03f;
    p = p * z + -2.6854208e-02f;
    p = p * z + 1.1283594e-01f;
    p = p * z + -3.7612626e-01f;
    p = p * z + 1.2837917e-01f;
    t = -9.4415963e-04f;
    t = t * u + -8.3658996e-04f;
    t = t * u + 6.9948556e-03f;
    t = t * u + 3.7321413e-03f;
    t = t * u + -7.897852e-02f;
    t = t * u + 2.4165821e-01f;
    t = t * u + -4.2718583e-01f;
    t = t * u + 2.5539568e-01f;
    return nl__copysign_f32(a < 1.0f ? a + a * p : 1.0f - nl_exp_f32(-(c * c)) * t, x);
}
NL_FN double nl_erf_f64(double x) {
    double a = nl_abs_f64(x), z = a * a, c = a > 6.0 ? 6.0 : a, u = (c - 2.0) / (c + 2.0), p, t;
    p = 5.956905633653031e-11;
    p = p * z + -1.1372693191126323e-09;
    p = p * z + 1.4659736155673959e-08;
    p = p * z + -1.6350307065234626e-07;
    p = p * z + 1.6460999970345427e-06;
    p = p * z + -1.4925595235970651e-05;
    p = p * z + 0.00012055331110409494;
    p = p * z + -0.0008548326980801447;
    p = p * z + 0.0052239776248174784;
    p = p * z + -0.02686617064507674;
    p = p * z + 0.11283791670954878;
    p = p * z + -0.3761263890318375;
    p = p * z + 0.1283791670955126;
    t = -4.215301054238321e-07;
    t = t * u + -5.322696855655786e-07;
    t = t * u + 1.1780775215625583e-06;
    t = t * u + 3.789215643758464e-06;
    t = t * u + 1.392621183618803e-06;
    t = t * u + -1.396807230177146e-05;
    t = t * u + -2.7579864674305787e-05;
    t = t * u + 2.7525480361206068e-05;
    t = t * u + 0.00017436116545392264;
    t = t * u + 4.355560219515472e-05;
    t = t * u + -0.000981977026567889;
    t = t * u + -0.0008471432509203844;
    t = t * u + 0.006997461739200444;
    t = t * u + 0.003732892404327764;
    t = t * u + -0.07897858101573213;
    t = t * u + 0.24165819424246646;
    t = t * u + -0.4271858474139584;
    t = t * u + 0.25539567631050575;
    return nl__copysign_f64(a < 1.0 ? a + a * p : 1.0 - nl_exp_f64(-(c * c)) * t, x);
}

/* ---- division with floor, as Python's // and % ------------------------------------------------ */

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
/* By definition floor of the rounded quotient, and x - y floor(x / y): unlike fmod the remainder loses
   bits when the quotient is large. */
NL_FN float nl_floordiv_f32(float x, float y) { return nl_floor_f32(x / y); }
NL_FN double nl_floordiv_f64(double x, double y) { return nl_floor_f64(x / y); }
NL_FN float nl_mod_f32(float x, float y) { return x - y * nl_floor_f32(x / y); }
NL_FN double nl_mod_f64(double x, double y) { return x - y * nl_floor_f64(x / y); }

#endif
