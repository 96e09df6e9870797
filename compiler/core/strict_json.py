"""Strict JSON: numbers that are not finite become null.

Assumes: values of dicts, lists, strings and numbers.
Guarantees: no NaN or Infinity, which are not JSON.
Does not: read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def dumps(value: object, indent: int | None = None) -> str:
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value
