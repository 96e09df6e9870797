"""Synapse definitions and the projections that use them: from a model file to level 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.core.diagnostics import ModelError, Severity, Sink
from compiler.core.render import render
from compiler.expr.ast import Ref, show
from compiler.frontend.build.synapses import use as synapse_use
from compiler.frontend.load import load_model
from compiler.ir.level0.model import (
    Const,
    Distribution,
    Formula,
    Listed,
    Member,
    Method,
    Model,
    Projection,
    Send,
    Set,
    SynapseDef,
)
from compiler.ir.text import print_ir
from compiler.verify.model import model_violations
from tests.parse_ir import parse_ir

ROOT = Path(__file__).parents[2]
LIBRARY = sorted(p.stem for p in (ROOT / "models" / "library" / "synapses").glob("*.yaml"))

NEURONS = """language: 1
params:
  strong: {value: true, type: bool}
  scale: {value: 2}
neurons:
  cell:
    params: {tau: 10 ms, rest: -65 mV, r: 1 GOhm}
    state: {v: rest, w2: 0}
    inputs: {g: {unit: nS, decay: 5 ms}, I: {unit: pA}, raw: {}}
    dynamics: {dv/dt: (rest - v + r * (I + g * (0 mV - v)) + raw * 1 mV) / tau, dw2/dt: -w2 / tau}
    spike: {when: v > -50 mV, reset: [v = rest]}
  other:
    params: {tau: 10 ms}
    state: {u: 0 mV}
    inputs: {g: {unit: nS}, raw: {unit: mV}}
    dynamics: {du/dt: -u / tau}
    spike: {when: u > 1 mV + g * 1 mV / (1 nS) + raw, reset: [u = 0 mV]}
  silent:
    state: {v: 0 mV}
    inputs: {I: {unit: pA}}
    dynamics: {dv/dt: I / (1 pF) - v / (1 ms)}
populations:
  a: {neuron: cell, size: 3}
  b: {neuron: cell, size: 2}
  o: {neuron: other, size: 2}
  s: {neuron: silent, size: 2}
simulate: {dt: 0.1 ms, duration: 10 ms}
"""
STDP = """
synapses:
  stdp:
    params: {tau_pre: 20 ms, tau_post: 20 ms, a: 0.01, w_max: 1, w_0: w_max / 4}
    state: {w: {uniform: {low: 0, high: w_max}}, last: 2 * w_0, age: 0 ms}
    let: {jump: a * w_max}
    pre: {state: {x: a}, dynamics: {dx/dt: -x / tau_pre}, on_spike: [x += a]}
    post: {state: {y: 0, z: 0}, dynamics: {dy/dt: -y / tau_post}, update: [z = y * 2], on_spike: [y = a]}
    on_pre:
      - gain = w if strong else 0
      - deliver(gain * scale)
      - w = clip(w + post.y * jump, 0, w_max)
      - age = post.last_spike - post.previous_spike
    on_post:
      - gain = pre.x
      - w += gain * w_max
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "m.yaml"
    path.write_text(NEURONS + text, encoding="utf-8")
    return path


def load(folder: Path, text: str) -> Model:
    try:
        model = load_model(written(folder, text))
    except ModelError as error:
        pytest.fail(render(error.diagnostics, "human"))
    assert model_violations(model) == []
    return model


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(ModelError) as caught:
        load_model(written(folder, text))
    assert render(caught.value.diagnostics, "human")
    return [f"{d.code} {d.message}" for d in caught.value.diagnostics if d.severity is Severity.ERROR]


def one(folder: Path, synapse: str, rest: str = "", *, to: str = "b", deliver: str = "deliver: {into: raw}") -> str:
    """A model text with one synapse definition and one projection that uses it."""
    lines = f"synapses: {{syn: {synapse}}}\n"
    return (
        lines
        + f"projections: {{p: {{from: a, to: {to}, connect: {{all_to_all: {{}}}}, synapse: syn, {deliver}{rest}}}}}"
    )


def used(model: Model, name: str = "p") -> tuple[Projection, SynapseDef, Member]:
    projection = next(p for p in model.projections if p.name == name)
    assert projection.synapse is not None
    return projection, projection.synapse, projection.members[0]


def texts(actions: tuple[Set | Send, ...]) -> list[str]:
    return [
        f"{a.target} = {show(a.value)}" if isinstance(a, Set) else f"deliver({show(a.value)}, {a.end}, {a.into})"
        for a in actions
    ]


# ----------------------------------------------------------------------------------- definitions


