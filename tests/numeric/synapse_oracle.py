"""An independent event-by-event simulation of plastic synapses, and the models compared with it.

Assumes: spikes of both ends are prescribed, so that there is no feedback.
Guarantees: plain Python over steps, synapses and neurons, in float64, written from the order of events that the
language defines: every step | arrivals of sources, then their traces | spikes of targets, then their traces.
Does not: share code with the compiler (only the reading of results does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.numeric.simulated import Simulated

DT = 0.1
TOLERANCE = {"float64": 1e-12, "float32": 3e-6}

Spikes = Sequence[tuple[int, int]]
"""(step, neuron)."""

NEURONS = """\
  relay:
    state: {fire: 0 mV, v: 0 mV}
    inputs: {drive: {unit: mV}, a: {unit: mV}, b: {unit: mV}}
    update: [fire = drive, v = v + a + b]
    spike: {when: fire > 0.5 mV, reset: [fire = 0 mV]}
"""
"""A neuron that spikes in the step after something was delivered into `drive`; `v` sums what `a` and `b` get."""


def _given(spikes: Spikes, size: int) -> str:
    times = ", ".join(f"{k / 10:g} ms" for k, _ in spikes)
    indices = ", ".join(str(i) for _, i in spikes)
    return f"{{neuron: library/neurons/spike_times, size: {size}, params: {{times: [{times}], indices: [{indices}]}}}}"


def model_text(
    pre: Spikes,
    post: Spikes,
    sizes: tuple[int, int],
    projections: str,
    synapses: str = "",
    steps: int = 200,
    numerics: str = "{precision: float64}",
    neurons: str = "",
) -> str:
    """A model of relays: the neurons of `s` spike as `pre` says, those of `t` as `post` says (from step 2 on);
    `projections` are from one to the other."""
    earlier = [(k - 1, j) for k, j in post]
    return f"""\
language: 1
name: plastic
neurons:
{NEURONS}{neurons}
{synapses}
populations:
  d: {_given(earlier, sizes[1])}
  p: {_given([(k - 1, i) for k, i in pre], sizes[0])}
  s: {{neuron: relay, size: {sizes[0]}}}
  t: {{neuron: relay, size: {sizes[1]}}}
simulate: {{dt: 0.1 ms, duration: {steps / 10:g} ms, seed: 5}}
record:
  - trace: {{from: [s, t], variables: [a, b, v], members: all}}
  - spikes: {{from: [s, t]}}
numerics: {numerics}
projections:
  drive_t: {{from: d, to: t, connect: {{one_to_one: {{}}}}, deliver: {{into: drive, weight: 1 mV}}}}
  drive_s: {{from: p, to: s, connect: {{one_to_one: {{}}}}, deliver: {{into: drive, weight: 1 mV}}}}
{projections}
"""


@dataclass
class Oracle:
    """Runs a rule. `pairs`: (source, target) of each synapse; `delays` of each; `back`: the back delay. The rule's
    functions get the step and the number of a synapse or neuron; they may be missing."""

    pairs: Sequence[tuple[int, int]]
    pre: Spikes
    post: Spikes
    delays: Sequence[int]
    back: int = 0
    every: Callable[[int], None] | None = None
    on_pre: Callable[[int, int], None] | None = None
    pre_spike: Callable[[int, int], None] | None = None
    on_post: Callable[[int, int], None] | None = None
    post_spike: Callable[[int, int], None] | None = None
    log: list[tuple[int, str, int]] = field(default_factory=list)

    def run(self, steps: int) -> None:
        for step in range(1, steps + 1):
            if self.every is not None:
                self.every(step)
            arrived = set()
            for syn, (i, _) in enumerate(self.pairs):
                if (step - self.delays[syn], i) in self.pre:
                    arrived.add(i)
                    self.log.append((step, "pre", syn))
                    if self.on_pre is not None:
                        self.on_pre(step, syn)
            if self.pre_spike is not None and len(set(self.delays)) == 1:
                for at, i in self.pre:
                    if at == step - self.delays[0]:
                        self.pre_spike(step, i)
            spiked = [j for at, j in self.post if at == step - self.back]
            for j in sorted(spiked):
                for syn, (_, target) in enumerate(self.pairs):
                    if target == j:
                        self.log.append((step, "post", syn))
                        if self.on_post is not None:
                            self.on_post(step, syn)
            if self.post_spike is not None:
                for j in spiked:
                    self.post_spike(step, j)


def trains(seed: int, n: int, steps: int, rate: float = 0.03) -> Spikes:
    """Random spikes of `n` neurons, (step, neuron), ascending; from step 2 on."""
    rng = np.random.default_rng(seed)
    found = np.argwhere(rng.random((steps - 1, n)) < rate)
    return [(int(k) + 2, int(i)) for k, i in found]


def pairs_of(simulated: Simulated, name: str, sizes: tuple[int, int]) -> list[tuple[int, int]]:
    """(source, target) of each synapse in storage order; every pair where nothing is stored."""
    names = {a.name for a in simulated.lowered.program.arrays}
    if f"{name}'row" not in names:
        return [(i, j) for i in range(sizes[0]) for j in range(sizes[1])]
    row, col = simulated.instance.read(f"{name}'row"), simulated.instance.read(f"{name}'col")
    return [(i, int(col[k])) for i in range(sizes[0]) for k in range(int(row[i]), int(row[i + 1]))]


def weights(simulated: Simulated, name: str = "plastic[s->t]", variable: str = "w") -> Any:
    return simulated.instance.read(f"{name}.{variable}")


EVERYTHING = """\
synapses:
  everything:
    params: {tau: 7 ms, gain: 0.5, w_max: 3 mV, p: 0.8}
    state: {w: {uniform: {low: 0 mV, high: w_max}}, s: gain, r: 0}
    let: {product: pre.x * post.y, size: w * product}
    pre: {state: {x: 0.1}, dynamics: {dx/dt: -x / tau}, on_spike: [x = x + gain]}
    post: {state: {y: 0.2, z: 0}, dynamics: {dy/dt: (0.1 - y) / tau}, update: [z = 0.9 * z + y], on_spike: [y = 1]}
    dynamics: {ds/dt: (post.v / (1 mV) - s) / tau}
    update: ["r = r + size / (1 mV)", "deliver(0.01 * s * (1 mV), pre.b)"]
    on_pre:
      - deliver(w if random() < p else 0 mV)
      - w = clip(w + 0.1 * normal() * w_max + post.z * gain * (1 mV), 0 mV, w_max)
    on_post:
      - w = clip(w - pre.x * (t - pre.last_spike) / tau * exp(-(t - pre.last_spike) / tau) * (1 mV), 0 mV, w_max)
    events:
      high: {of: post, when: post.v > 2 mV, do: [s = 0.5 * s, "deliver(s * (1 mV), post.b)"]}
"""


def everything(numerics: str, members: int = 1) -> str:
    pre, post = trains(21, 7, 150, 0.05), trains(22, 5, 150, 0.05)
    projections = "".join(
        f"""\
  plastic_{k}:
    {{from: s, to: t, connect: {{fixed_probability: {{p: {0.5 + 0.4 * k / members:g}}}}}, synapse: everything,
     deliver: {{into: a}}, delay: {0.1 * (1 + k % 5):g} ms, back_delay: {0.1 * (k % 3):g} ms,
     params: {{tau: {5 + k % 4} ms}}}}
"""
        for k in range(members)
    )
    return model_text(pre, post, (7, 5), projections, EVERYTHING, 150, numerics)
