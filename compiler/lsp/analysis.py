"""What `netloom check` says of a text that is being written, with all that was found out on the way.

Assumes: the texts of open files (compiler/lsp/texts.py).
Guarantees: the diagnostics of `check`, in the same words; whatever the text is, an Analysis or Stopped.
Does not: lower the model, as `check` does of one that nearly fills the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Final

from compiler.core.diagnostics import Diagnostic, ModelError, Severity, Sink
from compiler.core.gc_pause import no_garbage_collection
from compiler.frontend.load import Loaded, load_steps
from compiler.frontend.resolve.use import LibraryFinder
from compiler.lsp.texts import Texts
from compiler.runtime.common.options import Options
from compiler.runtime.prepare import refuse_two_halves
from compiler.runtime.resources.bill import least_needs
from compiler.runtime.resources.bill import warnings as too_large

_MODEL_KEYS: Final = ("populations", "projections", "network", "train", "simulate", "inputs", "record", "plots")


_OURS: Final = re.compile(r"^(?:language[ ]*:|#.*\bmodel\.schema\.json)", re.MULTILINE)


class Stopped(Exception):
    """A newer text makes this analysis worthless."""


@dataclass(frozen=True)
class Analysis:
    """`read`: the files that were read, resolved."""

    path: Path
    loaded: Loaded
    diagnostics: tuple[Diagnostic, ...]
    read: frozenset[Path]


def is_model(text: str) -> bool:
    """Whether a text is a model or a file of definitions: it begins with `language: 1`, or its modeline says so. Other
    YAML files that an editor shows are not looked at."""
    return _OURS.search(text) is not None


def analyse(path: Path, texts: Texts, library: LibraryFinder, stop: Event) -> Analysis:
    """The analysis of the file at `path` (absolute). Raises Stopped soon after `stop` is set."""

    def between() -> None:
        if stop.is_set():
            raise Stopped

    @contextmanager
    def step(name: str) -> Iterator[None]:
        between()
        yield

    sink, read = Sink(), {path.resolve()}
    if not is_model(texts.buffers.get(path.resolve(), "")):
        return Analysis(path, Loaded(), (), frozenset(read))
    finder = replace(library, read=texts.reader(read))
    with no_garbage_collection():
        loaded = load_steps(path, sink, finder, timed=step, between=between)
        if loaded.model is not None:
            try:
                refuse_two_halves(loaded.model)
                sink.items.extend(too_large(least_needs(loaded.model, Options())))
            except ModelError as error:
                sink.items.extend(error.diagnostics)
    return Analysis(path, loaded, tuple(_of_definitions(d, loaded) for d in sink.items), frozenset(read))


def _of_definitions(d: Diagnostic, loaded: Loaded) -> Diagnostic:
    """That nothing can be run is only a note in a file of definitions for others."""
    root = loaded.root
    if d.code != "E0103" or root is None or any(k in root for k in _MODEL_KEYS) or d.span is None:
        return d
    alone = root.entries and d.span == root.entries[0].key.span
    return replace(d, severity=Severity.NOTE) if alone else d
