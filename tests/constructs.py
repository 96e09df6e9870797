"""Small models that together use every construct of the spiking language, as texts.

Assumes: the files of `write_files` lie beside a model.
Guarantees: `CONSTRUCTS` is one list for the tests that compare cpu with reference, compile CUDA's texts and compare
cuda with cpu (construct_runs.py); tests/cpu/test_constructs.py checks that no rule, storage, library file or kind of
record is missing.
Does not: check results against expected values (tests/numeric does).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.numeric.synapse_oracle import everything
from tests.numeric.test_library_bits import DRIVES, STATELESS

# ------------------------------------------------------------------------------------------ connecting

CONNECTED = """\
language: 1
name: connected
neurons:
  cell: {{state: {{v: 0}}, inputs: {{g: {{}}}}, update: [v = 0.9 * v + g], spike: {{when: random() < 0.15, reset: []}}}}
populations:
  s: {{neuron: cell, {source}}}
{targets}
projections:
{projections}
simulate: {{dt: 1 ms, duration: {steps} ms, seed: 12}}
record:
  - spikes: {{from: all}}
  - trace: {{from: all, variables: [v], members: all}}
"""
LATE = "{uniform: {low: 0 ms, high: 9 ms, round: nearest}}"
SKEWED = (
    "{exponential: {mean: 2 ms, max: 9 ms, round: nearest}}",
    "{lognormal: {mean: 3 ms, std: 2 ms, min: 1 ms, max: 12 ms, round: nearest}}",
)
BY_PLACE = "0.2 * exp(-distance / 2) + 0.01 * (i % 3) * x_j / w_to"
FAR = "{value: distance * 2.3 ms, round: nearest}"
DRAWN = "{normal: {mean: 0.3, std: 0.1, min: 0, keep_sign: true}}"


def connected(
    source: str,
    entries: Sequence[tuple[str, ...]],
    target: str | None = None,
    steps: int = 40,
    parts: tuple[str, str] | None = None,
) -> str:
    """A projection for each entry (connect, weight, delay, target): into a population of its own, or, with the target
    `s`, from the source onto itself. `parts`: of source and target, which are connected alone."""
    targets, projections = [], []
    for k, entry in enumerate(entries):
        connect, weight, delay, onto = (*entry, *("", "0.3", "0 ms", target or source)[len(entry) :])
        if onto != "s":
            targets.append(f"  t{k}: {{neuron: cell, {onto}}}")
        to = "s" if onto == "s" else f"t{k}"
        deliver = f"deliver: {{into: g, weight: {weight}}}, delay: {delay}"
        ends = f"from: s, to: {to}" if parts is None else f'from: "s[{parts[0]}]", to: "{to}[{parts[1]}]"'
        projections.append(f"  p{k}: {{{ends}, connect: {{{connect}}}, {deliver}}}")
    return CONNECTED.format(source=source, targets="\n".join(targets), projections="\n".join(projections), steps=steps)


def stored(rule: str, arguments: str, storages: str, *more: str) -> list[tuple[str, ...]]:
    """One entry for each storage."""
    comma = ", " if arguments else ""
    return [(f"{rule}: {{{arguments}{comma}storage: {storage}}}", *more) for storage in storages.split()]


LINE = "size: 23"
GRID = "shape: [4, 6]"
PLANES = "shape: [2, 6, 7]"
POOLS = "shape: [3, 2, 2, 2]"
PAIRS = "pairs: {list: [[3, 2], [0, 22], [22, 0], [3, 3], [0, 1]]}"
FIVE = "[0.1, 0.2, 0.3, 0.4, 0.5]"
KERNEL = "{file: given.npz, array: kernel}"

CONNECTING = {
    "all to all": connected(
        LINE,
        [
            *stored("all_to_all", "", "auto sparse dense bitmask procedural"),
            *stored("all_to_all", "", "auto sparse", DRAWN, LATE),
            *stored("all_to_all", "autapses: false", "auto sparse bitmask", "0.2", "1 ms", "s"),
            ("all_to_all: {autapses: false}", DRAWN, "2 ms", "s"),
        ],
        "size: 9",
    ),
    "one to one": connected(
        LINE,
        [
            *stored("one_to_one", "", "auto sparse bitmask procedural"),
            *stored("one_to_one", "", "auto sparse", DRAWN, LATE),
        ],
    ),
    "fixed probability": connected(
        LINE,
        [
            *stored("fixed_probability", "p: 0.3", "auto sparse bitmask procedural"),
            *stored("fixed_probability", "p: 0.3, autapses: false", "sparse bitmask procedural", "0.1", "3 ms", "s"),
            *stored("fixed_probability", "p: 0.6", "sparse procedural", "{exponential: {mean: 0.2}}"),
            ("fixed_probability: {p: 0.5}", "{lognormal: {mean: 0.2, std: 0.1}}", LATE),
            ("fixed_probability: {p: 0.5}", "{exponential: {mean: 0.2, min: 0.1, max: 0.4}}", SKEWED[0]),
            ("fixed_probability: {p: 0.5}", "{lognormal: {mean: 0.2, std: 0.1, max: 0.3}}", SKEWED[1]),
        ],
        "size: 31",
    ),
    "fixed degrees": connected(
        LINE,
        [
            ("fixed_indegree: {number: 5}",),
            ("fixed_indegree: {number: 5, multapses: false}", DRAWN, LATE),
            ("fixed_indegree: {number: 22, multapses: false, autapses: false}", "0.1", "1 ms", "s"),
            *stored("fixed_outdegree", "number: 6", "sparse procedural"),
            *stored("fixed_outdegree", "number: 6, multapses: false", "sparse procedural"),
            ("fixed_outdegree: {number: 6, multapses: false}", DRAWN),
            *stored("fixed_outdegree", "number: 3, autapses: false", "sparse procedural", "0.1", "1 ms", "s"),
        ],
        "size: 31",
    ),
    "fixed total": connected(
        LINE,
        [
            ("fixed_total: {number: 200}",),
            ("fixed_total: {number: 200, multapses: false}", DRAWN, LATE),
            ("fixed_total: {number: 100, autapses: false}", "{uniform: {low: 0, high: 0.2}}", "1 ms", "s"),
        ],
        "size: 31",
    ),
    "rule": connected(
        GRID,
        [
            *stored("rule", "probability: 0.9 * exp(-distance / 2), periodic: true", "sparse bitmask procedural"),
            *stored("rule", "when: abs(x_i - x_j) <= 1 and y_i == y_j", "sparse bitmask procedural"),
            ("rule: {probability: exp(-distance / (30 um)), spacing: 20 um, when: i != j}", DRAWN, LATE),
            *stored(
                "rule",
                "probability: 0.1 * (1 + c_j + i / n_from), autapses: false",
                "sparse procedural",
                "0.1",
                "1 ms",
                "s",
            ),
        ],
    ),
    "tile": connected(
        POOLS,
        [
            *stored("tile", "size: 2, step: 1, start: -1", "sparse bitmask procedural"),
            *stored("tile", "size: [2, 1], periodic: true, autapses: false", "sparse procedural", "0.1", "1 ms", "s"),
            ("tile: {size: 1, reversed: true}", "0.1 * (1 + py_i + px_j)", LATE),
            ("rule: {probability: 0.4 + 0.2 * py_j * px_i / pw_from, when: py_i != px_j}", DRAWN),
        ],
    ),
    "values by place": connected(
        GRID,
        [
            *stored("all_to_all", "", "auto sparse bitmask procedural", BY_PLACE),
            *stored("all_to_all", "autapses: false", "auto", BY_PLACE, FAR, "s"),
            ("one_to_one: {}", BY_PLACE, FAR),
            *stored("fixed_probability", "p: 0.4", "sparse bitmask procedural", BY_PLACE),
            *stored("fixed_outdegree", "number: 5", "sparse procedural", BY_PLACE),
            ("fixed_indegree: {number: 5}", "0.1 * (1 + y_i)", FAR),
            ("rule: {when: distance < 50 um, spacing: 20 um, periodic: true}", "distance / (100 um)", "2 ms"),
            ("pairs: {list: [[3, 2], [0, 22], [22, 0], [3, 3], [0, 1]]}", BY_PLACE, FAR),
        ],
    ),
    "parts": connected(
        GRID,
        [
            ("all_to_all: {}", BY_PLACE, FAR),
            ("all_to_all: {autapses: true}", "0.1", "1 ms", "s"),
            ("one_to_one: {}", BY_PLACE),
            ("fixed_probability: {p: 0.6}", DRAWN, LATE),
            ("fixed_indegree: {number: 3}", DRAWN),
            ("fixed_outdegree: {number: 4, multapses: false}", "0.2"),
            ("fixed_total: {number: 30}", "0.2", "2 ms"),
            ("rule: {probability: 1 if x_i == x_j else 0.5}", BY_PLACE),
        ],
        parts=("x < 3 and y > 0", "2, 7..12, 19..20"),
    ),
    "pairs": connected(
        LINE,
        [
            *[(PAIRS.replace("]]}", f"]], storage: {s}}}"), "0.4") for s in ("auto", "sparse", "bitmask")],
            (PAIRS, FIVE, "[1 ms, 0 ms, 4 ms, 2 ms, 3 ms]"),
            ("pairs: {file: pairs.csv, sources: from, targets: to}", "{file: pairs.csv, array: weight}"),
            ("pairs: {file: given.npz}", "{file: given.npz, array: weights}", "{file: given.npz, array: delays}"),
            ("pairs: {file: edges.h5, population: e}", "{file: edges.h5, array: edges/e/0/syn_weight}", "1 ms"),
        ],
    ),
    "convolutions": connected(
        PLANES,
        [
            *stored(
                "conv2d",
                "kernel: [3, 2], padding: [1, 0], stride: [2, 1]",
                "auto toeplitz sparse procedural",
                KERNEL,
                "1 ms",
                "shape: [3, 3, 6]",
            ),
            *stored("conv2d", "kernel: 3, padding: 1, depthwise: true", "toeplitz sparse", DRAWN, "2 ms", PLANES),
            ("conv2d: {kernel: 3, padding: 1, storage: sparse}", "0.05", LATE, "shape: [1, 6, 7]"),
            *stored(
                "avg_pool2d",
                "size: 2, stride: [2, 1]",
                "auto toeplitz sparse procedural",
                "1",
                "0 ms",
                "shape: [2, 3, 6]",
            ),
        ],
    ),
    "delays": connected(
        "size: 11",
        [
            ("all_to_all: {}", "0.1", "300 ms"),
            ("fixed_probability: {p: 0.5}", "0.1", "{value: 3.4 ms, round: nearest}"),
            ("fixed_probability: {p: 0.5}", "0.1", "{uniform: {low: 1 ms, high: 299 ms, round: nearest}}"),
            ("fixed_probability: {p: 0.5}", DRAWN, "{normal: {mean: 20 ms, std: 9 ms, min: 1 ms, round: nearest}}"),
            (
                "all_to_all: {}",
                DRAWN,
                "{normal: {mean: 9 ms, relative_std: 0.3, min: 0 ms, max: 15 ms, round: nearest}}",
            ),
        ],
        steps=330,
    ),
}


def write_files(folder: Path) -> None:
    """Data files of the models: pairs with values, a kernel, spikes and currents."""
    import h5py

    rng = np.random.default_rng(9)
    n = 60
    sources, targets = rng.integers(0, 23, n), rng.integers(0, 23, n)
    weights, delays = rng.uniform(0, 1, n).round(3), rng.integers(0, 7, n)
    np.savez(
        folder / "given.npz",
        sources=sources,
        targets=targets,
        weights=weights,
        delays=delays.astype(float),
        kernel=rng.normal(size=(3, 2, 3, 2)),
        currents=rng.normal(size=(5, 4)),
        times=np.arange(1, 41, 2).astype(float),
        indices=np.arange(20) % 4,
        table=10 * np.linspace(-1, 1, 17) ** 2,
    )
    rows = "".join(f"{i},{j},{w}\n" for i, j, w in zip(sources, targets, weights, strict=True))
    (folder / "pairs.csv").write_text("from,to,weight\n" + rows, encoding="utf-8")
    with h5py.File(folder / "edges.h5", "w") as file:
        group = file.create_group("edges/e")
        group["source_node_id"], group["target_node_id"] = sources, targets
        group["0/syn_weight"] = weights


# -------------------------------------------------------------------------------------------- synapses

COUPLED = """\
language: 1
name: coupled
neurons:
  cell:
    params: {{c: 100 pF, g_l: 5 nS, rest: -65 mV}}
    state: {{v: {{uniform: {{low: -65 mV, high: -50 mV}}}}}}
    inputs: {{i: {{unit: pA}}, g: {{unit: nS, decay: 5 ms}}, kick: {{unit: mV}}}}
    dynamics: {{dv/dt: (g_l * (rest - v) - g * v + i) / c}}
    update: [v = v + kick]
    spike: {{when: v > -50 mV, reset: [v = -60 mV], refractory: 2 ms}}
{synapses}
populations: {{a: {{neuron: cell, size: 12}}, b: {{neuron: cell, size: 9}}}}
inputs: {{noise: {{to: all, poisson: {{rate: 300 Hz, into: kick, weight: 5 mV}}}}}}
projections:
{projections}
simulate: {{dt: 0.5 ms, duration: {duration} ms, seed: 7{more}}}
{phases}
record:
  - spikes: {{from: all}}
  - trace: {{from: all, variables: [v, g, i], members: all}}
