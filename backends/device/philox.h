/* Counter-based random numbers: Philox 4x32-10, one text for C11, CUDA C++ (nvcc, NVRTC) and OpenCL C.

   Assumes: the text of math.h (types, NL_FN, log, exp, sqrt) stands before this one.
   Guarantees: a draw is a pure function of (key, index, step, draw): no state, the same bits on every
   backend and for every block size, order and merge (mirror: backends/reference/philox.py).
     key    names a stream; splitmix64(stream ^ splitmix64(seed)), made on the host by stream_key
     index  the element (neuron or synapse) in the stream; the block is the index, or the index over the number of
            draws that a block is enough for
     step   the step of the simulation, below 2**48; 0 while initializing
     draw   the random call in one kernel, below 256; bits 8..15 of the counter field count the
            trials of rejection sampling
   Counter words: block low, block high, step low, (draw << 16) | step bits 32..47.
   Does not: seed itself, or give cryptographic strength.

   Source: Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3, SC11. */
#ifndef NL_PHILOX_H
#define NL_PHILOX_H
#ifndef NL_MATH_H
#error "the text of math.h must stand before philox.h"
#endif

NL_FN void nl__philox_round(nl_u32 c[4], nl_u32 k0, nl_u32 k1) {
    nl_u64 a = (nl_u64)0xD2511F53u * c[0], b = (nl_u64)0xCD9E8D57u * c[2];
    nl_u32 c1 = c[1], c3 = c[3];
    c[0] = (nl_u32)(b >> 32) ^ c1 ^ k0;
    c[1] = (nl_u32)b;
    c[2] = (nl_u32)(a >> 32) ^ c3 ^ k1;
    c[3] = (nl_u32)a;
}
/* Four independent words for one counter. Written out, not a loop: loops around it are then innermost. */
NL_FN void nl_philox(nl_u32 c0, nl_u32 c1, nl_u32 c2, nl_u32 c3, nl_u64 key, nl_u32 out[4]) {
    nl_u32 k0 = (nl_u32)key, k1 = (nl_u32)(key >> 32);
    nl_u32 c[4];
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
    nl__philox_round(c, k0, k1);
    nl__philox_round(c, k0 + 0x9E3779B9u, k1 + 0xBB67AE85u);
    nl__philox_round(c, k0 + 0x3C6EF372u, k1 + 0x76CF5D0Au);
    nl__philox_round(c, k0 + 0xDAA66D2Bu, k1 + 0x32370B8Fu);
    nl__philox_round(c, k0 + 0x78DDE6E4u, k1 + 0xED9EBA14u);
    nl__philox_round(c, k0 + 0x1715609Du, k1 + 0xA9066899u);
    nl__philox_round(c, k0 + 0xB54CDA56u, k1 + 0x646E171Eu);
    nl__philox_round(c, k0 + 0x5384540Fu, k1 + 0x1FD5C5A3u);
    nl__philox_round(c, k0 + 0xF1BBCDC8u, k1 + 0xDB3D7428u);
    nl__philox_round(c, k0 + 0x8FF34781u, k1 + 0x96A522ADu);
    out[0] = c[0];
    out[1] = c[1];
    out[2] = c[2];
    out[3] = c[3];
}
NL_FN void nl__draw(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw, nl_u32 out[4]) {
    nl_philox((nl_u32)index, (nl_u32)(index >> 32), (nl_u32)step,
              (draw << 16) | ((nl_u32)(step >> 32) & 0xffffu), key, out);
}

/* ---- distributions --------------------------------------------------------------------------- */

/* A draw takes as many words as it has bits for, so that neighbouring indices share a block: word (or pair) `index` of
   the blocks that (key, step, draw) numbers. Blocks are made side by side where a loop draws for all its elements. */
NL_FN nl_u32 nl__word(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    nl_u32 w[4];
    nl__draw(key, index >> 2, step, draw, w);
    return index & 2u ? (index & 1u ? w[3] : w[2]) : (index & 1u ? w[1] : w[0]);
}
NL_FN void nl__pair(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw, nl_u32 out[2]) {
    nl_u32 w[4];
    nl__draw(key, index >> 1, step, draw, w);
    out[0] = index & 1u ? w[2] : w[0];
    out[1] = index & 1u ? w[3] : w[1];
}

/* Uniform in [0, 1): 24 bits of a word; 53 bits of a pair. */
NL_FN float nl_uniform_f32(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    return nl_uniform_of_f32(nl__word(key, index, step, draw));
}
NL_FN double nl_uniform_f64(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    nl_u32 w[2];
    nl__pair(key, index, step, draw, w);
    return nl_uniform_of_f64(w[0], w[1]);
}
/* Standard normal (Box and Muller 1958), the cosine branch; |x| < 6.6 in float32 (a pair), < 8.6 in float64 (a
   block). */
