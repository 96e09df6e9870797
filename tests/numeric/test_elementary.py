"""Elementary functions: accuracy against long double, special values, C against numpy."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import Emitted
from backends.device import source
from backends.device.c_text import c_functions, printed
from backends.reference.elementary import FUNCTIONS
from tests.grids import slow
from tests.numeric.device_library import DeviceLibrary, build, not_vectorized, program

Array = NDArray[Any]
L = np.longdouble

# Largest error seen, rounded up, in units in the last place: (float32, float64).
BOUNDS = {
    "exp": (0.9, 0.9),
    "expm1": (1.2, 1.2),
    "exprel": (1.9, 1.9),
    "log": (0.85, 0.85),
    "log1p": (0.85, 0.85),
    "log2": (0.85, 0.85),
    "log10": (0.75, 0.75),
    "pow": (0.55, 1.5),
    "tanh": (1.65, 1.4),
    "sigmoid": (1.65, 1.65),
    "softplus": (1.7, 1.7),
    "sinh": (1.75, 1.75),
    "cosh": (1.4, 1.4),
    "sin": (0.55, 0.9),
    "cos": (0.55, 0.9),
    "tan": (0.55, 1.5),
    "asin": (1.25, 1.25),
    "acos": (1.3, 1.3),
    "atan": (2.0, 2.0),
    "atan2": (2.0, 2.0),
    "erf": (1.1, 1.1),
    "sqrt": (0.5, 0.5),
}


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _erf(x: Array) -> Array:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.erfl.restype, libm.erfl.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble]
    # ctypes passes a Python float, so this is exact for float32 and float64 arguments only; it
    # returns one too, so what erfl lost in double is at most half an ulp of float64
    return np.array([libm.erfl(float(v)) for v in x], L)


EXACT: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "exprel": lambda x: np.where(x == 0, 1, np.where(x == np.inf, x, np.expm1(x) / x)),
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "pow": np.power,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "erf": _erf,
    "sqrt": np.sqrt,
}
TYPES = (np.float32, np.float64)
SUFFIX = {np.float32: "f32", np.float64: "f64"}
BINARY = ("pow", "atan2", "min", "max", "floordiv", "mod")


@pytest.fixture(scope="module")
def library(cc: list[str], tmp_path_factory: pytest.TempPathFactory) -> DeviceLibrary:
    return build(cc, tmp_path_factory.mktemp("device"), "-march=native", "-ffp-contract=off")


def specials(dtype: type) -> Array:
    """Signed zeros, denormals, the ends of the range, infinities, NaN, whole and half numbers."""
    f = np.finfo(dtype)
    ends = [0.0, f.smallest_subnormal, 3 * f.smallest_subnormal, f.tiny / 2, f.tiny, f.eps, f.max]
    whole = [0.25, 0.5, 0.625, 0.75, 1, 1.5, 2, 2.5, 3, 10, 100, 2.0**23 + 1, 2.0**30, 1e30]
    limits = [87.3, 88.72, 88.73, 93.2, 93.3, 103.9, 709.78, 709.79, 716.3, 716.4, 745.1, np.inf]
    one = [1 - f.epsneg, 1 + f.eps, np.pi / 4, np.pi / 2, np.pi, np.sqrt(0.5), np.sqrt(2.0)]
    x = np.array([*ends, *whole, *limits, *one], dtype)
    return np.concatenate([x, -x, np.array([np.nan], dtype)])


def samples(dtype: type, count: int, seed: int) -> Array:
    """Any bits, any magnitude around 1, and the ranges where functions do something."""
    rng = np.random.default_rng(seed)
    n = count // 4
    word = np.uint32 if dtype == np.float32 else np.uint64
    bits = rng.integers(0, np.iinfo(word).max, n, dtype=word).view(dtype)
    sign = rng.choice([-1.0, 1.0], n)
    spread = sign * 10.0 ** rng.uniform(-10, 5 if dtype == np.float32 else 9, n)
    exponents = rng.uniform(-110, 100, n) if dtype == np.float32 else rng.uniform(-760, 730, n)
    parts = [bits, spread, exponents, rng.uniform(-3, 3, count - 3 * n), specials(dtype)]
    return np.concatenate([p.astype(dtype) for p in parts])


def arguments(name: str, dtype: type, count: int) -> list[Array]:
    x = samples(dtype, count, 1)
    if name == "clip":
        return [x, x[::-1].copy(), np.roll(x, 7)]
    if name not in BINARY:
        return [x]
    y = np.random.default_rng(3).permutation(x)
    if name == "pow":  # results of every size, and every special value with every other
        near = np.abs(np.random.default_rng(4).normal(1, 0.5, len(x))).astype(dtype)
        x = np.where(np.arange(len(x)) % 2 == 0, x, near)
        with np.errstate(all="ignore"):
            span = np.random.default_rng(5).uniform(-1, 1, len(x)) * np.log(np.finfo(dtype).max)
            fitting = (span / np.log(np.abs(x.astype(np.float64)))).astype(dtype)
        y = np.where(np.arange(len(x)) % 8 < 6, fitting, y)
    a, b = np.meshgrid(specials(dtype), specials(dtype))
    return [np.concatenate([x, a.ravel()]), np.concatenate([y, b.ravel()])]


def ulps(got: Array, exact: Array) -> Array:
    """|got - exact| in units of the last place of `exact` in got's type; 0 where both are NaN, and
    where exact rounds to the infinity that was got."""
    f = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(exact))[1]
        unit = np.ldexp(L(1), np.maximum(exponent - f.nmant - 1, f.minexp - f.nmant))
        error = np.abs(got.astype(L) - exact) / unit
        same = (got == exact.astype(got.dtype)) & np.isinf(got)
    same |= np.isnan(got) & np.isnan(exact)
    error = np.where(same, 0, error)
    return np.where(np.isnan(error), np.inf, error)


def defined(name: str, x: list[Array]) -> list[Array]:
    """Arguments without those outside the documented domain (angles beyond 2**30)."""
    if name in ("sin", "cos", "tan"):
        return [x[0][~(np.abs(x[0]) > 2.0**30)]]
    return x


long_double = pytest.mark.skipif(np.finfo(L).nmant < 63, reason="only on x86-64 is long double longer than double")


@long_double
@pytest.mark.parametrize("dtype", TYPES, ids=SUFFIX.values())
@pytest.mark.parametrize("name", BOUNDS)
def test_accuracy(name: str, dtype: type) -> None:
    bound = BOUNDS[name][TYPES.index(dtype)]
    count = 20_000 if name == "erf" else 100_000
    x = defined(name, arguments(name, dtype, count))
    got = FUNCTIONS[name](*x)
    with np.errstate(all="ignore"):
        error = ulps(got, EXACT[name](*(v.astype(L) for v in x)))
    if name == "erf" and dtype == np.float64:
        bound += 0.5
    worst = int(np.argmax(error))
    where = [float(v[worst]).hex() for v in x]
    assert got.dtype == dtype
    assert error[worst] <= bound, f"{name}({where}): {float(error[worst]):.3f} ulp"


@pytest.mark.parametrize("dtype", TYPES, ids=SUFFIX.values())
@pytest.mark.parametrize("count", [100_000, *slow(1_000_000)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_c_and_numpy_agree_by_bits(name: str, count: int, dtype: type, library: DeviceLibrary) -> None:
    x = arguments(name, dtype, count)
    c = library(f"{name}_{SUFFIX[dtype]}", *x)
    mirror = FUNCTIONS[name](*x)
    word = np.uint32 if dtype == np.float32 else np.uint64
    differ = (c.view(word) != mirror.view(word)) & ~(np.isnan(c) & np.isnan(mirror))
    first = int(np.argmax(differ))
    assert not differ.any(), (
        f"{int(differ.sum())} differ, first at {[float(v[first]).hex() for v in x]}: "
        f"C {float(c[first]).hex()}, numpy {float(mirror[first]).hex()}"
    )


@long_double
@pytest.mark.parametrize("dtype", TYPES, ids=SUFFIX.values())
def test_contraction_breaks_nothing(dtype: type, cc: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """With a*b+c contracted the bits may differ, the bounds hold (plus a rounding)."""
    fused = build(cc, tmp_path_factory.mktemp("fused"), "-march=native", "-ffp-contract=fast")
    for name in BOUNDS:
        if name == "erf":
            continue  # its reference is slow, and nothing in it depends on contraction
        x = defined(name, arguments(name, dtype, 40_000))
        with np.errstate(all="ignore"):
            error = ulps(fused(f"{name}_{SUFFIX[dtype]}", *x), EXACT[name](*(v.astype(L) for v in x)))
        assert error.max() <= 2.0, f"{name}: {float(error.max()):.3f} ulp"


def test_signed_zeros_and_edges() -> None:
    for dtype in TYPES:
        zero = np.array([-0.0], dtype)
        for name in ("expm1", "log1p", "tanh", "sinh", "sin", "tan", "asin", "atan", "erf"):
            r = FUNCTIONS[name](zero)
            assert r[0] == 0 and np.signbit(r[0]), name
        far = np.array([2.0**31], dtype)
        assert all(np.isnan(FUNCTIONS[n](far)[0]) for n in ("sin", "cos", "tan"))
        assert FUNCTIONS["exprel"](zero)[0] == 1
        nan, one = np.array([np.nan], dtype), np.ones(1, dtype)
        for name in ("min", "max"):
            assert np.isnan(FUNCTIONS[name](nan, one)[0]) and np.isnan(FUNCTIONS[name](one, nan)[0])
        assert FUNCTIONS["clip"](one, one * 3, one * 2)[0] == 2  # lo > hi: hi
        np.testing.assert_array_equal(
            FUNCTIONS["round"](np.array([0.5, 1.5, 2.5, -0.5, -3.5], dtype)), [0, 2, 2, -0.0, -4]
        )
        sign = FUNCTIONS["sign"](np.array([-2, -0.0, 5, np.inf], dtype))
        np.testing.assert_array_equal(sign, [-1, 0, 1, 1])


def test_pow_special_cases_are_those_of_c() -> None:
    for dtype in TYPES:
        x, y = (v.ravel() for v in np.meshgrid(specials(dtype), specials(dtype)))
        with np.errstate(all="ignore"):
            long = np.power(x.astype(L), y.astype(L))
            exact = long.astype(dtype)
        special = ~np.isfinite(exact) | (exact == 0) | (long == 1)
        got = FUNCTIONS["pow"](x, y)
        np.testing.assert_array_equal(got[special], exact[special])
        np.testing.assert_array_equal(np.signbit(got[exact == 0]), np.signbit(exact[exact == 0]))


@pytest.mark.parametrize("bits", [32, 64])
def test_whole_number_division_is_python_s(bits: int, library: DeviceLibrary) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(-50, 50, (2, 10_000))
    y = np.where(y == 0, 7, y)
    for name, of_numpy in (("floordiv", np.floor_divide), ("mod", np.mod)):
        np.testing.assert_array_equal(library(f"{name}_i{bits}", x, y), of_numpy(x, y))
        np.testing.assert_array_equal(FUNCTIONS[name](x, y), of_numpy(x, y))


def test_shapes_scalars_and_refusal() -> None:
    assert FUNCTIONS["exp"](np.zeros((2, 3), np.float32)).shape == (2, 3)
    assert FUNCTIONS["exp"](0.0).shape == ()
    mixed = FUNCTIONS["pow"](np.full((4, 1), 3, np.float32), np.full((1, 5), 2, np.float32))
    assert mixed.shape == (4, 5) and mixed.dtype == np.float32 and (mixed == 9).all()
    assert FUNCTIONS["exp"](np.zeros(0)).shape == (0,)
    with pytest.raises(TypeError, match="exp takes float32 or float64, not int64"):
        FUNCTIONS["exp"](np.zeros(3, np.int64))


def test_texts_stand_alone() -> None:
    for name in ("math", "philox"):
        assert "#include" not in source(name)
    assert c_functions() == printed()
    with pytest.raises(FileNotFoundError):
        source("nothing")  # type: ignore[arg-type]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only on x86-64, whose code it looks at")
@pytest.mark.parametrize("contract", ["off", *slow("fast")])
def test_loops_become_vector_code(contract: str, cc: list[str], tmp_path: Path) -> None:
    """All but whole-number division (no vector instruction) and the rejection loops of counts."""
    version = subprocess.run([*cc, "--version"], capture_output=True, text=True, check=True).stdout
    if "Free Software Foundation" not in version:
        pytest.skip("only with GCC, whose report it reads")
    flags = ("-march=x86-64-v3", f"-ffp-contract={contract}")
    divisions = {f"{n}_i{b}" for n in ("floordiv", "mod") for b in (32, 64)}
    assert not_vectorized(cc, tmp_path, *flags) == divisions | {
        f"{x}_f{b}" for x in ("poisson", "binomial") for b in (32, 64)
    }


@pytest.mark.nvrtc
def test_compiles_as_cuda(tmp_path: Path) -> None:
    """Every function in a kernel; without a warning too, where a toolkit says so."""
    text = program(frozenset({"bf16_f32"}))  # of the frame of CUDA texts, with the type
    text = text.replace("void run_", "__global__ void run_").replace("restrict", "__restrict__")
    assert compile_text(Emitted(text, {}), "device", True, "sm_90").binary.read_bytes().startswith(b"\x7fELF")
    if shutil.which("nvcc") is None:
        return
    (tmp_path / "device.cu").write_text(text, encoding="utf-8")
    flags = ["-std=c++17", "-arch=sm_90", "--fmad=false", "-Werror", "all-warnings"]
    command = ["nvcc", *flags, "-c", "device.cu", "-o", "device.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compiles_without_vector_instructions(cc: list[str], tmp_path: Path) -> None:
    x = samples(np.float64, 1000, 9)
    plain = build(cc, tmp_path, "-pedantic", "-ffp-contract=off")
    np.testing.assert_array_equal(plain("exp_f64", x), FUNCTIONS["exp"](x))
