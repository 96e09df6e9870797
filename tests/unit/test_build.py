"""The frontend as a whole: from a model file to the level-0 model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError, Severity, Sink
from compiler.core.render import render
from compiler.expr.ast import Binary, Num, Ref, refs, show
from compiler.frontend.load import load_model
from compiler.ir.level0.model import (
    Const,
    Distribution,
    Formula,
    FromFile,
    Layer,
    Listed,
    Method,
    Model,
    NeuronDef,
    Population,
    Projection,
)
from compiler.layers.shared.activations import ACTIVATIONS as LOWERED_ACTIVATIONS
from compiler.layers.shared.keys import ACTIVATIONS
from compiler.verify.model import model_violations
from tests.work import at_most

ROOT = Path(__file__).parents[2]
EVERYTHING = Path(__file__).with_name("build_everything.yaml")
LIBRARY = sorted((ROOT / "models" / "library" / "neurons").glob("*.yaml"))

CELL = """
neurons:
  cell:
    params: {tau: 10 ms, rest: -65 mV}
    state: {v: rest}
    inputs: {g: {unit: mV}}
    dynamics: {dv/dt: (rest - v + g) / tau}
    spike: {when: v > -50 mV, reset: [v = rest]}
"""
SIMULATE = "simulate: {dt: 0.1 ms, duration: 1 s}\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "m.yaml"
    path.write_text("language: 1\n" + text, encoding="utf-8")
    return path


def load(folder: Path, text: str, settings: dict[str, str] | None = None) -> Model:
    try:
        model = load_model(written(folder, text), settings or {})
    except ModelError as error:
        pytest.fail(render(error.diagnostics, "human"))
    assert model_violations(model) == []
    return model


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(ModelError) as caught:
        load_model(written(folder, text))
    return [f"{d.code} {d.message}" for d in caught.value.diagnostics if d.severity is Severity.ERROR]


@pytest.fixture(scope="module")
def everything() -> Model:
    model = load_model(EVERYTHING)
    assert model_violations(model) == []
    return model


def population(model: Model, name: str) -> Population:
    return next(p for p in model.populations if p.name == name)


def projection(model: Model, name: str) -> Projection:
    return next(p for p in model.projections if p.name == name)


def layer(model: Model, name: str) -> Layer:
    assert model.network is not None
    return next(x for x in model.network.layers if x.name == name)


def neuron(model: Model, name: str) -> NeuronDef:
    return next(p.neuron for p in model.populations if p.neuron.name == name)


# -------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("name", ["cuba", "lenet_digits", "custom_optimizer", "microcircuit"])
def test_examples_load(name: str) -> None:
    model = load_model(ROOT / "models" / f"{name}.yaml")
    assert model.name == name
    assert model_violations(model) == []


def test_cuba() -> None:
    model = load_model(ROOT / "models" / "cuba.yaml", {"n_exc": "100", "p": "0.5"})
    exc, inh = model.populations
    assert (exc.size, inh.size) == (100, 800)
    assert exc.neuron is inh.neuron
    assert dict(exc.params)["v_rest"] == Const(-49.0)
    assert exc.init == (("v", Distribution("uniform", (("low", -60.0), ("high", -50.0)))),)
    assert exc.neuron.spike is not None and exc.neuron.spike.hold == ("v",)
    inhibition = projection(model, "inhibition")
    assert [(m.source, m.target, m.delay, m.weight) for m in inhibition.members] == [
        ("inh", "exc", 1, Const(-9.0)),
        ("inh", "inh", 1, Const(-9.0)),
    ]
    assert dict(inhibition.members[0].args)["p"] == 0.5
    assert model.simulate is not None and (model.simulate.dt, model.simulate.steps) == (0.1, 10_000)
    assert model.traces[0].members == tuple(range(10)) and model.traces[0].every == 10


def test_lenet() -> None:
    model = load_model(ROOT / "models" / "lenet_digits.yaml", {"width": "8"})
    assert [x.shape for x in model.network.layers] == [  # type: ignore[union-attr]
        (8, 8, 8),
        (8, 4, 4),
        (16, 4, 4),
        (16, 2, 2),
        (64,),
        (10,),
    ]
    assert layer(model, "conv2").function is not None
    assert layer(model, "conv1").activation == "relu" and layer(model, "conv1").function is None
    assert model.train is not None
    assert model.train.data.arrays == (("image", "images", 0.0625), ("label", "labels", 1.0))
    assert dict(model.train.optimizer.params)["learning_rate"] == 0.002


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: p.stem)
def test_library_neurons_load(path: Path, tmp_path: Path) -> None:
    given = ", params: {times: [1 ms], indices: [0]}" if path.stem == "spike_times" else ""
    for reference in (path.stem, f"library/neurons/{path.stem}"):
        model = load(tmp_path, f"populations: {{p: {{neuron: {reference}, size: 2{given}}}}}\n{SIMULATE}")
        assert model.populations[0].neuron.name == path.stem


# --------------------------------------------------------------------------------------- neurons


def test_a_neuron(everything: Model) -> None:
    n = neuron(everything, "copy")
    assert [(p.name, p.unit, p.default) for p in n.params] == [
        ("tau_m", "ms", Const(30.0)),
        ("tau_s", "ms", Const(5.0)),
        ("v_rest", "mV", Const(-65.0)),
        ("v_thresh", "mV", Formula(Binary("+", Ref("v_rest"), Num(15.0)))),
        ("leak", "nS", Const(10.0)),
    ]
    assert [(s.name, s.unit) for s in n.state] == [("v", "mV"), ("w", "mV"), ("count", "1")]
    assert [(i.name, i.unit, i.decay) for i in n.inputs] == [("ge", "mV", Ref("tau_s")), ("kick", "mV", None)]
    assert [show(x.value) for x in n.lets] == ["2 * ge - w"]  # the function is put in
    assert [show(o.rhs) for o in n.dynamics] == ["(v_rest - v + drive) / tau_m", "-w / (2 * tau_m)"]
    assert [s.target for s in n.update] == ["v", "above", "count"]
    assert show(n.update[0].value) == "v + (kick if flag != 0.0 else 0.0)"  # a truth value is a number at run time
    assert n.model_params == ("flag", "strength")
    assert n.method is Method.RK4
    assert n.spike is not None
    assert n.spike.round_refractory and n.spike.hold == ("v",) and n.spike.refractory == Num(2.04)
    assert [(s.target, show(s.value)) for s in n.spike.reset] == [("v", "v_rest"), ("w", "w + strength")]


def test_held_states_are_those_of_the_condition(tmp_path: Path) -> None:
    text = """
