"""compile: CUDA text -> cubin (and PTX where asked for), through a cache. No GPU is needed.

Assumes: NVRTC 12 or later, from the package `nvidia-cuda-nvrtc` or a CUDA toolkit; else `nvcc`.
Guarantees: equal text (comments aside), compiler, flags and architecture compile once; concurrent builds may use the
cache, and modified code is recompiled. The parts of a text are compiled in parallel, and so are machine code and PTX of
those on matrix units, which are for different architectures. Code that is to run elsewhere is accompanied by its PTX,
which the driver of a later architecture can compile. A failure names the model line of the line of the text.
Does not: need or load PyCUDA; load the compiled code.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from backends.c_family.source_map import refused
from backends.cache import place_of, without_comments
from backends.cuda.device.library import Library
from backends.cuda.emit.emit import Emitted
from backends.protocol import Artifact, BackendError
from compiler.core.cache import find_files, keep_files
from compiler.core.disk import scratch_folder, write_bytes, write_text
from compiler.core.source import Span

DEFAULT_ARCH: Final = "sm_80"
"""What is compiled for where there is no device and none is named."""
_LIBRARIES: Final = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll")


_ARCH: Final = "--gpu-architecture="
_CODE: Final = "compiled code"
CUBIN: Final = ".cubin"
PTX: Final = ".ptx"
_FEATURES: Final = {"sm_90": "sm_90a"}
"""What kernels on matrix units are compiled for: their instructions are not those of later architectures."""
_MATRIX_UNITS: Final = 80
"""The first architecture whose matrix units take bf16 and tf32."""

_QUICKLY: Final = "--Ofast-compile=mid"
"""Half the time, for kernels whose loops need no unrolling by the compiler."""
_QUICKLY_FROM: Final = (12, 9)


@dataclass(frozen=True)
class Compiler:
    """NVRTC (`library`) or nvcc (`command`)."""

    library: str | None
    command: str | None
    version: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers."""
        return tuple(int(n) for n in re.findall(r"\d+", self.version)[:2])

    def __str__(self) -> str:
        return f"NVRTC {self.version} ({self.library})" if self.library else f"{self.command} ({self.version})"


def flags(fixed_order: bool, arch: str) -> tuple[str, ...]:
    """The options of a build; denormals are flushed as on the CPU; bitwise order forbids contraction of a*b+c (FMA)."""
    return (
        _ARCH + arch,
        "--std=c++17",
        "--ftz=true",
        "--prec-div=true",
        "--prec-sqrt=true",
        f"--fmad={'false' if fixed_order else 'true'}",
    )


# --------------------------------------------------------------------------------------------- finding


def _folders() -> Iterator[Path]:
    """Folders to search for NVRTC: packages first, then toolkits."""
    for package in ("nvidia.cu13", "nvidia.cuda_nvrtc"):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for place in spec.submodule_search_locations or () if spec else ():
            yield Path(place) / "lib"
            yield Path(place) / "bin"
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            yield Path(root) / "lib64"
            yield Path(root) / "bin"


def _open(path: str) -> ctypes.CDLL | None:
    """NVRTC with its builtins library in the same folder, which it looks up by name alone."""
    try:
        for own in sorted(Path(path).parent.glob("*nvrtc-builtins*")) if Path(path).is_absolute() else ():
            ctypes.CDLL(str(own))
        return ctypes.CDLL(path)
    except OSError:
        return None


def _nvrtc_version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


