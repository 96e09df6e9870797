"""wishes: what is measured, as a person writes it: `conv*:winograd,fft`, for how long, and how often.

Assumes: paths such as `train/conv1.sum` or `train/conv1.weight.grad`.
Guarantees: before the colon stand patterns (`*`, `?`) of layers or whole paths, behind it parts of the names of
strategies or patterns of them, either side in a list with commas; an empty side means all.
Does not: know which contractions there are (compiler/tune/only.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from compiler.core.diagnostics import RunError


@dataclass(frozen=True)
class Only:
    """Patterns of contractions, and of strategies; empty: all."""

    places: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()


EVERYTHING: Final = Only()
Watch = Callable[[int, int, str], None]
"""Is told of each contraction before it is measured: its number, how many there are, its path."""


@dataclass(frozen=True)
class Wishes:
    """What is measured, and for how long. `batch`: samples at once of predictions, which are measured, too (models
    without `train`: alone; 64 unless said); `budget`: seconds; `whole`: whether whole steps have the last word."""

    rounds: int = 7
    only: Only = EVERYTHING
    budget: float | None = None
    batch: int | None = None
    whole: bool = False


def parsed(text: str) -> Only:
    """`conv*:winograd,fft`. Raises RunError (E0912) for what has several colons, or says nothing."""
    parts = [tuple(word.strip() for word in side.split(",") if word.strip()) for side in text.split(":")]
    if len(parts) > 2 or not any(parts):
        raise refused(f"`--only {text}` is not CONTRACTIONS:STRATEGIES", "write it as 'conv*:winograd,fft'")
    return Only(*parts)


def refused(message: str, help: str | None) -> RunError:
    return RunError("E0912", message, help)