neurons:
  cell:
    state: {v: 0 mV, w: 0 mV, x: 0, y: 0}
    let: {sum: v + w}
    update: [high = sum > 3 mV, other = x > 1]
    spike: {when: high, refractory: 1 ms}
populations: {p: {neuron: cell, size: 1}}
"""
    spike = load(tmp_path, text + SIMULATE).populations[0].neuron.spike
    assert spike is not None and spike.hold == ("v", "w")


def test_one_definition_for_all_populations(everything: Model) -> None:
    assert population(everything, "a").neuron is population(everything, "b").neuron
    assert population(everything, "c1").neuron is population(everything, "c2").neuron


def test_a_name_of_the_neuron_hides_a_parameter_of_the_model(tmp_path: Path) -> None:
    text = CELL + "params: {tau: {value: 3}, rest: {value: 1 mV}}\npopulations: {p: {neuron: cell, size: 1}}\n"
    n = load(tmp_path, text + SIMULATE).populations[0].neuron
    assert n.model_params == ()
    assert n.params[0].default == Const(10.0)


def test_definitions_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "cells.yaml").write_text("language: 1\n" + CELL, encoding="utf-8")
    text = "populations:\n  a: {neuron: cells.yaml#cell, size: 1}\n  b: {neuron: cells.yaml#cell, size: 2}\n"
    a, b = load(tmp_path, text + SIMULATE).populations
    assert a.neuron is b.neuron and a.neuron.name == "cell"
    assert mistakes(tmp_path, text.replace("#cell, size: 2", "#cel, size: 2") + SIMULATE) == [
        "E0203 `cells.yaml` has no `cel` in `neurons`"
    ]


def test_unused_parameters_are_warned_of(tmp_path: Path) -> None:
    sink = Sink()
    text = CELL.replace("tau: 10 ms", "tau: 10 ms, tao: 20 ms") + "populations: {p: {neuron: cell, size: 1}}\n"
    load_model(written(tmp_path, text + SIMULATE), sink=sink)
    assert [(d.code, d.severity, d.message) for d in sink.items] == [
        ("W0002", Severity.WARNING, "nothing reads parameter `tao` of neuron `cell`")
    ]


READERS = {  # what reads the parameter `id` of the neuron `n` or the synapse `s`, which do not
    "a synapse at its target": ("", "synapses: {s: {on_pre: [deliver(post.id)]}}", "synapse: s, deliver: {into: i}"),
    "a synapse at its source": (
        "",
        "synapses: {s: {state: {w: 0}, let: {k: pre.id}, on_pre: [w = k, deliver(w)]}}",
        "synapse: s, deliver: {into: i}",
    ),
    "an initial value": (", init: {x: id + 1}", "", "deliver: {into: i, weight: 1}"),
    "a drawn initial value": (", init: {x: {uniform: {low: 0, high: id}}}", "", "deliver: {into: i, weight: 1}"),
    "a definition that uses it": (
        "",
        "x-note: none",
        "deliver: {into: i, weight: 1}",
    ),
    "an initial value of a projection": (
        ", params: {id: 2}, init: {x: id}",
        "synapses: {s: {params: {id: 1}, state: {w: 0}, on_pre: [deliver(w)]}}",
        "synapse: s, init: {w: 2 * id}, deliver: {into: i}",
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_parameters_that_something_else_reads(tmp_path: Path, reader: str) -> None:
    more, synapses, how = READERS[reader]
    other = ", m: {use: n, update: [x = i + id]}" if "uses it" in reader else ""
    text = f"""\