NL_FN float nl_normal_f32(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    nl_u32 w[2];
    nl__pair(key, index, step, draw, w);
    return nl_normal_of_f32(w[0], w[1]);
}
NL_FN double nl_normal_f64(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    nl_u32 w[4];
    nl__draw(key, index, step, draw, w);
    return nl_normal_of_f64(w[0], w[1], w[2], w[3]);
}
/* Exponential with mean 1, >= 0. */
NL_FN float nl_exponential_f32(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    return nl_exponential_of_f32(nl__word(key, index, step, draw));
}
NL_FN double nl_exponential_f64(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw) {
    nl_u32 w[2];
    nl__pair(key, index, step, draw, w);
    return nl_exponential_of_f64(w[0], w[1]);
}
/* log of the Poisson probability of k >= 0 at mean lambda. From 16 on with Stirling's series, arranged so
   that nothing large cancels (after Loader 2000). */
NL_FN double nl__poisson_log_pmf(double k, double lambda) {
    double i, product = 1.0, t, x, series;
    if (k < 16.0) {
        for (i = 2.0; i <= k; i += 1.0) product *= i;
        return (k * nl_log_f64(lambda) - lambda) - nl_log_f64(product);
    }
    t = (lambda - k) / k;
    x = 1.0 / (k * k);
    series = (0.08333333333333333 -
              x * (0.002777777777777778 -
                   x * (0.0007936507936507937 - x * (0.0005952380952380953 - x * 0.0008417508417508417)))) /
             k;
    return (k * (nl_log1p_f64(t) - t) - 0.5 * nl_log_f64(6.283185307179586 * k)) - series;
}
/* Poisson count with mean lambda (as a real number; NaN unless 0 <= lambda <= 2**52). Below 12 by
   inversion of one uniform; else PTRS, transformed rejection with squeeze (Hoermann 1993, Insurance:
   Mathematics and Economics 12), each trial with words of its own. A data-dependent loop. */
NL_FN double nl_poisson_f64(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw, double lambda) {
    nl_u32 w[4], trial;
    double k = 0.0, u, p, sum, a, b, v, us, sd;
    if (!(lambda >= 0.0 && lambda <= 4503599627370496.0)) return nl__from_f64(0x7ff8000000000000);
    if (lambda < 12.0) {
        nl__draw(key, index, step, draw, w);
        u = nl_uniform_of_f64(w[0], w[1]);
        p = nl_exp_f64(-lambda);
        sum = p;
        while (u >= sum && k < 100.0) { /* beyond 100 the probability is below 2**-150 */
            k += 1.0;
            p *= lambda / k;
            sum += p;
        }
        return k;
    }
    sd = nl_sqrt_f64(lambda);
    b = 0.931 + 2.53 * sd;
    a = -0.059 + 0.02483 * b;
    for (trial = 0u; trial < 256u; ++trial) { /* each fails with probability below 0.2 */
        nl__draw(key, index, step, draw | (trial << 8), w);
        u = nl_uniform_of_f64(w[0], w[1]) - 0.5;
        v = nl__open_f64(w[2], w[3]);
        us = 0.5 - nl_abs_f64(u);
        k = nl_floor_f64((2.0 * a / us + b) * u + lambda + 0.43);
        if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0)) return k;
        if (!(k >= 0.0) || (us < 0.013 && v > us)) continue;
        p = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b);
        if (nl_log_f64(p) <= nl__poisson_log_pmf(k, lambda)) return k;
    }
    return nl_floor_f64(lambda);
}
NL_FN float nl_poisson_f32(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw, float lambda) {
    return (float)nl_poisson_f64(key, index, step, draw, (double)lambda);
}
/* log of the binomial probability of k, less what is the same for all k: a binomial count is a Poisson count among n
   that two of them, of means mp and mq, add up to. */
NL_FN double nl__binomial_log_pmf(double k, double n, double mp, double mq) {
    return nl__poisson_log_pmf(k, mp) + nl__poisson_log_pmf(n - k, mq);
}
/* Binomial count: of n trials with probability p (as a real number; NaN unless n is whole, 0 <= n <= 2**52, and
   0 <= p <= 1). Of the rarer outcome: where its mean is below 12 by inversion of one uniform; else BTRS, transformed
   rejection with squeeze (Hoermann 1993, The generation of binomial random variates, J Stat Comput Simul 46), each trial
   with words of its own. A data-dependent loop. */
