"""build: C text -> shared object, through a cache.

Assumes: a C11 compiler that takes gcc's options (gcc, clang, zig cc).
Guarantees: equal text (comments aside), compiler and flags compile once; concurrent builds may use the cache, and a
modified object is recompiled. A failure names the model line of the C line.
Does not: load the object.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from backends.c_family.source_map import refused
from backends.cache import place_of, without_comments
from backends.cpu.emit.emit import Emitted
from backends.protocol import Artifact, BackendError
from compiler.core.cache import find_files, keep_files
from compiler.core.diagnostics import RunError
from compiler.core.disk import scratch_folder, unwritable, write_text
from compiler.core.source import Span

_NO_ROOM: Final = MappingProxyType(
    {
        errno.ENOSPC: ("No space left on device", "no space left on device"),
        errno.EDQUOT: ("Disk quota exceeded", "disk quota exceeded"),
        errno.EFBIG: ("File too large", "file too large", "File size limit exceeded"),
    }
)
FLAGS = ("-O3", "-std=c11", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
SHARED: Final = "\nNL_SHARED "
"""How the definition of a shared function begins."""


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C, and the first line of its version text."""

    command: tuple[str, ...]
    version: str

    def __str__(self) -> str:
        return f"{' '.join(self.command)} ({self.version})"


def find_compiler() -> Compiler:
    """$CC, cc, gcc, clang, or the `ziglang` package. Raises BackendError (E0901, exit 3) when there is none."""
    wanted = shlex.split(os.environ.get("CC", ""))
    if wanted:
        path = shutil.which(wanted[0])
        if path is None:
            raise BackendError(
                "E0901", f"the C compiler `{wanted[0]}` that $CC names was not found", "correct or unset CC"
            )
        return _described((path, *wanted[1:]))
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return _described((path,))
    if importlib.util.find_spec("ziglang") is not None:
        return _described((sys.executable, "-m", "ziglang", "cc"))
    raise BackendError(
        "E0901",
        "no C compiler was found ($CC, cc, gcc, clang)",
        "install gcc or clang, or the Python package `ziglang`, or name a compiler in CC",
    )


@cache
def _described(command: tuple[str, ...]) -> Compiler:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError as e:
        raise BackendError("E0901", f"the C compiler `{command[0]}` does not start: {e}") from None
    said = (done.stdout or done.stderr).strip().split("\n")[0]
    if done.returncode != 0:
        raise BackendError("E0901", f"`{' '.join(command)}` is not a C compiler", said)
    return Compiler(command, said)


def flags(fixed_order: bool, portable: bool, text: str = "") -> tuple[str, ...]:
    """The options of a build; bitwise order forbids contraction of a*b+c (FMA). Where functions are shared by loops
    (backends/cpu/kernels/shared_functions.py), gcc must not move a call into the branch of a condition that alone needs
    it (for neurons that are not refractory): it has no masked form of the function, and would not vectorise the loop.
    """
    native = () if portable else ("-march=native",)
    wide = () if portable or platform.machine() not in ("x86_64", "AMD64") else ("-mprefer-vector-width=512",)
    called = ("-fno-tree-sink",) if SHARED in text else ()
    return (*FLAGS, *native, *wide, *called, f"-ffp-contract={'off' if fixed_order else 'fast'}")


def _native_key(options: tuple[str, ...]) -> str:
    """The meaning of `-march=native` on this machine, so that a cache on a shared disk serves several kinds of
    machines."""
    if "-march=native" not in options:
        return platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith(("flags", "Features")):
                return f"{platform.machine()} {line}"
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()}"


def compile_text(emitted: Emitted, name: str, fixed_order: bool, portable: bool) -> Artifact:
    """The shared object of a text, from the cache if present."""
    compiler = find_compiler()
    options = flags(fixed_order, portable, emitted.text)
    texts = map(without_comments, (emitted.text, emitted.header))
    key, index = place_of("cpu", *texts, str(compiler), " ".join(options), _native_key(options))
    seconds = 0.0
    found = find_files(index)
    compiled = found is None
    if found is None:
        found, seconds = compile_library(emitted, name, compiler, options, index)
    return Artifact(emitted.text, found[".so"], key, compiled, str(compiler), options, seconds, kernels=emitted.kernels)


def compile_library(
    emitted: Emitted, name: str, compiler: Compiler, options: tuple[str, ...], index: Path
) -> tuple[dict[str, Path], float]:
    """Compile into the cache; the CPU seconds are those of the compiler and its children."""
    with scratch_folder(index, "compiled code") as scratch:
        folder = scratch.path
        source = folder / f"{name}.c"
        write_text(source, emitted.text, "generated code")
        write_text(folder / "netloom.h", emitted.header, "generated code")
        built = folder / "module.so"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code, said = _run([*compiler.command, *options, source.name, "-o", built.name], folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if code != 0:
            raise _failure(said, source.name, emitted.spans, compiler, folder)
        placed = keep_files(index, {".so": built})
    return placed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: list[str], folder: Path) -> tuple[int, str]:
    """The exit code and output of a compiler. It runs in its own process group, which is killed as a whole when a
    signal ends this build: `cc` spawns the processes that do the work."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            out, error = process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, error or out


def _failure(
    said: str, source: str, spans: Mapping[int, Span], compiler: Compiler, folder: Path
) -> BackendError | RunError:
    """The compiler's error, and the model line of the C line, if any; E0930 where it could not write."""
    for number, texts in _NO_ROOM.items():
        if any(text in said for text in texts):
            full = OSError(number, os.strerror(number))
            help = f"compilers also write to {tempfile.gettempdir()} (TMPDIR)"
            return unwritable(full, folder, "compiled code", help=help)
    error = rf"{re.escape(source)}:(\d+):\d+: (?:fatal )?error"
    return refused(f"the C compiler {compiler.command[0]}", said, error, spans)
