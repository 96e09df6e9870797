"""`netloom init`: writes a small commented model to start from.

Assumes: the data and the schema that are installed with the compiler (compiler/core/resources.py).
Guarantees: the texts are legal models that run at once (tests/unit/test_cli.py and tests/wheel run them).
Does not: write over a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from compiler.core.disk import write_bytes, write_text
from compiler.core.errors import RunError
from compiler.core.resources import digits_path, schema_path

DATA: Final = "digits.npz"

SPIKING: Final = """\
# yaml-language-server: $schema={schema}
language: 1
name: {name}
description: Neurons that noise drives to fire irregularly, and that inhibit each other.

params:                                  # change them with --set, e.g. --set n=500
  n: {{value: 200, type: int, min: 1, description: Neurons}}
  noise: {{value: 1 kHz, min: 0 Hz, description: Excitatory events of the surroundings that a neuron gets}}
  strength: {{value: -3 mV, max: 0 mV, description: Weight of the inhibition}}

neurons:
  lif:                                   # or take one of the library: neuron: library/neurons/adex
    params: {{tau_m: 20 ms, tau_s: 5 ms, v_rest: -70 mV, v_thresh: -50 mV, v_reset: -60 mV}}
    state: {{v: v_rest}}
    inputs:
      s: {{unit: mV, decay: tau_s}}        # what is delivered into; decays by itself
    dynamics:
      dv/dt: (v_rest - v + s) / tau_m
    spike: {{when: v > v_thresh, reset: [v = v_reset], refractory: 2 ms}}

populations:
  cells:
    neuron: lif
    size: n
    init: {{v: {{uniform: {{low: -70 mV, high: -50 mV}}}}}}

inputs:
  surroundings:                          # a Poisson train of its own for every neuron
    to: cells
    poisson: {{rate: noise, into: s, weight: 3.6 mV}}

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
  - rate: {{of: cells, between: [2 Hz, 30 Hz]}}
"""

NETWORK: Final = """\
# yaml-language-server: $schema={schema}
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


IGNORED: Final = "build/\nruns/\n"
"""The .gitignore: everything that can be generated."""


def model_text(kind: str, name: str) -> str:
    """The text of a starter model. Its first line tells editors where the schema of this version is."""
    schema = (schema_path() / "model.schema.json").absolute().as_uri()
    return (SPIKING if kind == "spiking" else NETWORK).format(name=name, schema=schema)


def model_file(file: Path) -> Path:
    """`file` with the suffix .yaml, which is added where there is none. Raises RunError (E0912, exit 2) where it has
    another."""
    if file.suffix in (".yaml", ".yml"):
        return file
    named = file.with_name(f"{file.name}.yaml")
    if file.suffix:
        raise RunError("E0912", f"`{file}` does not end in .yaml", f"write `netloom init {named}`", exit_code=2)
    return named


def write_model(file: Path, kind: str) -> None:
    """Write the starter model of a kind, with the data that it reads and a .gitignore beside it. Raises RunError
    (E0911, E0912, exit 2) when the model exists, or other data have the name of its own; nothing is written then."""
    file = model_file(file)
    if file.exists():
        raise RunError("E0911", f"`{file}` exists", "choose another name", exit_code=2)
    digits = digits_path().read_bytes() if kind == "network" else None
    data = file.with_name(DATA)
    if digits is not None and data.exists() and data.read_bytes() != digits:
        message = f"`{data}` exists and holds other data than the digits of this model"
        raise RunError("E0911", message, "write the model into another folder", exit_code=2)
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in file.stem)
    name = f"m{name}" if not name[:1].isalpha() or name.lower() in ("null", "true", "false") else name
    written = [file.name]
    if digits is not None and not data.exists():
        write_bytes(data, digits, "the data of the model")
        written.append(DATA)
    try:
        write_text(file, model_text(kind, name), "the model")
    except RunError:
        for other in written[1:]:
            file.with_name(other).unlink(missing_ok=True)
        raise
    ignored = file.with_name(".gitignore")
    if not ignored.exists():
        write_text(ignored, IGNORED, "what git ignores")
        written.append(ignored.name)
    beside = f" (beside it {' and '.join(written[1:])})" if written[1:] else ""
    typer.echo(f"{file} written{beside}; run it with: netloom run {file}")