NL_FN double nl_binomial_f64(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw, double n, double p) {
    nl_u32 w[4], trial;
    double k = 0.0, r, odds, mp, mq, u, f, sum, a, b, v, us, sd, mode, top, ratio;
    if (!(n >= 0.0 && n <= 4503599627370496.0 && nl_floor_f64(n) == n && p >= 0.0 && p <= 1.0))
        return nl__from_f64(0x7ff8000000000000);
    r = p > 0.5 ? 1.0 - p : p;
    mp = n * r;
    if (mp < 12.0) {
        nl__draw(key, index, step, draw, w);
        u = nl_uniform_of_f64(w[0], w[1]);
        odds = r / (1.0 - r);
        f = nl_exp_f64(n * nl_log1p_f64(-r));
        sum = f;
        while (u >= sum && k < n && k < 100.0) { /* beyond 100 the probability is below 2**-150 */
            k += 1.0;
            f *= (n - k + 1.0) / k * odds;
            sum += f;
        }
        return p > 0.5 ? n - k : k;
    }
    mq = n * (1.0 - r);
    sd = nl_sqrt_f64(mq * r);
    b = 1.15 + 2.53 * sd;
    a = -0.0873 + 0.0248 * b + 0.01 * r;
    mode = nl_floor_f64((n + 1.0) * r);
    top = nl__binomial_log_pmf(mode, n, mp, mq);
    for (trial = 0u; trial < 256u; ++trial) { /* each fails with probability below 0.35 */
        nl__draw(key, index, step, draw | (trial << 8), w);
        u = nl_uniform_of_f64(w[0], w[1]) - 0.5;
        v = nl__open_f64(w[2], w[3]);
        us = 0.5 - nl_abs_f64(u);
        k = nl_floor_f64((2.0 * a / us + b) * u + mp + 0.5);
        if (us >= 0.07 && v <= 0.92 - 4.2 / b) return p > 0.5 ? n - k : k;
        if (!(k >= 0.0 && k <= n)) continue;
        ratio = v * ((2.83 + 5.1 / b) * sd) / (a / (us * us) + b);
        if (nl_log_f64(ratio) <= nl__binomial_log_pmf(k, n, mp, mq) - top) return p > 0.5 ? n - k : k;
    }
    return p > 0.5 ? n - mode : mode;
}
NL_FN float nl_binomial_f32(nl_u64 key, nl_u64 index, nl_u64 step, nl_u32 draw, float n, float p) {
    return (float)nl_binomial_f64(key, index, step, draw, (double)n, (double)p);
}

/* ---- permutations ---------------------------------------------------------------------------- */
/* A keyed permutation of 0 .. n - 1 (n < 2**62), evaluated at one place without a table: the swap-or-not
   network of Hoang, Morris and Rogaway (2012), An enciphering scheme based on a card shuffle, CRYPTO: in
   round r, x and its partner (offset - x) mod n change places if a bit of a hash of the larger one says
   so. It needs no power of two, so nothing is drawn again; places taken two at a time are uniform but for
   2**-rounds. The offset and the hash's key of a round are the words of nl__draw(key, index, r, 1). */
NL_FN void nl__shuffle_round(nl_u64 key, nl_u64 index, nl_u32 r, nl_u64 n, nl_u64 out[2]) {
    nl_u32 w[4];
    nl_u64 n0 = n & 0xffffffffu, n1 = n >> 32, mid, low;
    nl__draw(key, index, r, 1, w);
    low = ((nl_u64)w[1] * n0) >> 32;
    mid = (nl_u64)w[0] * n0 + low;
    low = (nl_u64)w[1] * n1 + (mid & 0xffffffffu);
    out[0] = (nl_u64)w[0] * n1 + (mid >> 32) + (low >> 32);
    out[1] = ((nl_u64)w[2] << 32) | w[3];
}
NL_FN nl_u64 nl__swapped_or_not(nl_u64 x, nl_u64 n, nl_u64 offset, nl_u64 salt) {
    nl_u64 other = offset - x, h;
    other += other >> 63 ? n : 0;
    h = ((x > other ? x : other) + salt) * 0xFF51AFD7ED558CCD;
    h = (h ^ (h >> 32)) * 0xC4CEB9FE1A85EC53;
    return h >> 63 ? other : x;
}
/* All rounds of one permutation, for `many` places from `first` on (in loops that become vector code); and one
   place. */
NL_FN void nl__shuffle_rounds(nl_u64 key, nl_u64 index, nl_u64 n, nl_u64 rounds[48]) {
    for (nl_u32 r = 0; r < 24; r++) nl__shuffle_round(key, index, r, n, rounds + 2 * r);
}
NL_FN void nl__shuffled(const nl_u64 rounds[48], nl_u64 n, nl_u64 first, nl_i64 many, nl_u64 x[64]) {
    for (nl_i64 t = 0; t < many; t++) x[t] = first + (nl_u64)t;
    for (nl_u32 r = 0; r < 24; r++)
        for (nl_i64 t = 0; t < many; t++) x[t] = nl__swapped_or_not(x[t], n, rounds[2 * r], rounds[2 * r + 1]);
}
NL_FN nl_u64 nl__shuffled_once(nl_u64 key, nl_u64 index, nl_u64 n, nl_u64 x) {
    for (nl_u32 r = 0; r < 24; r++) {
        nl_u64 round[2];
        nl__shuffle_round(key, index, r, n, round);
        x = nl__swapped_or_not(x, n, round[0], round[1]);
    }
    return x;
}
#endif