neurons:
  {{n: {{params: {{id: 0}}, inputs: {{i: {{}}}}, state: {{x: 0}}, update: [x = i], spike: {{when: x > 1}}}}{other}}}
{synapses}
populations: {{a: {{neuron: n, size: 4{more}}}}}
projections: {{p: {{from: a, to: a, connect: {{all_to_all: {{}}}}, {how}}}}}
simulate: {{dt: 1 ms, duration: 10 ms}}
"""
    sink = Sink()
    load_model(written(tmp_path, text), sink=sink)
    assert sink.items == []
    unread = text.replace("params: {id: 0}", "params: {id: 0, di: 0}")
    load_model(written(tmp_path, unread), sink=sink)
    assert [d.message for d in sink.items] == ["nothing reads parameter `di` of neuron `n`"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dv/dt: (rest", "dv/dt: (w", "E0302 unknown name `w`"),
        ("v > -50 mV", "v", "E0306 `when` must be a condition; this is a number"),
        ("{unit: mV}", "{unit: mV, decay: rest}", "E0401 `decay` of `g` is a time [ms], but `rest` is a voltage [mV]"),
        ("[v = rest]", "[g = rest]", "E0310 `g` is an input and cannot be reset"),
        ("[v = rest]", "[tau = 1 ms]", "E0310 `tau` is a parameter and cannot be reset"),
        ("[v = rest]", "[deliver(v)]", "E0301 a call of `deliver` has no effect here"),
        ("[v = rest]", "[v = 3]", "E0402 `v` is a voltage [mV], but `3` has no unit"),
        ("state: {v: rest}", "state: {v: rest, tau: 1 ms}", "E0212 `tau` is a parameter already"),
        ("spike:", "update: [rest = v]\n    spike:", "E0310 `rest` is a parameter and cannot be assigned to"),
        ("spike:", "update: [t = 1 ms]\n    spike:", "E0310 `t` is the time and cannot be assigned to"),
        ("spike:", "update: [x += 1]\n    spike:", "E0302 `x` has no value yet that `+=` could change"),
        ("spike:", "update: [x = y, y = 1]\n    spike:", "E0302 unknown name `y`"),
        ("spike:", "update: [x = v, x = 1]\n    spike:", "E0402 `x` is a voltage [mV], but `1` has no unit"),
        (
            "spike:",
            "update: [x = v > rest, x = 1]\n    spike:",
            "E0306 `x` must be a condition; this is a whole number",
        ),
        ("spike:", "let: {x: random()}\n    spike:", "E0309 `x`: random numbers can be drawn in `update` and"),
        ("tau: 10 ms", "tau: 0 ms", "E0308 `dv/dt` of `p` has no value: it divides by `tau`, which is 0"),
        ("{unit: mV}", "{unit: mV, decay: tau - tau}", "E0106 `decay` of the input `g` must be a positive time; it is"),
        ("tau: 10 ms", "tau: 1 / (3 - 3) * 1 ms", "E0308 this has no value: division by zero"),
    ],
)
def test_mistakes_in_neurons(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CELL
    text = CELL.replace(old, new) + "populations: {p: {neuron: cell, size: 1}}\n" + SIMULATE
    if not message:  # a division by it is for the run to find
        load(tmp_path, text)
        return
    found = mistakes(tmp_path, text)
    assert len(found) == 1 and found[0].startswith(message)


def test_a_mistake_in_a_declaration_gives_no_others(tmp_path: Path) -> None:
    text = CELL.replace("tau: 10 ms", "tau: 10 msx").replace("state: {v: rest}", "state: {v: rst}")
    text += "populations: {p: {neuron: cell, size: 1, params: {rest: -60 mV}, init: {v: 3 mV}}}\n"
    assert mistakes(tmp_path, text + SIMULATE) == ["E0403 `msx` is not a known unit", "E0302 unknown name `rst`"]


# ----------------------------------------------------------------------------------- populations


def test_values_of_populations(everything: Model) -> None:
    a, b = population(everything, "a"), population(everything, "b")
    assert (a.size, b.size) == (12, 6)
    assert a.classes == ("big", "excitatory")
    assert dict(a.params)["tau_s"] == Const(4.0)
    assert dict(a.params)["v_thresh"] == Const(-50.0)  # a formula over the population's own values
    assert dict(a.init)["v"] == Distribution("normal", (("mean", -65.0), ("std", 2.0), ("max", -50.0)))
    assert dict(b.params)["leak"] == Listed((1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    assert dict(b.init) == {"v": Const(-65.0), "w": Const(1.0), "count": Const(0)}
    assert [dict(population(everything, f"c{i}").params)["tau_m"] for i in (1, 2)] == [Const(11.0), Const(12.0)]
    assert population(everything, "given").neuron.source == "spike_times"


def test_formulas_follow_what_a_population_sets(tmp_path: Path) -> None:
    text = CELL + "populations:\n  p: {neuron: cell, size: 1, params: {rest: -70 mV}}\n"
    assert dict(load(tmp_path, text + SIMULATE).populations[0].init) == {"v": Const(-70.0)}
    drawn = text.replace("-70 mV", "{normal: {mean: -70 mV, std: 1 mV}}")
    init = dict(load(tmp_path, drawn + SIMULATE).populations[0].init)
    assert init == {"v": Formula(Ref("rest"))}
    own = drawn.replace("}}}}\n", "}}}, init: {v: rest + 2 * pi * 1 mV}}\n")
    (v,) = dict(load(tmp_path, own + SIMULATE).populations[0].init).values()
    assert isinstance(v, Formula) and refs(v.expr) == {"rest"}
    twice = drawn.replace("rest: -65 mV}", "rest: -65 mV, low: rest - 5 mV}")
    assert dict(load(tmp_path, twice + SIMULATE).populations[0].params)["low"] == Formula(Ref("rest") - Num(5.0))
    moved = text.replace("-70 mV", "-70 mV * sin(t / (1 ms))")
    assert mistakes(tmp_path, moved + SIMULATE) == [
        "E0802 the initial value of `v` of `p` follows from `rest`, which changes in time"
    ]


def test_arrays_in_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3.0), y=np.arange(4), s=np.array(["a", "b", "c"]))
    np.save(tmp_path / "b.npy", np.zeros(3))
    text = CELL + "populations:\n  p: {neuron: cell, size: 3, init: {v: {file: a.npz, array: x}}}\n" + SIMULATE
    value = dict(load(tmp_path, text).populations[0].init)["v"]
    assert value == FromFile(str(tmp_path / "a.npz"), "x")
    value = dict(load(tmp_path, text.replace("a.npz, array: x", "b.npy")).populations[0].init)["v"]
    assert value == FromFile(str(tmp_path / "b.npy"), None)
    found = [
        *mistakes(tmp_path, text.replace("array: x", "array: y")),
        *mistakes(tmp_path, text.replace("array: x", "array: s")),
        *mistakes(tmp_path, text.replace("array: x", "array: z")),
        *mistakes(tmp_path, text.replace("a.npz", "c.npz")),
        *mistakes(tmp_path, text.replace(", array: x", "")),
    ]
    assert found == [
        "E0703 the initial value of `v` needs 3 numbers, one for each neuron; the array has the shape [4]",
        "E0703 the array holds text, not numbers",
        "E0702 `a.npz` has no array `z`",
        "E0701 the file `c.npz` does not exist",
        "E0702 say which array of `a.npz` is meant",
    ]


def test_spike_times_from_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", t=[0.1, 0.3], indices=[0, 1], late=[0.1, 0.35])
    text = """populations:
  p: {neuron: library/neurons/spike_times, size: 2, params: {file: s.npz, times: t}}