"""
PLASTIC = "deliver: {into: g}, params: {w_max: 2 nS}"
LIBRARY = {  # further keys of a projection with `synapse`
    "gap_junction": "deliver: {into: i}, params: {g: {uniform: {low: 0 nS, high: 1 nS}}}",
    "graded": "deliver: {into: i}, params: {w: {normal: {mean: 9 pA, std: 3 pA}}}",
    "nmda": "deliver: {into: i}, params: {g: 0.3 nS}",
    "static": "deliver: {into: g}, params: {w: {uniform: {low: 0 nS, high: 2 nS}}}",
    "stdp_additive": PLASTIC,
    "stdp_multiplicative": PLASTIC,
    "stdp_nearest": PLASTIC,
    "stdp_triplet": "deliver: {into: g}, params: {w_0: 1 nS}",
    "stdp_triplet_hippocampal": "deliver: {into: g}, params: {w_0: 1 nS}",
    "stochastic_release": "deliver: {into: g}, params: {w: 1 nS, p: 0.4}",
    "tsodyks_markram": "deliver: {into: g}, params: {w: {lognormal: {mean: 4 nS, std: 1 nS}}, U: 0.3}",
}
WAYS = (
    "connect: {all_to_all: {}}, delay: 1 ms",
    "connect: {fixed_probability: {p: 0.4}}, delay: 1.5 ms",
    "connect: {pairs: {list: [[1, 2], [0, 8], [1, 0], [8, 8]]}}",
)


def coupled(projections: str, synapses: str = "", phases: str = "", more: str = "", duration: int = 24) -> str:
    return COUPLED.format(projections=projections, synapses=synapses, phases=phases, more=more, duration=duration)


def of_library(name: str) -> str:
    ways = list(WAYS)
    ways.append("connect: {fixed_indegree: {number: 3}}, delay: {uniform: {low: 0 ms, high: 4 ms, round: nearest}}")
    if name.startswith("stdp"):
        ways[0] += ", back_delay: 1 ms"
    lines = [
        f"  p{k}: {{from: {'ab'[k % 2]}, to: {'ba'[k // 2]}, {way}, synapse: library/synapses/{name}, {LIBRARY[name]}}}"
        for k, way in enumerate(ways)
    ]
    return coupled("\n".join(lines))


SYNAPSES = """\
synapses:
  both_ends:
    params: {tau: 8 ms, g: 0.2 nS, top: 2 nS}
    state: {w: {uniform: {low: 0 nS, high: top}}, last: 0, s: 0.5, n: 0}
    let: {part: w / top}
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau}, update: ["x = min(x, 3)"], on_spike: [x = x + 1]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 1]}
    dynamics: {ds/dt: (part - s) / tau}
    method: rk4
    update: ["deliver(g * (pre.v - post.v), post.i)", "deliver(g * s * (post.v - pre.v), pre.i)"]
    on_pre:
      - gain = w if random() < 0.7 else 0 nS
      - deliver(gain)
      - w = clip(w - 0.1 * post.y * top, 0 nS, top)
    on_post:
      - w = clip(w + (0.1 + 0.01 * normal()) * pre.x * top, 0 nS, top)
      - last = (t - pre.last_spike) / (pre.last_spike - pre.previous_spike + 1 ms)
    events:
      high: {of: post, when: post.v > -52 mV and random() < 0.5, do: [s = 0.5 * s, "deliver(0.1 * w, post.g)"]}
      low: {of: pre, when: pre.v < -58 mV, do: [n = n + 1]}
  in_trials:
    params: {rate: 0.05}
    state: {w: 1 nS, change: 0, count: 0}
    on_pre: [deliver(w), count = count + 1]
    on:
      trial.start: [count = 0]
      trial.minus: [change = change - rate * (pre.v + post.v) / (1 mV)]
      trial.plus: ["w = clip(w + 0.01 * change * (1 nS), 0 nS, 3 nS)", change = 0, "deliver(w, post.g)"]
  between:
    params: {tau: 9 ms}
    state: {s: 0, z: 1}
    dynamics: {ds/dt: -s / tau, dz/dt: (0.2 - z) / (3 * tau)}
    event_driven: true
    on_pre: [s = s + z, "deliver(s * (0.2 nS))"]
    on_post: [z = z + 0.5 * s]
