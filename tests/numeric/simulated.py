"""Model text to recorded spikes and traces, through load_model, lowering and a backend, without a run directory.

Assumes: a model with `simulate`; its records define the results.
Guarantees: every pass is verified; buffers are drained, so results cover the whole run.
Does not: write files other than the model text, or use the runner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.protocol import Artifact, Instance
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.passes.pipeline.lower import Lowered, lower

Array = npt.NDArray[Any]


def model_of(text: str, folder: Path, settings: Mapping[str, str] | None = None, name: str = "model") -> Model:
    """The checked model of a YAML text."""
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return load_model(path, settings or {})


@dataclass
class Simulated:
    """A run: `spikes[population]` is (k, 2) of step and neuron, in order of time and neuron;
    `traces[population, variable]` is (samples, members). The instance is left after the last step."""

    model: Model
    lowered: Lowered
    artifact: Artifact
    instance: Instance
    spikes: dict[str, Array] = field(default_factory=dict)
    traces: dict[tuple[str, str], Array] = field(default_factory=dict)

    def steps_of(self, population: str, neuron: int = 0) -> list[int]:
        """The steps in which one neuron spiked."""
        pairs = self.spikes[population]
        return [int(step) for step, index in pairs if index == neuron]

    def trace(self, population: str, variable: str, member: int = 0) -> Array:
        """One variable of one recorded member, from step 1 on (with every: 1)."""
        found: Array = self.traces[population, variable][:, member]
        return found


def start(model: Model, folder: Path, target: str = "cpu", seed: int | None = None) -> Simulated:
    """Lower, build and load; nothing has run yet."""
    chosen = backend(target)
    lowered = lower(model, chosen.capabilities, verify=True)
    artifact = chosen.build(lowered.merged, folder / f"build-{target}", {})
    assert model.simulate is not None
    instance = chosen.load(artifact, lowered.merged, model.simulate.seed if seed is None else seed)
    return Simulated(model, lowered, artifact, instance)


def run(simulated: Simulated, steps: int, first: int = 1) -> Simulated:
    """Run steps first .. first + steps - 1 and keep what they record."""
    model, instance = simulated.model, simulated.instance
    spikes: dict[str, list[Array]] = {p: [] for r in model.spikes for p in r.populations}
    traces: dict[tuple[str, str], list[Array]] = {}
    buffers = {
        (record.population, variable): (f"{record.population}.{variable}'record.{number}", len(record.members))
        for number, record in enumerate(model.traces)
        for variable in record.variables
    }
    done = 0
    while done < steps:
        ran = instance.run("step", first + done, steps - done)
        assert ran > 0
        done += ran
        for name, blocks in spikes.items():
            used = int(instance.read(f"{name}'spikes'record'used")[0])
            blocks.append(instance.read(f"{name}'spikes'record")[: 2 * used].reshape(-1, 2))
            instance.write(f"{name}'spikes'record'used", np.zeros(1, np.int64))
        for key, (buffer, members) in buffers.items():
            used = int(instance.read(f"{buffer}'used")[0])
            traces.setdefault(key, []).append(instance.read(buffer)[: used * members].reshape(used, members))
            instance.write(f"{buffer}'used", np.zeros(1, np.int64))
    for name, blocks in spikes.items():
        pairs = np.concatenate(blocks)
        simulated.spikes[name] = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    for key, blocks in traces.items():
        simulated.traces[key] = np.concatenate(blocks)
    return simulated


def simulate(
    text: str,
    folder: Path,
    target: str = "cpu",
    settings: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> Simulated:
    """The whole run of a model text."""
    model = model_of(text, folder, settings)
    assert model.simulate is not None
    return run(start(model, folder, target, seed), model.simulate.warmup + model.simulate.steps)