def test_a_synapse(tmp_path: Path) -> None:
    model = load(
        tmp_path,
        STDP
        + """
projections:
  p:
    from: a
    to: b
    connect: {all_to_all: {}}
    synapse: stdp
    params: {w_max: 2}
    deliver: {into: raw}
    delay: 1 ms
    back_delay: 0.5 ms
""",
    )
    projection, s, member = used(model)
    assert (s.name, s.method, s.event_driven, s.model_params) == ("stdp", Method.AUTO, False, ("strong", "scale"))
    assert [(p.name, p.unit) for p in s.params][:2] == [("tau_pre", "ms"), ("tau_post", "ms")]
    assert [(x.name, x.unit) for x in s.state] == [("w", "1"), ("last", "1"), ("age", "ms")]
    assert s.state[0].init == Distribution("uniform", (("low", 0.0), ("high", 1.0)))  # with the defaults
    assert [show(x.value) for x in s.lets] == ["a * w_max"]
    assert s.pre is not None and s.post is not None
    assert s.pre.state[0].init == Formula(Ref("a")) and show(s.pre.dynamics[0].rhs) == "-x / tau_pre"
    assert texts(s.pre.on_spike) == ["x = x + a"]
    assert texts(s.post.update) == ["z = y * 2"] and texts(s.post.on_spike) == ["y = a"]
    assert texts(s.on_pre) == [
        "gain = w if strong != 0.0 else 0",  # a truth value is a number at run time
        "deliver(gain * scale, post, None)",
        "w = clip(w + post.y * jump, 0, w_max)",
        "age = post.last_spike - post.previous_spike",
    ]
    assert texts(s.on_post) == ["gain = pre.x", "w = w + gain * w_max"]
    assert (projection.into, member.delay, member.back_delay) == ("raw", 10, 5)
    assert member.params == tuple(
        (n, Const(v)) for n, v in (("tau_pre", 20.0), ("tau_post", 20.0), ("a", 0.01), ("w_max", 2), ("w_0", 0.5))
    )
    # the distribution and the formulas are over the values that the projection gives
    assert member.init == (
        ("w", Distribution("uniform", (("low", 0.0), ("high", 2.0)))),
        ("last", Const(1.0)),
        ("age", Const(0.0)),
    )


def test_deliveries_and_events(tmp_path: Path) -> None:
    synapse = """
synapses:
  syn:
    params: {w: 1 pA, low: -60 mV}
    let: {limit: low + 1 mV}
    events:
      release: {of: pre, when: pre.v > limit and random() < 0.5, do: ["deliver(w, post.I)", "deliver(w * 2, pre.I)"]}
      back: {of: post, when: post.w2 > scale, do: [deliver(w)]}
    update:
      - "deliver(1 nS * (pre.v - post.v), post.I)"
projections:
  p: {from: a, to: b, connect: {all_to_all: {}}, synapse: syn, deliver: {into: I}}
"""
    projection, s, _ = used(load(tmp_path, synapse))
    assert [(e.name, e.end, show(e.when)) for e in s.events] == [
        ("release", "pre", "pre.v > low + 1.0 and random() < 0.5"),  # named expressions are put in
        ("back", "post", "post.w2 > scale"),
    ]
    assert texts(s.events[0].actions) == ["deliver(w, post, I)", "deliver(w * 2, pre, I)"]
    assert texts(s.events[1].actions) == ["deliver(w, post, None)"]
    assert texts(s.update) == ["deliver(1.0 * (pre.v - post.v), post, I)"]
    assert projection.into == "I" and s.model_params == ("scale",)


def test_inputs_that_are_all_named_need_no_deliver(tmp_path: Path) -> None:
    model = load(tmp_path, one(tmp_path, '{on_pre: ["deliver(1 pA, post.I)"]}', deliver="delay: 0.1 ms"))
    projection, _, member = used(model)
    assert projection.into == "" and member.delay == 1


@pytest.mark.parametrize(("method", "event_driven"), [("auto", True), ("exact", True), ("rk4", False)])
def test_methods(tmp_path: Path, method: str, event_driven: bool) -> None:
    flag = "true" if event_driven else "false"
    synapse = (
        "{params: {tau: 5 ms, rest: 1}, state: {x: 1, y: 0}, let: {rate: 1 / tau}, method: "
        f"{method}, event_driven: {flag}, dynamics: {{dx/dt: (rest - x) * rate, dy/dt: -scale * y / tau}}, "
        "on_pre: [deliver(x * y)]}"
    )
    _, s, _ = used(load(tmp_path, one(tmp_path, synapse)))
    assert (s.method, s.event_driven) == (Method(method), event_driven)


