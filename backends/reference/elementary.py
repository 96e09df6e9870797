"""Elementary functions over numpy arrays: the mirror of backends/device/math.h, bit for bit.

Assumes: IEEE arithmetic in numpy (no flush to zero), each operation rounded to the array's type.
Guarantees: each function does the operations of its C namesake in the same order, in float32 or float64, so the results
have the same bits as C under -ffp-contract=off and CUDA under --fmad=false; NaN for NaN, though the sign and payload of
a NaN are not defined. Accuracy, methods and sources are documented in math.h. Every call returns a new array of the
broadcast shape and never warns.
Does not: accept integers where a real number is due (min, max, clip, abs, sign, floordiv and mod
take them), or run fast: this is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[Any]
Coefficients = tuple[float, ...]


@dataclass(frozen=True)
class Format:
    """What differs between float32 and float64. Polynomials stand with the highest power first."""

    real: DTypeLike
    word: DTypeLike
    shift: int  # bits of the fraction
    bias: int
    magic: float  # 1.5 * 2**shift: adding it rounds to an integer
    upper: int  # mask that keeps the leading half of the bits
    tiny: float  # half an ulp of 1: exp(x) - 1 == x and the like below it
    normal: float  # smallest normal number
    rescue: tuple[float, int]  # factor that makes denormals normal, its exponent
    root_half: int  # bits of sqrt(1/2)
    exp_range: tuple[float, float]
    ln2: tuple[float, float]
    exp: Coefficients
    expm1_range: tuple[float, float]
    expm1_scale: int
    log: Coefficients
    inverse_ln2: tuple[float, float]
    inverse_ln10: tuple[float, float]
    log10_2: tuple[float, float]
    sinh: Coefficients
    asin: Coefficients
    atan: Coefficients
    half_pi_low: float
    pi_low: float
    quarter_pi_low: float
    huge: float  # a quarter of the largest power of two, whose double is still finite
    erf: Coefficients
    erfc: Coefficients
    erf_end: float


F32: Final = Format(
    real=np.float32,
    word=np.uint32,
    shift=23,
    bias=127,
    magic=12582912.0,
    upper=0xFFFFF000,
    tiny=2.98023224e-08,
    normal=1.17549435e-38,
    rescue=(33554432.0, 25),
    root_half=0x3F3504F3,
    exp_range=(-110.0, 100.0),
    ln2=(0.693145752, 1.42860677e-06),
    exp=(1.3950559e-03, 8.3689289e-03, 4.1666206e-02, 1.6666518e-01, 0.5),
    expm1_range=(-30.0, 93.9),
    expm1_scale=8,
    log=(2.3330583e-01, 2.8550816e-01, 4.0000123e-01, 6.666667e-01),
    inverse_ln2=(1.44287109, -1.76052854e-04),
    inverse_ln10=(4.34326172e-01, -3.16899714e-05),
    log10_2=(3.01029205e-01, 7.90341517e-07),
    sinh=(2.8062855e-06, 1.98381e-04, 8.333339e-03, 1.6666667e-01),
    asin=(3.3690847e-02, 1.7149238e-02, 3.1100662e-02, 4.4599403e-02, 7.500094e-02, 1.6666666e-01),
    atan=(-6.450882e-02, 1.0743415e-01, -1.4263926e-01, 1.999954e-01, -3.333333e-01),
    half_pi_low=-4.37113883e-08,
    pi_low=-8.74227766e-08,
    quarter_pi_low=-2.18556941e-08,
    huge=4.2535296e37,
    erf=(
        7.875546e-05,
        -8.0167735e-04,
        5.189078e-03,
        -2.6854208e-02,
        1.1283594e-01,
        -3.7612626e-01,
        1.2837917e-01,
    ),
    erfc=(
        -9.4415963e-04,
        -8.3658996e-04,
        6.9948556e-03,
        3.7321413e-03,
        -7.897852e-02,
        2.4165821e-01,
        -4.2718583e-01,
        2.5539568e-01,
    ),
    erf_end=4.0,
)

F64: Final = Format(
    real=np.float64,
    word=np.uint64,
    shift=52,
    bias=1023,
    magic=6755399441055744.0,
    upper=0xFFFFFFFF00000000,
    tiny=5.551115123125783e-17,
    normal=2.2250738585072014e-308,
    rescue=(18014398509481984.0, 54),
    root_half=0x3FE6A09E667F3BCD,
    exp_range=(-760.0, 750.0),
    ln2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
    exp=(
        2.0914624971597965e-09,
        2.5105217004720745e-08,
        2.7557273847932753e-07,
        2.7557255400206422e-06,
        2.4801587325301673e-05,
        0.00019841269874820627,
        0.0013888888888883878,
        0.008333333333326136,
        0.04166666666666667,
        0.1666666666666667,
        0.5,
    ),
    expm1_range=(-50.0, 717.0),
    expm1_scale=11,
    log=(
        0.14616585424888623,
        0.15331710618210773,
        0.18182889455674947,
        0.22222211130259878,
        0.2857142862600327,
        0.39999999999899444,
        0.666666666666667,
    ),
    inverse_ln2=(1.44269504072144627571e00, 1.67517131648865118353e-10),
    inverse_ln10=(4.34294481878168880939e-01, 2.50829467116452752298e-11),
    log10_2=(3.01029995663611771306e-01, 3.69423907715893078616e-13),
    sinh=(
        2.8445297426378895e-15,
        7.646625253572627e-13,
        1.6059048397722392e-10,
        2.5052108364049466e-08,
        2.7557319224040365e-06,
        0.00019841269841269773,
        0.008333333333333333,
        0.16666666666666666,
    ),
    asin=(
        0.028757851367421566,
        -0.014851887071247204,
        0.01740087944269402,
        0.005457506718640358,
        0.01032281435018578,
        0.011479177415184906,
        0.013971212973552933,
        0.017352392720869973,
        0.02237217294214989,
        0.030381944138531247,
        0.04464285714635543,
        0.07499999999998433,
        0.16666666666666669,
    ),
    atan=(
        0.01627884915138577,
        -0.03456432733540151,
        0.04551350736874263,
        -0.05230401099058019,
        0.05878921776625797,
        -0.06666424257540567,
        0.07692296340047557,
        -0.09090908752290591,
        0.11111111105131119,
        -0.1428571428565958,
        0.19999999999999804,
        -0.3333333333333333,
    ),
    half_pi_low=6.123233995736766e-17,
    pi_low=1.2246467991473532e-16,
    quarter_pi_low=3.061616997868383e-17,
    huge=2.247116418577895e307,
    erf=(
        5.956905633653031e-11,
        -1.1372693191126323e-09,
        1.4659736155673959e-08,
        -1.6350307065234626e-07,
        1.6460999970345427e-06,
        -1.4925595235970651e-05,
        0.00012055331110409494,
        -0.0008548326980801447,
        0.0052239776248174784,
        -0.02686617064507674,
        0.11283791670954878,
        -0.3761263890318375,
        0.1283791670955126,
    ),
    erfc=(
        -4.215301054238321e-07,
        -5.322696855655786e-07,
        1.1780775215625583e-06,
        3.789215643758464e-06,
        1.392621183618803e-06,
        -1.396807230177146e-05,
        -2.7579864674305787e-05,
        2.7525480361206068e-05,
        0.00017436116545392264,
        4.355560219515472e-05,
        -0.000981977026567889,
        -0.0008471432509203844,
        0.006997461739200444,
        0.003732892404327764,
        -0.07897858101573213,
        0.24165819424246646,
        -0.4271858474139584,
        0.25539567631050575,
    ),
    erf_end=6.0,
)

_HALF_PI: Final = 1.5707963267948966
_PI: Final = 3.141592653589793
_INVERSE_HALF_PI: Final = 0.6366197723675814
_LIMIT: Final = 1073741824.0
_COS64: Final = (
    -1.1382588535352522e-11,
    2.0876145659059344e-09,
    -2.755731726880539e-07,
    2.4801587298760048e-05,
    -0.0013888888888887393,
    0.041666666666666664,
)
_SIN64: Final = (
    1.591805913698281e-10,
    -2.5051130870968297e-08,
    2.755731609787775e-06,
    -0.0001984126983674956,
    0.008333333333330943,
    -0.16666666666666666,
)
_COS_SHORT: Final = (
    -2.730083162069671e-07,
    2.480059939299715e-05,
    -0.0013888887670194634,
    0.041666666664316516,
)
_SIN_SHORT: Final = (
    2.724977294115182e-06,
    -0.00019840085556195348,
    0.008333331872526864,
    -0.16666666663849675,
)
_LOG_SHORT: Final = (
    0.19362776836747533,
    0.22191394493175057,
    0.2857175463573276,
    0.39999998796848674,
    0.6666666666737545,
)
_EXP_SHORT: Final = (1.9890991e-04, 1.393365e-03, 8.3333105e-03, 4.1666467e-02, 1.6666667e-01, 0.5)
_LOG_LONG: Final = (
    0.17584767935814777,
    0.1755935450923681,
    0.20002207040770967,
    0.23076892443777647,
    0.272727275030892,
    0.3333333333248383,
    0.4285714285714405,
    0.6,
)


# ---- helpers -------------------------------------------------------------------------


def _bits(x: Array, f: Format) -> Array:
    return x.view(f.word)


def _real(u: Array, f: Format) -> Array:
    return u.view(f.real)


def _horner(coefficients: Coefficients, z: Array) -> Array:
    p = coefficients[0] * z + coefficients[1]
    for c in coefficients[2:]:
        p = p * z + c
    return p


def _copysign(x: Array, y: Array) -> Array:
    return np.copysign(x, y)


def _upper(x: Array, f: Format) -> Array:
    return _real(_bits(x, f) & f.upper, f)


def _limited(x: Array, low: float, high: float) -> Array:
    x = np.where(x > high, x.dtype.type(high), x)
    return np.where(x < low, x.dtype.type(low), x)


def _choose(test: Array, a: Array | float, b: Array | float, f: Format) -> Array:
    return np.where(test, np.asarray(a, f.real), np.asarray(b, f.real))


def _elementwise(function: Callable[..., Array]) -> Callable[..., Array]:
    """Broadcasts arguments to one real type; passes them on flat, with their Format."""

    @wraps(function)
    def call(*arguments: ArrayLike) -> Array:
        dtype = np.result_type(*arguments)
        if dtype not in (np.float32, np.float64):
            raise TypeError(f"{function.__name__} takes float32 or float64, not {dtype}")
        arrays = np.broadcast_arrays(*(np.asarray(a, dtype) for a in arguments))
        flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
        with np.errstate(all="ignore"):
            result = function(*flat, F32 if dtype == np.float32 else F64)
        return result.reshape(arrays[0].shape)

    return call


# ---- simple functions ----------------------------------------------------------------


def sqrt(x: ArrayLike) -> Array:
    """Square root, correctly rounded; NaN below 0."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt(x))