"""
OWN = """\
  family: {from: [a, b], to: [a, b], connect: {fixed_probability: {p: 0.4}}, synapse: both_ends, deliver: {into: g},
           delay: 1 ms, back_delay: 0.5 ms, values: {k: {by_pair: [[1, 2], [3, 4]]}}, params: {tau: k * 4 ms}}
  trials: {from: a, to: b, connect: {all_to_all: {}}, synapse: in_trials, deliver: {into: g}, delay: 1 ms}
  few: {from: a, to: b, connect: {fixed_total: {number: 20}}, synapse: in_trials, deliver: {into: g}}
  lazy: {from: b, to: a, connect: {all_to_all: {}}, synapse: between, deliver: {into: g}, delay: 0.5 ms}
  late: {from: a, to: a, connect: {fixed_probability: {p: 0.3}}, synapse: between, deliver: {into: g},
         delay: {uniform: {low: 0 ms, high: 5 ms, round: nearest}}}
"""
LATE_READS = """\
synapses:
  coupled_late:
    params: {g: 0.2 nS}
    state: {s: 0, n: 0, seen: 0 mV}
    let: {difference: delayed(pre.v) - delayed(post.v)}
    dynamics: {ds/dt: (difference / (1 mV) - s) / (9 ms)}
    update: ["deliver(g * (delayed(pre.v) - post.v), post.i)", "deliver(0.1 * g * s * (1 mV), pre.i)"]
    on_pre: [seen = delayed(pre.v), deliver(g), n = n + 0.1 * trial.step]
    on_post: [seen = difference, n = n + trial.count]
    events:
      high: {of: pre, when: delayed(pre.v) > -56 mV and trial.step > 2, do: [seen = delayed(pre.g) * (1 mV) / (1 nS)]}
    on: {trial.minus: [s = s + sum_post(difference) / (100 mV), n = 0]}
  traced_late:
    params: {tau: 8 ms}
    state: {w: 1 nS, seen: 0, n: 0}
    pre: {state: {x: 0.5}, dynamics: {dx/dt: -x / tau}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 1]}
    dynamics: {dseen/dt: (pre.x - seen) / (9 ms)}
    on_pre: [deliver(w), w = w - 0.01 * (post.y + pre.x) * (1 nS)]
    on_post: [w = w + 0.01 * pre.x * (1 nS), seen = (delayed(pre.v) - delayed(post.v)) / (1 mV)]
    events:
      high: {of: post, when: post.v > -56 mV, do: [n = pre.x + post.y]}
      low: {of: post, when: post.v < -58 mV, do: [n = n + post.y], delayed: true}
    on: {trial.minus: [n = n + max_post(pre.x)]}
  graded_late: {params: {g: 0.1 nS}, update: ["deliver(g * (delayed(pre.v) - post.v), post.i)"]}
  of_each: {params: {g: 0.1 nS}, state: {v: 0 mV}, on_pre: [v = delayed(pre.v), "deliver(g * v, post.i)"]}
"""
LATE_READS_USED = """\
  family: {from: [a, b], to: [a, b], connect: {fixed_probability: {p: 0.4}}, synapse: coupled_late, deliver: {into: g},
           delay: k * 1 ms, back_delay: k * 0.5 ms, values: {k: {by_pair: [[0, 2], [30, 4]]}}}
  dense: {from: a, to: b, connect: {all_to_all: {}}, synapse: graded_late, delay: 2 ms}
  bits: {from: a, to: b, connect: {fixed_probability: {p: 0.5, storage: bitmask}}, synapse: graded_late, delay: 3 ms}
  again: {from: a, to: b, connect: {fixed_probability: {p: 0.5, storage: procedural}}, synapse: graded_late,
          delay: 4 ms}
  own: {from: b, to: b, connect: {one_to_one: {}}, synapse: graded_late, delay: 5 ms}
  each: {from: a, to: b, connect: {all_to_all: {}}, synapse: graded_late,
         delay: {uniform: {low: 0 ms, high: 45 ms, round: nearest}}}
  each_too: {from: a, to: a, connect: {fixed_indegree: {number: 3}}, synapse: of_each,
             delay: {uniform: {low: 0 ms, high: 6 ms, round: nearest}}}
  traced: {from: a, to: b, connect: {fixed_probability: {p: 0.5}}, synapse: traced_late, deliver: {into: g},
           delay: {uniform: {low: 0 ms, high: 6 ms, round: nearest}}, back_delay: 1 ms}
  traced_back: {from: b, to: a, connect: {fixed_probability: {p: 0.5}}, synapse: traced_late, deliver: {into: g},
                delay: 1 ms, back_delay: {uniform: {low: 0 ms, high: 6 ms, round: nearest}}}
  traced_both: {from: a, to: a, connect: {all_to_all: {}}, synapse: traced_late, deliver: {into: g},
                delay: {value: 0.5 ms * i, round: nearest}, back_delay: {value: 0.5 ms * j, round: nearest}}
  traced_too: {from: b, to: a, connect: {all_to_all: {}}, synapse: traced_late, deliver: {into: g},
               delay: {normal: {mean: 9 ms, std: 3 ms, round: nearest}}}
  one: {from: a, to: a, connect: {one_to_one: {}}, synapse: of_each,
        delay: {uniform: {low: 0 ms, high: 6 ms, round: nearest}}}
"""
EVENTFUL = """\
synapses:
  eventful:
    state: {s: 0, at: 0 ms}
    on_pre: [at = pre.last_up, deliver(0.02 nS)]
    events:
      up: {of: pre, when: pre.v > -57 mV and t - pre.last_up > 3 ms, do: [s = s + 1, "deliver(0.1 * (1 + s) * (1 nS))"],
           delayed: true}
      down: {of: post, when: post.v < -58 mV and t - post.last_spike > 2 ms, do: [at = at + post.previous_down],
             delayed: true}
  released:
    params: {w: 0.3 nS}
    events: {up: {of: pre, when: pre.v > -56 mV, do: [deliver(w)], delayed: true}}
  answering:
    params: {w: 0.1 nS}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / (20 ms)}, on_spike: [y = y + 1]}
    on_post: ["deliver(w * (1 + post.y), pre.g)"]
    events:
      down: {of: post, when: post.v < -58 mV, do: ["deliver(0.5 * w, pre.g)", "deliver(w, post.g)"]}
      late: {of: post, when: post.v > -54 mV, do: ["deliver(w, pre.g)"], delayed: true}
"""
EVENTFUL_USED = """\
  family: {from: [a, b], to: [a, b], connect: {fixed_probability: {p: 0.4}}, synapse: eventful, deliver: {into: g},
           delay: k * 1 ms, back_delay: k * 0.5 ms, values: {k: {by_pair: [[0, 2], [9, 4]]}}}
  dense: {from: a, to: b, connect: {all_to_all: {}}, synapse: released, deliver: {into: g}, delay: 2 ms}
  bits: {from: a, to: b, connect: {fixed_probability: {p: 0.5, storage: bitmask}}, synapse: released,
         deliver: {into: g}, delay: 3 ms}
  again: {from: a, to: b, connect: {fixed_probability: {p: 0.5, storage: procedural}}, synapse: released,
          deliver: {into: g}, delay: 4 ms}
  each: {from: a, to: b, connect: {fixed_indegree: {number: 3}}, synapse: released, deliver: {into: g},
         delay: {uniform: {low: 0 ms, high: 6 ms, round: nearest}}}
  back: {from: [a, b], to: [a, b], connect: {fixed_probability: {p: 0.5, storage: bitmask}}, synapse: answering}
  again_back: {from: a, to: b, connect: {fixed_probability: {p: 0.5, storage: procedural}}, synapse: answering,
               back_delay: 2 ms}
  rows_back: {from: a, to: b, connect: {fixed_probability: {p: 0.5}}, synapse: answering, back_delay: 1 ms}
"""
TRIALS = "phases: {trial: {every: 8 ms, events: {start: 0 ms, minus: 5 ms, plus: 8 ms}}}"
TOGETHER = """\
synapses:
  normalised:
    params: {total: 9 nS}
    state: {w: {uniform: {low: 0.5 nS, high: 2 nS}}, s: 0}
    on_pre: [deliver(w)]
    update: [s = 0.9 * s + mean_pre(post.v) / (1 mV)]
    on:
      trial.start: [w = w * (1 + 0.1 * sin(s))]
      trial.minus: [w = w * total / sum_post(w)]
      trial.plus: ["s = s + max_post(w) / min_pre(w)", w = w * total / sum_pre(w * exp(-s / 100))]
  moving:
    params: {w_0: 1 nS}
    state: {w: {uniform: {low: 0 nS, high: 2 * w_0}}, age: 0}
    on_pre: [deliver(w), "w = w - 0.2 * w_0"]
    on_post: [w = w + 0.1 * w_0]
    on:
      trial.plus: [rewire(w < 0.6 * w_0), age = age + 1]
  coming:
    state: {w: {uniform: {low: 0 nS, high: 2 nS}}, x: 1}
    dynamics: {dx/dt: (1 - x) / (20 ms)}
    event_driven: true
    on_pre: [deliver(w * x), x = 0.5 * x]
    update: ["w = w - 0.02 nS", "rewire(w < 0.2 nS, indegree)"]
  growing:
    params: {w_0: 1 nS}
    state: {w: {uniform: {low: 0 nS, high: 2 * w_0}}, near: 0}
    dynamics: {dw/dt: -w / (60 ms)}
    on_pre: [deliver(w)]
    on_post: ["w = w + 0.1 nS"]
    on:
      trial.minus: [remove(w < 0.4 * w_0), near = max_post(w) / w_0]
      trial.plus: [form(random() < 0.3 and sum_pre(1) < 7), "rewire(w > 2 * w_0)"]