@pytest.mark.parametrize("name", LIBRARY)
def test_library(tmp_path: Path, name: str) -> None:
    unit, into = (
        ("pA", "I") if name in ("graded",) else ("nS", "I") if name in ("gap_junction", "nmda") else ("nS", "g")
    )
    key = {"gap_junction": "g", "nmda": "g", "stdp_triplet": "w_0", "stdp_triplet_hippocampal": "w_0"}.get(
        name, "w_max" if name.startswith("stdp") else "w"
    )
    for reference in (name, f"library/synapses/{name}"):
        text = (
            f"projections: {{p: {{from: a, to: b, connect: {{all_to_all: {{}}}}, synapse: {reference}, "
            f"params: {{{key}: 2 {unit}}}, deliver: {{into: {into}}}}}}}"
        )
        _, s, member = used(load(tmp_path, text))
        assert s.name == name
        assert next(p.unit for p in s.params if p.name == key) == unit
        assert dict(member.params)[key] == Const(2.0)


def test_hippocampal_triplets_are_table_4(tmp_path: Path) -> None:
    text = "projections: {p: {from: a, to: b, connect: {all_to_all: {}}, synapse: NAME, deliver: {into: raw}}}"
    _, _, member = used(load(tmp_path, text.replace("NAME", "stdp_triplet_hippocampal")))
    values = {n: v.value for n, v in member.params if isinstance(v, Const)}
    assert [values[n] for n in ("a2_plus", "a3_plus", "a2_minus", "a3_minus")] == [6.1e-3, 6.7e-3, 1.6e-3, 1.4e-3]
    assert [values[n] for n in ("tau_plus", "tau_minus", "tau_x", "tau_y")] == [16.8, 33.7, 946.0, 27.0]
    assert values["w_max"] == 2.0 and dict(member.init)["w"] == Const(1)


def test_stdp_model_loads() -> None:
    model = load_model(ROOT / "models" / "stdp.yaml")
    assert model_violations(model) == []
    projection, s, member = used(model, "plastic")
    assert (projection.into, member.delay) == ("ge", 1)
    assert dict(member.init)["w"] == Distribution("uniform", (("low", 0.0), ("high", 0.01)))
    assert texts(s.on_pre)[0] == "deliver(w, post, None)"


def test_one_of_each_prints_and_parses() -> None:
    model = load_model(ROOT / "tests" / "unit" / "build_synapses.yaml")
    assert model_violations(model) == []
    assert parse_ir(print_ir(model)) == model


# ---------------------------------------------------------------------------------------- values


def test_values_of_a_family(tmp_path: Path) -> None:
    text = (
        STDP
        + """
projections:
  p:
    from: [a, b]
    to: [a, b]
    connect: {all_to_all: {}}
    values: {top: {by_source: [1, 3]}, late: {by_target: [1 ms, 2 ms]}}
    synapse: stdp
    params: {w_max: top / n_to, a: 0.5}
    init: {w: {normal: {mean: w_max / 2, std: 0.1 * top}}, last: w_0 * n_from}
    deliver: {into: raw}
    back_delay: late
"""
    )
    projection, _, _ = used(load(tmp_path, text))
    got = [
        (m.source, m.target, dict(m.params)["w_max"], dict(m.init)["w"], dict(m.init)["last"], m.back_delay)
        for m in projection.members
    ]

    def normal(mean: float, std: float) -> Distribution:
        return Distribution("normal", (("mean", mean), ("std", std)))

    assert got == [
        ("a", "a", Const(1 / 3), normal(1 / 6, 0.1), Const(1 / 3 / 4 * 3), 10),
        ("a", "b", Const(1 / 2), normal(1 / 4, 0.1), Const(1 / 2 / 4 * 3), 20),
        ("b", "a", Const(1.0), normal(1 / 2, 0.1 * 3), Const(1 / 4 * 2), 10),
        ("b", "b", Const(3 / 2), normal(3 / 4, 0.1 * 3), Const(3 / 2 / 4 * 2), 20),
    ]


def test_one_value_per_pair(tmp_path: Path) -> None:
    text = """
synapses: {syn: {params: {p: 1}, state: {w: 0.5}, on_pre: [deliver(w * p)]}}
projections:
  p:
    from: a
    to: b
    connect: {pairs: {list: [[2, 0], [0, 1]]}}
    synapse: syn
    params: {p: [3, 4]}
    init: {w: [0.1, 0.2]}
    deliver: {into: raw}
"""
    _, _, member = used(load(tmp_path, text))
    assert member.params == (("p", Listed((3.0, 4.0))),) and member.init == (("w", Listed((0.1, 0.2))),)