"""
    params = dict(load(tmp_path, text + SIMULATE).populations[0].params)
    path = str(tmp_path / "s.npz")
    assert params == {"times": FromFile(path, "t"), "indices": FromFile(path, "indices"), "round": Const(0)}
    rounded = load(tmp_path, text.replace("times: t", "times: late, round: nearest") + SIMULATE)
    assert dict(rounded.populations[0].params)["round"] == Const(1)
    assert mistakes(tmp_path, text.replace("times: t", "times: late") + SIMULATE) == [
        "E0603 spike 1 of `p` is at 0.35 ms, which is not the end of a step"
    ]
    assert mistakes(tmp_path, text.replace("size: 2", "size: 1") + SIMULATE) == [
        "E0603 spike 1 of `p` is of neuron 1; there are 1, counted from 0"
    ]


# ----------------------------------------------------------------------------------- projections


def test_a_family(everything: Model) -> None:
    family = projection(everything, "family")
    assert family.rule == "fixed_probability"
    # a -> a, a -> b, b -> a; b -> b has probability 0. Rows of the matrix are targets.
    assert [(m.source, m.target, dict(m.args), m.delay) for m in family.members] == [
        ("a", "a", {"p": 0.1, "autapses": 0}, 10),
        ("a", "b", {"p": 0.3, "autapses": 0}, 5),
        ("b", "a", {"p": 0.2, "autapses": 0}, 10),
    ]
    means = []
    for member in family.members:
        assert isinstance(member.weight, Distribution)
        args = dict(member.weight.args)
        assert args["std"] == pytest.approx(0.1 * abs(args["mean"])) and args["keep_sign"] == 1
        means.append(args["mean"])
    assert means == [1.5, 3.0, -6.0]  # by class, by exception, by population


def test_other_rules(everything: Model) -> None:
    assert [dict(m.args)["number"] for m in projection(everything, "total").members] == [18, 9]
    assert [m.delay for m in projection(everything, "total").members] == [0, 0]
    assert [(m.delay, m.weight) for m in projection(everything, "straight").members] == [(13, Const(1.5))]
    listed = projection(everything, "listed")
    assert listed.pair_lists == (((0, 2), (1, 0)),)
    assert listed.members[0].weight == Listed((1.0, 2.0)) and listed.members[0].pairs == 0
    assert [(m.source, m.target) for m in projection(everything, "ring2").members] == [("c2", "c1")]


def test_pairs_from_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", sources=[0, 1], targets=[1, 0], post=[1, 2])
    (tmp_path / "e.csv").write_text("pre,post\n0,1\n1,1\n")
    text = (
        CELL
        + """
