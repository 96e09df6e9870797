"""amounts: sizes and times that a person writes: `1 GB`, `512MiB`, `60s`.

Assumes: nothing.
Guarantees: what is none is a RunError (E0912) that names the option and shows how to write it.
Does not: know units of models (compiler/expr/units.py does).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.core.diagnostics import RunError

_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_BYTES: Final = MappingProxyType(
    {
        **{unit: 1000**n for n, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
        **{unit: 1024**n for n, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
    }
)
_SECONDS: Final = MappingProxyType({"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0})


def bytes_of(option: str, text: str | None) -> int | None:
    """Bytes of `1 GB`; 0 is a size. None: not given. Raises RunError (E0912)."""
    return None if text is None else int(_amount(option, text, _BYTES, "a size such as '1 GB' or '512 MiB'"))


def seconds_of(option: str, text: str | None) -> float | None:
    """Seconds of `60s`. None: not given. Raises RunError (E0912)."""
    return None if text is None else _amount(option, text, _SECONDS, "a time such as '60 s' or '5 min'")


def _amount(option: str, text: str, units: Mapping[str, float], wanted: str) -> float:
    found = _NUMBER.fullmatch(text)
    unit = units.get(found[2].lower()) if found is not None else None
    if found is None or unit is None or len(found[1]) > 15:
        raise RunError("E0912", f"`{option}` is {wanted}, not '{text[:60]}'")
    return float(found[1]) * unit
