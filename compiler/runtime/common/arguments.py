"""Checks of the arguments of the Python API.

Assumes: nothing about the values.
Guarantees: results have the type of the field of `Options`; anything else is a RunError (E0912, exit 2) that names the
argument, the allowed values and the given one. NumPy scalars are accepted.
Does not: know models: whether a duration is an integer number of steps is checked where the step is known.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from compiler.core.diagnostics import RunError, did_you_mean


def _refused(name: str, wanted: str, value: object, help: str | None = None) -> RunError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return RunError("E0912", f"`{name}` is {wanted}, not {shown} ({type(value).__name__})", help)


def path_of(name: str, value: Any) -> Path:
    if isinstance(value, str | os.PathLike) and isinstance(text := os.fspath(value), str) and text:
        return Path(text)
    raise _refused(name, "a path: a str or a pathlib.Path", value)


def path_or_none(name: str, value: Any) -> Path | None:
    return None if value is None else path_of(name, value)


def choice_or_none(name: str, value: Any, among: Sequence[str]) -> str | None:
    """One of `among`, or None."""
    if value is None or (isinstance(value, str) and value in among):
        return value
    help = did_you_mean(value, among) if isinstance(value, str) else None
    raise _refused(name, " or ".join(f"'{a}'" for a in among), value, help)


def target_of(name: str, value: Any) -> str:
    """The name of a target; whether it exists is checked by the registry."""
    if isinstance(value, str):
        return value
    from backends.registry import TARGETS

    raise _refused(name, " or ".join(f"'{t}'" for t in TARGETS), value)


def text_or_none(name: str, value: Any, wanted: str) -> str | None:
    """A str, which is `wanted`, or None."""
    if value is None or isinstance(value, str):
        return value
    raise _refused(name, wanted, value)


def integer_or_none(name: str, value: Any, least: int | None = None) -> int | None:
    """An integer, at least `least`, or None. Truth values are not integers."""
    if value is None:
        return None
    wanted = "an integer" if least is None else f"an integer from {least}"
    try:
        number = None if isinstance(_plain(value), bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        raise _refused(name, wanted, value)
    return number


def flag(name: str, value: Any) -> bool:
    plain = _plain(value)
    if isinstance(plain, bool):
        return plain
    raise _refused(name, "True or False", value)


def _plain(value: Any) -> Any:
    """A NumPy scalar as a Python one; other values unchanged."""
    import numpy as np  # slow to import, and the command line needs none of this

    return value.item() if isinstance(value, np.generic) else value


def settings_of(name: str, value: Any) -> dict[str, str]:
    """Settings as for `--set`: by name, numbers and bools as text."""
    if value is None:
        return {}
    wanted = "a dict of parameters by name, such as {'n': 100}"
    if not isinstance(value, Mapping):
        raise _refused(name, wanted, value)
    for key in value:
        if not isinstance(key, str):
            raise _refused(name, wanted, key)
    return {key: _setting(f"{name}[{key!r}]", item) for key, item in value.items()}


def _setting(name: str, value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, str | int | float):
        return str(plain)
    raise _refused(name, "a number, True, False or a str such as '20 ms'", value)


def contents_of(name: str, value: Any, around: tuple[int, ...] = ()) -> Any:
    """A value of a model that is given as a dict, as YAML has it: maps whose keys are texts, lists, texts, numbers,
    True, False and None. Tuples and NumPy arrays become lists, NumPy scalars numbers, paths texts. `around`: the
    identities of what it is in."""
    plain = _plain(value)
    if hasattr(plain, "tolist") and hasattr(plain, "dtype"):
        plain = plain.tolist()
    wanted = "a number, a text, True, False, None, or a list or a dict of these"
    if id(value) in around:
        raise RunError("E0912", f"`{name}` is a part of itself")
    inside = (*around, id(value))
    match plain:
        case None | bool():
            return plain
        case str():
            return str(plain)
        case int():
            return int(plain)
        case float():
            return float(plain)
        case os.PathLike():
            return str(path_of(name, plain))
        case Mapping():
            wrong = next((key for key in plain if not isinstance(key, str)), None)
            if wrong is not None or None in plain:
                raise _refused(name, "a dict whose keys are of type str", wrong)
            return {str(key): contents_of(f"{name}.{key}", item, inside) for key, item in plain.items()}
        case list() | tuple():
            return [contents_of(f"{name}[{k}]", item, inside) for k, item in enumerate(plain)]
    raise _refused(name, wanted, value)


def names_of(name: str, value: Any) -> tuple[str, ...]:
    """One name or several."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _refused(name, "a name or a list of names", value)


def number_or_none(name: str, value: Any, least: float) -> float | None:
    """A number of at least `least`, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= least:
        raise _refused(name, f"a number of at least {least:g}", value)
    return float(value)
