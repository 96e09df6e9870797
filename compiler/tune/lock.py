"""lock: MODEL.lock, the strategies of a model that `netloom tune` has measured.

The file stands beside the model (`mlp.yaml` -> `mlp.lock`), is JSON with sorted keys, one section for each device (its
target, name and clock), and belongs under version control: with it, every machine computes a model in the same way.

Assumes: compiler/strategies/pins.py decides whether an entry is still valid.
Guarantees: a machine that has no section takes that of the device most like it (the same architecture, then the first
one of the target); measuring again within noise leaves the file as it is, byte for byte. Invalid entries are named in a
warning (W0004) and are not used; a file that is not a lock file is an error (E0925), not ignored.
Does not: measure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backends.protocol import Backend
from compiler.core.diagnostics import Diagnostic, RunError, Severity
from compiler.core.disk import write_text
from compiler.core.names import listed
from compiler.core.source import Span
from compiler.core.version import VERSION
from compiler.files.guard import regular, special
from compiler.ir.level2.target import Target
from compiler.strategies.forks import Fork
from compiler.strategies.pins import Pin, Pins
from compiler.strategies.variants import spelled, tuned
from compiler.tune.sites import Site

if TYPE_CHECKING:  # every build reads a lock file, few measure
    from compiler.tune.choosing import Tuned
    from compiler.tune.forks import Settled

FORMAT: Final = 2
NAMED: Final = 4
"""Entries that a warning names before it counts the rest."""
SAME: Final = 2.0
"""Times that differ by less are those of before: an entry stays as it is while the choice does."""
DRIFT: Final = 1.25
"""And factors of estimates."""


@dataclass(frozen=True)
class Section:
    """The part of a lock file for a device. `made_with`: the compiler, and for a GPU its driver; `estimates`: what
    estimates are multiplied by, by strategy."""

    name: str
    made_with: str
    pins: Pins
    estimates: Mapping[str, float] = field(default_factory=dict)
    own: bool = True
    """Whether it is that of the device asked for."""


def lock_path(model: Path) -> Path:
    return model.with_suffix(".lock")


def section_name(target: str, device: Target) -> str:
    """`cuda: NVIDIA H200, 2.0 GHz`; the target alone, where nothing is known of its device."""
    return f"{target}: {device.name}, {device.clock / 1000:.1f} GHz" if device.architecture else target


def read_lock(path: Path, target: str, device: Target) -> Section:
    """The section of a lock file for a device; an empty one when there is no file. Raises RunError (E0925)."""
    wanted = section_name(target, device)
    whole = _sections(_read(path), path)
    alike = {n: s for n, s in sorted(whole.items()) if s.get("target") == target}
    near = [n for n, s in alike.items() if s.get("architecture") == device.architecture] or list(alike)
    name = wanted if wanted in alike else near[0] if near else ""
    if not name:
        return Section(wanted, "", {})
    section = alike[name]
    source = path.name if name == wanted else f"{path.name}, measured on another device ({name})"
    pins = {k: _pin(path, source, k, v) for k, v in _part(section, name, path).items()}
    return Section(name, str(section.get("made_with", "")), pins, _factors(section, path), name == wanted)


def write_lock(
    path: Path,
    model: str,
    backend: Backend,
    made_with: str,
    entries: Iterable[Tuned | Settled],
    estimates: Mapping[str, float],
    others: Iterable[str] = (),
) -> None:
    """Replace the section of the device; those of others stay, and in it the entries called `others`. What is as it was
    within noise is written as it was. Raises RunError (E0925)."""
    target, device = backend.capabilities.name, backend.capabilities.device
    name = section_name(target, device)
    whole = _read(path) or {"format": FORMAT, "devices": {}}
    before = _sections(whole, path).get(name, {"contractions": {}, "estimates": {}})
    old, factors = _part(before, name, path), _factors(before, path)
    again = before.get("made_with") == made_with
    new = {e.path: _as_before(old.get(e.path), _entry(e)) if again else _entry(e) for e in entries}
    whole["model"] = model
    whole["devices"][name] = {
        "target": target,
        "architecture": device.architecture,
        "made_with": made_with,
        "netloom": VERSION,
        "estimates": {s: _steady(factors.get(s), x) if again else x for s, x in {**factors, **estimates}.items()},
        "contractions": {**{n: old[n] for n in others if n in old}, **new},
    }
    text = json.dumps(whole, indent=2, sort_keys=True) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text, "the lock file")


def _entry(e: Tuned | Settled) -> dict[str, Any]:
    from compiler.tune.choosing import Tuned

    choice = e.choice if isinstance(e, Tuned) else None
    entry: dict[str, Any] = {
        "strategy": e.way if choice is None else choice.strategy,
        "literals": {} if choice is None else dict(choice.literals),
        "tiles": {} if choice is None else dict(tuned(choice)),
        "microseconds": dict(e.microseconds),
        "problem": e.site.problem,
    }
    if not isinstance(e, Tuned):
        return entry
    if e.measured.wrong:
        entry["wrong"] = list(e.measured.wrong)
    if e.instead:
        entry["instead"] = e.instead
    return entry


def _as_before(old: Any, new: dict[str, Any]) -> Any:
    """The entry of before, where all but the times is as it was, and the time of the choice about so."""
    if not isinstance(old, dict):
        return new
    apart = [{k: v for k, v in x.items() if k != "microseconds"} for x in (old, new)]
    times = old.get("microseconds"), new["microseconds"]
    if apart[0] != apart[1] or not isinstance(times[0], dict) or times[0].keys() != times[1].keys():
        return new
    way = spelled(new["strategy"], new["literals"], new["tiles"])
    return old if _about(times[0].get(way), times[1][way], SAME) else new


def _about(one: Any, other: float, factor: float) -> bool:
    return isinstance(one, (int, float)) and one <= factor * other and other <= factor * one


def _steady(old: float | None, new: float) -> float:
    return old if old is not None and _about(old, new, DRIFT) else new


def _read(path: Path) -> dict[str, Any]:
    try:
        regular(path)
        whole = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as e:
        raise _broken(path, str(e) if special(path) else f"it is not JSON ({e})") from None
    if isinstance(whole, dict) and whole.get("format") not in (None, FORMAT):
        raise _broken(path, f"its format is {whole.get('format')!r}, not {FORMAT}")
    if not isinstance(whole, dict) or not isinstance(whole.get("devices"), dict):
        raise _broken(path, "it has no `devices`")
    if whole.get("format") != FORMAT:
        raise _broken(path, f"its format is {whole.get('format')!r}, not {FORMAT}")
    return whole


def _sections(whole: Mapping[str, Any], path: Path) -> dict[str, Mapping[str, Any]]:
    sections = whole.get("devices", {})
    for name, section in sections.items():
        _part(section, name, path)
    return dict(sections)


def _part(section: Any, name: str, path: Path) -> Mapping[str, Any]:
    entries = section.get("contractions") if isinstance(section, dict) else None
    if not isinstance(entries, dict):
        raise _broken(path, f"its section `{name}` has no `contractions`")
    return entries


def _factors(section: Mapping[str, Any], path: Path) -> dict[str, float]:
    try:
        found = {str(k): float(v) for k, v in dict(section.get("estimates", {})).items()}
    except (TypeError, ValueError):
        raise _broken(path, "its `estimates` are no numbers") from None
    if not all(0 < v < 1e9 for v in found.values()):
        raise _broken(path, "its `estimates` are not above 0")
    return found


def _pin(path: Path, source: str, name: str, entry: Any) -> Pin:
    try:
        way = spelled(str(entry["strategy"]), _numbers(entry["literals"]), _numbers(entry["tiles"]))
        time = float(entry["microseconds"].get(way, 0.0))
        return Pin(str(entry["problem"]), way, source, time, str(entry.get("instead", "")))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _broken(path, f"its entry `{name}` is not complete") from None


def _numbers(values: Mapping[str, Any]) -> dict[str, int]:
    return {str(k): int(v) for k, v in values.items()}


def _broken(path: Path, why: str) -> RunError:
    return RunError(
        "E0925",
        f"`{path}` cannot be read: {why}",
        "`netloom tune` writes it anew once it is removed; `--no-lock` leaves it out",
    )


@dataclass(frozen=True)
class Stale:
    """Entries that are not used any more, by why, and contractions that have no entry."""

    other: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        return (
            (self.other, "measured for another shape, precision or order"),
            (self.unknown, "whose strategy is not one of theirs any more"),
            (self.gone, "for what the model does not have any more"),
        )


def compared(pins: Pins, found: Sequence[Site] | Sequence[Site | Fork]) -> Stale:
    """The entries of a section beside the contractions and forks of a model."""
    gone, other, unknown = [], [], []
    for path, pin in pins.items():
        here = [s for s in found if s.path == path]
        if not here:
            gone.append(path)
        elif any(s.problem != pin.problem for s in here):
            other.append(path)
        elif any(pin.way not in s.names for s in here):
            unknown.append(path)
    missing = dict.fromkeys(s.path for s in found if s.path not in pins)
    return Stale(tuple(other), tuple(unknown), tuple(gone), tuple(missing))


def stale(
    pins: Pins, found: Sequence[Site] | Sequence[Site | Fork], source: str, span: Span | None
) -> tuple[Diagnostic, ...]:
    """A warning (W0004) that names the entries that were not used, and why."""
    return tuple(
        Diagnostic(
            "W0004",
            f"`{source}` has {len(paths)} {'entry' if len(paths) == 1 else 'entries'} {why}: {listed(paths, NAMED)}",
            span,
            "measure again with `netloom tune`, or leave the file out with `--no-lock`",
            severity=Severity.WARNING,
        )
        for paths, why in compared(pins, found).reasons
        if paths
    )