"""
TOGETHER_USED = """\
  sums: {from: a, to: b, connect: {fixed_probability: {p: 0.5}}, synapse: normalised, deliver: {into: g}, delay: 1 ms}
  all: {from: b, to: a, connect: {all_to_all: {}}, synapse: normalised, deliver: {into: g}, delay: 0.5 ms}
  turnover: {from: a, to: b, connect: {fixed_indegree: {number: 4, multapses: false}}, synapse: moving,
             deliver: {into: g}}
  turnover_too: {from: a, to: a, connect: {fixed_probability: {p: 0.3, autapses: false}}, synapse: moving,
                 deliver: {into: g}, delay: 1 ms}
  growth: {from: b, to: a, connect: {fixed_outdegree: {number: 8, multapses: false}}, synapse: growing, occupied: 0.4,
           deliver: {into: g}, delay: {uniform: {low: 0 ms, high: 3 ms, round: nearest}}}
  arriving: {from: a, to: b, connect: {fixed_outdegree: {number: 4, multapses: false}}, synapse: coming,
             deliver: {into: g}, delay: {uniform: {low: 0 ms, high: 3 ms, round: nearest}}}
"""
BATCH = """\
synapses:
  batched:
    params: {rate: 0.02, w_0: 1 nS, scale: 1}
    state: {w: {uniform: {low: 0 nS, high: 2 * w_0}}, dw: 0, best: 0, u: 1}
    shared: [w, best]
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / (10 ms)}, on_spike: [x = x + 1]}
    on_pre: [deliver(w * scale * u), u = 0.8 * u + 0.1]
    on_post: [dw = dw + pre.x]
    on:
      trial.start: [best = max_instances(dw) - min_instances(dw * post.v) / (1 mV)]
      trial.plus:
        - w = clip(w + rate * mean_instances(dw) * w_0 * (1 + 0.1 * normal()), 0 nS, 3 * w_0)
        - w = w + 0.01 * (w_0 - mean_post(w))
        - dw = 0.5 * dw
  late:
    state: {w: 0.5 nS, n: 0}
    shared: [w]
    on_pre: [deliver(w), n = n + 1]
    update: ["w = w + 0.001 nS * sum_instances(n)", n = 0]
"""
BATCH_USED = """\
  dense: {from: a, to: b, connect: {all_to_all: {}}, synapse: batched, deliver: {into: g}, delay: 1 ms}
  sparse: {from: [a, b], to: a, connect: {fixed_indegree: {number: 4}}, synapse: batched, deliver: {into: g},
           params: {scale: {uniform: {low: 0.5, high: 1.5}}}}
  delayed: {from: a, to: b, connect: {fixed_probability: {p: 0.4}}, synapse: late, deliver: {into: g},
            delay: {uniform: {low: 0 ms, high: 3 ms, round: nearest}}}
"""
SYMMETRIC = """\
synapses:
  learned:
    state: {w: {uniform: {low: 0 nS, high: 2 nS}}}
    on_pre: [deliver(w), "w = w + 0.02 * (1 nS)"]
    on: {trial.start: [w = 0.9 * w], trial.minus: [w = w * (1 + 0.1 * random())]}
  FEEDBACK
"""
FEEDBACK = """\
  back_NAME:
    state: {w: 0 nS, last: 0 nS}
    on_pre: [deliver(w)]
    on: {trial.start: [w = transpose(NAME.w)], trial.minus: [last = w, w = transpose(NAME.w), w = 0.5 * (w + last)]}
"""
TURNED = {
    "all": "all_to_all: {}",
    "stored": "all_to_all: {storage: sparse}",
    "each": "one_to_one: {}",
    "given": "pairs: {list: [[1, 2], [0, 8], [1, 0], [8, 8], [1, 2]]}",
    "inside": "all_to_all: {autapses: false}",
}
TURNED_BACK = {"stored": "all_to_all: {}", "given": "pairs: {list: [[8, 0], [2, 1], [8, 8], [0, 1], [2, 1]]}"}


def symmetric() -> str:
    used: list[str] = []
    for n, connect in TURNED.items():
        to, back = "a" if n in ("each", "inside") else "b", TURNED_BACK.get(n, connect)
        used.append(f"  {n}: {{from: a, to: {to}, connect: {{{connect}}}, synapse: learned, deliver: {{into: g}}}}")
        used.append(f"  back_{n}: {{from: {to}, to: a, connect: {{{back}}}, synapse: back_{n}, deliver: {{into: g}}}}")
    synapses = SYMMETRIC.replace("  FEEDBACK\n", "".join(FEEDBACK.replace("NAME", n) for n in TURNED))
    return coupled("\n".join(used), synapses, TRIALS)


PLACED = """\
synapses:
  tuned:
    params: {gain: 1}
    state: {w: 0.1 nS, seen: gain}
    on_pre: [deliver(gain * w), w = 0.9 * w]
    on_post: [seen = seen + 1]
  moved: {state: {w: 0 nS}, on_pre: [deliver(w)], on: {trial.minus: [rewire(random() < 0.3)]}}
"""
PLACED_USED = """\
  tuned:
    from: a
    to: b
    connect: {fixed_probability: {p: 0.5}}
    synapse: tuned
    params: {gain: 1 + abs(i - j) / n_to}
    init: {w: 0.2 nS * exp(-abs(i / n_from - j / n_to))}
    delay: {value: 0.4 ms * j, round: nearest}
    deliver: {into: g}
  moved:
    {from: b, to: a, connect: {fixed_outdegree: {number: 3}}, synapse: moved, init: {w: 0.1 nS * (1 + j)},
     deliver: {into: g}}
"""

MODELS_OF_SYNAPSES = {
    **{f"synapse {name}": of_library(name) for name in LIBRARY},
    "synapses of a file": coupled(OWN, SYNAPSES, TRIALS),
    "synapses, given spikes": everything("NUMERICS", 3),
    "sums and new synapses": coupled(TOGETHER_USED, TOGETHER, TRIALS),
    "delayed reads": coupled(LATE_READS_USED, LATE_READS, TRIALS),
    "events": coupled(EVENTFUL_USED, EVENTFUL),
    "events, frozen": coupled(EVENTFUL_USED, EVENTFUL, "", ", freeze: learning"),
    "frozen": coupled(OWN, SYNAPSES, TRIALS, ", freeze: learning"),
    "frozen in part": coupled(OWN, SYNAPSES, TRIALS, ", freeze: [family, lazy]"),
    "transposed": symmetric(),
    "synapses by place": coupled(PLACED_USED.rstrip(), PLACED, TRIALS),
    "learning of copies": coupled(BATCH_USED, BATCH, TRIALS, ", instances: 3, weights: shared", 30),
    "copies": coupled(OWN, SYNAPSES, TRIALS, ", instances: 2", 12),
}

# ------------------------------------------------------------------------------- control, drives, records

TIED = """\
language: 1
name: tied
phases: {trial: {every: 8 ms, events: {start: 0 ms, end: 8 ms}}}
neurons:
  dot: {state: {u: 0}, update: [u = 0.9 * u + 0.2 * random()], spike: {when: u > 1.1, reset: [u = 0.2]}}
  cell: {inputs: {g: {}}, state: {v: 0}, update: [v = 0.9 * v + g], spike: {when: v > 1.5, reset: [v = 0]}}
synapses:
  tied:
    state: {w: {uniform: {low: 0.2, high: 0.8}}, dw: 0, own: 0}
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / (10 ms)}, on_spike: [x = x + 1], on: {trial.start: [x = 0.5 * x]}}
    post: {state: {y: 1}, on_spike: [y = 0.5 * y], on: {trial.end: [y = 1 + 0.01 * trial.count]}}
    on_pre: [deliver(w)]
    on_post: [dw = dw + 0.01 * (pre.x - 0.2) * post.y]
    on:
      trial.start: [w = first_kernel(w), own = max_kernel(pre.x) - min_kernel(post.v)]
      trial.end: ["w = clip(w + sum_kernel(dw) - 0.01 * mean_kernel(own * post.v), 0, 1)", dw = 0]
  held:
    params: {rate: 0.8}
    state: {w: 0.1, n: 0}
    let: {less: rate * w}
    on_pre: [deliver(0.3 * w / (1 + n))]
    on: {trial.start: ["w = max(w, 0.2)"], trial.end: [k = less + 0.01 * trial.count, w = k, n = n + 0.1]}