populations: {p: {neuron: cell, size: 2}}
projections:
  x: {from: p, to: p, connect: {pairs: {file: e.npz}}, deliver: {into: g, weight: 1 mV}}
"""
    )
    assert load(tmp_path, text + SIMULATE).projections[0].pair_lists == (((0, 1), (1, 0)),)
    csv = text.replace("file: e.npz", "file: e.csv, sources: pre, targets: post")
    assert load(tmp_path, csv + SIMULATE).projections[0].pair_lists == (((0, 1), (1, 1)),)
    assert mistakes(tmp_path, text.replace("e.npz", "e.npz, targets: post") + SIMULATE) == [
        "E0106 `p` has no neuron 2: it has 2, counted from 0"
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("connect: {fixed_probability: {p: 2 * x}}", "E0302 unknown name `x`"),
        ("connect: {fixed_probability: {p: n_from}}", "E0106 `p` must be at most 1; it is 2"),
        ("connect: {fixed_total: {number: n_to / 4}}", "E0102 `number` must be a whole number; it is 0.5"),
        ("connect: {fixed_total: {number: 1 / (n_to - 2)}}", "E0308 `number` has no value: division by zero"),
        ("delay: 2 mV", "E0401 `delay` is a time [ms], but `2 mV` is a voltage [mV]"),
        ("delay: 10 h", "E0106 `delay` is 360,000,000 steps of 0.1 ms; at most 1,048,576 are possible"),
        ("values: {k: {by_source: [1, 2]}}", "E0106 `k` needs 1 source, not 2 values"),
        ("values: {k: {by_target: {q: 1}}}", "E0201 there is no population `q`"),
        ("values: {k: {by_pair: [[1], [2 mV]]}}", "E0106 `k` needs 1 row (targets) of 1 value (sources), not 2 rows"),
    ],
)
def test_mistakes_in_projections(tmp_path: Path, line: str, message: str) -> None:
    connect = "" if line.startswith("connect") else "    connect: {all_to_all: {}}\n"
    text = f"""{CELL}