def test_formulas_over_what_differs_are_worked_out_per_synapse(tmp_path: Path) -> None:
    text = """
synapses:
  syn:
    params: {q: 1, r: q * scale}
    state: {w: {uniform: {low: 0, high: 1}}, u: w * r if strong else q, z: 3 * r}
    on_pre: [deliver(w * r * u * z)]
projections:
  p:
    from: a
    to: b
    connect: {all_to_all: {}}
    values: {top: {by_source: [4]}}
    synapse: syn
    params: {q: {uniform: {low: 0, high: top}}}
    init: {z: q * top + w}
    deliver: {into: raw}
"""
    _, _, member = used(load(tmp_path, text))
    assert [(n, show(v.expr)) for n, v in (*member.params, *member.init) if isinstance(v, Formula)] == [
        ("r", "q * 2.0"),
        ("u", "w * r if true else q"),
        ("z", "q * 4 + w"),
    ]


def test_what_has_no_unit_takes_that_of_the_projection(tmp_path: Path) -> None:
    text = """
synapses:
  syn: {params: {w_max: 1, half: w_max / 2}, state: {w: half}, on_pre: [deliver(w), 'w = min(2 * w, w_max)']}
projections:
  bare: {from: a, to: b, connect: {all_to_all: {}}, synapse: syn, deliver: {into: raw}}
  siemens: {from: a, to: b, connect: {all_to_all: {}}, synapse: syn, params: {w_max: 2 nS}, deliver: {into: g}}
  again: {from: a, to: b, connect: {all_to_all: {}}, synapse: syn, params: {w_max: 3 nS}, deliver: {into: g}}
"""
    model = load(tmp_path, text)
    definitions = [used(model, n)[1] for n in ("bare", "siemens", "again")]
    assert [[(x.name, x.unit) for x in (*s.params, *s.state)] for s in definitions] == [
        [("w_max", "1"), ("half", "1"), ("w", "1")],
        [("w_max", "nS"), ("half", "nS"), ("w", "nS")],
        [("w_max", "nS"), ("half", "nS"), ("w", "nS")],
    ]
    assert definitions[1] is definitions[2] and definitions[0].on_pre == definitions[1].on_pre
    assert dict(used(model, "siemens")[2].init)["w"] == Const(1.0)


