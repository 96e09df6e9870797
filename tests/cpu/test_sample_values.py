"""Non-finite samples: reported with their position, in training, evaluation and prediction, on every target; undefined
numbers are null in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.registry import backend
from compiler.core.diagnostics import ModelError, RunError
from compiler.core.strict_json import dumps
from compiler.files.sample_checks import sample_checks
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from netloom import evaluate, predict, run
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

WORDS = """\
language: 1
name: words
network:
  inputs: {w: {shape: [3], dtype: int32}, k: {shape: [], dtype: int32}, y: {shape: [], dtype: int32}}
  layers:
    - embedding: {name: e, inputs: w, count: 5, size: 4}
    - flatten: {name: f}
    - one_hot: {name: h, inputs: k, count: 4}
    - concat: {name: both, inputs: [f, h]}
    - dense: {name: out, units: 3}
train:
  data: {file: words.npz, inputs: {w: w, k: k, y: y}}
  loss: {softmax_cross_entropy: {logits: out, target: y, ignore: -1}}
  optimizer: {sgd: {learning_rate: 0.01}}
  epochs: 1
"""
SAMPLES = 80


def words(**changed: tuple[tuple[int, ...], int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = {"w": rng.integers(0, 5, (SAMPLES, 3)), "k": rng.integers(0, 4, SAMPLES), "y": rng.integers(0, 3, SAMPLES)}
    for name, (at, value) in changed.items():
        found[name][at] = value
    return found


@pytest.fixture
def trained(here: Path) -> Path:
    np.savez(here / "words.npz", **words())
    (here / "words.yaml").write_text(WORDS)
    return run("words.yaml").folder


OUTSIDE = {
    "row": ("w", (71, 2), 5, "`w` is 5 at row 71, column 2, but `e` has 5 rows"),
    "negative_row": ("w", (71, 2), -1, "`w` is -1 at row 71, column 2"),
    "beyond_32_bits": ("w", (71, 2), 2**32 + 1, "`w` is 4294967297 at row 71"),
    "place": ("k", (70,), 4, "`k` is 4 at row 70, but `h` has 4 places, for the numbers 0 to 3"),
    "negative_place": ("k", (70,), -1, "`k` is -1 at row 70"),
    "class": ("y", (79,), 3, "`y` is 3 at row 79, but `out` has 3 scores, for the classes 0 to 2"),
}


def test_parts_have_bounds_of_their_own(here: Path) -> None:
    """Each element of a sample is held within the rows of the embedding that reads it, and no others."""
    layers = "slice: {name: p, inputs: w, to: 1}\n    - embedding: {name: narrow, count: 2, size: 4}\n"
    layers += "    - slice: {name: q, inputs: w, from: 1}\n    - embedding: {name: e, count: 5, size: 4}\n"
    layers += "    - concat: {inputs: [narrow, e]}"
    text = WORDS.replace("embedding: {name: e, inputs: w, count: 5, size: 4}", layers)
    (here / "words.yaml").write_text(text)
    good = words()
    good["w"][:, 0] %= 2
    good["w"][0, 1:] = 4
    np.savez(here / "words.npz", **good)
    folder = run("words.yaml").folder
    bad = {name: array.copy() for name, array in good.items()}
    bad["w"][7, 0] = 2
    np.savez(here / "words.npz", **bad)
    with pytest.raises(ModelError, match="`w` that it reads go from 0 to 2, but `narrow` has 2 rows"):
        load_model(here / "words.yaml")
    with pytest.raises(RunError, match="`w` is 2 at row 7, column 0, but `narrow` has 2 rows"):
        evaluate(folder, here / "words.npz")


def test_joined_inputs_have_bounds(here: Path) -> None:
    """Elements of each input that a layer joins are held within the rows of the embedding that reads them all."""
    layers = "reshape: {name: one, inputs: k, shape: [1]}\n    - concat: {name: all, inputs: [w, one]}\n"
    layers += "    - slice: {name: last, inputs: all, from: 1}\n    - embedding: {name: e, count: 5, size: 4}"
    text = WORDS.replace("embedding: {name: e, inputs: w, count: 5, size: 4}", layers)
    text = text.replace("one_hot: {name: h, inputs: k, count: 4}", "one_hot: {name: h, inputs: k, count: 9}")
    (here / "words.yaml").write_text(text)
    good = words()
    good["w"][:, 0] = 90  # nothing reads these
    np.savez(here / "words.npz", **good)
    folder = run("words.yaml").folder
    for bad, said in ((words(k=((70,), 5)), "`k` is 5 at row 70"), (words(w=((71, 2), 7)), "`w` is 7 at row 71")):
        np.savez(here / "words.npz", **bad)
        with pytest.raises(ModelError, match=f"numbers of `{said[1]}`.* go from 0 to .*, but `e` has 5 rows"):
            load_model(here / "words.yaml")
        with pytest.raises(RunError, match=f"{said}.*but `e` has 5 rows"):
            evaluate(folder, here / "words.npz")


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_whole_numbers_outside(here: Path, trained: Path, target: str) -> None:
    np.savez(here / "good.npz", **words(y=((3,), -1)))
    assert np.isfinite(evaluate(trained, here / "good.npz", target)["loss"])
    for name, at, value, message in OUTSIDE.values():
        bad = words(**{name: (at, value)})
        np.savez(here / "bad.npz", **bad)
        with pytest.raises(RunError) as error:
            evaluate(trained, here / "bad.npz", target)
        assert (error.value.code, error.value.exit_code) == ("E0917", 2)
        assert message in error.value.message
        if name != "y":
            for data in (here / "bad.npz", {n: bad[n] for n in "wk"}):
                with pytest.raises(RunError) as error:
                    predict(trained, data, target)
                assert error.value.code == "E0917"
                assert message in error.value.message
        with pytest.raises(ModelError, match=r"go from"):
            (here / "other.yaml").write_text(WORDS.replace("words.npz", "bad.npz"))
            load_model(here / "other.yaml")
    reals = {"w": words()["w"].astype(np.float64), "k": words()["k"]}
    with pytest.raises(RunError, match="`w` needs whole numbers"):
        predict(trained, reals, target)


def test_answers_that_may_be_ignored(here: Path) -> None:
    np.savez(here / "words.npz", **words())
    (here / "words.yaml").write_text(WORDS.replace(", ignore: -1", ""))
    folder = run("words.yaml").folder
    np.savez(here / "bad.npz", **words(y=((3,), -100)))
    with pytest.raises(RunError, match=r"`y` is -100 at row 3, .* \(`ignore: -100` in the loss leaves out"):
        evaluate(folder, here / "bad.npz")


def test_lenient(here: Path) -> None:
    """As in ONNX: negative numbers count from the end, others give zeros."""
    np.savez(here / "words.npz", **words(k=((70,), -1)))
    (here / "words.yaml").write_text(WORDS.replace("count: 4}", "count: 4, lenient: true}"))
    folder = run("words.yaml").folder
    rows = {n: v[[0, 0]] for n, v in words().items() if n != "y"}
    found = predict(folder, {**rows, "k": np.array([-1, 4])}, layers=["h"])["h"]
    assert found.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]


# ------------------------------------------------------------------------------------------- not finite

REALS = """\
language: 1
name: reals
network:
  inputs: {x: {shape: [6]}, y: {shape: [3, 2]}, m: {shape: MASK}}
  layers:
    - dense: {inputs: x, units: 6}
    - reshape: {name: out, shape: [3, 2]}
