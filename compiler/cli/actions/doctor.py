"""`netloom doctor`: what is installed.

Assumes: nothing is installed beyond what starting takes.
Guarantees: looking changes nothing outside of the cache, which keeps what OpenCL devices can do.
Does not: install or repair anything.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import typer

from backends.protocol import BackendError
from backends.registry import TARGETS, Target
from compiler.core.version import VERSION

NEEDED = ("numpy", "scipy", "PyYAML", "jinja2", "jsonschema", "pint", "h5py", "safetensors", "typer", "rich")
OPTIONAL = {
    "matplotlib": "plots (extra `plot`)",
    "pycuda": "the target cuda (extra `cuda`)",
    "nvidia-cuda-nvrtc": "compiling CUDA (extra `cuda`)",
    "pyopencl": "the target opencl (extra `opencl`)",
    "onnx": "ONNX files (extra `onnx`)",
    "ziglang": "a C compiler from the package index",
}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _said(command: str) -> str:
    """The first line of `command --version`."""
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not start: {error}"
    return (done.stdout or done.stderr).strip().split("\n")[0]


def examine() -> int:
    """Print what there is; the exit code is 3 when something that is needed is missing."""
    from backends.cpu.emit.build import find_compiler
    from compiler.core.cache import cache_folder
    from compiler.runtime.artifacts.checkpoint import unfinished, whole_checkpoints

    good = True
    _line("netloom", VERSION)
    _line("python", f"{platform.python_version()} ({sys.executable})")
    _line("system", f"{platform.platform()}, {os.cpu_count()} cores")
    typer.echo("\nC compilers")
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        _line(name, f"{_said(path)} ({path})" if path else "not found")
    if os.environ.get("CC"):
        _line("$CC", os.environ["CC"])
    try:
        _line("used", str(find_compiler()))
    except BackendError as error:
        good = False
        _line("used", f"NONE: {error.message}" + (f"; {error.help}" if error.help else ""))
    typer.echo("\nCUDA")
    for what, finding in cuda_lines():
        _line(what, finding)
    typer.echo("\nOpenCL")
    for what, finding in opencl_lines():
        _line(what, finding)
    typer.echo("\ntargets")
    for target in TARGETS.values():
        _line(target.name, state_of(target))
    typer.echo("\npackages")
    for package in NEEDED:
        version = _version(package)
        good &= version is not None
        _line(package, version or "MISSING")
    for package, use in OPTIONAL.items():
        _line(package, _version(package) or f"not installed; for {use}")
    typer.echo("\nfolders")
    cache = cache_folder()
    size = sum(p.stat().st_size for p in cache.rglob("*") if p.is_file()) if cache.is_dir() else 0
    _line("cache", f"{cache} ({size / 1e6:.1f} MB)")
    if not _writable(cache):
        good = False
        _line("", "the cache CANNOT be written: set NETLOOM_CACHE to another folder")
    for folder in unfinished(Path("runs")):
        last = whole_checkpoints(folder)
        how = f"`netloom run MODEL --resume {folder}` goes on from {last[-1].stem}" if last else "without a checkpoint"
        _line("unfinished run", f"{folder} (it runs, or was killed): {how}")
    typer.echo("\n" + ("everything that is needed is there" if good else "something that is needed is missing"))
    return 0 if good else 3


def state_of(target: Target) -> str:
    """ "ready", or what a target lacks on this machine."""
    from backends.cpu.emit.build import find_compiler

    if (missing := target.missing()) is not None:
        return missing
    try:
        if target.name == "cpu":
            find_compiler()
        if target.name == "cuda":
            from backends.cuda.device.library import Library
            from backends.cuda.emit.compile import find_compiler as find_cuda_compiler

            find_cuda_compiler()
            Library()
            if _version("pycuda") is None:
                return "it can be built, not run: PyCUDA is not installed (extra `cuda`)"
        if target.name == "opencl":
            from backends.opencl.device import device_of

            device_of(0)
    except BackendError as error:
        known = target.name == "cuda" and error.code == "E0923"
        return f"it can be built, not run: {error.message}" if known else error.message
    return "ready"


def cuda_lines() -> tuple[tuple[str, str], ...]:
    """Rows about CUDA (name, finding), from the backend."""
    if TARGETS["cuda"].missing() is not None:
        return ()
    from backends.cuda.emit.compile import doctor

    return doctor()


def opencl_lines() -> tuple[tuple[str, str], ...]:
    """Rows about OpenCL (name, finding), from the backend."""
    if TARGETS["opencl"].missing() is not None:
        return ()
    from backends.opencl.device import doctor

    return doctor()


def _line(name: str, text: str) -> None:
    typer.echo(f"  {name:<18} {text}")


def _writable(folder: Path) -> bool:
    """Whether `folder` can be written, or made."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)
