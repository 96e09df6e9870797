/* Lookup tables and tables of thresholds, one text for C11, CUDA C++ and OpenCL C.

   Assumes: math.h; a lookup table is the argument of its first value, values per unit of the argument, the place of the
   last value, and the values.
   Guarantees: only + - *, comparisons and floor, in this order, so that with contraction off every result has the bits
   of backends/reference/evaluate.py. At the arguments of the values these are exact. NaN stays NaN.
   Does not: check. */
#ifndef NL_TABLES_H
#define NL_TABLES_H

NL_FN float nl_lookup_f32(const float *table, float x) {
    float u = nl_min_f32(nl_max_f32((x - table[0]) * table[1], 0.0f), table[2]);
    float k = u == u ? nl_floor_f32(u) : 0.0f;
    nl_i32 at = (nl_i32)k;
    float a = table[3 + at], b = table[3 + at + (k < table[2])];
    return a + (u - k) * (b - a);
}
NL_FN double nl_lookup_f64(const double *table, double x) {
    double u = nl_min_f64(nl_max_f64((x - table[0]) * table[1], 0.0), table[2]);
    double k = u == u ? nl_floor_f64(u) : 0.0;
    nl_i32 at = (nl_i32)k;
    double a = table[3 + at], b = table[3 + at + (k < table[2])];
    return a + (u - k) * (b - a);
}
/* The first of 256 ascending thresholds that `word` does not exceed; the last one counts as unlimited. */
NL_FN nl_i64 nl_outcome(const nl_u32 *table, nl_u32 word) {
    nl_i64 k = 0;
    for (nl_i64 n = 128; n > 0; n /= 2) k += word > table[k + n - 1] ? n : 0;
    return k;
}

#endif
