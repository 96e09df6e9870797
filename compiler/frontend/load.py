"""From a model file to the level-0 model: the frontend as one function.

Assumes: nothing of the file.
Guarantees: a legal Model, or ModelError with every detectable error; no other exception is raised for a user's error.
Paths of files are relative to the model's folder.
Does not: lower, build or run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Diagnostic, ModelError, Severity, Sink
from compiler.core.gc_pause import no_garbage_collection
from compiler.frontend.build.goal import check_goal
from compiler.frontend.build.model import build_model, only_definitions
from compiler.frontend.resolve.choices import choose
from compiler.frontend.resolve.params import resolve_params
from compiler.frontend.resolve.resolve import Resolved, resolve
from compiler.frontend.resolve.swept import check_sweep
from compiler.frontend.resolve.use import LibraryFinder
from compiler.frontend.schema.validate import validate
from compiler.frontend.schema.wording import found
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.yaml12 import load_text

Timed = Callable[[str], AbstractContextManager[Any]]

_TREE_IS_GOOD: Final = frozenset({"E0008"})
"""Errors of the loader (duplicate keys) after which the rest of the file can still be checked."""

_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


def data_folder(path: Path) -> Path:
    """The folder that paths in a model file are relative to, absolute: that of the file itself, with symbolic links
    resolved."""
    return path.resolve().parent


@dataclass(frozen=True)
class Loaded:
    """What the steps made, as far as they came: the tree of the file, what it expands to, and the model."""

    root: tree.Mapping | None = None
    resolved: Resolved | None = None
    model: l0.Model | None = None


def load_model(
    path: Path,
    settings: Mapping[str, str] = _NO_SETTINGS,
    *,
    sink: Sink | None = None,
    shown: str | None = None,
    folder: Path | None = None,
    unread: frozenset[str] = frozenset(),
    timed: Timed = nullcontext,
    swept: bool = True,
) -> l0.Model:
    """The model of the file at `path`, with `settings` (the values of `--set`) for its parameters.

    Warnings are added to `sink`. The file is `shown` in messages (default: `path` as given). Paths in the file are
    relative to `folder` (default: the file's own). Files of `unread` ("data" of the training, "weights", "init" of
    layers) may be missing: others replace them. `timed(name)` is a context around each step. `swept`: check the values
    of `sweep`, too. Raises ModelError with all errors.
    """
    sink = Sink() if sink is None else sink
    model = load_steps(path, sink, LibraryFinder(), settings, shown, folder, unread, timed, swept=swept).model
    sink.check()
    if model is None:
        raise ModelError(sink.items)
    return model


def load_steps(
    path: Path,
    sink: Sink,
    library: LibraryFinder,
    settings: Mapping[str, str] = _NO_SETTINGS,
    shown: str | None = None,
    folder: Path | None = None,
    unread: frozenset[str] = frozenset(),
    timed: Timed = nullcontext,
    between: Callable[[], object] = object,
    swept: bool = True,
) -> Loaded:
    """As `load_model`, with every error in `sink` and what was made in spite of them. Files are read, and definitions
    of the library kept, by `library`. `between` is called between parts of long work; it may raise, to end it."""
    with timed("parse"):
        source = library.read(path, sink, shown if shown is not None else str(path))
        root = None if source is None else load_text(source, sink)
    if root is not None and not isinstance(root, tree.Mapping):
        help = "a model file begins with `language: 1`"
        sink.error("E0102", f"a model file is a map of keys, not {found(root)}", root.span, help)
    loaded = Loaded()
    if isinstance(root, tree.Mapping):
        with no_garbage_collection():
            loaded = _steps(root, path, folder or data_folder(path), settings, sink, unread, timed, library, between)
            if swept and loaded.resolved is not None:
                check_sweep(root, settings, sink)
                if loaded.model is not None:
                    check_goal(root, loaded.model, sink)
    sink.items[:] = _told_once(sink.items)
    return loaded


def _steps(
    root: tree.Mapping,
    path: Path,
    folder: Path,
    settings: Mapping[str, str],
    sink: Sink,
    unread: frozenset[str],
    timed: Timed,
    library: LibraryFinder,
    between: Callable[[], object],
) -> Loaded:
    if any(d.severity is Severity.ERROR and d.code not in _TREE_IS_GOOD for d in sink.items):
        return Loaded(root)
    root, settings = choose(root, settings, sink)
    if sink.failed():
        return Loaded(root)
    partial = only_definitions(root)
    with timed("validate"):
        validate(root, sink, partial=partial)
    if sink.failed():
        return Loaded(root)
    with timed("resolve"):
        resolved = resolve(root, settings, sink, folder, library)
    if not sink.failed() and _taken_over(root):
        with timed("validate"):
            validate(
                resolved.root, sink, expanded=True, partial=partial
            )  # keys from other files have been merged by now
    if sink.failed():
        return Loaded(root, resolved)
    with timed("build"):
        model = build_model(resolved, name_of(path), folder, sink, unread, between)
    if model is not None:
        _unused(model, root.span.file.text, sink)
    return Loaded(root, resolved, model)


def check_swept(root: tree.Mapping, settings: Mapping[str, str], sink: Sink) -> None:
    """Check what a sweep of the model file with the tree `root` needs before its first trial: keys, the `settings` of
    all trials, and the values of `sweep`. Trials check the rest."""
    chosen, rest = choose(root, settings, sink)
    if not sink.failed():
        validate(chosen, sink, partial=only_definitions(chosen))
    if not sink.failed():
        resolve_params(chosen.get("params"), rest, sink)
        check_sweep(root, settings, sink)


def name_of(path: Path) -> str:
    """The name of a model whose file gives none: the file's own, of letters, digits and `_.-`, at most 100. It becomes
    the name of folders, of sources and of arguments to compilers."""
    text = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)[:100]
    return text if text[:1].isalnum() or text[:1] == "_" else f"m{text}"


def _told_once(items: list[Diagnostic]) -> list[Diagnostic]:
    """`items` with duplicates from copies of one block (`for`, `repeat`) merged into one with a count."""
    copies: Counter[tuple[object, ...]] = Counter()
    out: list[tuple[Diagnostic, tuple[object, ...]]] = []
    for d in items:
        key = _copied_from(d)
        copies[key] += 1
        if not key or copies[key] == 1:
            out.append((d, key))
    return [d if not k or copies[k] < 2 else _with_copies(d, copies[k] - 1) for d, k in out]


def _copied_from(d: Diagnostic) -> tuple[object, ...]:
    """The span of an error in a copy; () for any other. Equal messages of two copies are one error already."""
    origin = None if d.span is None else d.span.via
    while origin is not None and origin.kind not in ("for", "repeat"):
        origin = origin.parent
    return () if d.span is None or origin is None else (d.code, d.span.file.path, d.span.start, d.span.end)


def _with_copies(d: Diagnostic, more: int) -> Diagnostic:
    return replace(d, message=f"{d.message} (and so in {more:,} more {'copy' if more == 1 else 'copies'})")


def _unused(model: l0.Model, text: str, sink: Sink) -> None:
    """Warn of model parameters whose names occur only in their declarations.

    Definitions used from other files may read any of them.
    """
    if ".yaml#" in text or ".yml#" in text:
        return
    for p in model.params:
        if len(re.findall(rf"(?<!\w){re.escape(p.name)}(?!\w)", text)) < 2:
            sink.warning("W0002", f"nothing reads parameter `{p.name}`", p.span)


def _taken_over(root: tree.Mapping) -> bool:
    """Whether some block inherits keys from others, so that its own may be incomplete."""
    return any(
        isinstance(block, tree.Mapping) and ("use" in block or "classes" in block)
        for collection in root.entries
        if isinstance(collection.value, tree.Mapping)
        for block in (e.value for e in collection.value.entries)
    )