def test_definitions_of_other_files_and_copies(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("language: 1\nsynapses: {there: {params: {q: 2}, on_pre: [deliver(q)]}}\n")
    text = """
synapses:
  "x{i}": {for: {i: 1..3}, use: static, params: {w: i}}
projections:
  file: {from: a, to: b, connect: {all_to_all: {}}, synapse: rules.yaml#there, deliver: {into: raw}}
  copy: {from: a, to: b, connect: {all_to_all: {}}, synapse: x3, deliver: {into: raw}}
"""
    model = load(tmp_path, text)
    assert used(model, "file")[1].name == "there" and used(model, "file")[2].params == (("q", Const(2)),)
    assert used(model, "copy")[1].name == "x3" and used(model, "copy")[2].params == (("w", Const(3)),)


def test_one_definition_for_many_projections(tmp_path: Path) -> None:
    text = """
synapses: {syn: {on_pre: [deliver(1)]}}
projections:
  "p{i}": {for: {i: 0..9}, from: a, to: b, connect: {all_to_all: {}}, synapse: syn, deliver: {into: raw}}
"""
    assert len({id(p.synapse) for p in load(tmp_path, text).projections}) == 1


def test_values_are_worked_out_once_for_64000_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 253
    text = (
        "language: 1\nneurons: {cell: {state: {v: 0}, inputs: {i: {}}, dynamics: {dv/dt: (i - v) / (1 ms)}, "
        "spike: {when: v > 1, reset: [v = 0]}}}\n"
        f"populations: {{'q{{i}}': {{for: {{i: 0..{n - 1}}}, neuron: cell, size: 2}}}}\n"
        "synapses: {syn: {params: {a: 1, b: a / 2}, state: {w: {uniform: {low: 0, high: a}}}, "
        "on_pre: [deliver(w * b)]}}\n"
        "projections: {p: {from: all, to: all, connect: {all_to_all: {}}, synapse: syn, params: {a: 3}, "
        "deliver: {into: i}, delay: 1 ms, back_delay: 0 ms}}\nsimulate: {dt: 1 ms, duration: 2 ms}\n"
    )
    path = tmp_path / "m.yaml"
    path.write_text(text)
    worked_out: list[object] = []
    settings = synapse_use._Reader.settings
    monkeypatch.setattr(synapse_use._Reader, "settings", lambda r, env: worked_out.append(env) or settings(r, env))
    model = load_model(path)
    assert worked_out == [{}]
    members = model.projections[0].members
    assert len(members) == n * n and len({id(m.params) for m in members}) == 1


# -------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("synapse", "expected"),
    [
        ("{on_pre: [deliver(w)]}", "E0302 unknown name `w`"),
        ("{on_pre: [deliver(1), v_post = 1, deliver(x_pre)]}", "E0302 unknown name `x_pre`"),
        ("{on_pre: [deliver(pre.x)]}", "E0302 the source neuron `cell` has no `x`"),
        ("{on_pre: [deliver(post.u)]}", "E0302 the target neuron `cell` has no `u`"),
        (
            "{on_pre: [deliver(post.v)]}",
            "E0401 what is delivered is a number without a unit, but `post.v` is a voltage [mV]",
        ),
        (
            "{on_pre: [deliver(1), 'deliver(1, post.I)']}",
            "E0402 what is delivered into `post.I` is a current [pA], but `1` has no unit",
        ),
        ("{on_pre: [deliver(1), 'deliver(1, post.J)']}", "E0201 the target neuron `cell` has no input `J`"),
        ("{on_pre: [deliver(1), 'deliver(1, pre.v)']}", "E0201 the source neuron `cell` has no input `v`"),
        ("{on_pre: ['deliver(1, raw)']}", "E0301 `raw` is not an input: it is written `post.name` or `pre.name`"),
        (
            "{on_pre: ['deliver(1, 2)']}",
            "E0301 the second argument of `deliver` is an input, `post.name` or `pre.name`",
        ),
        ("{on_pre: [deliver()]}", "E0304 `deliver` takes 1 or 2 arguments, not 0"),
        ("{on_pre: [emit(1)]}", "E0301 a call of `emit` has no effect here"),
        (
            "{on_pre: [deliver(1), post.v = 0 mV]}",
            "E0310 `post.v` is a variable of the neuron and cannot be assigned to here",
        ),
        ("{params: {q: 1}, on_pre: [deliver(1), q = 2]}", "E0310 `q` is a parameter and cannot be assigned to"),
        ("{on_pre: [deliver(1), t = 2 ms]}", "E0310 `t` is the time and cannot be assigned to"),
        ("{on_pre: [deliver(1), q += 2]}", "E0302 `q` has no value yet that `+=` could change"),
        (
            "{params: {q: 1}, state: {q: 1}, on_pre: [deliver(q)]}",
            "E0212 `q` is a parameter already and cannot be a state variable too",
        ),
        (
            "{params: {q: 1}, pre: {state: {q: 1}}, on_pre: [deliver(q)]}",
            "E0212 `q` is a parameter already and cannot be a state variable too",
        ),
        (
            "{pre: {state: {v: 1}}, on_pre: [deliver(pre.v)]}",
            "E0212 `pre.v` is a variable of `pre` and one of the source neuron `cell` too",
        ),
        (
            "{pre: {state: {last_spike: 0 ms}}, on_pre: [deliver(1)]}",
            "E0107 `pre.last_spike` is the time of a spike and cannot name a variable",
        ),
        ("{pre: {state: {x: 0}, on_spike: [x = x + pre.v]}, on_pre: [deliver(1)]}", "E0302 unknown name `pre.v`"),
        ("{pre: {state: {x: 0}, on_spike: [pre.x = 1]}, on_pre: [deliver(1)]}", "E0310 `pre.x` is called `x` here"),
        ("{pre: {state: {x: 0}, on_spike: [y = 1]}, on_pre: [deliver(1)]}", "E0310 `y` is no state variable"),
        (
            "{pre: {state: {x: 0}, on_spike: [x = random()]}, on_pre: [deliver(1)]}",
            "E0309 `x`: random numbers can be drawn in `on_pre`, `on_post`, `update` and `events` only",
        ),
        (
            "{pre: {state: {x: 0}}, on_pre: [deliver(1), pre.x = 1]}",
            "E0310 `pre.x` is held once per neuron and cannot be assigned to here",
        ),
        (
            "{on_pre: [deliver(1), pre.last_spike = 1 ms]}",
            "E0310 `pre.last_spike` is the time of a spike and cannot be assigned to here",
        ),
        (
            "{state: {w: 1}, dynamics: {dw/dt: random() / (1 ms)}, on_pre: [deliver(w)]}",
            "E0309 `dw/dt`: random numbers can be drawn in `on_pre`, `on_post`, `update` and `events` only",
        ),
        (
            "{state: {w: 1}, dynamics: {dw/dt: -w}, on_pre: [deliver(w)]}",
            "E0401 `dw/dt` is a frequency [1/ms], but `-w` is a number without a unit",
        ),
        (
            "{events: {e: {of: pre, when: post.v > 0 mV, do: [deliver(1)]}}}",
            "E0302 the condition is about the source neuron, but `post.v` is of the target",
        ),
        (
            "{state: {w: 1}, events: {e: {of: pre, when: w > 0, do: [deliver(1)]}}}",
            "E0302 the condition is about one neuron, but `w` differs from synapse to synapse",
        ),
        (
            "{events: {e: {of: pre, when: t - post.last_spike > 5 ms, do: [deliver(1)]}}}",
            "E0302 the condition is about the source neuron, but `post.last_spike` is of the target",
        ),
        (
            "{events: {e: {of: pre, when: pre.v > 0 mV, do: [pre.last_e = t]}}}",
            "E0310 `pre.last_e` is the time of an event `e` and cannot be assigned to here",
        ),
        (
            "{events: {e: {of: pre, when: pre.v, do: [deliver(1)]}}}",
            "E0306 `when` must be a condition; this is a number",
        ),
    ],
)
def test_mistakes_in_definitions(tmp_path: Path, synapse: str, expected: str) -> None:
    assert mistakes(tmp_path, one(tmp_path, synapse)) == [expected]