populations: {{p: {{neuron: cell, size: 2}}}}
projections:
  x:
    from: p
    to: p
    deliver: {{into: g, weight: 1 mV}}
{connect}    {line}
{SIMULATE}"""
    found = mistakes(tmp_path, text)
    assert len(found) == 1 and found[0].startswith(message)


# ---------------------------------------------------------------------------------------- layers


def test_layers(everything: Model) -> None:
    one = layer(everything, "one")
    assert dict(one.attrs) == {
        "filters": 4,
        "kernel": (3, 5),
        "stride": (2, 2),
        "padding": (0, 1, 1, 2),
        "dilation": (1, 1),
        "groups": 1,
        "bias": False,
    }
    assert list(dict(one.attrs)) == sorted(dict(one.attrs))
    assert one.shape == (4, 4, 4)
    assert dict(layer(everything, "batch_norm_1").attrs) == {"momentum": 0.2, "epsilon": 1e-5}
    assert layer(everything, "batch_norm_1").inputs == ("one",)
    assert layer(everything, "sum").inputs == ("block_2", "activation_1")
    assert layer(everything, "block_2").inputs == ("block_1",)
    assert dict(layer(everything, "dropout_1").attrs) == {"rate": 0.1}
    assert dict(layer(everything, "avg_pool2d_1").attrs)["padding"] == (1, 1, 1, 1)
    soft = layer(everything, "activation_1")
    assert soft.function is not None and show(soft.function.body) == "x / (1 + abs(2 * x))"


@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_gives_the_extent_divided_by_the_stride(
    tmp_path: Path, size: int, kernel: int, stride: int
) -> None:
    model = load(
        tmp_path, network(f"- conv2d: {{name: c, filters: 1, kernel: {kernel}, stride: {stride}, padding: same}}", size)
    )
    c = layer(model, "c")
    padding = c.attr("padding")
    assert isinstance(padding, tuple)
    top, bottom, left, right = padding
    assert c.shape == (1, -(-size // stride), -(-size // stride))
    assert 0 <= bottom - top <= 1 and (top, bottom) == (left, right)
    assert (size + top + bottom - kernel) // stride + 1 == c.shape[1]


def network(layers: str, size: int = 8, rest: str = "") -> str:
    arrays = {8: "images"}
    if size not in arrays:  # no data of that size: the loss reads another input
        return f"""
network:
  inputs: {{image: {{shape: [1, {size}, {size}]}}, y: {{shape: [64]}}}}
  layers:
    - flatten: {{name: unused, inputs: y}}
    {layers.replace("{name: c,", "{name: c, inputs: image,")}
    - flatten: {{name: flat}}
    - dense: {{name: out, units: 64}}
train:
  data: {{file: d.npz, inputs: {{image: x{size}, y: y}}}}
  loss: {{mean_squared_error: {{prediction: out, target: y}}}}
  optimizer: {{sgd: {{}}}}
  epochs: 1
"""
    return f"""
network:
  inputs: {{image: {{shape: [1, 8, 8]}}, label: {{shape: [], dtype: int32}}}}
  layers:
    {layers}
    - flatten: {{}}
    - dense: {{name: out, units: 10}}
{rest}train:
  data: {{file: d.npz, inputs: {{image: x8, label: label}}}}
  loss: {{softmax_cross_entropy: {{logits: out, target: label}}}}
  optimizer: {{sgd: {{}}}}
  epochs: 1
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> None:
    arrays = {f"x{n}": np.zeros((5, 1, n, n), np.float32) for n in (5, 6, 7, 8)}
    others = {"y": np.zeros((5, 64)), "label": np.arange(5)}
    np.savez(tmp_path / "d.npz", **arrays, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("- reduce: {function: sum, axes: 3}", "E0501 `axes` must name axes of `image`, each once (0, 1, 2; its shape"),
        ("- reduce: {function: sum, axes: [1, 1]}", "E0501 `axes` must name axes of `image`, each once (0, 1, 2; its"),
        ("- conv2d: {filters: 3, kernel: [2, 9]}", "E0501 the kernel is 9 wide, but `image` only 8"),
        ("- conv2d: {filters: 3, kernel: 9, padding: 0}", "E0501 the kernel is 9 high, but `image` only 8"),
        ("- conv2d: {filters: 2 * 1.3, kernel: 3}", "E0102 `filters` must be a whole number; it is 2.6"),
        ("- conv2d: {filters: 3, kernel: 3, groups: 3}", "E0501 `image` has 1 channel, which cannot be split into 3"),
        ("- max_pool2d: {size: 2, padding: 2}", "E0501 a window could lie in the padding as a whole"),
        ("- dropout: {rate: 2 / 2}", "E0106 `rate` must be below 1; it is 1"),
        ("- flatten: {inputs: label}", "E0501 `flatten_2` holds whole numbers; a dense layer reads real ones"),
        ("- flatten: {inputs: [image, image]}", "E0106 a flatten layer reads one input; here are 2"),
        ("- flatten: {name: image}", "E0207 an input of the network is called `image` already"),
        ("- activation: {function: relo}", "E0201 there is no activation or function `relo`"),
        ("- dropout: {rate: 0.5, expect: {shape: [8, 8]}}", "E0502 the output of `dropout_1` has the shape [1, 8, 8]"),
    ],
)
def test_mistakes_in_layers(tmp_path: Path, line: str, message: str) -> None:
    found = mistakes(tmp_path, network(line))
    assert len(found) == 1 and found[0].startswith(message), found


