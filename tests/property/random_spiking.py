"""Random spiking models: neurons, equations, connections, delays, synapses, inputs and records, drawn from a seed.

A model has several independent parts, so that one build serves all of them.
"""

from __future__ import annotations

import random

from tests.numeric.test_library_bits import DRIVES

DRAWN = (
    "{value}",
    "{{uniform: {{low: 0, high: {value}}}}}",
    "{{normal: {{mean: {value}, std: 0.1, min: 0}}}}",
    "{{exponential: {{mean: {value}, max: 2}}}}",
    "{{lognormal: {{mean: {value}, std: 0.2, max: 3}}}}",
)
DELAYS = (
    *("0 ms", "0.5 ms", "1 ms", "3.5 ms", "{uniform: {low: 0 ms, high: 6 ms, round: nearest}}"),
    "{normal: {mean: 2 ms, std: 1 ms, min: 0.5 ms, max: 5 ms, round: nearest}}",
)
FINE = {"hodgkin_huxley", "traub_miles", "wang_buzsaki", "lif_cond_alpha", "eif", "rulkov"}
"""Neurons that need smaller steps, or whose variables are called as those of traces."""
PLASTIC = ("stdp_additive", "stdp_multiplicative", "stdp_nearest", "tsodyks_markram", "stochastic_release")
STORED = {
    "all_to_all": ("sparse", "dense", "bitmask"),
    "one_to_one": ("sparse", "bitmask", "procedural"),
    "fixed_probability": ("sparse", "bitmask", "procedural"),
    "fixed_outdegree": ("sparse", "procedural"),
    "rule": ("sparse", "bitmask", "procedural"),
    "conv2d": ("sparse", "toeplitz"),
}
"""Storages of a rule that hold any static projection of one weight."""
LEARNED = (
    "'w = clip(w + 0.1 * post.y - 0.02, 0, 1)'",
    "'w = 0.95 * w + 0.02 * post.y'",
    "'n = n + 1'",
    "'w = clip(w + 0.05 * (delayed(pre.v) - w), 0, 1)'",
    "'w = w / (1 + 0.01 * n_in)'",
    "'w = clip(w + 0.02 * binomial(4, 0.5) - 0.04, 0, 1)'",
    "n = n + poisson(0.4)",
)
EVERY = (
    "[w = 0.99 * w]",
    "[n = 0.9 * n + 0.1 * tanh(post.v)]",
    "['w = w + 0.01 * (1 - sum_post(w)) / n_in']",
    "[deliver(0.02 * w * (pre.v - post.v))]",
)
POOLED = ("mean(v)", "sum(g)", "max(w)", "min(v)", "mean(v * v)")
POOL = "    pool: {{reduce: {{m: {}}}, state: {{s: 0}}, update: [s = 0.9 * s + 0.1 * m]}}"
AT_EVENTS = (
    "[w = w + 0.01 * poisson(0.5)]",
    "[w = 0.9 * w]",
    "['w = w * 0.6 / max(sum_post(w), 0.1)']",
    "[w = w + 0.01 * random()]",
    "[n = 0]",
)
SHAPE = (2, 4, 5)
"""Channels, height, width of populations that a convolution connects."""
TERMS = (
    *("-v", "0.5 * w", "g", "tanh(w)", "exp(-abs(v))", "v * (1 - v)", "sin(3 * v)", "1 / (1 + v ** 2)"),
    *("sigmoid(v - w)", "max(v, w)", "(v if v > w else w)", "clip(v, -1, 1)", "abs(w) ** 0.5", "log1p(abs(g))", "k"),
)  # fmt: skip


def spiking_model(seed: int, parts: int, order: str = "bitwise") -> str:
    """The text of a model of `parts` parts (`a0`, `a1`, ... of part a)."""
    rng = random.Random(f"spiking {seed}")
    made = [_Part(rng, chr(ord("a") + n)) for n in range(parts)]
    populations = [p for m in made for p in m.populations]
    drawn = [f"  {p}" for m in made for p in m.inputs]
    traced = ", ".join(n for m in made for n in m.traced)
    numerics = f"{{precision: {rng.choice(('float32', 'float64'))}, order: {order}}}"
    copies = rng.choice(("", "", "", ", instances: 2", ", instances: 3, weights: shared"))
    if "shared" in copies and any(m.learns for m in made):
        copies = ", instances: 2"
    return "\n".join(
        [
            "language: 1",
            f"name: spiking_{seed}",
            "neurons:",
            *(m.neuron for m in made),
            "synapses:",
            *(m.synapse for m in made),
            "populations:",
            *(f"  {p}" for p in populations),
            "phases: {trial: {every: 6 ms, events: {start: 0 ms, middle: 2.5 ms}}}",
            "projections:",
            *(f"  {p}" for m in made for p in m.projections),
            *(["inputs:", *drawn] if drawn else []),
            f"simulate: {{dt: 0.5 ms, duration: {rng.choice((15, 20, 25))} ms, warmup: {rng.choice((0, 2))} ms, "
            f"seed: {rng.randrange(1000)}{copies}}}",
            "record:",
            "  - spikes: {from: all}",
            f"  - trace: {{from: [{traced}], variables: [v, w], members: all, every: {rng.choice(('0.5', '1.5'))} ms}}",
            f"numerics: {numerics}",
            "",
        ]
    )


