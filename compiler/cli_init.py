"""`netloom init`: a small commented model to begin with.

Assumes / guarantees: the texts are legal models (tests/unit/test_cli.py checks and runs them).
Does not: write over a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from compiler.disk import write_text
from compiler.runner.errors import RunError

SPIKING: Final = """\
language: 1
name: {name}
description: Neurons that are driven by noise and inhibit each other.

params:                                  # change them with --set, e.g. --set n=500
  n: {{value: 200, type: int, min: 1, description: Neurons}}
  strength: {{value: -1 mV, description: Weight of the inhibition}}

neurons:
  lif:                                   # or take one of the library: neuron: library/neurons/adex
    params: {{tau_m: 20 ms, tau_s: 5 ms, v_rest: -70 mV, v_thresh: -50 mV, v_reset: -60 mV, drive: 25 mV}}
    state: {{v: v_rest}}
    inputs:
      s: {{unit: mV, decay: tau_s}}        # what projections deliver into; decays by itself
    dynamics:
      dv/dt: (v_rest - v + drive + s) / tau_m
    spike: {{when: v > v_thresh, reset: [v = v_reset], refractory: 2 ms}}

populations:
  cells:
    neuron: lif
    size: n
    init: {{v: {{uniform: {{low: -70 mV, high: -50 mV}}}}}}

projections:
  inhibition:
    from: cells
    to: cells
    connect: {{fixed_probability: {{p: 0.1}}}}
    deliver: {{into: s, weight: strength}}
    delay: 1 ms

simulate: {{dt: 0.1 ms, duration: 500 ms, seed: 1}}

record:
  - spikes: {{from: cells}}
  - trace: {{from: cells, variables: [v], members: 0..2, every: 0.5 ms}}

plots:
  - raster: {{from: cells}}
  - trace: {{from: cells, variable: v}}

expect:                                  # `netloom test` checks these
  - rate: {{of: cells, between: [1 Hz, 100 Hz]}}
"""

NETWORK: Final = """\
language: 1
name: {name}
description: A network that learns the digits in the file that `data` names.

params:                                  # change them with --set, e.g. --set width=256
  width: {{value: 128, type: int, min: 1, description: Hidden units}}
  learning_rate: {{value: 1e-3, min: 0}}

network:
  inputs:
    image: {{shape: [64]}}                 # one sample; the batch is not written
    label: {{shape: [], dtype: int32}}
  layers:                                # each takes the one before it, unless it has `inputs`
    - dense: {{inputs: image, units: width, activation: relu}}
    - dense: {{name: logits, units: 10}}

train:
  data:
    file: digits.npz                     # arrays of an .npz file: (samples, ...)
    inputs: {{image: flat, label: labels}}
    scale: {{image: 1 / 16}}
    split: {{validation: 0.2}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  metrics: [accuracy]
  optimizer: {{adam: {{learning_rate: learning_rate}}}}
  batch: 64
  epochs: 10
  seed: 1

expect:                                  # `netloom test` checks these
  - metric: {{name: validation_accuracy, at_least: 0.9}}
"""


def model_text(kind: str, name: str) -> str:
    """The text of a starter model."""
    return (SPIKING if kind == "spiking" else NETWORK).format(name=name)


def write_model(file: Path, kind: str) -> None:
    """Write the starter model of a kind. Raises RunError (E0911, exit 2) when the file exists."""
    if file.exists():
        raise RunError("E0911", f"`{file}` exists", "choose another name", exit_code=2)
    name = "".join(c if c.isalnum() else "_" for c in file.stem)
    name = name if name[:1].isalpha() else f"m{name}"
    write_text(file, model_text(kind, name), "the model")
    typer.echo(f"{file} written; run it with: netloom run {file}")