EVENT_DRIVEN = "{{params: {{tau: 5 ms}}, state: {{x: 1, y: 1}}, event_driven: true, {}}}"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (
            "dynamics: {dx/dt: -x * x / tau}, on_pre: [deliver(x)]",
            "E0602 `event_driven` needs equations that are linear in their own variable; `dx/dt` is not",
        ),
        (
            "dynamics: {dx/dt: (y - x) / tau}, on_pre: [deliver(x)]",
            "E0602 `event_driven` needs constant coefficients, but `y` in `dx/dt` is another variable",
        ),
        (
            "dynamics: {dx/dt: -x / tau * post.w2}, on_pre: [deliver(x)]",
            "E0602 `event_driven` needs constant coefficients, but `post.w2` in `dx/dt` is not a parameter",
        ),
        (
            "dynamics: {dx/dt: -x / tau * t / tau}, on_pre: [deliver(x)]",
            "E0602 `event_driven` needs constant coefficients, but `t` in `dx/dt` is not a parameter",
        ),
        (
            "method: rk4, dynamics: {dx/dt: -x / tau}, on_pre: [deliver(x)]",
            "E0602 event-driven equations are solved exactly, not by `rk4`",
        ),
        (
            "dynamics: {dx/dt: -x / tau}, update: [deliver(x)], on_pre: [x = 1]",
            "E0802 `x` is event-driven: it is brought up to date for spikes only, not for `update`",
        ),
        (
            "dynamics: {dx/dt: -x / tau}, events: {e: {of: pre, when: pre.v > 0 mV, do: [x = 1]}}, on_pre: "
            "[deliver(x)]",
            "E0802 `x` is event-driven: it is brought up to date for spikes only, not for `events: e`",
        ),
    ],
)
def test_mistakes_in_event_driven_definitions(tmp_path: Path, rest: str, expected: str) -> None:
    assert mistakes(tmp_path, one(tmp_path, EVENT_DRIVEN.format(rest))) == [expected]


TRACED = (
    "{params: {tau: 5 ms, q: 1}, state: {w: 1}, pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau}, "
    "on_spike: [x = 1]}, on_pre: [deliver(w * q)]}"
)