populations:
  image: {neuron: dot, shape: [2, 7, 6]}
  maps: {neuron: cell, shape: [3, 4, 3]}
  deep: {neuron: cell, shape: [2, 4, 3]}
projections:
  wide:
    {from: image, to: maps, connect: {conv2d: {kernel: 3, padding: 1, stride: 2}}, synapse: tied, deliver: {into: g}}
  deep: {from: image, to: deep, connect: {conv2d: {kernel: 3, padding: 1, stride: 2, depthwise: true}}, synapse: tied,
         deliver: {into: g}, delay: 2 ms}
  held:
    from: image
    to: deep
    connect: {conv2d: {kernel: 3, padding: 1, stride: 2, depthwise: true, storage: toeplitz}}
    synapse: held
    init: {w: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]}
    deliver: {into: g}
simulate: {dt: 1 ms, duration: 50 ms, seed: 9}
record:
  - spikes: {from: all}
  - trace: {from: [maps, deep], variables: [v], members: all}
  - synapses: {from: held, variables: [w]}
  - synapses: {from: wide, variables: [w, own]}
  - synapses: {from: deep, variables: [w, own]}
"""


CONTROL = """\
language: 1
name: control
neurons:
  cell:
    params: {gain: 0.7, level: 1.6}
    state: {x: {uniform: {low: 0, high: 1}}, y: 0, kept: 0, c: 0}
    inputs: {g: {decay: 4 ms}}
    pool:
      reduce: {mean_x: mean(x), most: max(x + g), least: min(x), who: argmax(x), all: sum(exp(x - pool.most))}
      state: {fb: 0.1, n: 0}
      update: [step = 0.1 * (mean_x - fb), fb = fb + gain * step + 0.01 * random(), n = n + 1]
      on: {trial.end: [n = 0, fb = fb + 0.05 * (mean(x) - mean(abs(x - pool.fb)))]}
    population:
      reduce: {m: mean(y), top: max(x)}
      state: {slow: 0}
      update: [slow = slow + 0.05 * (m - slow)]
    dynamics: {dx/dt: (level - x + 0.1 * g - pool.fb) / (20 ms)}
    update:
      - x = x + 0.05 * random() + (0.1 if trial.step == 3 else 0)
      - y = 0.5 * y + exp(x - pool.most) / pool.all + population.slow
      - c = trial.count + 0.1 * wide.step
    spike: {when: x > 0.9 + 0.1 * population.m, reset: [x = 0.1], refractory: 2 ms}
    events:
      lit: {when: x > 0.8 + 0.01 * pool.n, do: [more = 0.1 * x, kept = kept + more * random()]}
      dark: {when: x < 0.3 and lit < 1}
    history: {past: {of: x + 0.1 * g, at: trial.mid, keep: 3}}
    on:
      trial.start: [x = 0.5 * x, "kept = 0.1 * max_population(g) + dot(past, past, 1 / k)"]
      trial.mid: [level_now = x, y = y + level_now * random(), kept = y + 0.1 * argmax_pool(x) - mean_population(y)]
phases:
  trial: {every: 7 ms, events: {start: 0 ms, mid: 3 ms, end: 7 ms}}
  wide: {every: 19 ms}
populations:
  a: {neuron: cell, size: 60, pools: 4}
  b: {neuron: cell, size: 37, params: {level: {normal: {mean: 1.7, std: 0.2}}}}
projections:
  p: {from: [a, b], to: [a, b], connect: {fixed_probability: {p: 0.2}}, deliver: {into: g, weight: WEIGHT}, delay: 2 ms}
simulate: {dt: 1 ms, duration: 60 ms, warmup: 5 ms, seed: 9MORE}
record:
  - spikes: {from: all}
  - events: {from: [a, b], events: [lit, dark]}
  - trace: {from: [a, b], variables: [x, y, kept, c, g, lit, pool.fb, pool.n, pool.who, population.slow], members: 0..3}
"""


SUMMED = """language: 1
name: summed
phases: {trial: {every: 5 ms, events: {start: 0 ms, minus: 2 ms, plus: 5 ms}}}
neurons:
  unit:
    params: {gain: 0.7}
    state: {x: {uniform: {low: 0, high: 1}}, top: 0.5 * x + pi, seen: gain, held: {permutation: {low: 1, high: 4}}}
    pool: {reduce: {x_mean: mean(x)}}
    shared: [held]
    update: [x = x + 0.1 * random()]
    spike: {when: x > 0.6, reset: [x = 0]}
    on:
      trial.minus:
        - seen = mean_instances(x - pool.x_mean)
        - held = held + gain * sum_instances(x * x)
      trial.plus: [top = max_instances(x) - min_instances(x), x = 0.5 * x]
populations:
  a: {neuron: unit, size: 70, pools: 2}
  b: {neuron: unit, size: 33, params: {gain: 0.1}}
simulate: {dt: 1 ms, duration: 40 ms, seed: 3, instances: 3}
record:
  - spikes: {from: [a, b]}
  - trace: {from: a, variables: [x, seen, held, top]}
  - trace: {from: b, variables: [x, held]}
"""

OTHERS = """\
language: 1
name: others
neurons:
  cell:
    params: {gain: 0.7}
    others: {driver: {x: 1, y: mV, pool.m: 1, population.s: 1}, boss: {level: 1}}
    state: {x: {uniform: {low: 0, high: 1}}, y: 0 mV, kept: 0, seen: 0}
    inputs: {g: {decay: 4 ms}}
    pool:
      reduce: {m: mean(x + driver.x), most: max(x * boss.level)}
      state: {f: 0.1}
      update: [f = 0.9 * f + 0.01 * driver.pool.m + 0.01 * boss.level]
      on: {trial.end: [f = 0.5 * f + 0.1 * driver.pool.m]}
    population:
      reduce: {top: max(x)}
      state: {s: 0.2}
      update: [s = 0.5 * s + 0.1 * top + 0.1 * driver.population.s]
    dynamics: {dy/dt: (driver.y - y + (g + driver.population.s) * 1 mV) / (20 ms)}
    update: [x = 0.5 * x + 0.4 * driver.x + 0.1 * random(), seen = driver.pool.m - pool.f]
    spike: {when: x > 0.6 + 0.01 * driver.pool.m, reset: [x = 0.1 * driver.x], refractory: 2 ms}
    on: {trial.start: [kept = driver.x + driver.pool.m], trial.end: [kept = kept + driver.population.s]}
  chief: {state: {level: 1}, others: {below: {pool.m: 1}}, update: [level = 0.5 * level + 0.1 * below.pool.m]}
  own: {state: {m: 0.3}, pool: {reduce: {m: mean(m)}}, update: [m = 0.9 * m + 0.1 * random()], on: {trial.end: [m = 0]}}
phases: {trial: {every: 7 ms, events: {start: 0 ms, end: 7 ms}}}
populations:
  c: {neuron: cell, size: 36, pools: 3, others: {driver: b, boss: chief}, init: {y: 4 mV * x + 1 mV}}
  a: {neuron: cell, size: 36, pools: 3, others: {driver: a, boss: chief}}
  b: {neuron: cell, size: 36, pools: 3, params: {gain: 0.3}, others: {driver: a, boss: chief}}
  left: {neuron: cell, size: 36, pools: 3, others: {driver: right, boss: chief}}
  right: {neuron: cell, size: 36, pools: 3, others: {driver: left, boss: chief}}
  chief: {neuron: chief, size: 1, others: {below: own}}
  own: {neuron: own, size: 30}
projections:
  p: {from: [a, b], to: [a, c], connect: {fixed_probability: {p: 0.2}}, deliver: {into: g, weight: 0.1}, delay: 2 ms}
simulate: {dt: 1 ms, duration: 40 ms, warmup: 5 ms, seed: 9MORE}
record:
  - spikes: {from: [a, b, c, left, right]}
  - trace: {from: [a, b, c, left, right], variables: [x, y, kept, seen, pool.f, pool.m, population.s], members: 0..2}
  - trace: {from: chief, variables: [level]}
"""


OTHER_SYNAPSES = """\
language: 1
name: modulated
neurons:
  cell:
    state: {x: {uniform: {low: 0, high: 1}}}
    inputs: {g: {decay: 4 ms}}
    pool: {reduce: {m: mean(x)}}
    update: [x = 0.9 * x + 0.1 * g + 0.2 * random() - 0.1 * pool.m]
    spike: {when: x > 0.8, reset: [x = 0]}
  chief: {state: {level: 1}, others: {below: {pool.m: 1}}, update: [level = 0.9 * level + 0.2 * below.pool.m]}