@cache
def find_compiler() -> Compiler:
    """NVRTC, or nvcc. Raises BackendError (E0921, exit 3) when there is neither."""
    for folder in _folders():
        for name in _LIBRARIES:
            path = folder / name
            if path.is_file() and (library := _open(str(path))) is not None:
                return Compiler(str(path), None, "{}.{}".format(*_nvrtc_version(library)))
    for name in _LIBRARIES:
        if (library := _open(name)) is not None:
            return Compiler(name, None, "{}.{}".format(*_nvrtc_version(library)))
    for candidate in (*_toolkit_nvcc(), shutil.which("nvcc")):
        if candidate and Path(candidate).is_file():
            done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False, timeout=60)
            found = re.search(r"release (\d+\.\d+)", done.stdout)
            if done.returncode == 0 and found:
                return Compiler(None, candidate, f"nvcc {found[1]}")
    raise BackendError(
        "E0921",
        "no CUDA compiler was found (NVRTC, nvcc)",
        "pip install 'netloom[cuda]', or install the CUDA toolkit and set CUDA_HOME",
    )


def _toolkit_nvcc() -> tuple[str, ...]:
    return tuple(f"{root}/bin/nvcc" for n in ("CUDA_HOME", "CUDA_PATH") if (root := os.environ.get(n)))


def default_arch(device: int = 0) -> str:
    """The architecture of a device, or DEFAULT_ARCH where there is none."""
    try:
        return Library().architecture(device)
    except BackendError:
        return DEFAULT_ARCH


# ----------------------------------------------------------------------------------------- compiling


def compile_text(emitted: Emitted, name: str, fixed_order: bool, arch: str, elsewhere: bool = True) -> Artifact:
    """The cubins of a text or of its parts, from the cache if present. `elsewhere`: devices of later architectures may
    load it, too: the PTX of each is beside it (.ptx). Raises BackendError: E0921 without a compiler, E0902 when it
    refuses, E0922 for an unknown architecture."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise BackendError("E0922", f"`{arch}` is not an architecture", "write it as sm_90", exit_code=2)
    compiler = find_compiler()
    options = flags(fixed_order, arch)
    if compiler.library is not None:
        options += ("--device-as-default-execution-space",)  # older NVRTC takes generic lambdas for host functions
    kinds = (CUBIN, PTX) if elsewhere else (CUBIN,)
    begin = _cpu_seconds()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None) as threads:
        parts = emitted.parts or (emitted,)
        first = sorted(parts, key=_work, reverse=True)  # longest first, for an even load
        jobs = {x.name: threads.submit(_part, x, name, compiler, options, kinds) for x in first}
    found = [jobs[x.name].result() for x in parts]
    compiled = any(made for *_, made in found)
    seconds = _cpu_seconds() - begin if compiled else 0.0
    binary, *beside = (path for path, *_ in found)
    return Artifact(
        emitted.text, binary, found[0][1], compiled, str(compiler), options, seconds, tuple(beside), emitted.kernels
    )


def _work(part: Emitted) -> float:
    """Estimated compile time of a part: one that needs little optimisation takes half as long."""
    return len(part.text) * (0.5 if part.quick else 1.0)


def _cpu_seconds() -> float:
    """CPU seconds of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _part(
    part: Emitted, name: str, compiler: Compiler, options: tuple[str, ...], kinds: tuple[str, ...]
) -> tuple[Path, str, bool]:
    """The path of the cubin of one text, its key, and whether it was compiled now."""
    if part.tensor:
        _check_units(options[0])
    if part.quick and compiler.library is not None and compiler.release >= _QUICKLY_FROM:
        options += (_QUICKLY,)
    words = (str(compiler), " ".join(options), *kinds, *(("matrix units",) if part.tensor else ()))
    key, index = place_of("cuda", without_comments(part.text), *words)
    if (placed := find_files(index)) is not None:
        return placed[CUBIN], key, False
    source = f"{name}_{part.name}.cu" if part.name else f"{name}.cu"
    with scratch_folder(index, "compiled code") as scratch:
        if compiler.library is not None:
            _by_nvrtc(part, source, compiler, options, kinds, scratch.path)
        else:
            _by_nvcc(part, source, compiler, options, kinds, scratch.path)
        placed = keep_files(index, {kind: scratch.path / f"module{kind}" for kind in kinds})
    return placed[CUBIN], key, True


