"""resolve: params and --set, use, classes, for, repeat."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import ModelError, Sink
from compiler.core.render import render
from compiler.core.resources import library_path, schema_path
from compiler.core.source import SourceFile
from compiler.expr.units import parse_unit
from compiler.frontend.load import load_model
from compiler.frontend.resolve.resolve import Resolved, resolve
from compiler.frontend.resolve.use import LibraryFinder
from compiler.frontend.resolve.values import value_of
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, from_plain, to_plain
from compiler.frontend.yaml.yaml12 import load_file, load_text
from tests.grids import one_in

REPOSITORY = Path(__file__).resolve().parents[2]


def run(
    text: str, settings: dict[str, str] | None = None, base: Path = Path(), library: Path | None = None
) -> tuple[Resolved, Sink]:
    sink = Sink()
    root = load_text(SourceFile("m.yaml", text), sink)
    assert isinstance(root, Mapping)
    finder = LibraryFinder(library) if library is not None else LibraryFinder()
    return resolve(root, settings or {}, sink, base, finder), sink


def good(text: str, settings: dict[str, str] | None = None, **more: Path) -> Resolved:
    resolved, sink = run(text, settings, **more)
    assert not sink.items, render(sink.items, "human")
    return resolved


def plain(text: str, **more: Path) -> dict[str, dict[str, object]]:
    found = to_plain(good(text, **more).root)
    assert isinstance(found, dict)
    return found  # type: ignore[return-value]


def codes(text: str, settings: dict[str, str] | None = None, **more: Path) -> list[str]:
    return [d.code for d in run(text, settings, **more)[1].items]


def at(node: Node | None, *path: str | int) -> Node:
    for step in path:
        if isinstance(step, int):
            assert node is not None
            assert not isinstance(node, Scalar | Mapping)
            node = node.items[step]
        else:
            assert isinstance(node, Mapping)
            node = node.get(step)
    assert node is not None
    return node


def labels(node: Node) -> list[str]:
    found = []
    step = node.span.via
    while step is not None:
        found.append(step.label)
        step = step.parent
    return found


# ----------------------------------------------------------------------------------------- params


def test_params_have_types_units_and_bounds() -> None:
    params = good(
        "params:\n"
        "  n: {value: 3200, type: int, min: 1, description: Neurons}\n"
        "  tau: {value: 0.02 s, min: 1 ms, max: 1 s}\n"
        "  on: {value: true}\n"
        "  half: {value: n / 2, type: int}\n"
        "  g: {value: -4}\n"
    ).params
    assert {n: (p.kind, p.value) for n, p in params.items()} == {
        "n": ("int", 3200),
        "tau": ("float", 20.0),
        "on": ("bool", True),
        "half": ("int", 1600),
        "g": ("float", -4.0),
    }
    ms = parse_unit("ms")
    assert ms is not None
    assert params["tau"].dimension == ms[0]
    assert (params["tau"].min, params["tau"].max) == (1.0, 1000.0)
    assert params["n"].doc == "Neurons"
    assert type(params["half"].value) is int


def test_set_overrides() -> None:
    text = "params: {n: {value: 4, type: int}, tau: {value: 20 ms}, m: {value: 2 * n, type: int}}"
    params = good(text, {"n": "10", "tau": " 1 s "}).params
    assert (params["n"].value, params["tau"].value, params["m"].value) == (10, 1000.0, 20)
    assert params["n"].changed
    assert not params["m"].changed


@pytest.mark.parametrize(
    ("block", "given", "expected"),
    [
        ("n: {value: 1, min: 2}", {}, ["E0205"]),
        ("n: {value: 1, max: 0.5}", {}, ["E0205"]),
        ("n: {value: 5, min: 2}", {"n": "1"}, ["E0205"]),
        ("t: {value: 5 ms, min: 2 ms}", {"t": "1 us"}, ["E0205"]),
        ("n: {value: 0.5, type: int}", {}, ["E0206"]),
        ("n: {value: 5, type: int}", {"n": "1.5"}, ["E0206"]),
        ("n: {value: 5, type: int}", {"n": "true"}, ["E0206"]),
        ("n: {value: 5 ms, type: int}", {}, ["E0206"]),
        ("n: {value: 5, type: bool}", {}, ["E0206"]),
        ("n: {value: 5}", {"m": "1"}, ["E0204"]),
        ("t: {value: 5 ms}", {"t": "3"}, ["E0402"]),
        ("t: {value: 5 ms}", {"t": "3 mV"}, ["E0401"]),
        ("t: {value: 5 ms, min: 1 mV}", {}, ["E0401"]),
        ("t: {value: 5}", {"t": "abc"}, ["E0302"]),
        ("t: {value: 5}", {"t": "1 +"}, ["E0301"]),
        ("t: {value: 5}", {"t": ""}, ["E0102"]),
        ("t: {value: 1e400}", {}, ["E0019"]),
        ("a: {value: b}, b: {value: 1}", {}, ["E0302"]),
        ("a: {value: a}", {}, ["E0302"]),
        ("a: {value: 1 / 0}", {}, ["E0208"]),
        ("a: {value: random()}", {}, None),
        ("a: {value: [1]}", {}, ["E0102"]),
        ("a: {type: int}", {}, ["E0103"]),
    ],
)
def test_params_refusals(block: str, given: dict[str, str], expected: list[str] | None) -> None:
    found = codes(f"params: {{{block}}}", given)
    if expected is None:
        assert found
    else:
        assert found == expected


def test_a_setting_is_shown_in_its_diagnostic() -> None:
    _, sink = run("params: {n: {value: 5, type: int, min: 2}}", {"n": "1"})
    assert render(sink.items, "human") == (
        "error[E0205]: parameter `n` is 1, less than its `min`\n"
        " --> --set:1:3\n"
        "  |\n"
        "1 | n=1\n"
        "  |   ^\n"
        "  = help: `min` is 2\n"
        "\n"
        "error: 1 error in --set\n"
    )


def test_unknown_setting_has_a_suggestion() -> None:
    _, sink = run("params: {n_exc: {value: 5}}", {"n_ex": "1"})
    assert sink.items[0].help == "did you mean `n_exc`?"


# -------------------------------------------------------------------------------------------- use


def test_use_of_the_library_merges_under_the_local_settings() -> None:
    text = "neurons:\n  mine:\n    use: library/neurons/adex\n    params: {a: 5 nS}\n    state: {v: -60 mV}\n"
    resolved = good(text)
    mine = at(resolved.root, "neurons", "mine")
    assert isinstance(mine, Mapping)
    assert "use" not in mine
    params = to_plain(at(mine, "params"))
    assert isinstance(params, dict)
    assert params["a"] == "5 nS"
    assert "b" in params
    assert to_plain(at(mine, "state", "v")) == "-60 mV"
    taken = at(mine, "dynamics")
    assert labels(taken) == ["use of library/neurons/adex"]
    assert taken.span.file.path == "library/neurons/adex.yaml"
    assert str(taken.span.via.span) == "m.yaml:3:10"  # type: ignore[union-attr]
    assert labels(at(mine, "params", "a")) == []


def test_use_within_a_file_and_across_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yaml").write_text("language: 1\nneurons:\n  leaf: {use: ../c.yaml#base, params: {y: 2}}\n")
    (tmp_path / "c.yaml").write_text("language: 1\nneurons:\n  base: {params: {x: 1, y: 1}}\n")
    text = "neurons:\n  a: {use: b, params: {z: 3}}\n  b: {use: sub/b.yaml#leaf}\n"
    resolved = good(text, base=tmp_path)
    assert to_plain(at(resolved.root, "neurons", "a")) == {"params": {"x": 1, "y": 2, "z": 3}}
    assert to_plain(at(resolved.root, "neurons", "b")) == {"params": {"x": 1, "y": 2}}
    x = at(resolved.root, "neurons", "a", "params", "x")
    assert labels(x) == ["use of ../c.yaml#base", "use of sub/b.yaml#leaf", "use of b"]
    assert x.span.file.path == "sub/../c.yaml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("neurons: {a: {use: a}}", ["E0202"]),
        ("neurons: {a: {use: b}, b: {use: a}}", ["E0202"]),
        ("neurons: {a: {use: b}, b: {use: c}, c: {use: b}}", ["E0202"]),
        ("neurons: {a: {use: nope}}", ["E0203"]),
        ("neurons: {a: {use: library/neurons/adx}}", ["E0203"]),
        ("neurons: {a: {use: library/neuron/adex}}", ["E0203"]),
        ("neurons: {a: {use: library/optimizers/adam}}", ["E0203"]),
        ("neurons: {a: {use: none.yaml#x}}", ["E0203"]),
        ("neurons: {a: {use: none.yaml}}", ["E0203"]),
        ("neurons: {a: {use: 3}}", ["E0203"]),
        ("neurons: {a: {use: [x]}}", ["E0203"]),
        ("neurons: {" + ", ".join(f"a{i}: {{use: a{i + 1}}}" for i in range(300)) + "}", None),
    ],
)
def test_use_refusals(text: str, expected: list[str] | None) -> None:
    found = codes(text)
    if expected is None:
        assert "E0202" in found
    else:
        assert found == expected


def test_use_cycle_shows_the_chain() -> None:
    _, sink = run("neurons:\n  a: {use: b}\n  b: {use: a}\n")
    assert sink.items[0].message == "`a` uses itself"
    assert [str(r.span) for r in sink.items[0].related] == ["m.yaml:3:12"]


def test_a_cycle_across_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("neurons: {x: {use: c.yaml#y}}")
    (tmp_path / "c.yaml").write_text("neurons: {y: {use: b.yaml#x}}")
    assert codes("neurons: {a: {use: b.yaml#x}}", base=tmp_path) == ["E0202"]


def test_mistakes_in_used_files_are_shown_there(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("neurons: {x: [}")
    _, sink = run("neurons: {a: {use: b.yaml#x}}", base=tmp_path)
    assert [str(d.span) for d in sink.items] == ["b.yaml:1:15"]


def test_the_library() -> None:
    library = LibraryFinder()
    assert "lif_psc_exp" in library.names("neurons")
    assert "adam" in library.names("optimizers")
    assert library.names("nothing") == ()
    block = library.find("neurons", "adex")
    assert block is not None
    assert block is library.find("neurons", "adex")
    assert library.find("neurons", "nope") is None
    assert library.find("neurons", "../neurons/adex") is None


@pytest.mark.parametrize("kind", ["neurons", "synapses", "optimizers"])
def test_every_library_file_holds_the_block_of_its_name(kind: str) -> None:
    library = LibraryFinder()
    for name in library.names(kind):
        assert library.find(kind, name) is not None, name


def test_a_broken_library_is_reported(tmp_path: Path) -> None:
    (tmp_path / "neurons").mkdir()
    (tmp_path / "neurons" / "bad.yaml").write_text("neurons: [")
    (tmp_path / "neurons" / "self.yaml").write_text("neurons: {self: {use: library/neurons/self}}")
    with pytest.raises(ModelError):
        LibraryFinder(tmp_path).find("neurons", "bad")
    with pytest.raises(ModelError):
        LibraryFinder(tmp_path).find("neurons", "self")


def test_resources_are_found_from_anywhere(tmp_path: Path) -> None:
    assert (library_path() / "neurons" / "lif.yaml").is_file()
    assert schema_path().name == "schemas"
    code = "from compiler.core.resources import library_path; print(library_path())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(library_path())


def test_another_choice_replaces_and_the_same_choice_merges() -> None:
    text = (
        "projections:\n"
        "  base: {connect: {fixed_probability: {p: 0.1, autapses: false}}, delay: 1 ms}\n"
        "  same: {use: base, connect: {fixed_probability: {p: 0.2}}}\n"
        "  other: {use: base, connect: {one_to_one: {}}, delay: {uniform: {low: 1 ms, high: 2 ms}}}\n"
        "populations:\n"
        "  a: {init: {v: {uniform: {low: 0, high: 1}}, w: 1}}\n"
        "  b: {use: a, init: {v: {normal: {mean: 0, std: 1}}, u: 2}}\n"
    )
    found = plain(text)
    assert found["projections"]["same"] == {
        "connect": {"fixed_probability": {"p": 0.2, "autapses": False}},
        "delay": "1 ms",
    }
    assert found["projections"]["other"] == {
        "connect": {"one_to_one": {}},
        "delay": {"uniform": {"low": "1 ms", "high": "2 ms"}},
    }
    assert found["populations"]["b"] == {"init": {"v": {"normal": {"mean": 0, "std": 1}}, "w": 1, "u": 2}}


# ---------------------------------------------------------------------------------------- classes


def test_classes_apply_in_order_and_the_member_wins() -> None:
    text = (
        "classes:\n"
        "  one: {neuron: lif, size: 1, params: {a: 1, b: 1}}\n"
        "  two: {size: 2, params: {b: 2, c: 2}}\n"
        "populations:\n"
        "  p: {classes: [one, two, tag], params: {c: 3}}\n"
        "  q: {classes: [two, one]}\n"
        "  r: {classes: [tag], size: 9}\n"
    )
    resolved = good(text)
    assert to_plain(at(resolved.root, "populations")) == {
        "p": {
            "neuron": "lif",
            "size": 2,
            "params": {"a": 1, "b": 2, "c": 3},
            "classes": ["one", "two", "tag"],
        },
        "q": {
            "size": 1,
            "params": {"b": 1, "c": 2, "a": 1},
            "neuron": "lif",
            "classes": ["two", "one"],
        },
        "r": {"classes": ["tag"], "size": 9},
    }
    assert labels(at(resolved.root, "populations", "p", "params", "a")) == ["class one"]
    assert labels(at(resolved.root, "populations", "p", "params", "c")) == []


def test_classes_may_use_definitions_and_be_templates() -> None:
    text = (
        "classes:\n"
        "  base: {params: {a: 1}}\n"
        "  c0: {use: base, size: 10}\n"
        "  c1: {use: base, size: 20}\n"
        "populations:\n"
        '  p{i}: {for: {i: 0..1}, neuron: lif, classes: ["c{i}"]}\n'
    ).replace("  p{i}: {", '  "p{i}": {')
    found = plain(text)["populations"]
    assert found["p0"] == {
        "params": {"a": 1},
        "size": 10,
        "neuron": "lif",
        "classes": ["c0"],
    }
    assert found["p1"]["size"] == 20  # type: ignore[index]


@pytest.mark.parametrize("classes", ["exc", "[1]", "[[a]]", "{a: 1}"])
def test_bad_lists_of_classes(classes: str) -> None:
    assert codes(f"populations: {{p: {{classes: {classes}}}}}") == ["E0102"]


# -------------------------------------------------------------------------------------------- for

RING = """\
params: {n: {value: 4, type: int}}
populations:
  p{i}:
    for: {i: 0..n - 1}
    description: "number {i}"
    neuron: lif
    size: 3 + i
    params: {tau_m: 20 ms + i / n * 5 ms, v: -65 mV, k: i, h: i / 2, flag: i > 1}
