"""Training step by step, without a run directory: a model text, its weights before and after any batch.

Assumes: a model with `train` whose data the caller has written beside it.
Guarantees: batches are what the caller says; weights are read and written in logical shape.
Does not: shuffle, split or validate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.protocol import Instance
from backends.registry import backend
from compiler.ir.level1.graph import Variable, Weight
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.arrays import read_logical, to_physical
from compiler.runtime.training.data import as_batches
from tests.numeric.simulated import Array, model_of


@dataclass
class Trained:
    """`names`: trained values; `running`: running statistics."""

    instance: Instance
    program: Merged
    names: tuple[str, ...]
    running: tuple[str, ...]
    batch: int

    def read(self, name: str) -> Array:
        array = next(a for a in self.program.arrays if a.name == name)
        found: Array = read_logical(self.instance, array).copy()
        return found

    def write(self, name: str, values: Array) -> None:
        array = next(a for a in self.program.arrays if a.name == name)
        self.instance.write(name, to_physical(array, np.asarray(values, array.dtype.numpy)))

    def weights(self) -> dict[str, Array]:
        return {n: self.read(n) for n in self.names}

    def statistics(self) -> dict[str, Array]:
        return {n: self.read(n) for n in self.running}

    def metric(self, name: str) -> float:
        """A sum since the last call; it becomes zero."""
        array = next(a for a in self.program.arrays if a.name == f"metric.{name}")
        total = float(np.sum(self.instance.read(array.name)))
        self.instance.write(array.name, np.zeros(array.physical_size, array.dtype.numpy))
        return total

    def step(self, number: int, samples: Sequence[int], phase: str = "train") -> None:
        """Run one batch, the `number`-th (from 1), of at most `batch` samples."""
        array = next(a for a in self.program.arrays if a.name == f"{phase}.order")
        batches = array.shape[0]
        rows = np.full((batches, self.batch), -1, np.int32)
        rows[(number - 1) % batches, : len(samples)] = samples
        order = as_batches(rows.reshape(-1), self.batch, (array.shape[0], array.shape[1]))
        self.instance.write(array.name, order.reshape(-1))
        assert self.instance.run(phase, number, 1) == 1


def load(
    text: str,
    folder: Path,
    target: str = "cpu",
    settings: Mapping[str, str] | None = None,
    lowered_for: str = "",
    only: frozenset[str] | None = None,
) -> Trained:
    """Lower (every pass verified), build and initialise. `lowered_for`: another target, whose program `target` runs;
    `only`: of the optional passes."""
    model = model_of(text, folder, settings)
    assert model.train is not None
    chosen = backend(target)
    lowered = lower(model, backend(lowered_for or target).capabilities, verify=True, only=only)
    artifact = chosen.build(lowered.merged, folder / f"build-{target}", {})
    instance = chosen.load(artifact, lowered.merged, model.train.seed)
    nodes = [n for g in lowered.tensors for n in g.nodes]
    trained = dict.fromkeys(n.out.name for n in nodes if isinstance(n, Weight))
    kept = dict.fromkeys(n.out.name for n in nodes if isinstance(n, Variable) and not n.out.name.startswith("metric."))
    return Trained(instance, lowered.merged, tuple(trained), tuple(kept), model.train.batch)