class _Part:
    """A neuron, a synapse, populations and what is between them; names begin with `letter`."""

    def __init__(self, rng: random.Random, letter: str) -> None:
        self.rng, self.letter, self.learns, self.pooled = rng, letter, False, False
        self.neuron = self._neuron()
        self.synapse = self._synapse()
        sizes = [rng.randint(1, 40) for _ in range(rng.randint(1, 3))]
        own = [f"{letter}{n}" for n in range(len(sizes))]
        self.traced = own
        grid = rng.random() < 0.3
        sizes = [SHAPE[0] * SHAPE[1] * SHAPE[2]] * len(sizes) if grid else sizes
        extent = {s: f"shape: {list(SHAPE)}" if grid else f"size: {s}{self._pools(s)}" for s in sizes}
        self.grid = grid
        self.populations = [f"{n}: {{neuron: {letter}, {extent[s]}}}" for n, s in zip(own, sizes, strict=True)]
        sources = list(zip(own, sizes, strict=True))
        if rng.random() < 0.6:
            kind = rng.choice(sorted(set(DRIVES) - FINE))
            size = rng.randint(1, 20)
            self.populations.append(f"{letter}_lib: {{neuron: {kind}, size: {size}, params: {{{DRIVES[kind]}}}}}")
            sources.append((f"{letter}_lib", size))
        self.projections = [self._projection(n, rng.choice(sources), rng.choice(sources[: len(own)])) for n in range(3)]
        self.inputs = []
        if rng.random() < 0.7:
            rate, into = rng.choice((50, 300, 2000)), rng.choice(("g", "jump"))
            self.inputs.append(
                f"{letter}_rain: {{to: [{', '.join(own)}], poisson: {{rate: {rate} Hz, into: {into}, weight: 0.3}}}}"
            )

    def _pools(self, size: int) -> str:
        pools = [k for k in range(1, size + 1) if size % k == 0]
        return f", pools: {self.rng.choice(pools)}" if self.pooled else ""

    def _formula(self) -> str:
        rng = self.rng
        terms = [f"{rng.choice((0.1, 0.5, 1, 2))} * {rng.choice(TERMS)}" for _ in range(rng.randint(1, 4))]
        return " + ".join(terms)

    def _neuron(self) -> str:
        rng = self.rng
        initial = rng.choice(("0", "0.2", "{uniform: {low: -0.5, high: 0.9}}", "{normal: {mean: 0, std: 0.3}}"))
        lines = [
            f"  {self.letter}:",
            "    params: {k: 0.3, tau: 9 ms}",
            f"    state: {{v: {initial}, w: 0.1}}",
            f"    inputs: {{g: {{decay: {rng.choice(('3 ms', 'tau', '0.5 ms'))}}}, jump: {{}}}}",
        ]
        if rng.random() < 0.6:
            method = rng.choice(("auto", "auto", "euler", "rk2", "rk4"))
            lines += [
                f"    method: {method}",
                "    dynamics:",
                f"      dv/dt: ({self._formula()} - v) / tau",
                f"      dw/dt: (tanh({self._formula()}) - w) / (20 ms)",
                "    update: ['v = clip(v + jump, -5, 5)', w = w]",
            ]
        else:
            noise = rng.choice(
                ("", " + 0.3 * random()", " + 0.2 * normal()", " + 0.2 * poisson(0.7)", " + 0.1 * binomial(6, 0.3)")
            )
            self.pooled = rng.random() < 0.4
            noise += " - 0.3 * pool.s" if self.pooled else ""
            lines += [
                f"    let: {{drive: '{self._formula()}'}}",
                *([POOL.format(rng.choice(POOLED))] if self.pooled else []),
                "    update:",
                f"      - v = clip(0.8 * v + 0.2 * drive + jump + g{noise}, -5, 5)",
                "      - w = 0.9 * w + 0.1 * tanh(drive)",
            ]
        when = rng.choice(("v > 0.8", "v > 0.5 and w < 3", "v > 0.9 or random() < 0.05", "not (v <= 0.7)"))
        refractory = rng.choice(("", ", refractory: 1.5 ms", ", refractory: {time: 2 ms, hold: [v]}"))
        reset = rng.choice(("v = 0", "v = v - 0.8, w = w + 0.1", "v = -k"))
        if rng.random() < 0.4:
            event, what = (
                rng.choice(("trial.start", "trial.middle")),
                rng.choice(("v = 0.5 * v", "w = 0", "v = v + 0.1 * random()")),
            )
            lines.append(f"    on: {{{event}: [{what}]}}")
        if rng.random() < 0.3:
            does = rng.choice(("w = 0.8 * w", "v = v - 0.1, w = w + 0.05", "w = w + 0.1 * random()"))
            lines.append(f"    events: {{hot: {{when: v > 0.4 and w > {rng.choice((-1, 0))}, do: [{does}]}}}}")
        return "\n".join([*lines, f"    spike: {{when: {when}, reset: [{reset}]{refractory}}}"])

    def _synapse(self) -> str:
        rng = self.rng
        change = rng.choice(LEARNED)
        lines = [f"    update: {rng.choice(EVERY)}"] if rng.random() < 0.25 else []
        if rng.random() < 0.3 and not lines:
            lines = ["    dynamics: {dn/dt: -n / (12 ms)}", *(["    event_driven: true"] if rng.random() < 0.6 else [])]
        if rng.random() < 0.25:
            events = AT_EVENTS[:-1] if "    event_driven: true" in lines else AT_EVENTS
            lines.append(f"    on: {{{rng.choice(('trial.start', 'trial.middle'))}: {rng.choice(events)}}}")
        back = rng.choice(("w = min(w + 0.1 * pre.x, 1)", "w = w * 0.97", "n = max(n - 1, 0)"))
        return "\n".join(
            [
                f"  {self.letter}_own:",
                f"    state: {{w: {rng.choice(('0.2', '{uniform: {low: 0, high: 0.6}}'))}, n: 0}}",
                "    pre:",
                "      state: {x: 0}",
                f"      dynamics: {{dx/dt: -x / ({rng.choice((5, 20))} ms)}}",
                "      on_spike: [x = x + 1]",
                "    post: {state: {y: 0}, dynamics: {dy/dt: -y / (15 ms)}, on_spike: [y = 1]}",
                f"    on_pre: [deliver(w * {rng.choice(('1', '0.5', '(1 + 0.01 * n)'))}), {change}]",
                f"    on_post: ['{back}']",
                *lines,
            ]
        )

    def _projection(self, number: int, source: tuple[str, int], target: tuple[str, int]) -> str:
        rng = self.rng
        once = min(source[1], target[1])
        pairs = sorted({(rng.randrange(source[1]), rng.randrange(target[1])) for _ in range(6)})
        rules = [
            "all_to_all: {}",
            f"fixed_probability: {{p: {rng.choice((0.1, 0.4, 0.9))}}}",
            f"fixed_indegree: {{number: {rng.randint(1, 5)}}}",
            f"fixed_outdegree: {{number: {rng.randint(1, 5)}}}",
            f"fixed_total: {{number: {rng.randint(1, 60)}}}",
            f"pairs: {{list: {[list(p) for p in pairs]}}}",
            f"rule: {{when: (i + 2 * j) % {rng.randint(2, 5)} == 0}}",
            f"rule: {{probability: 'exp(-abs(i - j) / {rng.randint(1, 9)})'}}",
        ]
        if source[1] == target[1] == once:
            rules += ["one_to_one: {}"] * 4
        if self.grid and source[1] == target[1]:
            rules += [f"conv2d: {{kernel: 3, padding: 1{rng.choice(('', ', depthwise: true'))}}}"] * 4
        rule = rng.choice(rules)
        value, delay, into = rng.choice((0.05, 0.2, 0.6)), rng.choice(DELAYS), rng.choice(("g", "jump"))
        parts = [f"from: {source[0]}", f"to: {target[0]}", f"connect: {{{rule}}}", f"delay: {delay}"]
        kind = rng.random()
        if kind < 0.4:
            weight = rng.choice(DRAWN).format(value=value)
            if rng.random() < 0.2 and not rule.startswith("conv2d"):
                weight = rng.choice((f"{value} * exp(-abs(i - j) / 5)", f"{value} / n_in"))
            parts.append(f"deliver: {{into: {into}, weight: {weight}}}")
            name = rule.split(":")[0]
            if weight == str(value) and name in STORED and "uniform" not in delay and "normal" not in delay:
                kept = f"storage: {rng.choice(STORED[name])}}}"
                rule = rule[:-1] + (kept if rule.endswith("{}") else f", {kept}")
                parts[2] = f"connect: {{{rule}}}"
            if rng.random() < 0.15:
                parts.append("clear: trial.start")
        else:
            parts[-1] = f"delay: {rng.choice(DELAYS[:4])}"  # traces of a neuron are kept once
            self.learns = True
            synapse = f"{self.letter}_own" if kind < 0.75 and "lib" not in source[0] else rng.choice(PLASTIC)
            given = {"tsodyks_markram": "w: 0.4", "stochastic_release": "w: 0.4"}.get(synapse, "w_max: 0.6")
            parts += [f"synapse: {synapse}", f"deliver: {{into: {into}}}"]
            parts += ["back_delay: 1 ms"] if synapse.endswith("_own") and rng.random() < 0.2 else []
            parts += [] if synapse.endswith("_own") else [f"params: {{{given}}}"]
        return f"{self.letter}_p{number}: {{{', '.join(parts)}}}"
