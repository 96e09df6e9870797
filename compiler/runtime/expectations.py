"""The expectations of a model (`expect:`), checked against the results of a run.

Assumes: the frontend refuses expectations about what is not recorded; rates in Hz by population, spike counts, and
the metrics of the last epoch.
Guarantees: one Check for each population or metric that an expectation names, in the order of the file.
Does not: run anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import compiler.ir.level0.model as l0


@dataclass(frozen=True)
class Check:
    """`subject` ("rate of exc") was `value`; good is low <= value <= high (None: no bound)."""

    subject: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    met: bool

    @property
    def bounds(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.low is not None and self.low == self.high:
            return f"{self.low:g}{unit}"
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}{unit}"
        return f"at least {self.low:g}{unit}" if self.low is not None else f"at most {self.high:g}{unit}"

    @property
    def shown(self) -> str:
        return "-" if self.value is None else f"{self.value:.4g}{' ' + self.unit if self.unit else ''}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _names(value: object) -> tuple[str, ...]:
    return tuple(str(v) for v in value) if isinstance(value, tuple) else (str(value),)


def _check(subject: str, value: float | None, low: float | None, high: float | None, unit: str = "") -> Check:
    met = (
        value is not None and math.isfinite(value) and (low is None or value >= low) and (high is None or value <= high)
    )
    return Check(subject, value, low, high, unit, met)


def _bound(args: Mapping[str, Any], name: str) -> float | None:
    value = args.get(name)
    return None if value is None else float(value)


def check_expectations(
    model: l0.Model,
    rates: Mapping[str, float],
    counts: Mapping[str, int],
    metrics: Mapping[str, float],
) -> tuple[Check, ...]:
    """Every expectation of the model against a run's results. `rates` in Hz; bounds of rates are in 1/ms."""
    checks: list[Check] = []
    for item in model.expect:
        args: dict[str, Any] = dict(item.args)
        if item.kind == "metric":
            name = str(args["name"])
            low, high = _bound(args, "at_least"), _bound(args, "at_most")
            checks.append(_check(name, metrics.get(name), low, high))
            continue
        for name in _names(args["of"]):
            if item.kind == "rate":
                low, high = (1000 * x for x in rate_bounds(args))
                # Bounds were converted to 1/ms and back: 1e-9 of them is rounding.
                low, high = float(f"{low:.9g}"), float(f"{high:.9g}")
                checks.append(_check(f"rate of {name}", rates.get(name), low, high, "Hz"))
            else:
                low, high = _bound(args, "at_least"), _bound(args, "at_most")
                exact = _bound(args, "count")
                if exact is not None:
                    low = high = exact
                count = counts.get(name)
                checks.append(_check(f"spikes of {name}", count, low, high))
    return tuple(checks)


def rate_bounds(args: Mapping[str, Any]) -> tuple[float, float]:
    """The bounds of a `rate` expectation in 1/ms."""
    return float(args["at_least"]), float(args["at_most"])
