"""result: what `netloom tune` has found, as data that a cache can keep.

Assumes: nothing.
Guarantees: `TuneResult` holds texts and numbers alone, so that showing it needs no part of the compiler; `as_value` and
`from_value` are inverse to each other, but for the warnings of a model, which are not kept.
Does not: measure, choose or print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compiler.core.diagnostics import Diagnostic


@dataclass(frozen=True)
class Row:
    """A candidate, or a way of a fork, whose time is that of a step. `share`: of the device's limit (None: it is not
    known); `workspace`: bytes beside the arrays; `error`: relative, in the Frobenius norm, against float64."""

    path: str
    way: str
    microseconds: float
    share: float | None
    workspace: int
    error: float | None
    chosen: bool
    rule: bool
    wrong: bool

    @property
    def mark(self) -> str:
        """What a table says beside it."""
        words = ("chosen", self.chosen), ("rule", self.rule), ("wrong", self.wrong)
        return ", ".join(word for word, holds in words if holds)


@dataclass(frozen=True)
class Step:
    """Microseconds of a step of a phase with the rules and with the choices; `back`: paths that went back to the
    rules."""

    phase: str
    before: float
    after: float
    back: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """How a contraction, or a layer, is computed from now on, and how the `rules` do; `microseconds` of itself (of a
    layer: of a step), and `before`, as the rules do."""

    path: str
    way: str
    rules: str
    microseconds: float
    before: float

    @property
    def changed(self) -> bool:
        return self.way != self.rules


@dataclass(frozen=True)
class TuneResult:
    """The lock file, the measured contractions and `layers` (attention and recurrent layers), those that were `left`
    because the budget was spent, whole steps, all candidates (`rows`), and warnings of the model. `single`: how many
    kernels there are, by kind, that have one way; `device`: its name."""

    file: Path
    contractions: tuple[Way, ...]
    layers: tuple[Way, ...] = ()
    rows: tuple[Row, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    left: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    single: Mapping[str, int] = field(default_factory=dict)
    device: str = ""

    def summary(self) -> dict[str, dict[str, Any]]:
        """By path: the chosen strategy, the default one, and the microseconds of both."""
        fields = ("way", "rules", "microseconds", "before")
        return {c.path: {name: getattr(c, name) for name in fields} for c in self.contractions}

    def as_value(self) -> dict[str, Any]:
        """As a JSON object, without the warnings."""
        return {**asdict(self), "file": str(self.file), "warnings": ()}


def from_value(value: Mapping[str, Any]) -> TuneResult:
    return TuneResult(
        Path(value["file"]),
        tuple(Way(**x) for x in value["contractions"]),
        tuple(Way(**x) for x in value["layers"]),
        tuple(Row(**x) for x in value["rows"]),
        (),
        tuple(value["left"]),
        tuple(Step(**{**x, "back": tuple(x["back"])}) for x in value["steps"]),
        value["single"],
        value["device"],
    )
