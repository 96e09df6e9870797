"""What the records of a simulation have begun, in a checkpoint: incomplete bins of rates, and how often in a row the
model's criterion was met.

Assumes: the records are drained up to the checkpoint.
Guarantees: what `arrays` gives, `read_begun` finds; a checkpoint without it begins anew.
Does not: write or find checkpoints (compiler/runtime/artifacts/checkpoint.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from backends.protocol import AnyArray
from compiler.runtime.artifacts.checkpoint import begun_of_checkpoint
from compiler.runtime.record.record_rates import RateWriter
from compiler.runtime.record.tables import Criterion

_FROM: Final = "from"
_HELD: Final = "stop"
_RATES: Final = "rates/"
_ROWS: Final = "rows/"


@dataclass(frozen=True)
class Begun:
    """`recorded_from`: the step (after the warm-up) before the first one that is in the folder's records; `held` as in
    Criterion; `rates` as RateWriter.rests; `rows` as Writers.rows: where records are shorter, some are missing."""

    recorded_from: int = 0
    held: int = 0
    rates: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    rows: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def arrays(self) -> dict[str, AnyArray]:
        """For save_checkpoint."""
        numbers = {_FROM: self.recorded_from, _HELD: self.held}
        found: dict[str, AnyArray] = {name: np.array([value], np.int64) for name, value in numbers.items()}
        found |= {f"{_RATES}{name}": counts for name, counts in self.rates.items()}
        return found | {f"{_ROWS}{name}": counts for name, counts in self.rows.items()}


def begun(recorded_from: int, rates: RateWriter | None, criterion: Criterion | None) -> Begun:
    """What records have begun now."""
    held = 0 if criterion is None else criterion.held
    return Begun(recorded_from, held, {} if rates is None else dict(rates.rests()))


def read_begun(path: Path) -> Begun:
    """Of the run that wrote a checkpoint. Raises RunError (E0909, E0927)."""
    found = begun_of_checkpoint(path)
    rates = {n.removeprefix(_RATES): np.asarray(v, np.float64) for n, v in found.items() if n.startswith(_RATES)}
    rows = {n.removeprefix(_ROWS): np.asarray(v, np.int64) for n, v in found.items() if n.startswith(_ROWS)}
    recorded_from, held = (int(np.asarray(found[n])[0]) if n in found else 0 for n in (_FROM, _HELD))
    return Begun(recorded_from, held, rates, rows)