@pytest.mark.parametrize(
    ("synapse", "rest", "expected"),
    [
        (TRACED, ", params: {tua: 1 ms}", "E0201 synapse `syn` has no parameter `tua`"),
        (TRACED, ", params: {w: 1}", "E0201 synapse `syn` has no parameter `w`"),
        (TRACED, ", init: {q: 1}", "E0201 synapse `syn` has no state variable `q`"),
        (TRACED, ", params: {tau: 1 mV}", "E0401 parameter `tau` of `p` is a time [ms], but `1 mV` is a voltage [mV]"),
        (TRACED, ", params: {tau: 1}", "E0402 parameter `tau` of `p` is a time [ms], but `1` has no unit"),
        (
            TRACED,
            ", params: {tau: {uniform: {low: 1 ms, high: 2 ms}}}",
            "E0802 parameter `tau` cannot differ from synapse to synapse: the variables of `pre` are held "
            "once per neuron",
        ),
        (
            TRACED,
            ", params: {q: [1, 2]}",
            "E0703 `q` needs 3 x 2 numbers, one for each pair of a source and a target; the list has 2",
        ),
        (
            TRACED,
            ", init: {w: 1 mV}",
            "E0401 what is delivered is a number without a unit, but `w * q` is a voltage [mV]",
        ),
        (TRACED, ", init: {w: n_frm}", "E0302 unknown name `n_frm`"),
        (
            TRACED,
            ", params: {q: {uniform: {low: 0, high: 1}}}, init: {w: {uniform: {low: 0, high: q}}}",
            "E0802 the initial value of `w` follows from `q`, which differs from synapse to synapse",
        ),
        (
            "{params: {q: 1, r: q}, pre: {state: {x: 0}, on_spike: [x = r]}, on_pre: [deliver(pre.x)]}",
            ", params: {q: {uniform: {low: 0, high: 1}}}",
            "E0802 parameter `r` cannot differ from synapse to synapse: the variables of `pre` are held once per "
            "neuron",
        ),
        (TRACED, ", delay: 0.25 ms", "E0601 `delay` is 0.25 ms, which is not a whole number of steps of 0.1 ms"),
        (
            "{on_pre: [deliver(pre.last_spike / (1 ms))]}",
            ", delay: {uniform: {low: 1 ms, high: 2 ms, round: nearest}}",
            "E0802 `delay` differs from synapse to synapse, but `pre.last_spike` is held once per source neuron",
        ),
        (
            TRACED,
            ", back_delay: 0.25 ms",
            "E0601 `back_delay` is 0.25 ms, which is not a whole number of steps of 0.1 ms",
        ),
        (TRACED, ", back_delay: -1 ms", "E0106 `back_delay` must not be negative; it is -1 ms"),
        (
            TRACED,
            ", back_delay: 1 ms",
            "E0108 `back_delay` has no effect: nothing in the synapse `syn` waits for spikes of the target",
        ),
        (
            "{update: [deliver(1)]}",
            ", delay: 1 ms",
            "E0802 `delay` is that of spikes, and the synapse `syn` has no statements for those of the source",
        ),
        (
            "{params: {q: {unit: mV}}, on_pre: [deliver(q / (1 mV))]}",
            "",
            "E0103 `p` gives no value for the parameter `q` of `syn`",
        ),
        (
            "{params: {q: 1}, state: {w: 1 / q}, on_pre: [deliver(w)]}",
            ", params: {q: 0}",
            "E0308 the initial value of `w` of `p` has no value: division by zero",
        ),
        ("{state: {w: 1}, on_pre: [deliver(w)]}", ", params: {w: 1}", "E0201 synapse `syn` has no parameter `w`"),
    ],
)
def test_mistakes_in_values(tmp_path: Path, synapse: str, rest: str, expected: str) -> None:
    assert mistakes(tmp_path, one(tmp_path, synapse, rest)) == [expected]


@pytest.mark.parametrize(
    ("synapse", "deliver", "expected"),
    [
        (
            "{on_pre: [deliver(1)]}",
            "deliver: {into: raw, weight: 1}",
            "E0108 the synapse `syn` says what is delivered, so there is no `weight` here",
        ),
        ("{on_pre: [deliver(1)]}", "delay: 1 ms", "E0103 `p` does not say which input the synapse `syn` delivers into"),
        (
            "{on_pre: ['deliver(1, post.raw)']}",
            "deliver: {into: raw}",
            "E0108 `deliver` has no effect: the synapse `syn` names every input itself",
        ),
        (
            "{state: {n: 0}, on_pre: [n = n + 1]}",
            "deliver: {into: raw}",
            "E0108 `deliver` has no effect: the synapse `syn` delivers nothing",
        ),
        ("{on_pre: [deliver(1)]}", "deliver: {into: rwa}", "E0201 neuron `cell` of `b` has no input `rwa`"),
    ],
)
def test_mistakes_in_deliveries(tmp_path: Path, synapse: str, deliver: str, expected: str) -> None:
    assert mistakes(tmp_path, one(tmp_path, synapse, deliver=deliver)) == [expected]


