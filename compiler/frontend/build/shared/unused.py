"""Unused parameters of definitions (W0002).

Assumes: every reader of a parameter registers it: the definition itself, blocks that `use` it, synapses at the neuron
(`pre.x`, `post.x`), initial values of populations and projections.
Guarantees: a parameter with a reader is not reported; nothing is reported after an error, since a rejected block may
read it.
Does not: check model parameters (frontend/load.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compiler.core.diagnostics import Severity
from compiler.core.errors import Sink
from compiler.core.source import Span

_Place = tuple[str, int]


@dataclass
class Unread:
    """Parameters that their own definition does not read, and spans of those that are read elsewhere."""

    candidates: list[tuple[str, Span]] = field(default_factory=list)
    _read: set[_Place] = field(default_factory=set)

    def read(self, places: Iterable[Span]) -> None:
        """The parameters declared at `places` are read."""
        self._read.update((p.file.path, p.start) for p in places)

    def warn(self, sink: Sink) -> None:
        if any(d.severity is Severity.ERROR for d in sink.items):
            return
        for what, at in self.candidates:
            if (at.file.path, at.start) not in self._read:
                sink.warning("W0002", f"nothing reads parameter {what}", at)