projections:
  r{i}:
    for: {i: n}
    from: p{i}
    to: ["p{(i + 1) % n}", "p0"]
    delay: 0.1 ms * (1 + i)
    deliver: {weight: strength * i, into: ge}
"""


def test_for_expands_names_expressions_and_texts() -> None:
    resolved = good(RING)
    root = resolved.root
    populations = at(root, "populations")
    assert isinstance(populations, Mapping)
    assert list(populations.keys()) == ["p0", "p1", "p2", "p3"]
    assert to_plain(at(populations, "p3")) == {
        "description": "number {i}",
        "neuron": "lif",
        "size": 6,
        "params": {"tau_m": "23.75 ms", "v": "-65 mV", "k": 3, "h": 1.5, "flag": True},
    }
    assert to_plain(at(root, "projections", "r3")) == {
        "from": "p3",
        "to": ["p0", "p0"],
        "delay": "0.4 ms",
        "deliver": {"weight": "strength * 3", "into": "ge"},
    }
    size = at(populations, "p2", "size")
    assert labels(size) == ["for i = 2"]
    assert size.span.line == 7
    assert labels(at(populations, "p2")) == ["for i = 2"]
    key = populations.entry("p2")
    assert key is not None
    assert (labels(key.key), key.key.span.line) == (["for i = 2"], 3)


def test_for_shares_what_does_not_depend_on_the_variable() -> None:
    populations = at(good(RING).root, "populations")
    assert at(populations, "p0", "neuron") is at(populations, "p3", "neuron")
    assert at(populations, "p0", "params", "v") is at(populations, "p3", "params", "v")


def test_evaluated_texts_read_back_as_the_same_number() -> None:
    text = 'populations: {"p{i}": {for: {i: 1..50}, x: 0.1 ms * i, y: i / 7}}'
    populations = at(good(text).root, "populations")
    for i in range(1, 51):
        x = at(populations, f"p{i}", "x")
        y = at(populations, f"p{i}", "y")
        assert isinstance(x, Scalar)
        assert isinstance(y, Scalar)
        assert float(x.text.removesuffix(" ms")) == 0.1 * i
        assert (y.value, float(y.text)) == (i / 7, i / 7)


@pytest.mark.parametrize(
    "value",
    ["2 ms", "2 Hz", "2 mV/ms", "2 nS", "2 uF/cm**2", "2 / (1 um)", "2 mV**2", "2 / (1 mV) / (1 ms)"],
)
def test_evaluated_quantities_of_any_dimension_read_back(value: str) -> None:
    text = f"params: {{q: {{value: {value}}}}}\n"
    text += "populations: {'p{i}': {for: {i: 1..3}, x: 1.5 * q * i}}"
    resolved = good(text)
    node = at(resolved.root, "populations", "p3", "x")
    sink = Sink()
    back = value_of(node, resolved.params, sink, "x")
    assert back is not None
    assert not sink.items
    q = resolved.params["q"]
    assert isinstance(q.value, float)
    assert (back.value, back.dimension) == (1.5 * q.value * 3, q.dimension)


@pytest.mark.parametrize(
    ("clause", "names"),
    [
        ("{i: 0..2}", ["p0", "p1", "p2"]),
        ("{i: 2}", ["p0", "p1"]),
        ("{i: [1, 5, 3]}", ["p1", "p5", "p3"]),
        ("{i: [V1, V2]}", ["pV1", "pV2"]),
        ("{i: n - 2 .. n}", ["p2", "p3", "p4"]),
        ('{i: "1..2"}', ["p1", "p2"]),
        ("{i: 0}", []),
        ("{i: 0..-1}", []),
        ("{i: 2 * n .. 2 * n}", ["p8"]),
    ],
)
def test_what_for_runs_over(clause: str, names: list[str]) -> None:
    text = f"params: {{n: {{value: 4, type: int}}}}\npopulations: {{'p{{i}}': {{for: {clause}, x: 1}}}}"
    populations = at(good(text).root, "populations")
    assert isinstance(populations, Mapping)
    assert list(populations.keys()) == names


def test_for_over_quantities_and_several_variables() -> None:
    text = 'populations: {"p{i}_{a}": {for: {i: 0..1, a: [x, y], t: [1 ms, 2 ms]}, d: 2 * t}}'
    assert codes(text) == ["E0207"]  # `t` is not in the key
    text = 'populations: {"p{i}_{a}": {for: {i: 0..1, a: [x, y]}, d: i * 2 ms, n: n_{a}}}'
    resolved = good(text.replace("n_{a}", '"n_{a}"'))
    assert to_plain(at(resolved.root, "populations")) == {
        "p0_x": {"d": "0.0 ms", "n": "n_x"},
        "p0_y": {"d": "0.0 ms", "n": "n_y"},
        "p1_x": {"d": "2.0 ms", "n": "n_x"},
        "p1_y": {"d": "2.0 ms", "n": "n_y"},
    }
    assert labels(at(resolved.root, "populations", "p1_x")) == ["for i = 1, a = x"]
    text = 'populations: {"p{i}": {for: {i: [1, 2]}, t: i * 3 ms}}'
    assert to_plain(at(good(text).root, "populations", "p2")) == {"t": "6.0 ms"}


def test_what_later_stages_evaluate_gets_the_number_put_in() -> None:
    text = ("populations:\n  p{i}:\n    for: {i: [-1, 2]}\n    a: k - i * x.i + fi(i) + 2 i\n").replace(
        "[-1, 2]", "0..1"
    )
    found = plain(text)["populations"]
    assert found["p1"] == {"a": "k - 1 * x.i + fi(1) + 2 1"}
    text = "populations:\n  p{j}:\n    for: {i: [-2], j: [3]}\n    a: k ** i\n"
    assert plain(text)["populations"]["p3"] == {"a": "k ** (-2)"}
    text = "populations:\n  p{s}:\n    for: {s: 0..1}\n    a: q + 5 s + s * 1 s\n"
    assert plain(text)["populations"]["p1"] == {"a": "q + 5 s + 1 * 1 s"}


@pytest.mark.parametrize(
    ("key", "block", "expected"),
    [
        ("p", "{for: {i: 0..2}}", ["E0207"]),
        ("p{i // 2}", "{for: {i: 0..2}}", ["E0207"]),
        ("p{k}", "{for: {i: 0..2}}", ["E0302"]),
        ("p{i", "{for: {i: 0..2}}", ["E0209"]),
        ("p{}", "{for: {i: 0..2}}", ["E0301"]),
        ("p{i / 3}", "{for: {i: 0..2}}", ["E0209"]),
        ("p{i - 1}", "{for: {i: 0..2}}", ["E0209"]),
        ("p{i > 1}", "{for: {i: 0..2}}", ["E0209"]),
        ("p{i * 1 ms}", "{for: {i: 0..2}}", ["E0301"]),
        ("p{i}", "{for: {i: 0..2}, to: 'p{q}'}", ["E0302"]),
        ("p{i}", "{for: {i: 0..2}, to: 'p{1 / i}'}", ["E0209"]),
        ("p{i}", "{for: {i: 0..2}, x: 1 ms + i * 1 mV}", ["E0401"]),
        ("p{i}", "{for: {i: 0..2}, x: 1 / i}", ["E0209"]),
        ("p{i}", "{for: {i: 0..2}, x: log(i - 1)}", ["E0209"]),
        ("p{i}", "{for: {i: 0..2}, x: 'sqrt(i, 2)'}", ["E0304"]),
        ("p{i}", "{for: 3}", ["E0208"]),
        ("p{i}", "{for: {}}", ["E0208"]),
        ("p{i}", "{for: {i: 0.5}}", ["E0208"]),
        ("p{i}", "{for: {i: 3..1}}", ["E0208"]),
        ("p{i}", "{for: {i: ..1}}", ["E0208"]),
        ("p{i}", "{for: {i: 1..}}", ["E0208"]),
        ("p{i}", "{for: {i: 0..1e9}}", ["E0208"]),
        ("p{i}", "{for: {i: 0..m}}", ["E0302"]),
        ("p{i}", "{for: {i: 0..1 ms}}", ["E0208"]),
        ("p{i}", "{for: {i: []}}", ["E0208"]),
        ("p{i}", "{for: {i: [[1]]}}", ["E0208"]),
        ("p{i}", "{for: {i: [1 ms, 2 mV]}}", ["E0401"]),
        ("p{i}", "{for: {i: {a: 1}}}", ["E0208"]),
        ("p{i}", "{for: {i: 0..99999, j: 0..9}}", ["E0208"]),
        ("p{n}", "{for: {n: 0..3}}", ["E0107"]),
        ("p{i}", "{for: {2i: 0..3}}", ["E0107"]),
    ],
)
def test_for_refusals(key: str, block: str, expected: list[str]) -> None:
    text = f"params: {{n: {{value: 4, type: int}}}}\npopulations:\n  '{key}': {block}\n"
    assert codes(text) == expected


def test_a_copy_may_not_take_another_entry_s_name() -> None:
    _, sink = run("populations:\n  p1: {}\n  p{i}: {for: {i: 0..3}}\n")
    assert [d.code for d in sink.items] == ["E0207"]
    assert sink.items[0].message == "two entries are called `p1`"
    assert [str(r.span) for r in sink.items[0].related] == ["m.yaml:2:3"]


def test_a_mistake_in_a_template_is_told_once_and_where_it_stands() -> None:
    _, sink = run('populations:\n  p{i}:\n    for: {i: 0..99}\n    x: "a{i + b}"\n')
    assert [(d.code, str(d.span)) for d in sink.items] == [("E0302", "m.yaml:4:15")]


def test_large_loops() -> None:
    resolved = good(RING, {"n": "3000"})
    populations = at(resolved.root, "populations")
    assert isinstance(populations, Mapping)
    assert len(populations) == 3000
    assert to_plain(at(resolved.root, "projections", "r2999", "to")) == ["p0", "p0"]


def test_use_and_for_together() -> None:
    text = (
        "populations:\n"
        "  base: {neuron: lif, params: {a: 1}}\n"
        "  p{i}:\n"
        "    use: base\n"
        "    for: {i: 0..1}\n"
        "    params: {b: i}\n"
    )
    resolved = good(text)
    assert to_plain(at(resolved.root, "populations", "p1")) == {
        "neuron": "lif",
        "params": {"a": 1, "b": 1},
    }
    assert labels(at(resolved.root, "populations", "p1", "params", "b")) == ["for i = 1"]


# ----------------------------------------------------------------------------------------- repeat


def layers(text: str, given: dict[str, str] | None = None) -> object:
    return to_plain(at(good(text, given).root, "network", "layers"))


def test_repeat_copies_and_renames() -> None:
    text = (
        "params: {n: {value: 2, type: int}}\n"
        "network:\n"
        "  layers:\n"
        "    - dense: {name: first, units: 3}\n"
        "    - repeat:\n"
        "        times: n\n"
        "        layers:\n"
        "          - dense: {name: hidden, units: 4, inputs: first}\n"
        "          - relu: {}\n"
        "          - add: {inputs: [hidden, first]}\n"
    )
    assert layers(text) == [
        {"dense": {"name": "first", "units": 3}},
        {"dense": {"name": "hidden_1", "units": 4, "inputs": "first"}},
        {"relu": {}},
        {"add": {"inputs": ["hidden_1", "first"]}},
        {"dense": {"name": "hidden_2", "units": 4, "inputs": "first"}},
        {"relu": {}},
        {"add": {"inputs": ["hidden_2", "first"]}},
    ]
    found = layers(text, {"n": "5"})
    assert isinstance(found, list)
    assert len(found) == 16
    root = good(text).root
    name = at(root, "network", "layers", 4, "dense", "name")
    assert labels(name) == ["repeat 2 of 2"]
    assert name.span.line == 8


def test_nested_repeats() -> None:
    text = (
        "network:\n"
        "  layers:\n"
        "    - repeat:\n"
        "        times: 2\n"
        "        layers:\n"
        "          - repeat: {times: 2, layers: [{dense: {name: a}}]}\n"
        "          - dense: {name: b, inputs: a_2}\n"
    )
    assert layers(text) == [
        {"dense": {"name": "a_1_1"}},
        {"dense": {"name": "a_1_2"}},
        {"dense": {"name": "b_1", "inputs": "a_1_2"}},
        {"dense": {"name": "a_2_1"}},
        {"dense": {"name": "a_2_2"}},
        {"dense": {"name": "b_2", "inputs": "a_2_2"}},
    ]
    inner = at(good(text).root, "network", "layers", 4, "dense", "name")
    assert labels(inner) == ["repeat 2 of 2", "repeat 2 of 2"]


BLOCKS = """\
params: {n: {value: 2, type: int}}
network:
  blocks:
    residual(width, source):
      - dense: {name: a, units: 2 * width, inputs: source}
      - relu: {}
      - map: {b: a * width + source}
      - attention: {heads: width, inputs: [b, a, a], mask: a, offset: source}
    twice(width):
      - block: {use: residual, name: one, with: {width: width, source: first}}
      - repeat: {times: n, layers: [{block: {use: residual, with: {width: width + 1, source: one}}}]}
    end(): [{relu: {}}]
  layers:
    - dense: {name: first}
    - block: {use: twice, name: t, checkpoint: true, with: {width: n}}
    - block: {use: end, with: {}}
    - block: {use: end}