train:
  data: {file: reals.npz, inputs: {x: x, y: y, m: m}MEMORY}
  loss: {mean_squared_error: {prediction: out, target: y, mask: m}}
  optimizer: {sgd: {learning_rate: 0.01}}
  metrics: [mean_absolute_error, r2]
  batch: 8
  epochs: 2
"""


def reals(here: Path, mask: str = "[3, 2]", memory: str = "", **changed: tuple[tuple[int, ...], float]) -> Path:
    rng = np.random.default_rng(0)
    axes = [int(n) for n in mask.strip("[]").split(",") if n]
    found = {"x": rng.normal(size=(64, 6)), "y": rng.normal(size=(64, 3, 2)), "m": np.ones((64, *axes))}
    for name, (at, value) in changed.items():
        found[name][at] = value
    np.savez(here / "reals.npz", **found)
    path = here / "reals.yaml"
    path.write_text(REALS.replace("MASK", mask).replace("MEMORY", memory))
    return path


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_not_finite(here: Path, value: float) -> None:
    shown = "nan" if np.isnan(value) else "-inf" if value < 0 else "inf"
    for name, at, place in (
        ("x", (40, 4), "row 40, column 4"),
        ("y", (63, 2, 1), "row 63, place [2, 1]"),
        ("m", (5, 0, 0), "row 5, place [0, 0]"),
    ):
        with pytest.raises(ModelError) as error:
            run(reals(here, **{name: (at, value)}))
        (found,) = error.value.diagnostics
        assert (found.code, found.message) == ("E0926", f"`{name}` is {shown} (as float32) at {place}")
        assert found.span.line == 9


def test_not_finite_in_other_data(here: Path) -> None:
    folder = run(reals(here)).folder
    reals(here, x=((3, 1), np.nan)).rename(here / "gone.yaml")
    with pytest.raises(RunError, match=r"`x` is nan .* at row 3, column 1") as error:
        evaluate(folder, here / "reals.npz")
    assert (error.value.code, error.value.exit_code) == ("E0926", 2)
    reals(here, y=((3, 1, 1), np.nan), m=((3, 1, 1), 0.0))
    assert np.isfinite(evaluate(folder, here / "reals.npz")["loss"])


@pytest.mark.parametrize(("mask", "memory"), diagonal(["[3, 2]", "[3]", "[]"], ["", ", memory: 0.001 MB"]))
def test_nan_under_a_mask(here: Path, mask: str, memory: str) -> None:
    """Trained as with zeros there, also with samples that stay in their file; told where the mask does not hide it."""
    place = (0, 2, 1)[: 1 + len(mask.split(",")) * (mask != "[]")]
    weights = []
    for value in (np.nan, 0.0):
        result = run(reals(here, mask, memory, y=((0, 2, 1), value), m=(place, 0.0)))
        assert np.isfinite([r["loss"] for r in result.history()]).all()
        weights.append({n: v.tobytes() for n, v in result.weights().items()})
    assert weights[0] == weights[1]
    with pytest.raises((ModelError, RunError), match=r"`y` is nan .* at row 33, place \[0, 1\]"):
        run(reals(here, mask, memory, y=((33, 0, 1), np.nan), m=(place, 0.0)))


def test_a_formula_that_asks(here: Path) -> None:
    """What is only read by formulas that ask `isnan` of it may be NaN."""
    for value, ok in (("0 if isnan(x) else x", True), ("x * x", False)):
        path = reals(here, x=((3, 1), np.nan))
        text = path.read_text().replace("- dense: {inputs: x,", f"- map: {{known: {value}}}\n    - dense: {{")
        path.write_text(text)
        if ok:
            assert np.isfinite([r["loss"] for r in run(path).history()]).all()
        else:
            with pytest.raises(ModelError, match="`x` is nan"):
                run(path)


def test_an_offset_of_attention(here: Path) -> None:
    """-inf hides a step; +inf hides all others, and is refused."""
    rng = np.random.default_rng(0)
    layers = "dot_attention: {name: out, inputs: x, heads: 1, offset: o}"
    path = here / "attention.yaml"
    path.write_text(
        "language: 1\nname: attention\nnetwork:\n"
        "  inputs: {x: {shape: [3, 2]}, o: {shape: [3, 3]}, y: {shape: [3, 2]}}\n"
        f"  layers:\n    - dense: {{name: a, inputs: x, units: 2}}\n    - {layers.replace('inputs: x', 'inputs: a')}\n"
        "train:\n  data: {file: attention.npz, inputs: {x: x, o: o, y: y}}\n"
        "  loss: {mean_squared_error: {prediction: out, target: y}}\n"
        "  optimizer: {sgd: {learning_rate: 0.1}}\n  epochs: 1\n"
    )
    for value in (-np.inf, np.inf):
        o = np.zeros((8, 3, 3))
        o[2, 1, 0] = value
        np.savez(here / "attention.npz", x=rng.normal(size=(8, 3, 2)), y=rng.normal(size=(8, 3, 2)), o=o)
        if value < 0:
            assert np.isfinite(run(path).metrics["loss"])
        else:
            with pytest.raises(ModelError, match=r"`o` is inf .* at row 2, place \[1, 0\]"):
                run(path)


@settings(max_examples=60, deadline=None, database=None)
@given(data=st.data())
def test_what_is_found_is_what_is_computed_with(data: st.DataObject) -> None:
    """Against the definition, element by element."""
    from compiler.ir.level0.model import Layer, Loss, Network, OptimizerDef, TensorInput, Train
    from compiler.ir.level0.tensors import Data

    mask = data.draw(st.sampled_from([(3, 2), (3,), ()]))
    inputs = (TensorInput("x", (6,), "real"), TensorInput("y", (3, 2), "real"), TensorInput("m", mask, "real"))
    layers = (Layer("dense", "out", ("x",), (), "", None, (3, 2)),)
    arrays = {"x": "ax", "y": "ay", "m": "am"}
    loss = Loss("mean_squared_error", "out", "y", mask="m")
    train = Train(Data("", (), 0.0), loss, (), OptimizerDef("sgd", (), (), ()), 1, 1, 0)
    checks = sample_checks(Network(inputs, layers), arrays, train)
    rows = 4
    bits = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=24, max_size=24))
    m = np.array(bits[: rows * int(np.prod(mask))]).reshape(rows, -1)
    y = np.zeros((rows, 6))
    for at in data.draw(st.lists(st.integers(0, rows * 6 - 1), max_size=5)):
        y.reshape(-1)[at] = np.nan
    found = checks.reals({"ax": np.zeros((rows, 6)), "ay": y, "am": m}, ["ay"], np.arange(10, 10 + rows))
    counts = np.broadcast_to(m.reshape(rows, *mask, *[1] * (2 - len(mask))), (rows, 3, 2))
    wanted = np.argwhere(np.isnan(y.reshape(rows, 3, 2)) & (counts != 0))
    if len(wanted) == 0:
        assert found is None
    else:
        row, i, j = (int(n) for n in wanted[0])
        assert found is not None
        assert found.message == f"`ay` is nan at row {10 + row}, place [{i}, {j}]"


# ---------------------------------------------------------------------------------------- metrics, JSON


def refuse(constant: str) -> None:
    raise AssertionError(constant)


def test_metrics_that_are_not_defined_are_null(here: Path) -> None:
    path = reals(here)
    with np.load(here / "reals.npz") as file:
        arrays = dict(file)
    np.savez(here / "reals.npz", **(arrays | {"y": np.ones((64, 3, 2))}))  # r2 of targets that do not vary
    path.write_text(path.read_text() + "  stop: {metric: r2, patience: 3}\n  checkpoint: {every: 1}\n")
    result = run(path)
    for name in ("metrics.jsonl", "run.json"):
        text = (result.folder / name).read_text()
        assert '"r2": null' in text
        for line in text.splitlines() if name.endswith("l") else (text,):
            json.loads(line, parse_constant=refuse)
    assert np.isnan([row["r2"] for row in result.history()]).all()
    again = run(path, resume=result.folder / "checkpoints" / "epoch-000001.safetensors")
    assert [list(r) for r in again.history()] == [list(r) for r in result.history()]


@settings(max_examples=50, deadline=None, database=None)
@given(st.recursive(st.floats() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_json_is_json(value: object) -> None:
    json.loads(dumps(value), parse_constant=refuse)


@pytest.mark.parametrize("target", ["cpu", "reference", "cuda"])
def test_counts_of_many_classes(here: Path, target: str) -> None:
    """Three counts a class, not a matrix of classes by classes."""
    classes, batch = 100_000, 4
    np.savez(here / "many.npz", x=np.ones((8, 2)), y=np.arange(8))
    path = here / "many.yaml"
    path.write_text(
        "language: 1\nname: many\nnetwork:\n  inputs: {x: {shape: [2]}, y: {shape: [], dtype: int32}}\n"
        f"  layers:\n    - dense: {{name: out, inputs: x, units: {classes}}}\n"
        "train:\n  data: {file: many.npz, inputs: {x: x, y: y}}\n"
        "  loss: {softmax_cross_entropy: {logits: out, target: y}}\n  metrics: [f1]\n"
        f"  optimizer: {{sgd: {{learning_rate: 0.1}}}}\n  batch: {batch}\n  epochs: 1\n"
    )
    program = lower(load_model(path), backend(target).capabilities).merged
    sizes = {a.name: a.physical_size for a in program.arrays}
    assert {n: s for n, s in sizes.items() if n.startswith("metric.f1")} == {
        f"metric.f1.{part}": classes for part in ("hits", "found", "there")
    }
    assert max(sizes.values()) <= 16 * classes  # the scores of a batch, which may be padded to 16 rows
    if target == "cpu":
        assert 0 <= run(path).metrics["f1"] <= 1