def test_activations_are_those_that_are_lowered() -> None:
    assert set(ACTIVATIONS) == set(LOWERED_ACTIVATIONS)


def test_a_function_of_a_layer_has_parameters_as_numbers(tmp_path: Path) -> None:
    text = network("- activation: {name: a, function: f}", rest="params: {k: {value: 3}}\nfunctions: {f(x): k * x}\n")
    function = layer(load(tmp_path, text), "a").function
    assert function is not None and function.body == Binary("*", Num(3.0), Ref("x"))


# -------------------------------------------------------------------------------------- training


def test_training(everything: Model) -> None:
    train = everything.train
    assert train is not None
    assert train.data.arrays == (("image", "images", 0.0625), ("label", "labels", 1.0))  # in the network's order
    assert train.data.validation == 0.1 and not train.data.shuffle
    assert (train.batch, train.epochs, train.seed, train.checkpoint_every) == (32, 3, 0, 2)
    own = train.optimizer
    assert own.params == (("learning_rate", 0.05), ("decay", 0.9), ("rate", 0.1))
    assert own.state == (("mean", 0.0),)
    assert [(s.target, show(s.value)) for s in own.update] == [
        ("mean", "decay * mean + gradient * rate"),
        ("large", "abs(mean) > 1"),
        ("param", "param - learning_rate * (1 if large else mean)"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: label}", "label: y}", "E0703 the input `label` needs whole numbers, but the array `y` holds"),
        ("x8", "x7", "E0703 samples of the input `image` are of shape [1, 8, 8], those of the array `x7` of [1, 7, 7]"),
        ("d.npz", "e.npz", "E0701 the file `e.npz` does not exist"),
        ("d.npz", "link.npz", "E0701 the file `link.npz` is a link that leads nowhere"),
        ("d.npz", "d" * 300 + ".npz", f"E0701 the file `{'d' * 300}.npz` does not exist"),
        ("{sgd: {}}", "{sgd: {rate: 1}}", "E0201 optimizer `sgd` has no parameter `rate`"),
        ("{sgd: {}}", "{sgd: {learning_rate: 1 mV}}", "E0401 `learning_rate` is a number without a unit, but `1 mV`"),
        ("logits: out", "logits: image", "E0201 `image` is an input of the network; a layer is needed here"),
        ("target: label", "target: out", "E0201 `out` is a layer; a network input is needed here"),
        ("epochs: 1", "epochs: 1\n  metrics: [mean_absolute_error]", "E0802 `mean_absolute_error` cannot be measured"),
        ("epochs: 1", "epochs: 0.5 * 3", "E0102 `epochs` must be a whole number; it is 1.5"),
        ("label: label}}", "label: label}, split: {validation: 0.01}}", "E0106 `validation` of 5 samples: it is less"),
        ("label: label}}", "label: label}, split: {test: 0.1}}", "E0801 `test` of `split` is not supported yet"),
        ("label: label}}", "label: label}, scale: {label: 2}}", "E0802 `label` holds whole numbers, which are not"),
    ],
)
def test_mistakes_in_training(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = network("- flatten: {}")
    assert old in text
    (tmp_path / "link.npz").symlink_to("link.npz")
    found = mistakes(tmp_path, text.replace(old, new))
    assert len(found) == 1 and found[0].startswith(message), found


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("[param = param - gradient * lr]", "E0302 unknown name `lr`"),
        ("[gradient = 2 * gradient, param = gradient]", "E0310 `gradient` is given and cannot be assigned to"),
        ("[rate = 2, param = param - rate]", "E0310 `rate` is a parameter of the optimizer and cannot be assigned to"),
        ("[m = gradient]", "E0103 no statement assigns to `param`: nothing would be trained"),
        ("[param = param - age]", "E0302 unknown name `age`"),
        ("[param = param - random()]", "E0309 `param`: random numbers in an optimizer are not supported yet"),
        ("[big = gradient > 1, param = param - big]", "E0306 `-` needs numbers; `big` is a condition"),
    ],
)
def test_mistakes_in_optimizers(tmp_path: Path, update: str, message: str) -> None:
    text = network("- flatten: {}").replace("{sgd: {}}", "{own: {}}")
    text += f"optimizers:\n  own:\n    params: {{rate: 0.1}}\n    state: {{m: 0}}\n    update: {update}\n"
    found = mistakes(tmp_path, text)
    assert len(found) == 1 and found[0].startswith(message), found