synapses:
  kick:
    others: {chief: {level: 1}}
    params: {w: 0.1}
    on_pre: [deliver(w * (chief.level + post.pool.m))]
  learned:
    others: {chief: {level: 1}}
    params: {w_max: 1, tau: 20 ms}
    state: {w: {uniform: {low: 0, high: w_max}}, c: 0}
    pre: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 0.1]}
    dynamics: {dc/dt: -c / tau}
    event_driven: true
    let: {gain: chief.level * w}
    on_pre: [deliver(gain), c = c + post.pool.m]
    on_post: [c = c + pre.y, "w = clip(w + 0.1 * c * chief.level, 0, w_max)"]
  every:
    others: {chief: {level: 1}}
    state: {w: 0.1, n: 0}
    dynamics: {dw/dt: (0.1 * chief.level - w) / (30 ms)}
    update: [deliver(0.01 * w * (pre.pool.m - post.x)), n = n + chief.level * mean_post(w)]
    events: {high: {of: post, when: post.x > chief.level + post.pool.m, do: [n = n + 10]}}
    on: {trial.end: [w = w * chief.level / (0.1 + sum_post(w))]}
phases: {trial: {every: 9 ms, events: {end: 9 ms}}}
populations:
  a: {neuron: cell, shape: [2, 5, 5]}
  b: {neuron: cell, shape: [2, 3, 3], pools: 3}
  top: {neuron: chief, size: 1, others: {below: a}}
projections:
PROJECTIONSsimulate: {dt: 1 ms, duration: 20 ms, seed: 5MORE}
record:
  - spikes: {from: [a, b]}
  - trace: {from: [a, b], variables: [x, g], members: 0..8}
  - trace: {from: top, variables: [level]}
"""


def modulated(more: str = "") -> str:
    """Every storage, and every occasion at which synapses read other populations."""
    kicked = {
        "conv": "conv2d: {kernel: 3}",
        "rows": "conv2d: {kernel: 3, storage: sparse}",
        **{s: f"fixed_probability: {{p: 0.3, storage: {s}}}" for s in ("sparse", "bitmask", "procedural")},
        **{f"all_{s}": f"all_to_all: {{storage: {s}}}" for s in ("dense", "bitmask", "procedural")},
    }
    shape = "from: a, to: b, deliver: {into: g}, others: {chief: top}"
    lines = [f"  {n}: {{{shape}, synapse: kick, connect: {{{c}}}}}\n" for n, c in kicked.items()]
    drawn = "connect: {fixed_probability: {p: 0.3}}"
    late = "delay: {uniform: {low: 0 ms, high: 5 ms, round: nearest}}"
    lines.append(f"  late: {{{shape}, synapse: kick, {drawn}, {late}}}\n")
    lines.append(f"  learned: {{{shape}, synapse: learned, {drawn}, delay: 2 ms}}\n")
    lines.append(f"  every: {{{shape}, synapse: every, {drawn}}}\n")
    lines.append(f"  back: {{{shape.replace('from: a, to: b', 'from: b, to: a')}, synapse: learned, {drawn}}}\n")
    return OTHER_SYNAPSES.replace("PROJECTIONS", "".join(lines)).replace("MORE", more)


CLEARED = """\
language: 1
name: cleared
neurons:
  cell:
    inputs: {g: {decay: 4 ms}, h: {}}
    state: {v: {uniform: {low: 0, high: 1}}, seen: 0}
    update: [v = 0.9 * v + g + h + 0.2 * random(), seen = 0.5 * seen + h]
    spike: {when: v > 1, reset: [v = 0]}
synapses:
  learned:
    state: {w: 0.1, c: 0}
    pre: {state: {x: 0}, on_spike: [x = 0.5 * x + 0.1]}
    dynamics: {dc/dt: -c / (20 ms)}
    event_driven: true
    on_pre: [c = c + 0.1, deliver(w + 0.1 * post.h)]
    on_post: [w = w + 0.01 * c + 0.1 * pre.x, c = c + 0.01 * (t - pre.last_spike) / (1 ms)]
  mended: {state: {w: 0.2}, on_pre: [deliver(w), w = 0.9 * w], on: {trial.mid: [remove(w < 0.1), form(random() < 0.5)]}}
phases: {trial: {every: 7 ms, events: {start: 0 ms, mid: 3 ms}}, wide: {every: 11 ms, events: {end: 11 ms}}}
populations:
  a: {neuron: cell, size: 30}
  b: {neuron: cell, size: 20}
projections:
PROJECTIONSsimulate: {dt: 1 ms, duration: 30 ms, warmup: 9 ms, seed: 4MORE}
record:
  - spikes: {from: [a, b]}
  - trace: {from: [a, b], variables: [v, g, h, seen], members: 0..9}
"""


def cleared(more: str = "") -> str:
    """Every storage, statements, delays of one projection and of each synapse, and inputs with and without rings."""
    late = "{uniform: {low: 0 ms, high: 5 ms, round: nearest}}"
    forms = {s: f"fixed_probability: {{p: 0.2, storage: {s}}}" for s in ("sparse", "bitmask", "procedural")}
    forms |= {"all": "all_to_all: {}", "one": "one_to_one: {}"}
    static = "from: [a, b], to: b, deliver: {into: INTO, weight: 0.1}, clear: trial.start"
    lines = [
        f"  {n}_{into}: {{{static.replace('INTO', into)}, connect: {{{c}}}, delay: 4 ms}}\n"
        for n, c in forms.items()
        if n != "one"
        for into in "gh"
    ]
    shape = "from: a, to: b, deliver: {into: g}, connect: {fixed_probability: {p: 0.3}}"
    weighted = "from: a, to: b, deliver: {into: g, weight: 0.1}, connect: {fixed_probability: {p: 0.3}}"
    lines.append(f"  drawn: {{{weighted}, delay: {late}, clear: wide.end}}\n")
    lines.append(f"  beside: {{{weighted}, delay: {late}}}\n")
    lines.append(f"  learned: {{{shape}, synapse: learned, delay: 5 ms, back_delay: 3 ms, clear: trial.mid}}\n")
    lines.append(f"  kept: {{{shape}, synapse: learned, delay: 5 ms}}\n")
    lines.append(f"  mended: {{{shape}, synapse: mended, occupied: 0.5, delay: {late}, clear: trial.mid}}\n")
    return CLEARED.replace("PROJECTIONS", "".join(lines)).replace("MORE", more)


def control(weight: str, more: str = "") -> str:
    return CONTROL.replace("WEIGHT", weight).replace("MORE", more)


CURRENTS = """\
language: 1
name: drives
tables:
  bent: {values: [0.1, 0.4, 2.5, 1, 0.2], from: -10 mV, to: 30 mV}
  drawn: {values: {file: given.npz, array: table}, from: 0, to: 1, unit: pA}
functions: {doubled(x): 2 * bent(x)}
timed:
  steps: {values: [0 pA, 200 pA, -50 pA], every: 7 ms}
  ramp: {values: [0.0, 3.0, 1.0], every: 9 ms, unit: mV, interpolate: true}
  columns: {values: {file: given.npz, array: currents}, every: 5 ms, unit: pA}
  rates: {values: [20 Hz, 300 Hz], every: 15 ms, interpolate: true}
  in_turn: {values: [0 pA, 40 pA, 90 pA], each: trial}
  shuffled: {values: {file: given.npz, array: currents}, each: trial, order: shuffled, unit: pA}
  dealt: {values: [0 pA, 10 pA, 30 pA], each: trial, order: dealt}
phases: {trial: {every: 4 ms, events: {start: 0 ms, end: 4 ms}}}
neurons:
  cell:
    params: {tau: 10 ms, tau_w: 3 * tau, R: 0.1 GOhm, I_e: 20 pA, sigma: 1 mV, t_ref: 2 ms}
    state: {v: 0 mV, w: 0 mV}
    inputs: {i: {unit: pA}, jump: {unit: mV}}
    pool: {reduce: {m: mean(bent(v)), most: max(v)}, state: {f: 0}, update: [f = 0.5 * f + bent(most)]}
    let: {given: "steps(t) + columns(t, i) + in_turn(t) + shuffled(t, i) + dealt(t) + drawn(bent(w) / 9 + pool.f / 99)"}
    dynamics:
      dv/dt: (R * (I_e + i + given) - v - w + ramp(t)) / tau + sigma * sqrt(2 / tau) * xi
      dw/dt: (0.2 * v - w) / tau_w + 0.1 * sigma * sqrt(2 / tau) * xi_slow
    update: [v = v + jump]
    spike: {when: v > 12 mV, reset: [v = 0 mV], refractory: {time: t_ref, hold: [v], round: nearest}}
  plateau:
    params: {tau: 10 ms, I_e: 220 pA}
    state: {v: 0 mV, w: 0}
    dynamics: {dv/dt: (0.1 GOhm * I_e * (1 - w) - v) / tau, dw/dt: -w / (8 ms)}
    spike: {when: v > 12 mV, reset: [w = w + 2], refractory: {while: v > 9 mV}}