def absolute(x: ArrayLike) -> Array:
    """Absolute value."""
    return np.asarray(np.abs(np.asarray(x)))


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 in the type of x; NaN stays."""
    a = np.asarray(x)
    r = (a > 0).astype(a.dtype) - (a < 0).astype(a.dtype)
    return np.where(a != a, a, r)


def floor(x: ArrayLike) -> Array:
    """Largest integer not above x."""
    with np.errstate(all="ignore"):
        return np.asarray(np.floor(x))


def ceil(x: ArrayLike) -> Array:
    """Smallest integer not below x."""
    with np.errstate(all="ignore"):
        return np.asarray(np.ceil(x))


def round_even(x: ArrayLike) -> Array:
    """Nearest integer, ties to even."""
    with np.errstate(all="ignore"):
        return np.asarray(np.rint(x))


def minimum(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller argument; a NaN on either side is the result; of two equal ones the second."""
    a, b = _pair(x, y)
    return np.where((a < b) | (a != a), a, b)


def maximum(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger argument; a NaN on either side is the result; of two equal ones the second."""
    a, b = _pair(x, y)
    return np.where((a > b) | (a != a), a, b)


def clip(x: ArrayLike, lo: ArrayLike, hi: ArrayLike) -> Array:
    """min(max(x, lo), hi): hi where lo > hi."""
    return minimum(maximum(x, lo), hi)


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    dtype = np.result_type(x, y)
    return np.asarray(x, dtype), np.asarray(y, dtype)


def floordiv(x: ArrayLike, y: ArrayLike) -> Array:
    """Python's x // y on integers; on real numbers floor of the rounded quotient."""
    a, b = _pair(x, y)
    with np.errstate(all="ignore"):
        return np.asarray(a // b if a.dtype.kind in "iu" else np.floor(a / b))


def mod(x: ArrayLike, y: ArrayLike) -> Array:
    """Python's x % y on integers; on real numbers x - y floor(x / y), rounded at each operation."""
    a, b = _pair(x, y)
    with np.errstate(all="ignore"):
        return np.asarray(a % b if a.dtype.kind in "iu" else a - b * np.floor(a / b))


# ---- exponentials --------------------------------------------------------------------


def _expm1_parts(x: Array, f: Format) -> tuple[Array, Array, Array, Array]:
    z = x * 1.4426950408889634 + f.magic
    k = z - f.magic
    hi = x - k * f.ln2[0]
    lo = k * f.ln2[1]
    r = hi - lo
    return _bits(z, f), k, hi, r * r * _horner(f.exp, r) - lo


def _scale(y: Array, zb: Array, k: Array, adjust: int, f: Format) -> Array:
    half = _bits(k * 0.5 + f.magic, f)
    first = _real((half + f.bias) << f.shift, f)
    return y * first * _real((zb - half + (f.bias + adjust)) << f.shift, f)


def _exp_times(x: Array, adjust: int, f: Format) -> Array:
    zb, k, hi, t = _expm1_parts(_limited(x, *f.exp_range), f)
    return _scale(1.0 + (hi + t), zb, k, adjust, f)


def _expm1_small(x: Array, f: Format) -> Array:
    zb, _, hi, t = _expm1_parts(_limited(x, *f.expm1_range), f)
    s = _real((zb + (f.bias - f.expm1_scale)) << f.shift, f)
    a = s - 2.0**-f.expm1_scale
    w = a + s * hi
    r: Array = w + (((a - w) + s * hi) + s * t)
    return r


@_elementwise
def exp(x: Array, f: Format) -> Array:
    """Exponential."""
    return _exp_times(x, 0, f)


@_elementwise
def expm1(x: Array, f: Format) -> Array:
    """exp(x) - 1."""
    return np.where(np.abs(x) < f.tiny, x, _expm1_small(x, f) * 2.0**f.expm1_scale)


@_elementwise
def exprel(x: Array, f: Format) -> Array:
    """expm1(x) / x, and 1 at 0."""
    m, scale, below = _expm1_small(x, f), 2.0**f.expm1_scale, x < 0.0
    r = np.where(below, m * scale, m) / x * _choose(below, 1.0, scale, f)
    r = _choose(np.abs(x) < f.tiny, 1.0, r, f)
    return np.where(x > np.asarray(f.expm1_range[1], f.real), x + np.inf, r)


# ---- logarithms ----------------------------------------------------------------------


def _split(x: Array, f: Format) -> tuple[Array, Array]:
    small = x < np.asarray(f.normal, f.real)
    one = int(_bits(np.ones(1, f.real), f)[0])
    u = _bits(np.where(small, x * f.rescue[0], x), f) + (one - f.root_half)
    k = (u >> f.shift).astype(f.real) - _choose(small, f.bias + f.rescue[1], f.bias, f)
    return k, _real((u & ((1 << f.shift) - 1)) + f.root_half, f) - 1.0


def _log_tail(s_of: Array, h: Array, f: Format) -> Array:
    s = s_of / (2.0 + s_of)
    z = s * s
    return s * (h + z * _horner(f.log, z))


def _log_edges(r: Array, x: Array, f: Format) -> Array:
    r = np.where(x < np.inf, r, x)
    r = _choose(x < 0.0, np.nan, r, f)
    return _choose(x == 0.0, -np.inf, r, f)


def _log(x: Array, f: Format) -> Array:
    k, m = _split(x, f)
    h = 0.5 * m * m
    t = _log_tail(m, h, f) + k * f.ln2[1]
    return _log_edges(k * f.ln2[0] - ((h - t) - m), x, f)


def _log1p(x: Array, f: Format) -> Array:
    u = 1.0 + x
    k, m = _split(u, f)
    c = np.where(k > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    c = _choose(k == 0.0, 0.0, c, f)
    m = np.where(k == 0.0, x, m)
    h = 0.5 * m * m
    r = k * f.ln2[0] - ((h - (_log_tail(m, h, f) + (k * f.ln2[1] + c))) - m)
    return _log_edges(np.where(np.abs(x) < f.tiny, x, r), u, f)


def _log_parts(x: Array, f: Format) -> tuple[Array, Array, Array]:
    k, m = _split(x, f)
    h = 0.5 * m * m
    hi = _upper(m - h, f)
    return k, hi, ((m - hi) - h) + _log_tail(m, h, f)


@_elementwise
def log(x: Array, f: Format) -> Array:
    """Natural logarithm: -inf at 0, NaN below."""
    return _log(x, f)


@_elementwise
def log1p(x: Array, f: Format) -> Array:
    """log(1 + x)."""
    return _log1p(x, f)


@_elementwise
def log2(x: Array, f: Format) -> Array:
    """Logarithm to base 2."""
    k, hi, lo = _log_parts(x, f)
    a = hi * f.inverse_ln2[0]
    b = (lo + hi) * f.inverse_ln2[1] + lo * f.inverse_ln2[0]
    w = k + a
    return _log_edges((b + ((k - w) + a)) + w, x, f)


@_elementwise
def log10(x: Array, f: Format) -> Array:
    """Logarithm to base 10."""
    k, hi, lo = _log_parts(x, f)
    a = hi * f.inverse_ln10[0]
    b = k * f.log10_2[1] + ((lo + hi) * f.inverse_ln10[1] + lo * f.inverse_ln10[0])
    c = k * f.log10_2[0]
    w = c + a
    return _log_edges((b + ((c - w) + a)) + w, x, f)


# ---- powers --------------------------------------------------------------------------


def _pow_edges(r: Array, x: Array, y: Array, f: Format) -> Array:
    a, half = np.abs(x), 0.5 * y
    whole = np.floor(y) == y
    odd = whole & (np.floor(half) != half)
    r = np.where(a == 0.0, _choose(y > 0.0, 0.0, np.inf, f), r)
    r = np.where(a == np.inf, _choose(y > 0.0, np.inf, 0.0, f), r)
    r = np.where(odd, _copysign(r, x), r)
    r = _choose((x < 0.0) & (a < np.inf) & ~whole, np.nan, r, f)
    r = np.where((x != x) | (y != y), x + y, r)
    return _choose((x == 1.0) | (y == 0.0), 1.0, r, f)


def _pow32(x: Array, y: Array) -> Array:
    k, m = _split(np.abs(x).astype(np.float64), F64)
    s = m / (2.0 + m)
    z = s * s
    w = _limited(y.astype(np.float64), -1e40, 1e40) * (
        k + (s * (2.0 + z * _horner(_LOG_SHORT, z))) * 1.4426950408889634
    )
    w = _limited(w, -200.0, 200.0)
    n = w + F64.magic
    r = (w - (n - F64.magic)) * 0.6931471805599453
    r = 1.0 + (r + r * r * _horner(_EXP_SHORT, r))
    return (r * _real((_bits(n, F64) + 1023) << 52, F64)).astype(np.float32)


def _pow64(x: Array, y: Array) -> Array:
    f = F64
    k, d = _split(np.abs(x), f)
    m = 1.0 + d
    v = 1.0 / (m + 1.0)
    ss = d * v
    sh = _upper(ss, f)
    th = _upper(m + 1.0, f)
    tl = m - (th - 1.0)
    sl = v * ((d - sh * th) - sh * tl)
    s2 = ss * ss
    r = s2 * s2 * _horner(_LOG_LONG, s2) + sl * (sh + ss)
    s2 = sh * sh
    th = _upper(3.0 + s2 + r, f)
    tl = r - ((th - 3.0) - s2)
    u = sh * th
    v = sl * th + tl * ss
    ph = _upper(u + v, f)
    pl = v - (ph - u)
    zh = 9.61796700954437255859e-01 * ph
    zl = -7.02846165095275826516e-09 * ph + pl * 9.61796693925975554329e-01
    t1 = _upper((zh + zl) + k, f)
    t2 = zl - ((t1 - k) - zh)
    yc = _limited(y, -1.1805916207174113e21, 1.1805916207174113e21)
    y1 = _upper(yc, f)
    pl = (yc - y1) * t1 + yc * t2
    ph = y1 * t1
    z = pl + ph
    over = (z > 1100.0) | (z < -1100.0)
    z = _limited(z, -1100.0, 1100.0)
    ph = np.where(over, z, ph)
    pl = np.where(over, 0.0, pl)
    n = z + f.magic
    k = n - f.magic
    ph = ph - k
    t = _upper(pl + ph, f)
    u = t * 6.93147182464599609375e-01
    v = (pl - (t - ph)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09
    z = u + v
    w = v - (z - u)
    r = 1.0 + (z + (z * z * _horner(f.exp, z) + (w + z * w)))
    return _scale(r, _bits(n, f), k, 0, f)


@_elementwise
def power(x: Array, y: Array, f: Format) -> Array:
    """x ** y with the special cases of IEEE 754 (C, annex F)."""
    return _pow_edges(_pow32(x, y) if f is F32 else _pow64(x, y), x, y, f)


# ---- hyperbolic functions and activations --------------------------------------------


@_elementwise
def tanh(x: Array, f: Format) -> Array:
    """Hyperbolic tangent."""
    return _copysign(_tanh32(np.abs(x)) if f is F32 else _tanh64(np.abs(x)), x)


def _tanh32(a: Array) -> Array:
    d = 2.0 * a
    zb, _, hi, t = _expm1_parts(_limited(d, -np.inf, 40.0), F32)
    s = _real((zb + F32.bias) << F32.shift, F32)
    m = s * (hi + t) + (s - 1.0)
    small = a < np.asarray(0.5, F32.real)
    r: Array = _choose(small, a, 0.0, F32) + np.where(small, (m - d) - a * m, m) / (m + 2.0)
    return r


def _tanh64(a: Array) -> Array:
    z = a * a
    p = _horner((-9.64399179425052238628e-01, -9.92877231001918586564e01, -1.61468768441708447952e03), z)
    q = z + 1.12811678491632931402e02
    q = q * z + 2.23548839060100448583e03
    q = q * z + 4.84406305325125486048e03
    small = a < 0.625
    quotient = np.where(small, a * (z * p), -2.0) / np.where(small, q, _exp_times(2.0 * a, 0, F64) + 1.0)
    r: Array = np.where(small, a, 1.0) + quotient
    return r


@_elementwise
def sigmoid(x: Array, f: Format) -> Array:
    """1 / (1 + exp(-x))."""
    zb, _, hi, t = _expm1_parts(_limited(np.abs(x), 0.0, 104.0 if f is F32 else 746.0), f)
    small = 1.0 / f.rescue[0]
    s = _real((zb + (f.bias - f.rescue[1])) << f.shift, f)
    w = s + small
    w = small / (w + (s * (hi + t) + (small - (w - s))))
    r: Array = np.where(x < 0.0, w, 1.0 - w)
    return r


@_elementwise
def softplus(x: Array, f: Format) -> Array:
    """log(1 + exp(x))."""
    return _choose(x < 0.0, 0.0, x, f) + _log1p(_exp_times(-np.abs(x), 0, f), f)


@_elementwise
def sinh(x: Array, f: Format) -> Array:
    """Hyperbolic sine."""
    a = np.abs(x)
    z = a * a
    h = _exp_times(a, -1, f)
    r = np.where(a < 1.0, a + a * (z * _horner(f.sinh, z)), h - 0.25 / h)
    return _copysign(r, x)


@_elementwise
def cosh(x: Array, f: Format) -> Array:
    """Hyperbolic cosine."""
    h = _exp_times(np.abs(x), -1, f)
    return h + 0.25 / h


# ---- trigonometric functions ---------------------------------------------------------


def _sin_poly(r: Array, rl: Array | float) -> Array:
    z = r * r
    p: Array = r * z * _horner(_SIN64, z) + rl * (1.0 - 0.5 * z)
    return p


def _cos_poly(r: Array, rl: Array | float) -> Array:
    z = r * r
    p: Array = z * z * _horner(_COS64, z) - r * rl
    return p


def _sin_short(r: Array) -> Array:
    z = r * r
    p: Array = r + r * z * _horner(_SIN_SHORT, z)
    return p


def _cos_short(r: Array) -> Array:
    z = r * r
    p: Array = (1.0 - 0.5 * z) + z * z * _horner(_COS_SHORT, z)
    return p


def _quadrant32(x32: Array) -> tuple[Array, Array]:
    x = x32.astype(np.float64)
    z = x * _INVERSE_HALF_PI + F64.magic
    k = z - F64.magic
    r = ((x - k * 1.570796251296997) - k * 7.549789415861596e-08) - k * 5.390302858158119e-15
    return _bits(z, F64), r


def _quadrant64(x: Array) -> tuple[Array, Array, Array]:
    z = x * _INVERSE_HALF_PI + F64.magic
    k = z - F64.magic
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
    return _bits(z, F64), r, lo - (r - s2)


def _trig_edges(r: Array, x: Array, f: Format) -> Array:
    return _choose(np.abs(x) <= _LIMIT, r, np.nan, f)


def _circular(x: Array, f: Format, turn: int) -> Array:
    """sin for turn 0, cos for turn 1."""
    if f is F32:
        q, r = _quadrant32(x)
        s, c = _sin_short(r), _cos_short(r)
    else:
        q, r, rl = _quadrant64(x)
        h = 0.5 * (r * r)
        w = 1.0 - h
        c = w + (((1.0 - w) - h) + _cos_poly(r, rl))
        s = r + _sin_poly(r, rl)
    v = np.where((q + turn) & 1, c, s)
    return np.where((q + turn) & 2, -v, v).astype(f.real)


@_elementwise
def sin(x: Array, f: Format) -> Array:
    """Sine; NaN for |x| > 2**30."""
    same = x == 0.0 if f is F32 else np.abs(x) < 7.450580596923828e-09
    return _trig_edges(np.where(same, x, _circular(x, f, 0)), x, f)


@_elementwise
def cos(x: Array, f: Format) -> Array:
    """Cosine; NaN for |x| > 2**30."""
    return _trig_edges(_circular(x, f, 1), x, f)


@_elementwise
def tan(x: Array, f: Format) -> Array:
    """Tangent; NaN for |x| > 2**30."""
    if f is F32:
        q, r = _quadrant32(x)
        s, c = _sin_short(r), _cos_short(r)
        v = np.where(q & 1, -c, s) / np.where(q & 1, s, c)
        return _trig_edges(np.where(x == 0.0, x, v.astype(np.float32)), x, f)
    q, r, rl = _quadrant64(x)
    h = 0.5 * (r * r)
    w = 1.0 - h
    c1 = ((1.0 - w) - h) + _cos_poly(r, rl)
    s1 = _sin_poly(r, rl)
    c = w + c1
    cl = c1 - (c - w)
    s = r + s1
    sl = s1 - (s - r)
    num, num_low = np.where(q & 1, -c, s), np.where(q & 1, -cl, sl)
    den, den_low = np.where(q & 1, s, c), np.where(q & 1, sl, cl)
    v = num / den
    v = v + (num_low - v * den_low) / den
    return _trig_edges(np.where(np.abs(x) < 7.450580596923828e-09, x, v), x, f)


# ---- inverse trigonometric functions -------------------------------------------------


@_elementwise
def asin(x: Array, f: Format) -> Array:
    """Inverse sine; NaN outside [-1, 1]."""
    a = np.abs(x)
    big = a > 0.5
    z = np.where(big, (1.0 - a) * 0.5, a * a)
    s = np.where(big, np.sqrt(z), a)
    t = s * (_horner(f.asin, z) * z)
    w = _HALF_PI - 2.0 * s
    r = np.where(big, w + (((_HALF_PI - w) - 2.0 * s) - (2.0 * t - f.half_pi_low)), s + t)
    return _copysign(r, x)


@_elementwise
def acos(x: Array, f: Format) -> Array:
    """Inverse cosine; NaN outside [-1, 1]."""
    a = np.abs(x)
    big = a > 0.5
    z = np.where(big, (1.0 - a) * 0.5, a * a)
    s = np.where(big, np.sqrt(z), x)
    t = s * (_horner(f.asin, z) * z)
    p = 2.0 * (s + t)
    mid = _HALF_PI - (x - (f.half_pi_low - t))
    far = np.where(x < 0.0, _PI - (p - f.pi_low), p)
    return np.asarray(np.where(big, far, mid))


def _atan_ratio(a: Array, b: Array, f: Format) -> Array:
    steep, mid = a > 2.414213562373095 * b, a > 0.41421356237309503 * b
    num = np.where(steep, -b, np.where(mid, a - b, a))
    den = np.where(steep, a, np.where(mid, a + b, b))
    base = np.where(steep, _HALF_PI, np.where(mid, 0.7853981633974483, 0.0)).astype(f.real)
    rest = np.where(steep, f.half_pi_low, np.where(mid, f.quarter_pi_low, 0.0)).astype(f.real)
    t = num / _choose(den == 0.0, 1.0, den, f)
    z = t * t
    r: Array = base + (t + (t * (z * _horner(f.atan, z)) + rest))
    return r


@_elementwise
def atan(x: Array, f: Format) -> Array:
    """Inverse tangent."""
    return _copysign(_atan_ratio(np.abs(x), np.ones_like(x), f), x)


@_elementwise
def atan2(y: Array, x: Array, f: Format) -> Array:
    """Angle of the point (x, y) in [-pi, pi]; signed zeros as in C, annex F."""
    a, b = np.abs(y), np.abs(x)
    both = (a == np.inf) & (b == np.inf)
    a, b = _choose(both, 1.0, a, f), _choose(both, 1.0, b, f)
    limit = np.asarray(f.huge, f.real)
    factor = _choose((a > limit) | (b > limit), 0.25, 1.0, f)
    r = _atan_ratio(a * factor, b * factor, f)
    return _copysign(np.where(np.signbit(x), _PI - (r - f.pi_low), r), y)


# ---- error function ------------------------------------------------------------------


@_elementwise
def erf(x: Array, f: Format) -> Array:
    """Error function."""
    a = np.abs(x)
    c = _choose(a > f.erf_end, f.erf_end, a, f)
    u = (c - 2.0) / (c + 2.0)
    tail = 1.0 - _exp_times(-(c * c), 0, f) * _horner(f.erfc, u)
    return _copysign(np.where(a < 1.0, a + a * _horner(f.erf, a * a), tail), x)


FUNCTIONS: Final[Mapping[str, Callable[..., Array]]] = MappingProxyType(
    {
        "exp": exp,
        "expm1": expm1,
        "exprel": exprel,
        "log": log,
        "log1p": log1p,
        "log2": log2,
        "log10": log10,
        "pow": power,
        "sqrt": sqrt,
        "tanh": tanh,
        "sigmoid": sigmoid,
        "softplus": softplus,
        "sinh": sinh,
        "cosh": cosh,
        "sin": sin,
        "cos": cos,
        "tan": tan,
        "asin": asin,
        "acos": acos,
        "atan": atan,
        "atan2": atan2,
        "erf": erf,
        "floor": floor,
        "ceil": ceil,
        "round": round_even,
        "abs": absolute,
        "sign": sign,
        "min": minimum,
        "max": maximum,
        "clip": clip,
        "floordiv": floordiv,
        "mod": mod,
    }
)
"""By name in the expression language; `pow`, `floordiv` and `mod` stand for `**`, `//`, `%`."""
