"""The validator: one diagnostic per error, at its span, and none for valid files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import Diagnostic, Sink
from compiler.core.source import SourceFile
from compiler.expr.keys.kinds import (
    Choice,
    ListOf,
    MapOf,
    Option,
    Value,
    article,
    describe,
    plural,
)
from compiler.frontend.schema.validate import validate, validate_kind
from compiler.frontend.yaml.tree import from_plain
from compiler.frontend.yaml.yaml12 import load_file, load_text

MODELS = Path(__file__).parents[2] / "models"


def findings(text: str) -> list[Diagnostic]:
    sink = Sink()
    node = load_text(SourceFile("m.yaml", text), sink)
    assert node is not None, sink.items
    validate(node, sink)
    return sink.items


def marked(d: Diagnostic) -> str:
    """The text that a diagnostic underlines."""
    assert d.span is not None
    return d.span.file.text[d.span.start : d.span.end]


def only(text: str) -> Diagnostic:
    found = findings("language: 1\n" + text)
    assert len(found) == 1, [d.message for d in found]
    return found[0]


LAYERS = "network:\n  inputs: {x: {shape: [3]}}\n  layers:\n"
DENSE = "network: {{inputs: {{x: {{shape: [3]}}}}, layers: [{}]}}"
PROJECTION = "projections: {{e: {{from: a, to: b, connect: {}, deliver: {{into: g, weight: {}}}}}}}"
TRAIN = "train: {{data: {{file: d.npz, inputs: {{x: a}}}}, loss: {}, optimizer: {}, metrics: {}, epochs: 3}}"
LOSS = "{mean_squared_error: {prediction: o, target: y}}"

CASES = [
    # a text, the code, what is underlined, a part of the message, a part of the help
    ("polulations: {}", "E0101", "polulations", "in the file", "did you mean `populations`?"),
    (
        "populations: {exc: {neurn: lif, size: 3}}",
        "E0101",
        "neurn",
        "unknown key `neurn` in population `exc`",
        "did you mean `neuron`?",
    ),
    (
        "populations: {exc: {neuron: lif, N: 3}}",
        "E0101",
        "N",
        "unknown key `N` in population `exc`",
        "write `size`",
    ),
    (
        "neurons: {lif: {spike: {threshold: v > 3}}}",
        "E0101",
        "threshold",
        "unknown key `threshold` in `spike`",
        "write `when`",
    ),
    (
        DENSE.format("{conv2d: {filters: 3, kernel: 3, strides: 2}}"),
        "E0101",
        "strides",
        "unknown key `strides` in layer `conv2d`",
        "write `stride`",
    ),
    ("simulate: {dt: [1], duration: 1 s}", "E0102", "[1]", "`dt` must be a time such as", None),
    (
        "populations: {exc: {neuron: lif, size: 2.5}}",
        "E0102",
        "2.5",
        "`size` must be a whole number such as `1000`, not the number 2.5",
        None,
    ),
    ("populations: {exc: {neuron: lif, size: true}}", "E0102", "true", "not `true`", None),
    (
        "populations:\n  exc:",
        "E0102",
        "exc",
        "population `exc` has no value; expected a map such as",
        None,
    ),
    (
        "neurons: {a: {spike: {when: v > 3, reset: v = 0}}}",
        "E0102",
        "v = 0",
        "`reset` must be a list of assignments",
        "write a list: `[v = 0]`",
    ),
    ("record: {spikes: {from: a}}", "E0102", None, "list of recordings", "a `-` before each key"),
    (
        "plots: [raster]",
        "E0102",
        "raster",
        "a plot such as",
        "write `{raster: {from: [exc, inh]}}`",
    ),
    ("params: {n: 3}", "E0102", "3", "parameter `n` must be a map", "write `{value: 3}`"),
    ("description: 3", "E0102", "3", "must be a description", 'put it in quotes: `"3"`'),
    ("populations: [{a: {neuron: lif}}]", "E0102", None, "not a list", "no `-` before the keys"),
    (
        "projections: {e: {from: a, to: b, connect: {all_to_all: {autapses: yes}}, deliver: {into: g, weight: 1}}}",
        "E0102",
        "yes",
        "`autapses` must be `true` or `false`, not the text `yes`",
        "write `true`",
    ),
    (
        PROJECTION.format("all_to_all", "1 mV"),
        "E0102",
        "all_to_all",
        "`connect` must be a connectivity",
        "write `{all_to_all: {}}`",
    ),
    (
        TRAIN.format("mse", "{sgd: {}}", "[accuracy]"),
        "E0102",
        "mse",
        "`loss` must be a loss",
        "write `{mean_squared_error: {prediction: out, target: y}}`",
    ),
    (
        "populations: {exc: {size: 3}}",
        "E0103",
        "exc",
        "population `exc` lacks `neuron`",
        "for example `neuron: library/neurons/adex`",
    ),
    (
        "populations: {exc: {neuron: lif}}",
        "E0103",
        "exc",
        "population `exc` lacks `size`",
        "for example `size: 1000`",
    ),
    (
        "simulate: {seed: 3}",
        "E0103",
        "simulate",
        "`simulate` lacks `dt` and `duration`",
        "dt: 0.1 ms",
    ),
    (
        "expect: [{metric: {name: loss}}]",
        "E0103",
        "metric",
        "lacks one of `at_least` and `at_most`",
        "for example `at_least: 0.96`",
    ),
    (
        PROJECTION.format("{pairs: {sources: a}}", "1"),
        "E0103",
        "pairs",
        "lacks `file` (for `sources`)",
        "for example `file: data/edges.npz`",
    ),
    (
        PROJECTION.format("{all_to_all: {}, one_to_one: {}}", "1"),
        "E0104",
        "one_to_one",
        "a connectivity is a map with one key; this one has 2",
        "keep one of `all_to_all` and `one_to_one`",
    ),
    (PROJECTION.format("{}", "1"), "E0104", "{}", "it is empty", "for example `{all_to_all: {}}`"),
    (
        LAYERS + "    - dense:\n      units: 3",
        "E0104",
        "units",
        "a layer is a map with one key; this one has 2",
        "indent `units` further than `dense`",
    ),
    (
        LAYERS + "    - dense: {units: 3}\n      flatten: {}",
        "E0104",
        "flatten",
        "a map with one key",
        "begin each layer with a `-` of its own",
    ),
    (
        LAYERS + "    - dense: {units: 3}\n      bias: true",
        "E0104",
        "bias",
        "a map with one key",
        "put `bias` into the map of `dense`",
    ),
    (DENSE.format("{denze: {units: 3}}"), "E0105", "denze", "unknown layer `denze`", "`dense`?"),
    (DENSE.format("{linear: {units: 3}}"), "E0105", "linear", "unknown layer", "write `dense`"),
    (DENSE.format("{repeat_interleave: {repeats: 2}}"), "E0105", "repeat_interleave", "unknown layer", "`concat`"),
    (
        PROJECTION.format("{one_to_one: {}}", "{gaussian: {mean: 1}}"),
        "E0105",
        "gaussian",
        "unknown distribution `gaussian`",
        "write `normal`",
    ),
    ("neurons: {a: {method: rk3}}", "E0105", "rk3", "unknown integration method", "`rk4`?"),
    (TRAIN.format(LOSS, "{sgd: {}}", "[acuracy]"), "E0105", "acuracy", "metric", "`accuracy`?"),
    (
        "populations: {a: {neuron: l, size: 0}}",
        "E0106",
        "0",
        "`size` must be at least 1; it is 0",
        None,
    ),
    ("populations: {a: {neuron: l, size: '0'}}", "E0106", "'0'", "`size` must be at least 1; it is 0", None),
    ("populations: {a: {neuron: l, size: '2.0'}}", "E0102", "'2.0'", "not the number 2.0", "write `2`"),
    (
        DENSE.format("{repeat: {times: '0', layers: [{softmax: {}}]}}"),
        "E0106",
        "'0'",
        "`times` must be at least 1",
        None,
    ),
    (
        "network: {inputs: {x: {from: p, of: spikes, dtype: int32}}, layers: [{softmax: {}}]}",
        "E0108",
        "dtype",
        "`dtype` cannot stand beside `from`",
        "`dtype` goes with `shape`: leave one of them out",
    ),
    ("simulate: {dt: 0, duration: 1 s}", "E0106", "0", "`dt` must be above 0", None),
    ("simulate: {dt: .inf, duration: 1 s}", "E0106", ".inf", "`dt` must be finite", None),
    (
        PROJECTION.format("{fixed_probability: {p: 1.5}}", "1"),
        "E0106",
        "1.5",
        "`p` must be from 0 to 1; it is 1.5",
        None,
    ),
    (
        "expect: [{rate: {of: a, between: [3 Hz]}}]",
        "E0106",
        "[3 Hz]",
        "`between` must have exactly 2 entries; it has 1",
        "for example `[3 Hz, 12 Hz]`",
    ),
    ("network: {inputs: {x: {shape: [3]}}, layers: []}", "E0106", "[]", "at least 1 entry", None),
    ("name: 9lives", "E0107", "9lives", "`9lives` is not a good name", "begin with a letter"),
    ("populations: {a b: {neuron: l}}", "E0107", "a b", "not a good name for a population", None),
    ("functions: {swish: x}", "E0107", "swish", "for a function", "for example `swish(x)`"),
    ("neurons: {a: {dynamics: {v: 3}}}", "E0107", "v", "differential equation", "`dv/dt`"),
    (
        "populations: {a: {neuron: l, size: 3, init: {v: {normal: {mean: 1, std: 1, relative_std: 1}}}}}",
        "E0108",
        "relative_std",
        "`std` and `relative_std` cannot stand together in distribution `normal`",
        "keep one of",
    ),
    (
        "synapses: {a: {state: {w: 1}, on_prr: [deliver(w)], on_post: [w = 0]}}",
        "E0101",
        "on_prr",
        "unknown key `on_prr`",
        "on_pre",
    ),
    (
        "synapses: {a: {state: {w: 1}}}",
        "E0103",
        "a",
        "synapse `a` lacks one of `on_pre`, `on_post`, `update`",
        "on_pre: [deliver(w)",
    ),
    (
        "synapses: {a: {sim_code: x, on_pre: [deliver(1)]}}",
        "E0101",
        "sim_code",
        "unknown key `sim_code`",
        "write `on_pre: [...]`",
    ),
    (
        PROJECTION.format("{conv2d: {kernel_size: 3, kernel: 3}}", "1"),
        "E0101",
        "kernel_size",
        "unknown key `kernel_size`",
        "`kernel`",
    ),
]


@pytest.mark.parametrize(("text", "code", "where", "message", "help"), CASES)
def test_one_mistake_gives_one_finding(text: str, code: str, where: str | None, message: str, help: str | None) -> None:
    found = only(text)
    assert found.code == code
    assert message in found.message
    if where is not None:
        assert marked(found) == where
    if help is not None:
        assert help in (found.help or "")


def test_version_of_the_language() -> None:
    (found,) = findings("language: 2")
    assert (found.code, marked(found)) == ("E0105", "2")
    (found,) = findings("name: a")
    assert (found.code, found.message) == ("E0103", "the file lacks `language`")
    (found,) = findings("[1]")
    assert found.code == "E0102"


def test_a_misspelt_key_does_not_count_as_missing_too() -> None:
    found = findings("language: 1\nsimulate: {dt: 1 ms, durations: 1 s}")
    assert [d.code for d in found] == ["E0101"]


def test_all_mistakes_are_reported_at_once() -> None:
    text = "language: 1\nname: 3\npopulations: {a: {size: x, sise: 3}, b: 3}\nrecord: [{spikes: {}}]"
    assert [d.code for d in findings(text)] == ["E0102", "E0101", "E0103", "E0102", "E0103"]


def test_free_fields_stand_in_every_block() -> None:
    text = "language: 1\nx-a: [1]\npopulations: {p: {x-b: 2, neuron: lif, size: 3}}"
    assert findings(text) == []


@pytest.mark.parametrize("key", ["use: other.yaml#p", "classes: [cortical]"])
def test_required_keys_may_come_from_elsewhere(key: str) -> None:
    assert findings(f"language: 1\npopulations: {{p: {{{key}}}}}") == []


def test_after_expansion_nothing_comes_from_elsewhere() -> None:
    sink = Sink()
    node = load_text(SourceFile("m.yaml", "language: 1\npopulations: {p: {classes: [c]}}"), sink)
    assert node is not None
    validate(node, sink, expanded=True)
    assert [d.message for d in sink.items] == ["population `p` lacks `neuron` and `size` or `shape`"]


def test_names_may_hold_loop_variables() -> None:
    text = "language: 1\npopulations: {'p{i}': {for: {i: 0..9}, neuron: lif, size: 3}}"
    assert findings(text) == []


def test_inside_of_what_is_refused_mistakes_are_found_but_nothing_is_refused_again() -> None:
    text = "language: 1\ntrain: {data: {split: {test: {a: 1}}}}"
    assert [d.code for d in findings(text)][:2] == ["E0801", "E0102"]


@pytest.mark.parametrize("name", ["cuba", "lenet_digits", "custom_optimizer"])
def test_models_of_this_version_pass(name: str) -> None:
    sink = Sink()
    node = load_file(MODELS / f"{name}.yaml", sink)
    assert node is not None
    validate(node, sink)
    assert sink.items == []


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["language", "populations", "network", "layers", "dense", "x-a", "use", "v"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(plain_values)
@settings(max_examples=150, deadline=None)
def test_any_document_gives_findings_and_no_exception(value: object) -> None:
    sink = Sink()
    validate(from_plain(value), sink)
    assert all(d.code.startswith("E0") and d.message for d in sink.items)


def test_an_option_that_is_not_supported_is_refused() -> None:
    sink = Sink()
    kind = Choice("order", (Option("now", "Now."), Option("later", "Later.", supported=False)))
    validate_kind(kind, from_plain("later"), sink, "order")
    assert [d.code for d in sink.items] == ["E0801"]


def test_wording() -> None:
    assert article("input") == "an" and article("unit") == "a"
    assert plural("entry") == "entries" and plural("class") == "classes"
    assert describe(ListOf(Value("a whole number", integer=True))) == "a list of whole numbers"
    assert describe(MapOf("state variable", Value())) == "a map of state variables"