def _by_nvrtc(
    part: Emitted, source: str, compiler: Compiler, options: tuple[str, ...], kinds: tuple[str, ...], out: Path
) -> None:
    library = _open(compiler.library or "")
    assert library is not None, compiler.library
    library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(function: str, *arguments: object) -> None:
        status = getattr(library, function)(*arguments)
        if status != 0:
            said = library.nvrtcGetErrorString(status).decode()
            raise BackendError("E0902", f"{function} failed: {said}")

    def get(program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def compiled(given: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        program = ctypes.c_void_p()
        call("nvrtcCreateProgram", ctypes.byref(program), part.text.encode(), source.encode(), 0, None, None)
        try:
            words = (ctypes.c_char_p * len(given))(*(o.encode() for o in given))
            if library.nvrtcCompileProgram(program, len(given), words) != 0:
                raise _failure(
                    get(program, "ProgramLog").rstrip(b"\0").decode(errors="replace"), source, part.spans, compiler
                )
            for kind in kinds:
                code = get(program, kind[1:].upper())
                write_bytes(out / f"module{kind}", code if kind == CUBIN else code.rstrip(b"\0"), _CODE)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    targets = _targets(part, options[0])
    if targets[CUBIN] == options[0]:
        compiled(options, kinds)
    else:
        with ThreadPoolExecutor(2) as threads:
            jobs = [threads.submit(compiled, (targets[kind], *options[1:]), (kind,)) for kind in kinds]
        for job in jobs:
            job.result()


def _check_units(option: str) -> None:
    arch = option.removeprefix(_ARCH)
    found = re.search(r"\d+", arch)
    if found is not None and int(found[0]) < _MATRIX_UNITS:
        raise BackendError(
            "E0922",
            f"{arch} has no matrix units for the products of this model",
            "`numerics: {products: exact, precision: float32}` multiplies without them",
        )


def _targets(part: Emitted, option: str) -> dict[str, str]:
    """The architecture options of the machine code of a part, and of its PTX for later architectures."""
    arch = option.removeprefix(_ARCH)
    own = _FEATURES.get(arch, arch) if part.tensor else arch
    return {CUBIN: _ARCH + own, PTX: option.replace("sm_", "compute_")}


def _by_nvcc(
    part: Emitted, source: str, compiler: Compiler, options: tuple[str, ...], kinds: tuple[str, ...], out: Path
) -> None:
    write_text(out / source, part.text, "generated code")
    targets = _targets(part, options[0])
    for kind in kinds:
        command = [compiler.command or "nvcc", f"--{kind[1:]}", targets[kind], *options[1:], source]
        command += ["-o", f"module{kind}"]
        done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise _failure(done.stderr or done.stdout, source, part.spans, compiler)


def _failure(said: str, source: str, spans: Mapping[int, Span], compiler: Compiler) -> BackendError:
    """The compiler's error, and the model line of the line of the text, if any."""
    if ("gpu-architecture" in said and "invalid value" in said) or "Unsupported gpu architecture" in said:
        return BackendError(
            "E0922",
            f"{compiler} does not know this architecture: {said.strip().splitlines()[0]}",
            "name another one with --arch, or install a newer CUDA toolkit",
        )
    error = rf"{re.escape(source)}\((\d+)\): (?:catastrophic )?error"
    return refused("the CUDA compiler", said, error, spans)


# -------------------------------------------------------------------------------------------- doctor


def doctor() -> tuple[tuple[str, str], ...]:
    """(what, finding) lines for `netloom doctor`."""
    lines: list[tuple[str, str]] = []
    try:
        lines.append(("CUDA compiler", str(find_compiler())))
    except BackendError as e:
        lines.append(("CUDA compiler", f"{e.message}; {e.help}"))
    try:
        driver = Library()
        lines.append(("CUDA driver", f"CUDA {driver.version()}"))
        lines += [(f"GPU {n}", text) for n, text in enumerate(driver.describe())]
    except BackendError as e:
        lines.append(("CUDA driver", e.message))
    return tuple(lines)