currents:
  own:
    params: {slope: 2 pA/ms, tau: 5 ms}
    state: {x: {uniform: {low: 0, high: 3}}}
    let: {y: 1 + x}
    dynamics: {dx/dt: -x / tau + sqrt(1 / tau) * xi}
    value: slope * t * y * bent(x * 10 mV) + 1 pA * trial.step
    update: [x = x + 0.01 * normal()]
    on:
      trial.start: [x = 0.5 * x + 0.1 * random()]
      trial.end: [kept = x * y, x = x + 0.01 * kept + 0.01 * trial.count]
synapses:
  looked_up:
    state: {w: 1 mV, n: 0}
    on_pre: [deliver(w * bent(post.v)), n = n + 1]
    update: [w = 0.9 * w + 0.1 * doubled(pre.v - post.v) * 1 mV]
populations:
  p: {neuron: cell, size: 4, params: {t_ref: {uniform: {low: 0 ms, high: 5 ms}}}}
  q: {neuron: cell, size: 4, params: {I_e: 30 pA * (1 + sin(t / (4 ms))), tau: {uniform: {low: 8 ms, high: 12 ms}}}}
  given: {neuron: spike_times, size: 4, params: {file: given.npz, times: times, indices: indices}}
  listed: {neuron: spike_times, size: 2, params: {times: [1 ms, 2 ms, 2 ms], indices: [1, 0, 1]}}
  chance: {neuron: poisson, size: 4, params: {rate: rates(t)}}
  lasting: {neuron: plateau, size: 3, params: {I_e: 200 pA + 40 pA * self.i}}
  counting: {neuron: plateau, size: 3, params: {I_e: 200 pA + 30 pA * trial.count * self.i + 5 pA * trial.step}}
  waves: {neuron: inhomogeneous_poisson, size: 4, params: {rate: 100 Hz, amplitude: 90 Hz}}
projections:
  kicks: {from: [given, chance, waves], to: [p, q], connect: {one_to_one: {}}, deliver: {into: jump, weight: 3 mV}}
  looked_up: {from: p, to: q, connect: {all_to_all: {}}, synapse: looked_up, deliver: {into: jump}, delay: 1 ms}
  kicks_too: {from: listed, to: p, connect: {all_to_all: {}}, deliver: {into: jump, weight: 1 mV}, delay: 1 ms}
inputs:
  still: {to: [p, q], current: {into: i, amplitude: 10 pA}}
  mine: {to: p, current: {into: I_e, source: own}}
  dc: {to: p, current: {into: i, source: dc, params: {amplitude: [1 pA, 2 pA, 3 pA, 4 pA]}}}
  file: {to: q, current: {into: i, source: from_file, params: {values: [1 pA, 5 pA], every: 12 ms}}}
  white: {to: q, current: {into: i, source: gaussian_noise, params: {std: 30 pA}}}
  red:
    to: [p, q]
    values: {s: {by_target: [10 pA, 20 pA]}}
    current: {into: i, source: ornstein_uhlenbeck, params: {sigma: s}}
  shots: {to: p, current: {into: i, source: poisson_exp, params: {weight: 20 pA, rate: 200 Hz}}}
  wave:
    to: q
    current: {into: i, source: sine, params: {amplitude: {uniform: {low: 0 pA, high: 50 pA}}, frequency: 90 Hz}}
  pulse: {to: p, current: {into: i, source: step, params: {amplitude: 90 pA, start: 10 ms, stop: 20 ms}}}
  rain: {to: [p, q], poisson: {rate: doubled(9 mV) * 20 Hz + rates(t), into: jump, weight: 1 mV}}
simulate: {dt: 0.5 ms, duration: 30 ms, seed: 3}
record:
  - spikes: {from: all}
  - trace: {from: [p, q], variables: [v, w, i, jump], members: all}
"""

RECORDS = """\
language: 1
name: records
neurons:
  cell:
    params: {tau: 10 ms, rest: -60 mV}
    state: {v: {uniform: {low: -60 mV, high: -50 mV}}}
    inputs: {g: {unit: mV, decay: 5 ms}}
    pool: {reduce: {m: mean(v)}, state: {s: 0 mV}, update: [s = 0.9 * s + 0.1 * m]}
    dynamics: {dv/dt: (rest - v + g + 8 mV) / tau}
    spike: {when: v > -52 mV, reset: [v = rest], refractory: 2 ms}
synapses:
  watching:
    events:
      high: {of: pre, when: pre.v > -54 mV, do: ["deliver(0.1 mV)"], delayed: true}
      low: {of: post, when: post.v < -58 mV, do: ["deliver(0.1 mV)"]}
populations: {a: {neuron: cell, size: 30, pools: 3}, b: {neuron: cell, size: 20}}
projections:
  watching: {from: b, to: [a, b], connect: {fixed_probability: {p: 0.2}}, synapse: watching, deliver: {into: g},
             delay: 3 ms}
  static:
    from: a
    to: [a, b]
    connect: {fixed_probability: {p: 0.2}}
    deliver: {into: g, weight: {uniform: {low: 0 mV, high: 3 mV}}}
    delay: {uniform: {low: 1 ms, high: 5 ms, round: nearest}}
  plastic:
    from: b
    to: a
    connect: {fixed_indegree: {number: 4}}
    synapse: stdp_additive
    params: {w_max: 3 mV}
    deliver: {into: g}
    delay: 1 ms
simulate: {dt: 0.5 ms, duration: 60 ms, warmup: 10 ms, seed: 2}
record:
  - spikes: {from: a, members: [1, 4, 7]}
  - spikes: {from: b, between: [10 ms, 50 ms]}
  - trace: {from: a, variables: [v, g, pool.s], members: 0..9, every: 2 ms, between: [5 ms, 45 ms]}
  - trace: {from: b, variables: [v], members: all, every: 5 ms}
  - rate: {from: [a, b], every: 5 ms}
  - events: {from: watching, events: [high, low]}
  - synapses: {from: plastic, variables: [w], every: 20 ms}
  - synapses: {from: static, variables: [weight, delay]}
  - histogram: {from: plastic, variable: w, range: [0 mV, 3 mV], bins: 7, every: 20 ms}
  - table: {every: 20 ms, columns: {v: mean(a.v), span: max(b.g) - min(b.g), w: sum(plastic.w), s: max(a.pool.s)}}
"""

METHODS = {
    "auto": "linear bent",
    "exact": "linear",
    "exponential_euler": "linear gated",
    "euler": "linear bent",
    "rk2": "linear bent",
    "rk4": "linear bent",
}
EQUATIONS = {
    "linear": """\
    dynamics: {dv/dt: (g - v - w) / (9 ms), dw/dt: (0.3 * v - w) / (20 ms)}
    spike: {when: v > 1.1, reset: [v = 0.2]}
""",
    "gated": """\
    dynamics: {dv/dt: (1.5 + g - (1 + w ** 2) * v) / (9 ms), dw/dt: (tanh(v) - w) / (20 ms)}
    spike: {when: v > 1.1, reset: [v = 0.2]}
""",
    "bent": """\
    dynamics: {dv/dt: (v * (v - 0.3) * (1 - v) + 0.1 * g - w + 0.2) / (2 ms), dw/dt: (tanh(v) - w) / (30 ms)}
    spike: {when: v > 0.9, reset: [w = w + 0.1], refractory: {time: 3 ms, hold: [w]}}
""",
}


def methods() -> str:
    """Two systems of equations by every method that can integrate them."""
    pairs = [(form, method) for method, forms in METHODS.items() for form in forms.split()]
    neurons = "".join(
        f"  {form}_{method}:\n    state: {{v: 0.8, w: 0.1}}\n    inputs: {{g: {{decay: 3 ms}}}}\n"
        f"    method: {method}\n{EQUATIONS[form]}"
        for form, method in pairs
    )
    populations = "".join(f"  p_{f}_{m}: {{neuron: {f}_{m}, size: 5}}\n" for f, m in pairs)
    return f"""\
language: 1
name: methods
neurons:
{neurons}
populations:
{populations}
inputs:
  noise: {{to: all, poisson: {{rate: 200 Hz, into: g, weight: 0.8}}}}
simulate: {{dt: 0.5 ms, duration: 25 ms, seed: 3}}
record:
  - spikes: {{from: all}}
  - trace: {{from: all, variables: [v, w, g], members: all}}
"""


def neurons_of_the_library() -> str:
    """Every neuron of the library, driven so that its state changes early."""
    populations = "\n".join(f"  p_{n}: {{neuron: {n}, size: 4, params: {{{p}}}}}" for n, p in DRIVES.items())
    traced = ", ".join(f"p_{n}" for n in DRIVES if n not in STATELESS | {"rulkov"})
    return f"""\
language: 1
name: neurons
populations:
{populations}
simulate: {{dt: 0.05 ms, duration: 6 ms, seed: 6}}
record:
  - spikes: {{from: all}}
  - trace: {{from: [{traced}], variables: [v], members: all}}
  - trace: {{from: p_rulkov, variables: [x, y], members: all}}
