"""Elementary functions in float32 and float64, written once: numpy runs this text, `c_text.py` prints it in C. What is
particular to a precision, its constants among it, stands in precisions.py.

Assumes: arrays of one dimension and one type, IEEE 754 arithmetic, each operation rounded to nearest even in its type;
an environment that hides numpy's warnings.
Guarantees: at most 2 ulp (tests/numeric/test_accuracy.py; docs/accuracy.md has a table); only + - * / sqrt, floor,
comparisons, selects and integer operations on the bits, in the order in which they stand here, so that numpy, C under
-ffp-contract=off and CUDA under --fmad=false give the same bits. Contracting a * b + c may change last bits but breaks
no algorithm: the halves of double-length numbers are cut by integer masks, never by a product. No branches, no tables:
loops over these functions become vector code.
Does not: define the sign and payload of a NaN. Where the caller flushes denormals to zero, denormal arguments and
results count as zero. sin, cos and tan give NaN for |x| > 2**30, where an angle has lost its meaning in float32.

Methods: argument reduction and double-length steps after fdlibm (Sun Microsystems, 1993); tanh in float64 below 0.625
after Cephes (Moshier); exp in float32 a minimax polynomial (Lawson's iteration); all other coefficients by
interpolation at Chebyshev nodes in 300-bit arithmetic, then rounded.

The form: a method is a function of one precision, `self` its constants; statements are assignments of expressions to
names and one `return`. `Primitives` is what a target brings along (backends/device/math.h). Docstrings become comments.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

Real = Any
"""An array of the precision. (The types of numpy cannot say more of arithmetic on arrays.)"""
Word = Any
"""An array of unsigned integers of the width of a Real."""
Word32 = Any
"""An array of unsigned integers of 32 bits: of a random draw."""
Truth = Any

Coefficients = tuple[float, ...]
"""Of a polynomial, highest power first."""


class Primitives:
    """Operations of a target in one precision; here those of numpy."""

    real: Any
    word: Any

    def bits(self, x: Real) -> Word:
        return x.view(self.word)

    def from_bits(self, u: Word) -> Real:
        return u.view(self.real)

    def of_integer(self, u: Word32) -> Real:
        """Of an integer below 2**31, or of one below 0 as its 32 bits: those that every vector unit converts."""
        return u.view(np.int32).astype(self.real)

    def sqrt(self, x: Real) -> Real:
        return np.asarray(np.sqrt(x))

    def ratio(self, x: Real, y: Real) -> Real:
        """x / y, where y is normal, and so is the result, or it may be flushed to zero."""
        return x / y

    def floor(self, x: Real) -> Real:
        return np.asarray(np.floor(x))

    def ceil(self, x: Real) -> Real:
        return np.asarray(np.ceil(x))

    def round(self, x: Real) -> Real:
        """Half-way cases go to the even neighbour."""
        return np.asarray(np.rint(x))

    def where(self, test: Truth, a: Real | float, b: Real | float) -> Real:
        return np.where(test, np.asarray(a, self.real), np.asarray(b, self.real))

    def polynomial(self, coefficients: Coefficients, z: Real) -> Real:
        p = coefficients[0] * z + coefficients[1]
        for c in coefficients[2:]:
            p = p * z + c
        return p


class Elementary(Primitives):
    """What both precisions have in common."""

    inf: Final = math.inf
    nan: Final = math.nan
    pi: Final = 3.141592653589793
    half_pi: Final = 1.5707963267948966
    quarter_pi: Final = 0.7853981633974483
    tan_pi_8: Final = 0.41421356237309503
    tan_3pi_8: Final = 2.414213562373095
    inverse_ln2: Final = 1.4426950408889634
    largest_angle: Final = 1073741824.0

    fraction: int  # bits of the fraction
    bias: int  # of the exponent
    sign_bit: int
    upper: int  # mask that keeps the leading half of the bits
    root_half: int  # bits of sqrt(1/2)
    tiny: float  # half an ulp of 1: exp(x) - 1 == x and the like below it
    normal: float  # smallest normal number
    rescue: int  # exponent of a factor that makes denormals normal
    huge: float  # a quarter of the largest power of two, whose double is still finite
    exp_range: tuple[float, float]
    expm1_range: tuple[float, float]
    expm1_scale: int
    sigmoid_end: float
    erf_end: float
    # constants that are not a number of the precision: the leading bits, and what is left
    ln2: tuple[float, float]
    log2_e: tuple[float, float]
    log10_e: tuple[float, float]
    log10_2: tuple[float, float]
    half_pi_low: float
    pi_low: float
    quarter_pi_low: float
    exp_terms: Coefficients
    log_terms: Coefficients
    sinh_terms: Coefficients
    asin_terms: Coefficients
    atan_terms: Coefficients
    erf_terms: Coefficients
    erfc_terms: Coefficients

    @property
    def magic(self) -> float:
        """Adding it rounds to a whole number, and leaves that in the low bits."""
        return float(1.5 * 2.0**self.fraction)

    # ---- sums

    def carried(self, total: Real, part: Real, lost: Real) -> tuple[Real, Real]:
        """total + part, and what rounding adds to it, which the next call is given as `lost` (Kahan 1965): the error of
        a sum of many parts does not grow with their number. What is not finite loses nothing."""
        due = part - lost
        sum = total + due
        rest = (sum - total) - due
        rest = self.where(rest - rest == 0, rest, 0)
        return sum, rest

    # ---- simple functions

    def abs(self, x: Real) -> Real:
        return self.from_bits(self.bits(x) & (self.sign_bit - 1))

    def _copysign(self, x: Real, y: Real) -> Real:
        """|x| with the sign bit of y."""
        return self.from_bits((self.bits(x) & (self.sign_bit - 1)) | (self.bits(y) & self.sign_bit))

    def _upper(self, x: Real) -> Real:
        """x without the trailing half of its bits."""
        return self.from_bits(self.bits(x) & self.upper)

    def sign(self, x: Real) -> Real:
        """-1, 0 or 1; the sign of a zero is dropped, a NaN stays."""
        r = self.where(x > 0.0, 1.0, self.where(x < 0.0, -1.0, 0.0))
        return self.where(x != x, x, r)

    def min(self, x: Real, y: Real) -> Real:
        """A NaN on either side is the result (numpy's minimum and maximum, not C's fmin and fmax); of two equal
        arguments the second is taken, which shows for +0 and -0 only."""
        r = self.where(x < y, x, y)
        return self.where(x != x, x, r)

    def max(self, x: Real, y: Real) -> Real:
        r = self.where(x > y, x, y)
        return self.where(x != x, x, r)

    def clip(self, x: Real, lo: Real, hi: Real) -> Real:
        """min(max(x, lo), hi): where lo > hi the result is hi."""
        return self.min(self.max(x, lo), hi)

    def floordiv(self, x: Real, y: Real) -> Real:
        """By definition floor of the rounded quotient."""
        return self.floor(x / y)

    def mod(self, x: Real, y: Real) -> Real:
        """By definition x - y floor(x / y): unlike fmod it loses bits when the quotient is large."""
        return x - y * self.floor(x / y)

    # ---- exponentials

    def _expm1_parts(self, x: Real) -> tuple[Word, Real, Real, Real]:
        """x = k ln 2 + r; hi + t = exp(r) - 1 with hi exact (Cody and Waite); zb has k in its low bits: adding
        1.5 * 2**23 (2**52) rounds x / ln 2 to a whole number and leaves it there. |x| < 2**7 (2**10)."""
        z = x * self.inverse_ln2 + self.magic
        zb = self.bits(z)
        k = z - self.magic
        hi = x - k * self.ln2[0]
        lo = k * self.ln2[1]
        r = hi - lo
        q = self.polynomial(self.exp_terms, r)
        t = r * r * q - lo
        return zb, k, hi, t

    def _scale(self, y: Real, zb: Word, k: Real, adjust: Word) -> Real:
        """y * 2**(k + adjust), rounded once, for results from denormal to infinite: two factors."""
        halved = self.bits(k * 0.5 + self.magic)
        first = self.from_bits((halved + self.bias) << self.fraction)
        return y * first * self.from_bits((zb - halved + self.bias + adjust) << self.fraction)

    def _exp_times(self, x: Real, adjust: Word) -> Real:
        """exp(x) * 2**adjust."""
        x = self.where(x > self.exp_range[1], self.exp_range[1], x)
        x = self.where(x < self.exp_range[0], self.exp_range[0], x)
        zb, k, hi, t = self._expm1_parts(x)
        return self._scale(1.0 + (hi + t), zb, k, adjust)

    def exp(self, x: Real) -> Real:
        return self._exp_times(x, self.word(0))

    def _half_exp(self, x: Real) -> Real:
        """exp(x) / 2, finite for longer than exp."""
        return self._exp_times(x, self.word(2 * self.sign_bit - 1))

    def _expm1_small(self, x: Real) -> Real:
        """expm1(x) * 2**-8 (2**-11): finite where expm1 is not, which exprel needs. For x that is not tiny."""
        x = self.where(x > self.expm1_range[1], self.expm1_range[1], x)
        x = self.where(x < self.expm1_range[0], self.expm1_range[0], x)
        zb, _, hi, t = self._expm1_parts(x)
        s = self.from_bits((zb + (self.bias - self.expm1_scale)) << self.fraction)
        a = s - 2.0**-self.expm1_scale
        w = a + s * hi
        return w + (((a - w) + s * hi) + s * t)

    def expm1(self, x: Real) -> Real:
        r = self._expm1_small(x) * 2.0**self.expm1_scale
        return self.where(self.abs(x) < self.tiny, x, r)

    def exprel(self, x: Real) -> Real:
        """expm1(x) / x, and 1 at 0. For x > 0 the quotient is taken before the last factor, where it is finite for
        longer; for x < 0 after it, where it is normal for longer."""
        m = self._expm1_small(x)
        scale = 2.0**self.expm1_scale
        r = self.where(x < 0.0, m * scale, m) / x * self.where(x < 0.0, 1.0, scale)
        r = self.where(self.abs(x) < self.tiny, 1.0, r)
        return self.where(x > self.expm1_range[1], x + self.inf, r)

    # ---- logarithms

    def _split(self, x: Real) -> tuple[Real, Real]:
        """x = 2**k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for x > 0; denormals are scaled up first. The exponent
        becomes a real number by its bits: not every vector unit converts integers of 64 bits."""
        small = x < self.normal
        one = self.bias << self.fraction
        u = self.bits(self.where(small, x * 2.0**self.rescue, x)) + (one - self.root_half)
        whole = (self.bias + self.fraction) << self.fraction
        offset = 2.0**self.fraction + self.bias
        k = self.from_bits((u >> self.fraction) | whole) - self.where(small, offset + self.rescue, offset)
        f = self.from_bits((u & ((1 << self.fraction) - 1)) + self.root_half) - 1.0
        return k, f

    def _log_tail(self, f: Real, h: Real) -> Real:
        """s (h + R) with s = f / (2 + f), h = f*f / 2, so that log(1 + f) = f - (h - that)."""
        s = f / (2.0 + f)
        z = s * s
        p = self.polynomial(self.log_terms, z)
        return s * (h + z * p)

    def _log_edges(self, r: Real, x: Real) -> Real:
        """The value at 0, at infinity, below 0 and at NaN, which all logarithms share."""
        r = self.where(x < self.inf, r, x)
        r = self.where(x < 0.0, self.nan, r)
        return self.where(x == 0.0, -self.inf, r)

    def log(self, x: Real) -> Real:
        k, f = self._split(x)
        h = 0.5 * f * f
        t = self._log_tail(f, h) + k * self.ln2[1]
        return self._log_edges(k * self.ln2[0] - ((h - t) - f), x)

    def log1p(self, x: Real) -> Real:
        """c is what rounding 1 + x loses."""
        u = 1.0 + x
        k, f = self._split(u)
        c = self.where(k > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
        c = self.where(k == 0.0, 0.0, c)
        f = self.where(k == 0.0, x, f)
        h = 0.5 * f * f
        r = k * self.ln2[0] - ((h - (self._log_tail(f, h) + (k * self.ln2[1] + c))) - f)
        r = self.where(self.abs(x) < self.tiny, x, r)
        return self._log_edges(r, u)

    def _log_parts(self, x: Real) -> tuple[Real, Real, Real]:
        """For other bases: log(1 + f) as hi + lo with a short hi, to be multiplied by 1 / ln(base) in two parts."""
        k, f = self._split(x)
        h = 0.5 * f * f
        hi = self._upper(f - h)
        lo = ((f - hi) - h) + self._log_tail(f, h)
        return k, hi, lo

    def log2(self, x: Real) -> Real:
        k, hi, lo = self._log_parts(x)
        a = hi * self.log2_e[0]
        b = (lo + hi) * self.log2_e[1] + lo * self.log2_e[0]
        w = k + a
        return self._log_edges((b + ((k - w) + a)) + w, x)

    def log10(self, x: Real) -> Real:
        k, hi, lo = self._log_parts(x)
        a = hi * self.log10_e[0]
        b = k * self.log10_2[1] + ((lo + hi) * self.log10_e[1] + lo * self.log10_e[0])
        c = k * self.log10_2[0]
        w = c + a
        return self._log_edges((b + ((c - w) + a)) + w, x)

    # ---- powers

    def _pow_edges(self, r: Real, x: Real, y: Real) -> Real:
        """Signs, zeros, infinities and NaN of pow (IEEE 754 and C, annex F); r = |x|**y elsewhere."""
        a = self.abs(x)
        halved = 0.5 * y
        whole = self.floor(y) == y
        odd = whole & (self.floor(halved) != halved)
        r = self.where(a == 0.0, self.where(y > 0.0, 0.0, self.inf), r)
        r = self.where(a == self.inf, self.where(y > 0.0, self.inf, 0.0), r)
        r = self.where(odd, self._copysign(r, x), r)
        r = self.where((x < 0.0) & (a < self.inf) & ~whole, self.nan, r)
        r = self.where((x != x) | (y != y), x + y, r)
        return self.where((x == 1.0) | (y == 0.0), 1.0, r)

    # ---- hyperbolic functions and activations

    def sigmoid(self, x: Real) -> Real:
        """1 / (1 + exp(|x|)), or 1 minus that; numerator and denominator times 2**-25 (2**-54), so that they stay
        finite where the result is denormal. What rounding 2**k + 1 loses is carried along."""
        a = self.abs(x)
        a = self.where(a > self.sigmoid_end, self.sigmoid_end, a)
        zb, _, hi, t = self._expm1_parts(a)
        small = 2.0**-self.rescue
        s = self.from_bits((zb + (self.bias - self.rescue)) << self.fraction)
        w = s + small
        w = w + (s * (hi + t) + (small - (w - s)))
        w = self.ratio(self.real(small), w)
        return self.where(x < 0.0, w, 1.0 - w)

    def softplus(self, x: Real) -> Real:
        return self.where(x < 0.0, 0.0, x) + self.log1p(self.exp(-self.abs(x)))

    def sinh(self, x: Real) -> Real:
        """With h = exp(|x|) / 2: sinh = h - 1/(4h) from 1 on, cosh = h + 1/(4h)."""
        a = self.abs(x)
        z = a * a
        h = self._half_exp(a)
        p = self.polynomial(self.sinh_terms, z)
        return self._copysign(self.where(a < 1.0, a + a * (z * p), h - 0.25 / h), x)

    def cosh(self, x: Real) -> Real:
        h = self._half_exp(self.abs(x))
        return h + 0.25 / h

    # ---- trigonometric functions

    def _trig_edges(self, r: Real, x: Real) -> Real:
        return self.where(self.abs(x) <= self.largest_angle, r, self.nan)

    # ---- inverse trigonometric functions

    def _asin_poly(self, z: Real) -> Real:
        """(asin(sqrt(z)) / sqrt(z) - 1) for 0 <= z <= 1/4."""
        p = self.polynomial(self.asin_terms, z)
        return p * z

    def asin(self, x: Real) -> Real:
        """Above 1/2: asin x = pi/2 - 2 asin sqrt((1 - x) / 2)."""
        a = self.abs(x)
        big = a > 0.5
        z = self.where(big, (1.0 - a) * 0.5, a * a)
        s = self.where(big, self.sqrt(z), a)
        t = s * self._asin_poly(z)
        w = self.half_pi - 2.0 * s
        r = self.where(big, w + (((self.half_pi - w) - 2.0 * s) - (2.0 * t - self.half_pi_low)), s + t)
        return self._copysign(r, x)

    def acos(self, x: Real) -> Real:
        a = self.abs(x)
        big = a > 0.5
        z = self.where(big, (1.0 - a) * 0.5, a * a)
        s = self.where(big, self.sqrt(z), x)
        t = s * self._asin_poly(z)
        p = 2.0 * (s + t)
        mid = self.half_pi - (x - (self.half_pi_low - t))
        far = self.where(x < 0.0, self.pi - (p - self.pi_low), p)
        return self.where(big, far, mid)

    def _atan_ratio(self, a: Real, b: Real) -> Real:
        """atan(a / b) for a, b >= 0, not both infinite: the angle is reduced to |t| <= tan(pi/8) by 0, 45 or 90 degrees
        before the one division."""
        steep = a > self.tan_3pi_8 * b
        mid = a > self.tan_pi_8 * b
        num = self.where(steep, -b, self.where(mid, a - b, a))
        den = self.where(steep, a, self.where(mid, a + b, b))
        base = self.where(steep, self.half_pi, self.where(mid, self.quarter_pi, 0.0))
        rest = self.where(steep, self.half_pi_low, self.where(mid, self.quarter_pi_low, 0.0))
        t = num / self.where(den == 0.0, 1.0, den)
        z = t * t
        p = self.polynomial(self.atan_terms, z)
        return base + (t + (t * (z * p) + rest))

    def atan(self, x: Real) -> Real:
        return self._copysign(self._atan_ratio(self.abs(x), self.real(1.0)), x)

    def atan2(self, y: Real, x: Real) -> Real:
        """Angle of the point (x, y) in [-pi, pi]; signed zeros as in C, annex F."""
        a = self.abs(y)
        b = self.abs(x)
        both = (a == self.inf) & (b == self.inf)
        a = self.where(both, 1.0, a)
        b = self.where(both, 1.0, b)
        f = self.where((a > self.huge) | (b > self.huge), 0.25, 1.0)
        r = self._atan_ratio(a * f, b * f)
        r = self.where(self.bits(x) >= self.sign_bit, self.pi - (r - self.pi_low), r)
        return self._copysign(r, y)

    # ---- error function

    def _erfc_place(self, c: Real) -> Real:
        """Of c in the polynomial of exp(c*c) erfc(c)."""
        return (c - 2.0) / (c + 2.0)

    def erf(self, x: Real) -> Real:
        """Below 1 an odd polynomial; above, 1 - exp(-x*x) T(u). Both are computed, so that no thread of a GPU waits for
        others that take the other one."""
        a = self.abs(x)
        z = x * x
        c = self.where(a > self.erf_end, self.erf_end, a)
        u = self._erfc_place(c)
        p = self.polynomial(self.erf_terms, z)
        t = self.polynomial(self.erfc_terms, u)
        near = a + a * p
        far = 1.0 - self.exp(-z) * t
        return self._copysign(self.where(a < 1.0, near, far), x)
