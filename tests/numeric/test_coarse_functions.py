"""Functions of values that are rounded to bf16 (backends/device/math.h), with the units' instructions as the host has
them."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf, expit

from backends.c_family.device_library import select

EXACT = {"exp": np.exp, "sigmoid": expit, "tanh": np.tanh, "erf": erf}
UNITS = {"rcp": "y = 1.0f / x;", "ex2": "y = __builtin_exp2f(x * 1.442695041f);"}
BOUND = 2.0**-17


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("coarse")
    text = select([f"nl_coarse_{name}_f32" for name in EXACT], "cuda")
    for name, instead in UNITS.items():
        text, count = re.subn(rf'asm\("{name}\.approx\.ftz\.f32 [^\n]*', instead, text)
        assert count == 1, name
    loop = "void coarse_{0}(float *x, long many) {{ while (many--) x[many] = nl_coarse_{0}_f32(x[many]); }}"
    loops = map(loop.format, EXACT)
    (folder / "coarse.c").write_text("\n".join(["#include <math.h>", "#define NL_FN static", text, *loops, ""]))
    command = ["cc", "-O1", "-shared", "-fPIC", "coarse.c", "-o", "coarse.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(Path(folder, "coarse.so")))


def of(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    y = x.astype(np.float32)
    getattr(library, f"coarse_{name}")(y.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(y.size))
    return y


@pytest.mark.parametrize("name", EXACT)
def test_errors_are_a_small_part_of_a_place_of_bf16(library: ctypes.CDLL, name: str) -> None:
    near = np.linspace(-8.0, 8.0, 40_001)
    far = np.linspace(-80.0, 80.0, 4_001)
    x = np.concatenate([near, far, np.geomspace(1e-30, 1.0, 1_001), [0.0]]).astype(np.float32)
    exact = EXACT[name](x.astype(np.float64))
    np.testing.assert_allclose(of(library, name, x), exact, rtol=BOUND, atol=1e-37)


@pytest.mark.parametrize("name", EXACT)
def test_arguments_that_are_not_finite(library: ctypes.CDLL, name: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38])
    with np.errstate(over="ignore"):
        exact = EXACT[name](x).astype(np.float32)
    np.testing.assert_array_equal(of(library, name, x), exact)