# ------------------------------------------------------------------------------------------ runs


def test_running(everything: Model) -> None:
    assert everything.simulate is not None
    assert (everything.simulate.steps, everything.simulate.warmup, everything.simulate.seed) == (200, 10, 7)
    assert everything.spikes[0].populations == ("a", "c1", "c2")
    assert [(t.population, t.variables, t.members, t.every) for t in everything.traces] == [
        ("a", ("v", "ge"), (0, 2), 5),
        ("b", ("v", "ge"), (0, 2), 5),
    ]
    assert [(p.kind, dict(p.args)) for p in everything.plots] == [
        ("raster", {"from": ("a", "c1")}),
        ("trace", {"from": ("a",), "variable": "ge", "spikes": 1}),
        ("training", {}),
    ]
    assert [(e.kind, dict(e.args)) for e in everything.expect] == [
        ("rate", {"of": "a", "at_least": 0.0, "at_most": 0.1}),
        ("rate", {"of": "c1", "at_least": 0.0, "at_most": 0.1}),
        ("spikes", {"of": "a", "at_least": 3, "at_most": 3}),
        ("metric", {"name": "validation_accuracy", "at_least": 0.5, "at_most": 1}),
    ]
    assert (everything.numerics.precision, everything.numerics.order) == ("float64", "bitwise")


def test_times_that_are_computed_may_be_off_by_rounding(tmp_path: Path) -> None:
    text = CELL + "populations: {p: {neuron: cell, size: 1}}\n"
    model = load(tmp_path, text + "simulate: {dt: 0.1 ms, duration: 3 * 0.1 ms, warmup: 0.7 ms}\n")
    assert model.simulate is not None and (model.simulate.steps, model.simulate.warmup) == (3, 7)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    text = (
        CELL.replace("(rest", "(rset")
        + """
functions: {f(x): y}
populations:
  a: {neuron: cell, size: 0 * 2}
  b: {neuron: none, size: 1}
projections:
  x: {from: q, to: a, connect: {all_to_all: {}}, deliver: {into: g, weight: 1}, delay: 1 mV}
simulate: {dt: 0.1 ms, duration: 0.25 ms}
record: [{spikes: {from: z}}]
"""
    )
    assert [m.split()[0] for m in mistakes(tmp_path, text)] == [
        "E0302",
        "E0302",
        "E0106",
        "E0201",
        "E0201",
        "E0402",
        "E0401",
        "E0601",
        "E0201",
    ]


def test_spans_are_outside_of_equality(tmp_path: Path) -> None:
    text = CELL + "populations: {p: {neuron: cell, size: 1}}\n" + SIMULATE
    assert load(tmp_path, text) == load(tmp_path, "\n\n" + text)
    assert load(tmp_path, text) != replace(load(tmp_path, text), name="other")


def test_phases_without_steps(tmp_path: Path) -> None:
    """A file of definitions: how many steps its times are is not known."""
    path = tmp_path / "definitions.yaml"
    path.write_text(
        "language: 1\nphases: {trial: {every: 5 ms, events: {start: 0 ms}}}\nneurons: {n: {state: {v: 0}}}\n"
    )
    assert model_violations(load_model(path)) == []


def test_no_quantity_is_left(everything: Model) -> None:
    n = neuron(everything, "copy")
    assert refs(n.dynamics[0].rhs) == {"v_rest", "v", "drive", "tau_m"}


def test_many_populations_are_built_fast(tmp_path: Path) -> None:
    text = (
        CELL
        + """
params: {n: {value: 2000, type: int}}
populations:
  "p{i}": {for: {i: 0..n - 1}, neuron: cell, size: 10, params: {tau: 10 ms + i / n * 5 ms, rest: -65 mV - i / n * 1 mV}}
projections:
  "r{i}":
    for: {i: 0..n - 1}
    from: "p{i}"
    to: "p{(i + 1) % n}"
    connect: {fixed_probability: {p: 0.1}}
    deliver: {into: g, weight: 1 mV + i / n * 1 mV}
    delay: 1 ms
"""
    )
    path = written(tmp_path, text + SIMULATE)
    with at_most(2_000_000):
        model = load_model(path)
    assert len(model.populations) == len(model.projections) == 2000
    assert len({id(p.neuron) for p in model.populations}) == 1
