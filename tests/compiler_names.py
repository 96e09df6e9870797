"""A small model that uses most constructs, and names for it that the compiler uses itself.

Assumes: nothing.
Guarantees: `VARIANTS` has each name once or more, in different roles; `named` makes the model with some of them.
Does not: say what it computes (tests compare it with the same model with plain names).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model

_ROLES = """
    gain1 level1 input1 state1 other1 let1 local1 reduced1 pooled1 trial1
    rate1 each1 w1 count1 part1 trace1 echo1 scale1 noise1
    """
ROLES = _ROLES.split()
"""What stands in the model."""
_TAKEN = """
    i n key spikes step slot slots ring_slots held spiked refractory_steps warmup_steps pool_index pool_of members acc
    largest out driven undriven driven_first step_length event_mean k m row col words n_pre n_post weight delay delays
    late syn event index exists updated due age gone many happens connect_key table copies elapsed cleared_at
    cleared_every back_delays past_slot arrived room counts same number rule value past w_from before x_j x_i a self
    real ctx rows lo hi last nl_me threadIdx blockIdx double register restrict this template auto static volatile
    inline kernel half local constant private skip hit holds word pool_a target source probability draw run xs ys
    first main printf uint32_t min float
    """
TAKEN = _TAKEN.split()
"""Formals, dims and locals of the compiler, variables of targets' texts, words of their languages."""
DERIVED = {
    "other1": "state1_next",
    "let1": "decay_input1",
    "level1": "P_state1_input1",
    "gain1": "let1_now",
    "local1": "input1_delivered",
    "pooled1": "trial1_every",
    "reduced1": "state1_kept",
    "count1": "w1_next",
    "part1": "pre_trace1",
    "rate1": "part1_now",
    "each1": "post_input1",
    "echo1": "decay_trace1",
    "scale1": "noise1_timed",
}
"""Names that passes might derive from others."""
VARIANTS = [
    *(dict(zip(ROLES, TAKEN[k : k + len(ROLES)], strict=True)) for k in range(0, len(TAKEN) - len(ROLES), 14)),
    {r: DERIVED.get(r, r) for r in ROLES},
]

MODEL = """\
language: 1
name: names
params: {scale1: {value: 0.9}}
phases: {trial1: {every: 7 ms, events: {start: 0 ms, mid: 3 ms, end: 7 ms}}}
timed: {noise1: {values: [0.0, 0.4, 0.1], every: 5 ms, interpolate: true}}
neurons:
  cell:
    params: {gain1: 0.7, level1: 1.6}
    state: {state1: 0.3, other1: 0}
    inputs: {input1: {decay: 4 ms}}
    let: {let1: level1 - state1 + 0.1 * input1}
    pool:
      reduce: {reduced1: mean(state1)}
      state: {pooled1: 0.1}
      update: [local1 = 0.1 * (reduced1 - pooled1), pooled1 = pooled1 + gain1 * local1 + 0.01 * random()]
      on: {trial1.end: [pooled1 = pooled1 + 0.05 * mean(state1)]}
    dynamics: {dstate1/dt: (let1 - pool.pooled1 + noise1(t)) / (9 ms)}
    update:
      - state1 = state1 + 0.05 * random() + (0.1 if trial1.step == 3 else 0)
      - other1 = 0.5 * other1 + exp(state1 - pool.reduced1) + scale1 * let1
    spike: {when: state1 > 0.9, reset: [state1 = 0.1 * level1], refractory: 2 ms}
    on:
      trial1.mid: [local1 = state1, other1 = other1 + local1 * random() + 0.1 * max_population(state1) + trial1.count]
synapses:
  plastic:
    params: {rate1: 0.1, each1: 1}
    state: {w1: 0.5, count1: 0}
    let: {part1: w1 * rate1}
    pre: {state: {trace1: 0.5}, dynamics: {dtrace1/dt: -trace1 / (8 ms)}, on_spike: [trace1 = trace1 + 1]}
    post: {state: {echo1: 0}, dynamics: {decho1/dt: -echo1 / (8 ms)}, on_spike: [echo1 = 0.5 * echo1 + 1]}
    dynamics: {dw1/dt: (0.5 - part1 - w1) / (40 ms)}
    on_pre: [deliver(0.1 * part1 * each1 + 0.001 * pre.trace1), local1 = count1, count1 = local1 + 1]
    on_post: [w1 = w1 + 0.001 * pre.trace1 * post.echo1 + 0.01 / (1 + (t - pre.last_spike) / (1 ms))]
    on: {trial1.end: [w1 = 0.9 * w1 + 0.1 * sum_post(w1) / (30 + sum_post(count1)) + 0.01 * trial1.count]}
currents:
  own:
    params: {rate1: 5 ms}
    state: {w1: 1}
    let: {part1: 1 + w1}
    dynamics: {dw1/dt: -w1 / rate1}
    value: 0.1 * part1 * noise1(t)
populations:
  a: {neuron: cell, size: 24, pools: 4}
  b: {neuron: cell, size: 15, params: {level1: 1.5 + 0.01 * self.i}}
inputs: {more: {to: b, current: {into: level1, source: own}}}
projections:
  placed: {from: [a, b], to: b, connect: {all_to_all: {}}, deliver: {into: input1, weight: 0.01 * (1 + i) / n_in}}
  ruled:
    from: a
    to: b
    connect: {rule: {probability: scale1 * exp(-abs(i - j) / 9), storage: procedural}}
    deliver: {into: input1, weight: {uniform: {low: 0, high: 0.1}}}
    delay: 3 ms
  plastic:
    from: [a, b]
    to: a
    connect: {fixed_probability: {p: 0.3}}
    synapse: plastic
    deliver: {into: input1}
    params: {each1: 0.5 + 0.01 * j}
    delay: 2 ms
  again:
    from: a
    to: a
    connect: {fixed_probability: {p: 0.3, storage: procedural}}
    synapse: graded
    params: {each1: 0.02 * (1 + i) * scale1}
  drawn:
    from: a
    to: b
    connect: {fixed_probability: {p: 0.3, storage: procedural}}
    synapse: known
    deliver: {into: input1}
    params: {w1: 0.01 * (1 + i) / n_in}
simulate: {dt: 1 ms, duration: 22 ms, warmup: 3 ms, seed: 9}
numerics: {order: bitwise}
record:
  - spikes: {from: all}
  - trace: {from: all, variables: [state1, other1, pool.pooled1, input1], members: 0..3}
"""
PLAIN = {r: r for r in ROLES}
WITHOUT_STATE = """\
  graded: {params: {each1: 1, rate1: 0.02}, update: ["deliver(each1 * rate1 * pre.state1, post.input1)"]}
  known: {params: {w1: 1, rate1: 0.3}, on_pre: [deliver(w1 * rate1 * scale1)]}
"""


def renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(
        rf"\b([d_]?)({'|'.join(names)})\b",
        lambda m: m[0] if m[1] == "d" and not text.startswith("/dt", m.end()) else m[1] + names[m[2]],
        text,
    )


def named(folder: Path, names: Mapping[str, str]) -> Model:
    folder.mkdir()
    path = folder / "model.yaml"
    path.write_text(renamed(MODEL.replace("currents:\n", f"{WITHOUT_STATE}currents:\n"), names))
    return load_model(path, {})