def test_neurons_that_never_spike(tmp_path: Path) -> None:
    text = "synapses: {syn: {BODY}}\nprojections: {p: {from: s, to: s, connect: {all_to_all: {}}, synapse: syn}}"
    expected = ["E0604 `s` never spikes: its neuron `silent` has no `spike`"]
    for body in ("on_pre: ['deliver(1 pA, post.I)']", "on_post: ['deliver(1 pA, pre.I)']"):
        assert mistakes(tmp_path, text.replace("BODY", body)) == expected
    update = "update: ['deliver(1 nS * (pre.v - post.v), post.I)']"
    assert load(tmp_path, text.replace("BODY", update)).projections[0].synapse is not None


def test_a_mistake_with_one_of_two_neurons_is_told_once_with_its_projection(tmp_path: Path) -> None:
    text = """
synapses: {syn: {on_pre: [deliver(post.v / (1 mV))]}}
projections:
  good: {from: a, to: b, connect: {all_to_all: {}}, synapse: syn, deliver: {into: raw}}
  bad: {from: [a, b], to: o, connect: {all_to_all: {}}, synapse: syn, deliver: {into: g}}
  worse: {from: a, to: o, connect: {all_to_all: {}}, synapse: syn, deliver: {into: g}}
"""
    with pytest.raises(ModelError) as caught:
        load_model(written(tmp_path, text))
    (found,) = caught.value.diagnostics
    assert found.message == "the target neuron `other` has no `v`"
    assert [r.message for r in found.related] == [
        "the neuron is declared here",
        "the projection `bad` uses the synapse here",
    ]


def test_a_definition_that_nothing_uses_is_checked(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "synapses: {syn: {state: {w: 1}, on_pre: [deliver(w * pre.anything + qq)]}}")
    assert found == ["E0302 unknown name `qq`"]
    load(tmp_path, "synapses: {syn: {state: {w: 1}, on_pre: [deliver(w * pre.anything)]}}")


def test_unused_parameters_are_warned_of(tmp_path: Path) -> None:
    sink = Sink()
    load_model(written(tmp_path, one(tmp_path, "{params: {q: 1}, on_pre: [deliver(1)]}")), sink=sink)
    assert "nothing reads parameter `q` of synapse `syn`" in [d.message for d in sink.items if d.code == "W0002"]


def test_keys_of_a_synapse_without_one(tmp_path: Path) -> None:
    text = (
        "projections: {p: {from: a, to: b, connect: {all_to_all: {}}, params: {q: 1}, deliver: {into: raw, weight: 1}}}"
    )
    (found,) = mistakes(tmp_path, text)
    assert found.startswith("E0103") and "`synapse`" in found


# -------------------------------------------------------------------------------------- legality


def test_illegal_models_are_found(tmp_path: Path) -> None:
    model = load(
        tmp_path,
        STDP + "projections: {p: {from: a, to: b, connect: {all_to_all: {}}, synapse: stdp, deliver: {into: raw}}}",
    )
    projection, s, member = used(model)

    def broken(p: Projection) -> list[str]:
        return model_violations(replace(model, projections=(p,)))

    def with_synapse(**changes: object) -> list[str]:
        return broken(replace(projection, synapse=replace(s, **changes)))  # type: ignore[arg-type]

    assert any("reads `nothing`" in v for v in with_synapse(on_pre=(Set("w", Ref("nothing")),)))
    assert any("reads `post.nothing`" in v for v in with_synapse(on_pre=(Set("w", Ref("post.nothing")),)))
    assert any("`tau_pre` cannot be assigned to" in v for v in with_synapse(on_pre=(Set("tau_pre", Ref("w")),)))
    assert any("which is not an input" in v for v in with_synapse(on_pre=(Send(Ref("w"), "post", "v"),)))
    assert any("does not fit what the synapse" in v for v in with_synapse(on_pre=()))
    assert any("not a param of the model" in v for v in with_synapse(model_params=("none",)))
    assert any("back delay" in v for v in broken(replace(projection, members=(replace(member, back_delay=-1),))))
    assert any("params" in v for v in broken(replace(projection, members=(replace(member, params=()),))))
    assert any("initial values" in v for v in broken(replace(projection, members=(replace(member, init=()),))))
    drawn = Distribution("uniform", (("low", 1.0), ("high", 2.0)))
    assert broken(replace(projection, members=(replace(member, delays=drawn),))) == []  # beside `pre:`
    for end, late in (("pre", replace(member, delays=drawn)), ("post", replace(member, back_delays=drawn))):
        timed = replace(s, update=(Set("w", Ref(f"{end}.last_spike")),))
        found = broken(replace(projection, synapse=timed, members=(late,)))
        assert any("a delay per synapse, but times per neuron" in v for v in found)
