"""Small models for the tests of the runner, as text."""

from __future__ import annotations

from pathlib import Path

NOISY = """\
language: 1
name: noisy
params:
  n: {value: 60, type: int, min: 1}
  weight: {value: 1.5 mV}
neurons:
  lif:
    params: {tau_m: 20 ms, tau_s: 5 ms, v_rest: -60 mV, v_thresh: -50 mV, v_reset: -60 mV, drive: 8 mV}
    state: {v: v_rest}
    inputs: {s: {unit: mV, decay: tau_s}}
    update: [s = s + random() * 0.6 mV]
    dynamics: {dv/dt: (v_rest - v + drive + s) / tau_m}
    spike: {when: v > v_thresh, reset: [v = v_reset], refractory: 1 ms}
populations:
  a: {neuron: lif, size: n, init: {v: {uniform: {low: -60 mV, high: -50 mV}}}}
  b: {neuron: lif, size: 20, params: {drive: 9 mV}}
projections:
  ab:
    from: [a, b]
    to: [a, b]
    connect: {fixed_probability: {p: 0.2}}
    deliver: {into: s, weight: weight}
    delay: 0.3 ms
simulate: {dt: 0.1 ms, duration: 60 ms, seed: 5}
record:
  - spikes: {from: all}
  - trace: {from: a, variables: [v, s], members: [0, 3], every: 0.5 ms}
  - trace: {from: b, variables: [v], members: 0..4, every: 2 ms}
expect:
  - rate: {of: a, between: [1 Hz, 400 Hz]}
  - spikes: {of: b, at_least: 1}
"""

DIGITS = """\
language: 1
name: small_net
params:
  rate: {value: 3e-3, min: 0}
  width: {value: 12, type: int}
network:
  inputs:
    image: {shape: [64]}
    label: {shape: [], dtype: int32}
  layers:
    - dense: {name: hidden, inputs: image, units: width, activation: relu}
    - dropout: {rate: 0.1}
    - dense: {name: logits, units: 10}
train:
  data:
    file: digits.npz
    inputs: {image: flat, label: labels}
    scale: {image: 1 / 16}
    split: {validation: 0.25}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {adam: {learning_rate: rate}}
  batch: 50
  epochs: 4
  seed: 2
  checkpoint: {every: 3}
"""


def write(folder: Path, text: str, name: str = "model.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def without(text: str, *keys: str) -> str:
    """`text` less the top-level blocks called `keys`."""
    kept, skipping = [], False
    for line in text.splitlines(keepends=True):
        if line[:1].strip():
            skipping = line.partition(":")[0] in keys
        if not skipping:
            kept.append(line)
    return "".join(kept)
