"""The texts of backends/device as a shared object: one loop per function, called by ctypes.

Assumes: a C compiler that understands GCC's flags.
Guarantees: built at -O3 with vector code, so what is tested is what the CPU backend runs.
Does not: time anything.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.device import source
from compiler.core.cache import cache_folder

TYPES = {
    "float": np.float32,
    "double": np.float64,
    "nl_i32": np.int32,
    "nl_i64": np.int64,
    "nl_u32": np.uint32,
    "nl_u64": np.uint64,
}
FLAGS = ("-O3", "-std=c11", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Signature:
    name: str  # without nl_
    result: str
    arguments: tuple[str, ...]


def signatures(text: str) -> list[Signature]:
    """The public functions of a device text whose arguments are all passed by value, without those of CUDA alone."""
    found = []
    text = re.sub(r"(?s)#if defined\(__CUDACC__\)\n.*?#else\n", "", text)
    for result, name, rest in re.findall(r"^NL_FN (\w+) nl_([a-z]\w*)\(([^)]*)\)", text, re.MULTILINE):
        arguments = tuple(a.split()[0] for a in rest.split(","))
        if not set("[*") & set(rest) and Signature(name, result, arguments) not in found:
            found.append(Signature(name, result, arguments))
    return found


def _loop(s: Signature) -> str:
    formals = "".join(f"const {t} *restrict a{i}, " for i, t in enumerate(s.arguments))
    actuals = ", ".join(f"a{i}[j]" for i in range(len(s.arguments)))
    return (
        f"void run_{s.name}({formals}{s.result} *restrict out, long n) {{\n"
        f"    for (long j = 0; j < n; ++j) out[j] = nl_{s.name}({actuals});\n}}\n"
    )


def program(without: frozenset[str] = frozenset()) -> str:
    """One C file with both texts and a loop per function, but for those that a target defines elsewhere."""
    texts = source("math") + source("philox")
    words = (
        "void run_philox(const nl_u32 *c, nl_u64 key, nl_u32 *out) {\n"
        "    nl_philox(c[0], c[1], c[2], c[3], key, out);\n}\n"
    )
    return texts + words + "".join(_loop(s) for s in signatures(texts) if s.name not in without)


def build(cc: list[str], folder: Path, *more: str) -> DeviceLibrary:
    """Compiles `program()` with FLAGS and `more` in `folder`, once a run of the tests: the result is in their cache."""
    code, library = folder / "device.c", folder / "device.so"
    code.write_text(program(), encoding="utf-8")
    command = [*cc, *FLAGS, *more, "-shared", "-fPIC"]
    kept = cache_folder() / f"device-{sha256(repr((command, program())).encode()).hexdigest()}.so"
    if not kept.exists():
        done = subprocess.run(
            [*command, "-o", str(library), str(code), "-lm"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        library.replace(kept)
    return DeviceLibrary(ctypes.CDLL(str(kept)))


class DeviceLibrary:
    """`library("exp_f32", x)`: the C function over arrays (scalars are repeated)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        texts = source("math") + source("philox")
        self.signatures = {s.name: s for s in signatures(texts)}

    def __call__(self, name: str, *arguments: Any) -> NDArray[Any]:
        s = self.signatures[name]
        arrays = np.broadcast_arrays(*(np.asarray(a, TYPES[t]) for a, t in zip(arguments, s.arguments, strict=True)))
        arrays = [np.ascontiguousarray(a) for a in arrays]
        out = np.empty(arrays[0].shape, TYPES[s.result])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in [*arrays, out]]
        getattr(self.library, f"run_{name}")(*pointers, ctypes.c_long(out.size))
        return out

    def philox(self, counter: list[int], key: int) -> list[int]:
        c, out = np.array(counter, np.uint32), np.empty(4, np.uint32)
        self.library.run_philox(ctypes.c_void_p(c.ctypes.data), ctypes.c_uint64(key), ctypes.c_void_p(out.ctypes.data))
        return [int(w) for w in out]


def not_vectorized(cc: list[str], folder: Path, *more: str) -> set[str]:
    """Names of the functions whose loop GCC compiles to scalar code."""
    code = folder / "device.c"
    code.write_text(program(), encoding="utf-8")
    report = "-fopt-info-vec-optimized"
    command = [*cc, *FLAGS, *more, report, "-c", "-o", str(folder / "device.o"), str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    good = {int(n) for n in re.findall(r":(\d+):\d+: optimized: loop vectorized", done.stderr)}
    lines = program().split("\n")
    loops = {n: line for n, line in enumerate(lines, 1) if line.startswith("    for (long j")}
    return {match[1] for n, line in loops.items() if n not in good and (match := re.search(r"= nl_(\w+)", line))}
