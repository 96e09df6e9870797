"""The constants of float32 and float64, and the functions that each precision computes in its own way.

Assumes, guarantees: as elementary.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from backends.device.elementary import Elementary, Real, Word, Word32


# fmt: off
class Double(Elementary):
    """float64."""

    real, word = np.float64, np.uint64
    fraction, bias, rescue, expm1_scale = 52, 1023, 54, 11
    sign_bit, upper, root_half = 1 << 63, 0xFFFFFFFF00000000, 0x3FE6A09E667F3BCD
    tiny, normal, huge = 5.551115123125783e-17, 2.2250738585072014e-308, 2.247116418577895e307
    exp_range, expm1_range = (-760.0, 750.0), (-50.0, 717.0)
    sigmoid_end, erf_end = 746.0, 6.0
    ln2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
    log2_e = (1.44269504072144627571e00, 1.67517131648865118353e-10)
    log10_e = (4.34294481878168880939e-01, 2.50829467116452752298e-11)
    log10_2 = (3.01029995663611771306e-01, 3.69423907715893078616e-13)
    half_pi_low, pi_low, quarter_pi_low = 6.123233995736766e-17, 1.2246467991473532e-16, 3.061616997868383e-17
    exp_terms = (
        2.0914624971597965e-09, 2.5105217004720745e-08, 2.7557273847932753e-07, 2.7557255400206422e-06,
        2.4801587325301673e-05, 0.00019841269874820627, 0.0013888888888883878, 0.008333333333326136,
        0.04166666666666667, 0.1666666666666667, 0.5)
    log_terms = (
        0.14616585424888623, 0.15331710618210773, 0.18182889455674947, 0.22222211130259878, 0.2857142862600327,
        0.39999999999899444, 0.666666666666667)
    sinh_terms = (
        2.8445297426378895e-15, 7.646625253572627e-13, 1.6059048397722392e-10, 2.5052108364049466e-08,
        2.7557319224040365e-06, 0.00019841269841269773, 0.008333333333333333, 0.16666666666666666)
    asin_terms = (
        0.028757851367421566, -0.014851887071247204, 0.01740087944269402, 0.005457506718640358, 0.01032281435018578,
        0.011479177415184906, 0.013971212973552933, 0.017352392720869973, 0.02237217294214989, 0.030381944138531247,
        0.04464285714635543, 0.07499999999998433, 0.16666666666666669)
    atan_terms = (
        0.01627884915138577, -0.03456432733540151, 0.04551350736874263, -0.05230401099058019, 0.05878921776625797,
        -0.06666424257540567, 0.07692296340047557, -0.09090908752290591, 0.11111111105131119, -0.1428571428565958,
        0.19999999999999804, -0.3333333333333333)
    erf_terms = (
        5.956905633653031e-11, -1.1372693191126323e-09, 1.4659736155673959e-08, -1.6350307065234626e-07,
        1.6460999970345427e-06, -1.4925595235970651e-05, 0.00012055331110409494, -0.0008548326980801447,
        0.0052239776248174784, -0.02686617064507674, 0.11283791670954878, -0.3761263890318375, 0.1283791670955126)
    erfc_terms = (
        -4.215301054238321e-07, -5.322696855655786e-07, 1.1780775215625583e-06, 3.789215643758464e-06,
        1.392621183618803e-06, -1.396807230177146e-05, -2.7579864674305787e-05, 2.7525480361206068e-05,
        0.00017436116545392264, 4.355560219515472e-05, -0.000981977026567889, -0.0008471432509203844,
        0.006997461739200444, 0.003732892404327764, -0.07897858101573213, 0.24165819424246646, -0.4271858474139584,
        0.25539567631050575)

    # of pow, tanh, sin and cos in this precision
    log_ratio_terms = (
        0.17584767935814777, 0.1755935450923681, 0.20002207040770967, 0.23076892443777647, 0.272727275030892,
        0.3333333333248383, 0.4285714285714405, 0.6)
    tanh_terms = (-9.64399179425052238628e-01, -9.92877231001918586564e01, -1.61468768441708447952e03)
    tanh_divisor = (1.12811678491632931402e02, 2.23548839060100448583e03, 4.84406305325125486048e03)
    sin_terms = (
        1.591805913698281e-10, -2.5051130870968297e-08, 2.755731609787775e-06, -0.0001984126983674956,
        0.008333333333330943, -0.16666666666666666)
    cos_terms = (
        -1.1382588535352522e-11, 2.0876145659059344e-09, -2.755731726880539e-07, 2.4801587298760048e-05,
        -0.0013888888888887393, 0.041666666666666664)
    # of functions in float32 that compute in this precision
    sin_short_terms = (2.724977294115182e-06, -0.00019840085556195348, 0.008333331872526864, -0.16666666663849675)
    cos_short_terms = (-2.730083162069671e-07, 2.480059939299715e-05, -0.0013888887670194634, 0.041666666664316516)
    log_short_terms = (
        0.19362776836747533, 0.22191394493175057, 0.2857175463573276, 0.39999998796848674, 0.6666666666737545)
    exp_short_terms = (1.9890991e-04, 1.393365e-03, 8.3333105e-03, 4.1666467e-02, 1.6666667e-01, 0.5)
    # fmt: on

    def pow(self, x: Real, y: Real) -> Real:
        """log2 |x| to about 65 bits as t1 + t2 (fdlibm e_pow.c, here with one interval), then the product with
        y = y1 + (y - y1), then 2**(hi + lo). Masked halves make the long products exact. y is limited to 2**70: enough
        to over- or underflow."""
        k, f = self._split(self.abs(x))
        m = 1.0 + f
        v = 1.0 / (m + 1.0)
        ss = f * v
        sh = self._upper(ss)
        th = self._upper(m + 1.0)
        tl = m - (th - 1.0)
        sl = v * ((f - sh * th) - sh * tl)
        s2 = ss * ss
        r = self.polynomial(self.log_ratio_terms, s2)
        r = s2 * s2 * r + sl * (sh + ss)
        s2 = sh * sh
        th = self._upper(3.0 + s2 + r)
        tl = r - ((th - 3.0) - s2)
        u = sh * th
        v = sl * th + tl * ss
        ph = self._upper(u + v)
        pl = v - (ph - u)
        zh = 9.61796700954437255859e-01 * ph
        zl = -7.02846165095275826516e-09 * ph + pl * 9.61796693925975554329e-01
        t1 = self._upper((zh + zl) + k)
        t2 = zl - ((t1 - k) - zh)
        yc = self.where(y > 1.1805916207174113e21, 1.1805916207174113e21, y)
        yc = self.where(yc < -1.1805916207174113e21, -1.1805916207174113e21, yc)
        y1 = self._upper(yc)
        pl = (yc - y1) * t1 + yc * t2
        ph = y1 * t1
        z = pl + ph
        over = (z > 1100.0) | (z < -1100.0)
        z = self.where(z > 1100.0, 1100.0, z)
        z = self.where(z < -1100.0, -1100.0, z)
        ph = self.where(over, z, ph)
        pl = self.where(over, 0.0, pl)
        n = z + self.magic
        k = n - self.magic
        ph = ph - k
        t = self._upper(pl + ph)
        u = t * 6.93147182464599609375e-01
        v = (pl - (t - ph)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09
        z = u + v
        w = v - (z - u)
        q = self.polynomial(self.exp_terms, z)
        r = 1.0 + (z + (z * z * q + (w + z * w)))
        return self._pow_edges(self._scale(r, self.bits(n), k, self.word(0)), x, y)

    def tanh(self, x: Real) -> Real:
        """Near 0 a rational function, else 1 - 2 / (exp(2 |x|) + 1); one division."""
        a = self.abs(x)
        z = a * a
        small = a < 0.625
        p = self.polynomial(self.tanh_terms, z)
        q = ((z + self.tanh_divisor[0]) * z + self.tanh_divisor[1]) * z + self.tanh_divisor[2]
        num = self.where(small, a * (z * p), -2.0)
        den = self.where(small, q, self.exp(2.0 * a) + 1.0)
        return self._copysign(self.where(small, a, 1.0) + num / den, x)

    def _sin_poly(self, r: Real, rl: Real) -> Real:
        """sin(r + rl) - r for |r| <= pi/4 (and a little beyond)."""
        z = r * r
        p = self.polynomial(self.sin_terms, z)
        return r * z * p + rl * (1.0 - 0.5 * z)

    def _cos_poly(self, r: Real, rl: Real) -> Real:
        """cos(r + rl) - (1 - r*r/2)."""
        z = r * r
        p = self.polynomial(self.cos_terms, z)
        return z * z * p - r * rl

    def _quadrant(self, x: Real) -> tuple[Word, Real, Real]:
        """x = q pi/2 + r + rl (Cody and Waite): pieces of pi/2 have 23 bits, so that their products with q are exact;
        two exact differences and then two TwoSums."""
        z = x * 0.6366197723675814 + self.magic
        q = self.bits(z)
        k = z - self.magic
        t = (x - k * 1.570796251296997) - k * 7.549789415861596e-08
        b = k * 5.390302529957765e-15
        s = t - b
        d = s - t
        e = (t - (s - d)) - (b + d)
        b = k * 3.2820031633724233e-22
        s2 = s - b
        d = s2 - s
        e2 = (s - (s2 - d)) - (b + d)
        lo = (e + e2) - k * 3.7950107727212256e-29
        r = s2 + lo
        rl = lo - (r - s2)
        return q, r, rl

    def _circular(self, x: Real, turn: Word) -> Real:
        """sin for turn 0, cos for turn 1."""
        q, r, rl = self._quadrant(x)
        h = 0.5 * (r * r)
        w = 1.0 - h
        c = w + (((1.0 - w) - h) + self._cos_poly(r, rl))
        s = r + self._sin_poly(r, rl)
        v = self.where((q + turn) & 1, c, s)
        return self.where((q + turn) & 2, -v, v)

    def sin(self, x: Real) -> Real:
        r = self._circular(x, self.word(0))
        return self._trig_edges(self.where(self.abs(x) < 7.450580596923828e-09, x, r), x)

    def cos(self, x: Real) -> Real:
        return self._trig_edges(self._circular(x, self.word(1)), x)

    def tan(self, x: Real) -> Real:
        """sin / cos with the rounding errors of both as a correction of the quotient."""
        q, r, rl = self._quadrant(x)
        h = 0.5 * (r * r)
        w = 1.0 - h
        c1 = ((1.0 - w) - h) + self._cos_poly(r, rl)
        s1 = self._sin_poly(r, rl)
        c = w + c1
        cl = c1 - (c - w)
        s = r + s1
        sl = s1 - (s - r)
        num = self.where(q & 1, -c, s)
        numl = self.where(q & 1, -cl, sl)
        den = self.where(q & 1, s, c)
        denl = self.where(q & 1, sl, cl)
        v = num / den
        v = v + (numl - v * denl) / den
        return self._trig_edges(self.where(self.abs(x) < 7.450580596923828e-09, x, v), x)

    # ---- words to numbers

    def uniform_of(self, a: Word32, b: Word32) -> Real:
        """53 bits, in [0, 1)."""
        return (self.of_integer(a >> 5) * 67108864.0 + self.of_integer(b >> 6)) * 1.1102230246251565e-16

    def _open(self, a: Word32, b: Word32) -> Real:
        """In (0, 1], for logarithms: multiples of 2**-53."""
        return (self.of_integer(a >> 5) * 67108864.0 + (self.of_integer(b >> 6) + 1.0)) * 1.1102230246251565e-16

    def _cos_turn(self, a: Word32, b: Word32) -> Real:
        """cos(2 pi v) with v = a, b / 2**53; the quadrant is taken from the bits of a."""
        q = (a + 0x20000000) >> 30
        low = self.of_integer(b >> 11) * 4.76837158203125e-07
        r = (self.of_integer(a - (q << 30)) + low) * 1.4629180792671596e-09
        s = r + self._sin_poly(r, self.real(0.0))
        c = (1.0 - 0.5 * (r * r)) + self._cos_poly(r, self.real(0.0))
        v = self.where(q & 1, s, c)
        return self.where((q + 1) & 2, -v, v)

    def normal_of(self, a: Word32, b: Word32, c: Word32, d: Word32) -> Real:
        """Standard normal (Box and Muller 1958), the cosine branch: |x| < 8.6."""
        return self.sqrt(-2.0 * self.log(self._open(a, b))) * self._cos_turn(c, d)

    def exponential_of(self, a: Word32, b: Word32) -> Real:
        """Exponential with mean 1, >= 0."""
        return 0.0 - self.log(self._open(a, b))

    # ---- for float32

    def _sin_cos_short(self, x: Real) -> tuple[Word, Real, Real]:
        """q, sin r and cos r with x = q pi/2 + r, to float32 accuracy."""
        z = x * 0.6366197723675814 + self.magic
        q = self.bits(z)
        k = z - self.magic
        r = ((x - k * 1.570796251296997) - k * 7.549789415861596e-08) - k * 5.390302858158119e-15
        z = r * r
        p = self.polynomial(self.sin_short_terms, z)
        s = r + r * z * p
        p = self.polynomial(self.cos_short_terms, z)
        c = (1.0 - 0.5 * z) + z * z * p
        return q, s, c

    def _pow_short(self, x: Real, y: Real) -> Real:
        """2**(y log2 x), x >= 0, to float32 accuracy; y is limited, as infinity times log2(1) would be NaN."""
        y = self.where(y > 1e40, 1e40, y)
        y = self.where(y < -1e40, -1e40, y)
        k, f = self._split(x)
        s = f / (2.0 + f)
        z = s * s
        p = self.polynomial(self.log_short_terms, z)
        w = y * (k + (s * (2.0 + z * p)) * self.inverse_ln2)
        w = self.where(w > 200.0, 200.0, w)
        w = self.where(w < -200.0, -200.0, w)
        n = w + self.magic
        r = (w - (n - self.magic)) * 0.6931471805599453
        q = self.polynomial(self.exp_short_terms, r)
        r = 1.0 + (r + r * r * q)
        return r * self.from_bits((self.bits(n) + self.bias) << self.fraction)


class Single(Elementary):
    """float32."""

    real, word = np.float32, np.uint32
    double = Double()
    fraction, bias, rescue, expm1_scale = 23, 127, 25, 8
    sign_bit, upper, root_half = 1 << 31, 0xFFFFF000, 0x3F3504F3
    tiny, normal, huge = 2.98023224e-08, 1.17549435e-38, 4.2535296e37
    exp_range, expm1_range = (-110.0, 100.0), (-30.0, 93.9)
    sigmoid_end, erf_end = 104.0, 4.0
    ln2 = (0.693145752, 1.42860677e-06)
    log2_e = (1.44287109, -1.76052854e-04)
    log10_e = (4.34326172e-01, -3.16899714e-05)
    log10_2 = (3.01029205e-01, 7.90341517e-07)
    half_pi_low, pi_low, quarter_pi_low = -4.37113883e-08, -8.74227766e-08, -2.18556941e-08
    exp_terms = (1.3950559e-03, 8.3689289e-03, 4.1666206e-02, 1.6666518e-01, 0.5)
    log_terms = (2.3330583e-01, 2.8550816e-01, 4.0000123e-01, 6.666667e-01)
    sinh_terms = (2.8062855e-06, 1.98381e-04, 8.333339e-03, 1.6666667e-01)
    asin_terms = (3.3690847e-02, 1.7149238e-02, 3.1100662e-02, 4.4599403e-02, 7.500094e-02, 1.6666666e-01)
    atan_terms = (-6.450882e-02, 1.0743415e-01, -1.4263926e-01, 1.999954e-01, -3.333333e-01)
    # fmt: off
    erf_terms = (
        7.875546e-05, -8.0167735e-04, 5.189078e-03, -2.6854208e-02, 1.1283594e-01, -3.7612626e-01, 1.2837917e-01)
    erfc_terms = (
        1.0819579e-04, -1.0660908e-03, 4.9349335e-03, -1.5141173e-02, 3.6896612e-02, -7.9061180e-02, 1.5435189e-01,
        -2.7321115e-01, 4.2758358e-01)
    sin_turn_terms = (2.7249773e-06, -1.9840086e-04, 8.333332e-03, -1.6666667e-01)
    cos_turn_terms = (2.4547817e-05, -1.3888302e-03, 4.1666664e-02)
    # fmt: on

    def _erfc_place(self, c: Real) -> Real:
        """Polynomials in |x| - 1 suffice, as exp(-x*x) leaves little of their error."""
        return c - 1.0

    def _wide(self, x: Real) -> Real:
        return x.astype(np.float64)

    def _narrow(self, x: Real) -> Real:
        return x.astype(np.float32)

    def pow(self, x: Real, y: Real) -> Real:
        """In float64, rounded once at the end."""
        r = self.double._pow_short(self._wide(self.abs(x)), self._wide(y))
        return self._pow_edges(self._narrow(r), x, y)

    def tanh(self, x: Real) -> Real:
        """m / (m + 2) with m = exp(2 |x|) - 1, below 1/2 as |x| + (m - |x| (m + 2)) / (m + 2), which rounds less."""
        a = self.abs(x)
        d = 2.0 * a
        d = self.where(d > 40.0, 40.0, d)
        zb, _, hi, t = self._expm1_parts(d)
        s = self.from_bits((zb + self.bias) << self.fraction)
        m = s * (hi + t) + (s - 1.0)
        small = a < 0.5
        t = self.where(small, (m - d) - a * m, m)
        return self._copysign(self.where(small, a, 0.0) + self.ratio(t, m + 2.0), x)

    def sin(self, x: Real) -> Real:
        q, s, c = self.double._sin_cos_short(self._wide(x))
        v = self.double.where(q & 1, c, s)
        v = self.double.where(q & 2, -v, v)
        return self._trig_edges(self.where(x == 0.0, x, self._narrow(v)), x)

    def cos(self, x: Real) -> Real:
        q, s, c = self.double._sin_cos_short(self._wide(x))
        v = self.double.where(q & 1, s, c)
        v = self.double.where((q + 1) & 2, -v, v)
        return self._trig_edges(self._narrow(v), x)

    def tan(self, x: Real) -> Real:
        q, s, c = self.double._sin_cos_short(self._wide(x))
        v = self.double.where(q & 1, -c, s) / self.double.where(q & 1, s, c)
        return self._trig_edges(self.where(x == 0.0, x, self._narrow(v)), x)

    # ---- words to numbers

    def uniform_of(self, a: Word32) -> Real:
        """24 bits, in [0, 1)."""
        return self.of_integer(a >> 8) * 5.96046448e-08

    def _open(self, a: Word32) -> Real:
        """In (0, 1], for logarithms: odd multiples of 2**-31, rounded."""
        return self.of_integer((a >> 1) | 1) * 4.65661287e-10

    def _cos_turn(self, a: Word32) -> Real:
        """cos(2 pi v) with v = a / 2**32; the quadrant is taken from the bits of a."""
        q = (a + 0x20000000) >> 30
        r = self.of_integer(a - (q << 30)) * 1.46291812e-09
        z = r * r
        s = self.polynomial(self.sin_turn_terms, z)
        s = r + r * (z * s)
        c = self.polynomial(self.cos_turn_terms, z)
        c = (1.0 - 0.5 * z) + z * (z * c)
        v = self.where(q & 1, s, c)
        return self.where((q + 1) & 2, -v, v)

    def normal_of(self, a: Word32, b: Word32) -> Real:
        """Standard normal (Box and Muller 1958), the cosine branch: |x| < 6.6."""
        return self.sqrt(-2.0 * self.log(self._open(a))) * self._cos_turn(b)

    def exponential_of(self, a: Word32) -> Real:
        """Exponential with mean 1, >= 0."""
        return 0.0 - self.log(self._open(a))


PRECISIONS: Final = (Single(), Double())
