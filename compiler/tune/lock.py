"""lock: MODEL.lock, the strategies of a model that `netloom tune` has measured.

The file stands beside the model (`mlp.yaml` -> `mlp.lock`), is JSON with sorted keys, one part for each target, and
belongs under version control: with it, every machine computes a model in the same way.

Assumes: compiler/strategies/pins.py decides whether an entry is still valid.
Guarantees: invalid entries are named in a warning (W0004) and are not used; a file that is not a lock file is an error
(E0925), not ignored.
Does not: measure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from backends.protocol import Backend
from compiler.core.diagnostics import Diagnostic, Severity
from compiler.core.disk import write_text
from compiler.core.errors import RunError
from compiler.core.source import Span
from compiler.core.version import VERSION
from compiler.files.guard import regular, special
from compiler.strategies.pins import Pin, Pins, find, steps_as_one
from compiler.strategies.variants import identity, spelled, tuned
from compiler.tune.measure import Site, Tuned

FORMAT: Final = 1
NAMED: Final = 4
"""Entries that a warning names before it counts the rest."""


def lock_path(model: Path) -> Path:
    return model.with_suffix(".lock")


def read_lock(path: Path, target: str) -> Pins:
    """The pins of a lock file for a target; none when there is no file. Raises RunError (E0925)."""
    return {k: _pin(path, k, v) for k, v in _part(_read(path), path, target).items()}


def write_lock(path: Path, model: str, backend: Backend, machine: str, entries: Iterable[Tuned]) -> None:
    """Replace the target's part of a lock file; other targets' parts stay. Raises RunError (E0925)."""
    whole = _read(path) or {"format": FORMAT, "targets": {}}
    whole["model"] = model
    whole["targets"][backend.capabilities.name] = {
        "contractions": {e.path: _entry(e) for e in entries},
        "machine": machine,
        "netloom": VERSION,
    }
    write_text(path, json.dumps(whole, indent=2, sort_keys=True) + "\n", "the lock file")


def _entry(e: Tuned) -> dict[str, object]:
    choice = e.choice
    entry: dict[str, object] = {
        "strategy": "nest" if choice is None else choice.strategy,
        "literals": {} if choice is None else dict(choice.literals),
        "tiles": {} if choice is None else dict(tuned(choice)),
        "microseconds": dict(e.measured.microseconds),
        "problem": e.measured.site.problem,
    }
    if e.measured.wrong:
        entry["wrong"] = list(e.measured.wrong)
    return entry


def _read(path: Path) -> dict[str, Any]:
    try:
        regular(path)
        whole = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as e:
        raise _broken(path, str(e) if special(path) else f"it is not JSON ({e})") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("targets"), dict):
        raise _broken(path, "it has no `targets`")
    if whole.get("format") != FORMAT:
        raise _broken(path, f"its format is {whole.get('format')!r}, not {FORMAT}")
    return whole


def _part(whole: Mapping[str, Any], path: Path, target: str) -> Mapping[str, Any]:
    part = whole.get("targets", {}).get(target, {"contractions": {}})
    entries = part.get("contractions") if isinstance(part, dict) else None
    if not isinstance(entries, dict):
        raise _broken(path, f"its part for `{target}` has no `contractions`")
    return entries


def _pin(path: Path, name: str, entry: Any) -> Pin:
    try:
        way = spelled(str(entry["strategy"]), _numbers(entry["literals"]), _numbers(entry["tiles"]))
        return Pin(str(entry["problem"]), way, path.name, float(entry["microseconds"].get(way, 0.0)))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _broken(path, f"its entry `{name}` is not complete") from None


def _numbers(values: Mapping[str, Any]) -> dict[str, int]:
    return {str(k): int(v) for k, v in values.items()}


def _broken(path: Path, why: str) -> RunError:
    return RunError(
        "E0925",
        f"`{path}` cannot be read: {why}",
        "`netloom tune` writes it anew once it is removed; `--no-lock` leaves it out",
        exit_code=2,
    )


def stale(pins: Pins, found: Sequence[Site], source: str, span: Span | None) -> tuple[Diagnostic, ...]:
    """A warning (W0004) that names the entries that were not used, and why."""
    gone, other, unknown = [], [], []
    for path, pin in pins.items():
        here = [s for s in found if s.path == path or (steps_as_one(s.path) == path and find(pins, s.path) is pin)]
        if not here:
            gone.append(path)
        elif any(s.problem != pin.problem for s in here):
            other.append(path)
        elif any(pin.way not in map(identity, s.ways) for s in here):
            unknown.append(path)
    reasons = (
        (other, "measured for another shape, precision or order"),
        (unknown, "whose strategy is not one of theirs any more"),
        (gone, "for contractions that the model does not have any more"),
    )
    return tuple(
        Diagnostic(
            "W0004",
            f"`{source}` has {len(paths)} {'entry' if len(paths) == 1 else 'entries'} {why}: {_named(paths)}",
            span,
            "measure again with `netloom tune`, or leave the file out with `--no-lock`",
            severity=Severity.WARNING,
        )
        for paths, why in reasons
        if paths
    )


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(f"`{p}`" for p in paths[:NAMED])
    return shown + (f" and {len(paths) - NAMED} more" if len(paths) > NAMED else "")
