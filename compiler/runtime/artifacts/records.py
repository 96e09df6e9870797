"""Files that a run has written, read again: its records (`spikes.h5`) and run.json.

Assumes: a run directory; a disk, a transfer or an editor may have changed its files.
Guarantees: what cannot be read is a RunError with the name of the file: E0913 where it is not there, E0927 where it is
damaged. What was not recorded is an E0952, and a KeyError.
Does not: notice numbers that are others than those written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from compiler.core.diagnostics import RunError, did_you_mean
from compiler.runtime.expectations import Check


class NotRecorded(RunError, KeyError):
    """A run has nothing of this name."""


def not_recorded(what: str, name: str = "", known: Collection[str] = ()) -> NotRecorded:
    """`what` the run has not recorded, of the one that was asked for, and the names of those that it has."""
    listed = "it has " + ", ".join(f"`{n}`" for n in known) if known else None
    asked = f" `{name}`" if name else ""
    return NotRecorded("E0952", f"this run recorded no {what}{asked}", did_you_mean(name, known) or listed)


def damaged(path: Path, reason: object) -> RunError:
    return RunError("E0927", f"`{path}` is damaged: {reason}", "take a copy, or run again")


@contextmanager
def open_records(path: Path, asked: bool = False) -> Iterator[Any]:
    """A file of records, as an h5py.File. `asked`: by a name that may not have been recorded: a KeyError stays one.
    Raises RunError (E0927), OSError where it is not there."""
    import h5py

    with path.open("rb"):
        pass
    try:
        with h5py.File(path) as file:
            yield file
    except KeyError as error:
        if asked:
            raise
        raise damaged(path, error.args[0] if error.args else error) from None
    except (OSError, RuntimeError) as error:
        raise damaged(path, error) from None


_MAPS: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType({
    "model": (str, type(None)),
    "numerics": (str,),
    "settings": (str,),
    "params": (str, int, float, type(None)),
    "times": (int, float, dict),
    "summary": (dict, type(None)),
})  # fmt: skip
"""The maps of run.json that are read again, with what they hold."""
_LISTS: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType({
    "expectations": (dict,),
    "decisions": (list,),
    "warnings": (str,),
    "command": (str,),
    "recorded_steps": (int,),
})  # fmt: skip
_CHECK: Final = frozenset(f.name for f in fields(Check))


def fault_of(record: object) -> str | None:
    """What is wrong with the contents of run.json; None where they are as runs write them."""
    if not isinstance(record, dict):
        return "it is not a map"
    for name, kinds in _MAPS.items():
        values = record.get(name) or {}
        if not isinstance(values, dict) or not all(isinstance(v, kinds) for v in values.values()):
            return f"`{name}` is not as a run writes it"
    for name, kinds in _LISTS.items():
        values = record.get(name) or []
        if not isinstance(values, list) or not all(isinstance(v, kinds) for v in values):
            return f"`{name}` is not as a run writes it"
    return _fault_inside(record)


def _fault_inside(record: Mapping[str, Any]) -> str | None:
    summary = record.get("summary") or {}
    groups = [summary.get(n) or {} for n in ("rates_hz", "spikes", "metrics")]
    if not all(isinstance(x, int | float | None) for group in groups for x in group.values()):
        return "`summary` is not as a run writes it"
    parts = [p for p in (record.get("times") or {}).values() if isinstance(p, dict)]
    if not all(isinstance(p.get("cpu_seconds"), int | float) for p in parts):
        return "`times` is not as a run writes it"
    for check in record.get("expectations") or ():
        kinds = (isinstance(check.get(n), int | float | None) for n in ("value", "low", "high"))
        texts = (isinstance(check.get(n), str) for n in ("subject", "unit"))
        if check.keys() != _CHECK or not all((*kinds, *texts)):
            return "`expectations` is not as a run writes it"
    if len(record.get("recorded_steps") or (0, 0)) != 2:
        return "`recorded_steps` is not as a run writes it"
    return None