"""


def test_blocks_with_arguments() -> None:
    """Arguments are numbers and names; names inside run through uses, repeats and formulas; the last layer has the name
    of the use."""

    def one(name: str, width: int, source: str, inner: str, end: str = "") -> list[object]:
        a, b = f"{inner}_a{end}", f"{inner}_b{end}"
        return [
            {"dense": {"name": a, "units": 2 * width, "inputs": source}},
            {"relu": {}},
            {"map": {b: f"{a} * {width} + {source}"}},
            {"attention": {"heads": width, "inputs": [b, a, a], "mask": a, "offset": source, "name": name}},
        ]

    found = layers(BLOCKS)
    inside = one("t_one", 2, "first", "t_one")
    for k in (1, 2):
        inside += one("t" if k == 2 else "t_residual_1_1", 3, "t_one", "t_residual_1", f"_{k}")
    assert found[0] == {"dense": {"name": "first"}}
    assert found[1] == {"block": {"layers": inside, "checkpoint": True}}
    assert found[2:] == [{"relu": {"name": "end_1"}}, {"relu": {"name": "end_2"}}]
    network = good(BLOCKS).root.get("network")
    assert isinstance(network, Mapping) and "blocks" not in network


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("{use: two, with: {x: 1}}", ["E0203"]),
        ("{use: one, with: {x: 1, y: 2}}", ["E0101"]),
        ("{use: one}", ["E0103"]),
        ("{use: one, with: {x: z + 1}}", ["E0302"]),
        ("{use: loop}", ["E0202"]),
        ("{use: many}", ["E0208"]),
        ("{use: one, layers: [], with: {x: 1}}", ["E0108"]),
        ("{layers: [], name: x}", ["E0108"]),
    ],
)
def test_block_refusals(use: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.frontend.resolve.blocks.MOST_USES", 100)
    double = "".join(f"    m{k}(): [{{block: {{use: m{k + 1}}}}}, {{block: {{use: m{k + 1}}}}}]\n" for k in range(20))
    text = (
        "network:\n  blocks:\n    one(x): [{dense: {units: x}}]\n    loop(): [{block: {use: loop}}]\n"
        f"    many(): [{{block: {{use: m0}}}}]\n{double}    m20(): [{{relu: {{}}}}]\n"
        f"  layers: [{{block: {use}}}]\n"
    )
    assert codes(text) == expected


def test_repeats_and_blocks() -> None:
    """A repeat with settings of a block gives blocks; names run through them."""
    text = (
        "network:\n"
        "  layers:\n"
        "    - block:\n"
        "        checkpoint: true\n"
        "        layers: [{repeat: {times: 2, layers: [{dense: {name: a}}]}}]\n"
        "    - repeat:\n"
        "        times: 2\n"
        "        checkpoint: true\n"
        "        layers:\n"
        "          - dense: {name: b, inputs: a_2}\n"
        "          - block: {layers: [{dense: {name: c, inputs: b}}]}\n"
    )
    copies = [
        [
            {"dense": {"name": f"b_{k}", "inputs": "a_2"}},
            {"block": {"layers": [{"dense": {"name": f"c_{k}", "inputs": f"b_{k}"}}]}},
        ]
        for k in (1, 2)
    ]
    assert layers(text) == [
        {"block": {"checkpoint": True, "layers": [{"dense": {"name": "a_1"}}, {"dense": {"name": "a_2"}}]}},
        *({"block": {"layers": copy, "checkpoint": True}} for copy in copies),
    ]


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [
        ("{times: 0.5, layers: []}", ["E0208"]),
        ("{times: 1 - 1, layers: []}", ["E0208"]),
        ("{times: 100001, layers: []}", ["E0208"]),
        ("{times: 1 ms, layers: []}", ["E0208"]),
        ("{times: m, layers: []}", ["E0302"]),
        ("{layers: []}", ["E0103"]),
        ("{times: 2}", ["E0103"]),
        ("3", ["E0102"]),
        ("{times: 60000, layers: [{relu: {}}, {relu: {}}]}", ["E0208"]),
        ("{times: 1000, layers: [{repeat: {times: 1000, layers: [{relu: {}}]}}]}", ["E0208"]),
        ("{times: 60000, layers: [{block: {layers: [{relu: {}}, {relu: {}}]}}]}", ["E0208"]),
    ],
)
def test_repeat_refusals(repeat: str, expected: list[str]) -> None:
    assert codes(f"network: {{layers: [{{repeat: {repeat}}}]}}") == expected


# ---------------------------------------------------------------------------------------- overall


@pytest.mark.parametrize("path", one_in(3, sorted((REPOSITORY / "models").glob("*.yaml"))), ids=lambda p: p.stem)
def test_models_resolve(path: Path) -> None:
    sink = Sink()
    root = load_file(path, sink)
    assert isinstance(root, Mapping)
    resolved = resolve(root, {}, sink, path.parent, LibraryFinder())
    assert not sink.items
    assert list(resolved.root.keys()) == list(root.keys())


def test_microcircuit_populations_have_their_class() -> None:
    sink = Sink()
    path = REPOSITORY / "models" / "microcircuit.yaml"
    root = load_file(path, sink)
    assert isinstance(root, Mapping)
    member = at(resolve(root, {}, sink, path.parent, LibraryFinder()).root, "populations", "L5I")
    assert to_plain(at(member, "neuron")) == "library/neurons/lif_psc_exp"
    assert to_plain(at(member, "params", "tau_m")) == "10 ms"


def test_a_tree_without_expansions_is_the_same() -> None:
    text = "language: 1\npopulations: {a: {size: 1}}\nnetwork: {layers: [{relu: {}}]}\n"
    root = load_text(SourceFile("m.yaml", text), Sink())
    assert good(text).root == root


words = st.sampled_from(
    [
        "use", "for", "classes", "repeat", "times", "layers", "params", "value", "type", "min", "max",
        "neurons", "populations", "network", "p{i}", "p{", "i", "n", "a", "b", "int", "0..3", "library/neurons/lif",
        "a#b", "x.yaml#b", "1 ms", "i + 1", "{i}", "", "..", "1 / 0", "name", "inputs",
    ]
)  # fmt: skip
trees = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(words, trees, max_size=6))
def test_any_tree_ends_in_diagnostics(tree: dict[str, object]) -> None:
    root = from_plain(tree)
    assert isinstance(root, Mapping)
    sink = Sink()
    resolved = resolve(root, {"a": "1"}, sink, Path(), LibraryFinder())
    assert isinstance(resolved.root, Mapping)
    render(sink.items, "human")


def test_a_long_text_is_not_copied_for_every_number(tmp_path: Path) -> None:
    """41 kB in 10,000 copies took 5 s and 400 MB before the parser could refuse them."""
    path = tmp_path / "long.yaml"
    value = " + ".join(["i / n"] * 5000)
    path.write_text(
        "language: 1\nparams: {n: {value: 10000, type: int}}\n"
        "neurons: {c: {params: {a: 0}, state: {v: 0}, update: [v = a]}}\n"
        f'populations: {{"p{{i}}": {{for: {{i: 0..n - 1}}, neuron: c, size: 1, params: {{a: {value}}}}}}}\n'
        "simulate: {dt: 1 ms, duration: 1 ms}\n"
    )
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert [d.code for d in caught.value.diagnostics] == ["E0301"]
