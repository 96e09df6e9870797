"""The result of `netloom tune` from last time, where nothing that it depends on has changed.

A result is kept with the files that the model read and their states on disk, as build systems keep the headers of a
source. While they, the options, Netloom itself, installed packages, the device, its driver and the variables that
choose compilers are the same, measuring again would find each measurement in the cache and write the same file; so
neither the compiler nor the model is loaded.

Assumes: compiler/runtime/tuning.py; measurements that are kept do not change.
Guarantees: any doubt (a folder of images, data outside of the model's folder, a compiler whose file is not known, a
budget that was spent, a warning, a file that is newer) means measuring, which itself takes from the cache what it
knows.
Does not: keep measurements (compiler/tune/measure.py does).
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backends.stopwatch import machine_of
from compiler.core.cache import cache_folder, find_value, keep_value, state_of
from compiler.core.diagnostics import CodedError
from compiler.core.version import VERSION
from compiler.runtime.common.options import Options
from compiler.tune.result import TuneResult, from_value
from compiler.tune.wishes import Watch, Wishes

if TYPE_CHECKING:
    from compiler.core.diagnostics import Sink
    from compiler.core.source import SourceFile

_VARIABLES: Final = ("CC", "CFLAGS", "PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES")
"""By which compilers, libraries and devices are found."""


def tune(path: Path, options: Options, wishes: Wishes, watch: Watch | None = None) -> TuneResult:
    """Measure every contraction of a model and write its lock file, or say again what was found. Raises ModelError,
    BackendError, RunError."""
    entry = _entry(path, options, wishes)
    if entry is not None and (known := find_value(entry)) is not None and _states(known["files"]) == known["files"]:
        return from_value(known["result"])
    from compiler.runtime.tuning import tune_model

    result = tune_model(path, options, watch=watch, wishes=wishes)
    if entry is not None and not result.left and not result.warnings:
        files = _states([*_files_of(path, options), _compiler(options.target), result.file])
        if None not in files.values():
            keep_value(entry, {"files": files, "result": result.as_value()})
    return result


def _entry(path: Path, options: Options, wishes: Wishes) -> Path | None:
    """Where the result is kept; None for targets whose devices say too little of themselves, or where there is none."""
    if options.target not in ("cpu", "cuda"):
        return None
    try:
        device = machine_of(options.target, options.device or 0)
        if options.target == "cuda":
            from backends.cuda.device.library import Library

            device += f", driver {Library().version()}"
    except CodedError:  # what measures says so
        return None
    variables = (f"{name}={os.environ.get(name, '')}" for name in _VARIABLES)
    parts = (str(path.absolute()), repr(options), repr(wishes), device, VERSION, *variables, *_packages(), *_own())
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_folder() / "tuned" / "models" / f"{digest}.json"


def _compiler(target: str) -> Path:
    """The file of the compiler, as far as it is known: an upgrade replaces it."""
    if target == "cuda":
        from backends.cuda.emit.compile import find_compiler

        found = find_compiler()
        return Path(found.library or found.command or "")
    from backends.cpu.emit.build import find_compiler as find_c_compiler

    return Path(find_c_compiler().command[0])


def _packages() -> Iterator[str]:
    """The names of installed packages with their versions, as pip's folders say them."""
    for place in sys.path:
        with suppress(OSError):
            yield from sorted(name for name in os.listdir(place or ".") if name.endswith((".dist-info", ".egg-info")))


def _own() -> Iterator[str]:
    """The state of each file of the compiler and the backends."""
    root = Path(__file__).resolve().parents[2]
    for place in ("compiler", "backends"):
        for folder, names, files in os.walk(root / place):
            names[:] = sorted(n for n in names if n != "__pycache__")
            yield from (f"{folder}/{file} {_state(Path(folder, file))}" for file in sorted(files))


# ------------------------------------------------------------------------------------------- the files of a model


def _states(files: Iterable[Path | str]) -> dict[str, list[int] | None]:
    return {str(file): _state(Path(file)) for file in files}


def _state(file: Path) -> list[int] | None:
    """None of what is no file."""
    try:
        return state_of(file) if file.is_file() else None
    except OSError:
        return None


def _files_of(path: Path, options: Options) -> Iterator[Path]:
    """The files of text that a model consists of, and those of numbers that it names."""
    from compiler.core.diagnostics import Sink
    from compiler.frontend.load import load_steps
    from compiler.frontend.resolve.use import LibraryFinder
    from compiler.frontend.yaml.yaml12 import read_source

    read: list[Path] = []

    def note(file: Path, sink: Sink, shown: str) -> SourceFile | None:
        read.append(file.absolute())
        return read_source(file, sink, shown)

    model = load_steps(path, Sink(), LibraryFinder(read=note), options.set, folder=options.folder).model
    yield from read
    folder = path.resolve().parent
    for text in _texts(model):
        if text[:1] == os.sep != text and os.path.exists(text):
            # what lies elsewhere may have been reached by a link, which may lead to another file next time
            yield Path(text) if folder in Path(text).parents else folder
    yield from (file for file in (options.data, options.weights) if file is not None)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value of dataclasses, sequences and maps; paths of a model are absolute."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            yield from _texts(getattr(value, part.name))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _texts(part)
