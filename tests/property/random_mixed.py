"""Random models of layers and populations together: layers drive neurons, whose activity a readout is trained on."""

from __future__ import annotations

import random

import numpy as np

SAMPLES, STEPS = 14, 12


def mixed_data(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(SAMPLES, 6)).astype(np.float32), "y": rng.integers(0, 3, SAMPLES)}


def mixed_model(seed: int) -> str:
    """The text of a model, which reads `data.npz` beside it."""
    rng = random.Random(f"mixed {seed}")
    size = rng.randint(3, 9)
    frames = rng.choice((1, 2, 4))
    of = rng.choice(("spikes", "rate", "v", "g"))
    every = f", every: {rng.choice((3, 4, 6))} ms" if rng.random() < 0.6 else ""
    noise = rng.choice(("", " + 0.2 * random()", " + 0.1 * normal()"))
    driven = rng.choice(("frames", "held"))
    encoder = ["- dense: {name: enc, inputs: x, units: UNITS, activation: tanh}"]
    if driven == "frames" and frames > 1:
        encoder = [encoder[0].replace("UNITS", str(frames * size))]
        encoder.append(f"- reshape: {{name: rows, shape: [{frames}, {size}]}}")
    else:
        encoder = [encoder[0].replace("UNITS", str(size))]
    layer = "rows" if len(encoder) == 2 else "enc"
    direct = rng.random() < 0.5
    current = f"source: {{layer: {layer}, unit: '1'}}" if direct else 'amplitude: "0.8 * drive(t, i)"'
    plastic = rng.random() < 0.5
    synapse = "synapse: learns, deliver: {into: g}" if plastic else "deliver: {into: g, weight: 0.2}"
    rule = rng.choice(
        ("all_to_all: {}", "fixed_probability: {p: 0.4}", "one_to_one: {}", "fixed_indegree: {number: 2}")
    )
    head = rng.choice((["- flatten: {inputs: act}"], ["- flatten: {inputs: act}", "- layer_norm: {}"]))
    if every and rng.random() < 0.5:
        head = [f"- {rng.choice(('gru', 'rnn'))}: {{inputs: act, units: 3}}"]
    penalty = rng.choice(("", "  penalty: {l2: 1e-2}\n"))
    frozen = "  groups: [{of: enc, frozen: true}]\n"
    layers = "\n".join(f"    {x}" for x in (*encoder, *head, "- dense: {name: out, units: 3}"))
    return f"""\
language: 1
name: mixed_{seed}
network:
  inputs:
    x: {{shape: [6]}}
    y: {{shape: [], dtype: int32}}
    act: {{from: p, of: {of}{every}}}
  layers:
{layers}
neurons:
  cell:
    params: {{I: 0}}
    inputs: {{g: {{decay: {rng.choice((2, 5))} ms}}}}
    state: {{v: {rng.choice(("0", "{uniform: {low: 0, high: 0.5}}"))}}}
    update: ['v = clip(0.8 * v + 0.5 * I + g{noise}, -5, 5)']
    spike: {{when: v > 0.6, reset: [v = 0]}}
synapses:
  learns:
    state: {{w: 0.1}}
    post: {{state: {{z: 0}}, dynamics: {{dz/dt: -z / (5 ms)}}, on_spike: [z = z + 1]}}
    on_pre: [deliver(w), w = w + 0.05 * post.z]
populations: {{p: {{neuron: cell, size: {size}}}}}
projections:
  r: {{from: p, to: p, connect: {{{rule}}}, {synapse}, delay: {rng.choice((0, 1, 2))} ms}}
{"" if direct else f"timed: {{drive: {{layer: {layer}}}}}"}
inputs:
  d: {{to: p, current: {{into: I, {current}}}}}
simulate: {{dt: {rng.choice(("1", "0.5"))} ms, duration: {STEPS} ms, seed: {rng.randrange(99)}}}
train:
  data: {{file: data.npz, inputs: {{x: x, y: y}}{rng.choice(("", ", split: {validation: 0.3}"))}}}
  loss: {{softmax_cross_entropy: {{logits: out, target: y}}}}
  optimizer: {{{rng.choice(("sgd", "adam", "momentum"))}: {{learning_rate: 0.05}}}}
{penalty}{frozen}  batch: {rng.choice((4, 5))}
  epochs: 2
  seed: {rng.randrange(99)}
numerics: {{precision: {rng.choice(("float32", "float64"))}, order: bitwise}}
"""