"""


VALUES_OF_CONNECTIONS = """\
language: 1
name: values
neurons:
  src: {params: {nominal: 0.1}, state: {x: 0}, update: [x = 0.9 * x + random()], spike: {when: random() < 0.3}}
  cell:
    params: {gain: 2.5}
    inputs: {g: {}, h: {}}
    state: {v: 0}
    update: [v = 0.9 * v + gain * g + 0.3 * h]
    spike: {when: v > 6, reset: [v = 0]}
synapses:
  scaled:
    params: {rel: 1, share: rel / sum_into(rel)}
    state: {w: 1, of: n_from / n_to, z: {uniform: {low: 0, high: 1 / n_to}}}
    let: {part: rel / sum_into(rel) / n_in}
    pre: {state: {y: 0}, on_spike: [y = 0.7 * y + 1 / n_to]}
    on_pre: [deliver(w * part * share * (1 + z + pre.y) / n_out)]
    on_post: [w = 0.9 * w + 0.1 * of / n_in]
    events: {high: {of: post, when: post.v > n_in / 4, do: [w = w * 1.01]}}
  graded:
    params: {rel: 2}
    on_pre: ["deliver(rel / sum_into(rel) / n_in / n_out, post.h)"]
  placed:
    params: {w: 0.1, gain: 1}
    let: {both: w * gain}
    pre: {state: {u: 1}, dynamics: {du/dt: (1 - u) / (20 ms)}, on_spike: [u = 0.5 * u]}
    on_pre: ["deliver(both * pre.u, post.h)"]
    events: {high: {of: pre, when: pre.x > 4, do: ["deliver(0.1 * w * pre.x, post.h)"]}}
populations:
  a: {neuron: src, size: 20}
  b: {neuron: src, size: 13, params: {nominal: 0.2}}
  c: {neuron: cell, size: 10}
projections:
  p:
    from: a
    to: c
    connect: {fixed_probability: {p: 0.5}}
    synapse: scaled
    deliver: {into: g}
    init: {w: from.nominal * 3 / n_in}
  q: {from: b, to: c, connect: {fixed_total: {number: 60}}, synapse: scaled, params: {rel: 3}, deliver: {into: g}}
  r:
    from: [a, b]
    to: c
    connect: {fixed_indegree: {number: 5}}
    values: {rel: {by_source: {a: 4, b: 1.7}}}
    deliver: {into: g, weight: from.nominal * rel / sum_into(rel) * to.gain / n_out + 0.01 * i}
  bits: {from: a, to: c, connect: {rule: {probability: 0.5, storage: bitmask}}, deliver: {into: g, weight: 0.2 / n_in}}
  again:
    from: a
    to: c
    connect: {fixed_outdegree: {number: 4, storage: procedural}}
    deliver: {into: g, weight: 0.2 / n_in}
  none: {from: a, to: c, connect: {fixed_probability: {p: 0.5, storage: procedural}}, synapse: graded}
  place:
    from: [a, b]
    to: c
    connect: {fixed_probability: {p: 0.5, storage: procedural}}
    synapse: placed
    params: {w: 0.02 * i + 0.3 / n_in}
  placed:
    from: a
    to: c
    connect: {fixed_probability: {p: 0.5, storage: bitmask}}
    synapse: placed
    params: {w: 0.01 * j, gain: 1 + i / n_out}
  bit: {from: a, to: c, connect: {fixed_probability: {p: 0.5, storage: bitmask}}, synapse: graded, params: {rel: 5}}
simulate: {dt: 1 ms, duration: 40 ms, seed: 5}
record:
  - spikes: {from: all}
  - trace: {from: c, variables: [v], members: all}
"""

OWN_INPUTS = """\
language: 1
name: own
phases: {trial: {every: 10 ms, events: {start: 0 ms, end: 10 ms}}}
neurons:
  src: {spike: {when: random() < 0.2}}
  cell:
    inputs: {i: {}, j: {}, k: {decay: 3 ms}}
    state: {v: 0, u: 0}
    update: [v = v + 0.1 * (i + 0.2 * k - v), u = 0.9 * u + 0.1 * j]
    spike: {when: v > 0.9, reset: [v = 0]}
synapses:
  own:
    params: {w: 0.5, tau: 5 ms, e: 2}
    post: {inputs: {g: {decay: tau}}, deliver: g * (e - post.v)}
    on_pre: ["deliver(w, post.g)"]
  alpha:
    params: {w: 0.3, e: 1.5}
    state: {x: {uniform: {low: 0.5, high: 1}}}
    post:
      state: {s: 0, y: 0}
      inputs: {g: {}, h: {decay: 4 ms}}
      dynamics: {ds/dt: -s / (3 ms)}
      update: [s = s + g]
      on_spike: [y = 0.5 * y + 1]
      on: {trial.start: [h = 0]}
      deliver: {i: s * (e - post.v), j: s + 0.1 * h, k: 0.01 * y * post.u}
    on_pre: ["deliver(w * x, post.g)", "deliver(x, post.h)", "deliver(0.01, post.i)", x = 0.9 * x + 0.1]
    on_post: ["x = clip(x + 0.01 * post.y, 0, 2)"]
    on: {trial.end: ["deliver(x, post.h)"]}
populations: {a: {neuron: src, size: 20}, b: {neuron: cell, size: 10}, c: {neuron: cell, size: 7}}
projections:
  p: {from: a, to: [b, c], connect: {fixed_probability: {p: 0.3}}, synapse: own, deliver: {into: i}, delay: 1 ms}
  q:
    from: a
    to: b
    connect: {fixed_probability: {p: 0.3}}
    synapse: own
    deliver: {into: i}
    params: {tau: 10 ms, e: -1}
    delay: {uniform: {low: 0 ms, high: 4 ms, round: nearest}}
  r: {from: a, to: b, connect: {all_to_all: {storage: bitmask}}, synapse: own, deliver: {into: k}, params: {w: 0.02}}
  s: {from: a, to: b, connect: {fixed_probability: {p: 0.3}}, synapse: alpha, delay: 3 ms, clear: trial.start}
  t: {from: b, to: c, connect: {fixed_probability: {p: 0.5}}, synapse: alpha, back_delay: 2 ms}
  ring:
    from: a
    to: b
    connect: {fixed_probability: {p: 0.3}}
    deliver: {into: i, weight: 0.01}
    delay: {uniform: {low: 0 ms, high: 4 ms, round: nearest}}
simulate: {dt: 1 ms, duration: 35 ms, seed: 5, instances: 2}
record:
  - spikes: {from: all}
  - trace: {from: [b, c], variables: [v, u], members: all}
"""

COUNTS = """\
language: 1
name: counts
neurons:
  cell:
    params: {m: 3}
    state: {v: 0, open: 40, seen: 0}
    inputs: {g: {}}
    update:
      - open = open + binomial(100 - open, 0.1) - binomial(open, 0.2 + 0.01 * self.i)
      - seen = poisson(m) + poisson(30 * random())
      - v = 0.8 * v + 0.1 * open * random() + g + population.drawn / 1000
    spike: {when: v > 8 + seen / 30, reset: [v = 0]}
    population: {state: {drawn: 0}, update: ["drawn = binomial(1000, 0.5)"]}
synapses:
  quantal:
    params: {p: 0.4, n: 6}
    state: {ready: n}
    on_pre: ["released = binomial(ready, p)", deliver(0.1 * released), ready = ready - released]
    update: ["ready = ready + binomial(n - ready, 0.05)"]
  unstored: {on_pre: ["deliver(0.1 * binomial(5, 0.3) + 0.01 * poisson(20))"]}
populations: {a: {neuron: cell, size: 37}, b: {neuron: cell, size: 11, params: {m: 14}}}
projections:
  p: {from: a, to: b, connect: {fixed_probability: {p: 0.4}}, synapse: quantal, deliver: {into: g}, delay: 1 ms}
  q: {from: b, to: a, connect: {all_to_all: {}}, synapse: quantal, params: {p: 0.9}, deliver: {into: g}}
  r: {from: a, to: a, connect: {fixed_probability: {p: 0.2, storage: procedural}}, synapse: unstored,
      deliver: {into: g}}
simulate: {dt: 1 ms, duration: 40 ms, seed: 4, instances: 2}
record:
  - spikes: {from: all}
  - trace: {from: all, variables: [v, open, seen], members: all}
"""

CONSTRUCTS: dict[str, str] = {
    **CONNECTING,
    **MODELS_OF_SYNAPSES,
    "sums over kernels": TIED,
    "values of connections": VALUES_OF_CONNECTIONS,
    "own inputs": OWN_INPUTS,
    "counts": COUNTS,
    "control": control("0.1"),
    "control, copies": control("{uniform: {low: 0, high: 0.2}}", ", instances: 3, weights: shared"),
    "others": OTHERS.replace("MORE", ", instances: 2"),
    "others, synapses": modulated(),
    "sums over instances of neurons": SUMMED,
    "cleared": cleared(", instances: 2"),
    "drives": CURRENTS,
    "methods": methods(),
    "neurons of the library": neurons_of_the_library(),
    "records": RECORDS,
}
"""Texts of models, by name, less `numerics`."""
