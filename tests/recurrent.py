"""Small trained networks of recurrent layers over random sequences, for tests of chains.

Assumes: a folder to write to.
Guarantees: equal arguments give equal files.
Does not: learn anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from backends.protocol import AnyArray, Instance
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.level2.program import Merged
from compiler.ir.space import Role

BATCH = 64
_MODEL = """\
language: 1
name: sequences
network:
  inputs:
    x: {{shape: [{steps}, 8]}}{mask}
    label: {{shape: [], dtype: int32}}
  layers:
{layers}
    - dense: {{name: logits, units: 10}}
train:
  data: {{file: sequences.npz, inputs: {{x: x, label: label{given}}}}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  optimizer: {{adam: {{learning_rate: 0.01}}}}
  batch: {batch}
  epochs: 1
  seed: 1
"""


@dataclass(frozen=True)
class Network:
    """`layers` layers of a kind, each over all steps of the one before; `begun`: their first states are a layer."""

    kind: str
    units: int
    steps: int
    layers: int = 1
    bidirectional: bool = False
    batch: int = BATCH
    masked: bool = False
    begun: bool = False

    def __str__(self) -> str:
        ways = "_both_ways" if self.bidirectional else ""
        masked = "_masked" if self.masked else ""
        begun = "_begun" if self.begun else ""
        return f"{self.kind}{self.units}_steps{self.steps}_layers{self.layers}_batch{self.batch}{ways}{masked}{begun}"


def text(n: Network) -> str:
    layers = []
    if n.begun:
        units = n.units * (2 if n.bidirectional else 1)
        layers += ["    - flatten: {inputs: x}", f"    - dense: {{name: begin, units: {units}, activation: tanh}}"]
    for k in range(n.layers):
        settings = {"units": str(n.units), "sequence": "true" if k + 1 < n.layers else "false"}
        settings |= {"inputs": "x"} if k == 0 else {}
        settings |= {"bidirectional": "true"} if n.bidirectional else {}
        settings |= {"mask": "there"} if n.masked else {}
        settings |= {"initial": "begin"} if n.begun else {}
        settings |= {"initial_memory": "begin"} if n.begun and n.kind == "lstm" else {}
        layers.append(f"    - {n.kind}: {{{', '.join(f'{key}: {value}' for key, value in settings.items())}}}")
    mask, given = (f"\n    there: {{shape: [{n.steps}]}}", ", there: there") if n.masked else ("", "")
    return _MODEL.format(steps=n.steps, layers="\n".join(layers), batch=n.batch, mask=mask, given=given)


def network(folder: Path, n: Network, precision: str = "float32", order: str = "reproducible") -> Model:
    """The model, from files in `folder`."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((4 * n.batch, n.steps, 8)).astype(np.float32)
    label = rng.integers(0, 10, 4 * n.batch).astype(np.int32)
    there = (np.arange(n.steps) <= rng.integers(0, n.steps, len(x))[:, None]).astype(np.float32)
    np.savez(folder / "sequences.npz", x=x, label=label, there=there)
    (folder / "sequences.yaml").write_text(text(n))
    model = load_model(folder / "sequences.yaml", {})
    return replace(model, numerics=replace(model.numerics, precision=precision, order=order))


def trained(instance: Instance, program: Merged) -> dict[str, AnyArray]:
    """The weights after two steps, and what a validation sums up."""
    for phase in ("train", "eval"):
        order = next(a for a in program.arrays if a.name == f"{phase}.order")
        instance.write(order.name, np.arange(order.physical_size, dtype=np.int32))
    instance.run("train", 1, 2)
    instance.run("eval", 1, 1)
    return {a.name: instance.read(a.name) for a in program.arrays if a.role in (Role.WEIGHT, Role.STATE)}
