"""Import: ONNX's own node tests (slow), constant folding, recurrent operators, attention, and error cases.

test_onnx_export.py imports what was exported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from compiler.core.diagnostics import RunError
from compiler.interchange.onnx.import_file import import_file
from netloom import predict


@pytest.mark.slow
def test_node_cases_of_onnx(tmp_path: Path, record_property: pytest.FixtureRequest) -> None:
    """Nothing that is imported gives other numbers; at least 430 of the cases are imported (the others ask for what no
    layer does: other types, axes along the batch, dilated pooling, interpolation; docs/inference.md counts them)."""
    from tests.numeric.onnx_nodes import all_outcomes

    outcomes = all_outcomes(tmp_path)
    states = Counter(o.state for o in outcomes)
    lines = [f"{o.state:8} {o.operator:22} {o.case} {o.reason}" for o in outcomes]
    print(f"{dict(states)}\n" + "\n".join(lines))
    assert [line for line in lines if line.startswith("failed")] == []
    assert states["passed"] >= 430


def _file(folder: Path, nodes: list[object], inputs: dict[str, tuple[int | str, ...]], outputs: list[str],
          constants: dict[str, np.ndarray] | None = None, opset: int = 17) -> Path:  # fmt: skip
    h, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info(n, real, s) for n, s in inputs.items()],
        [h.make_tensor_value_info(n, real, ("of_some_shape",)) for n in outputs],
        [onnx.numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_shapes_that_a_graph_computes(tmp_path: Path) -> None:
    """x.view(x.size(0), -1) as PyTorch writes it; a bias apart from its product; an output that is read."""
    n = onnx.helper.make_node
    rng = np.random.default_rng(0)
    w, b, k = (rng.normal(size=s).astype(np.float32) for s in ((24, 5), (5,), (3, 1, 1)))
    nodes = [
        n("Mul", ["x", "k"], ["scaled"]),
        n("Shape", ["scaled"], ["shape"]),
        n("Gather", ["shape", "zero"], ["batch"]),
        n("Unsqueeze", ["batch", "axes"], ["batch_1"]),
        n("Concat", ["batch_1", "rest"], ["target"], axis=0),
        n("Reshape", ["scaled", "target"], ["flat"]),
        n("MatMul", ["flat", "w"], ["product"]),
        n("Add", ["b", "product"], ["1/strange name"]),
        n("Relu", ["1/strange name"], ["out"]),
    ]
    constants = {"w": w, "b": b, "k": k, "zero": np.array(0), "axes": np.array([0]), "rest": np.array([24])}
    path = _file(tmp_path, nodes, {"x": ("n", 3, 2, 4)}, ["1/strange name", "out"], constants)
    done = import_file(path, tmp_path / "m.yaml")
    text = done.model.read_text()
    assert "dense" in text and done.parameters == w.size + b.size + 4 * 3
    x = rng.normal(size=(4, 3, 2, 4)).astype(np.float32)
    first, second = predict(done.model, x, target="reference", build_dir=tmp_path / "build").values()
    expected = (x * k).reshape(4, -1) @ w + b
    found = {True: first, False: second}[bool((first < 0).any())]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.minimum(first, second) * 0 + np.maximum(first, second), np.maximum(expected, 0),
                               rtol=1e-5, atol=1e-5)  # fmt: skip


def _imported(folder: Path, path: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    done = import_file(path, folder / "m.yaml")
    return predict(done.model, x, target="reference", build_dir=folder / "build")


def _expected(path: Path, x: np.ndarray) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(onnx.load(path)).run(None, {"x": x}))


def _small(*shape: int, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 0.5).astype(np.float32)


@pytest.mark.parametrize("op", ["RNN", "GRU", "GRU as published", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_operators(tmp_path: Path, op: str, direction: str) -> None:
    """As PyTorch writes them: the steps first, a state of zeros as large as the batch, both biases, all states with the
    directions side by side; and the last states."""
    n = onnx.helper.make_node
    options = {"linear_before_reset": 1} if op == "GRU" else {}
    op = op.split()[0]
    gates, ways = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 2 if direction == "bidirectional" else 1
    constants = {
        "w": _small(ways, gates * 4, 3), "r": _small(ways, gates * 4, 4, seed=2), "b": _small(ways, 8 * gates, seed=3),
        "one": np.array(1), "axes": np.array([0]), "ways": np.array([ways]), "four": np.array([4]),
        "all": np.array([0, 0, -1]),
    }  # fmt: skip
    states = ["zeros", "zeros"] if op == "LSTM" else ["zeros"]
    nodes = [
        n("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        n("Shape", ["steps"], ["sizes"]),
        n("Gather", ["sizes", "one"], ["batch"]),
        n("Unsqueeze", ["batch", "axes"], ["batch_1"]),
        n("Concat", ["ways", "batch_1", "four"], ["state"], axis=0),
        n("ConstantOfShape", ["state"], ["zeros"]),
        n(op, ["steps", "w", "r", "b", "", *states], ["y", "last"], hidden_size=4, direction=direction, **options),
        n("Transpose", ["y"], ["turned"], perm=[0, 2, 1, 3]),
        n("Reshape", ["turned", "all"], ["side_by_side"]),
        n("Transpose", ["side_by_side"], ["out"], perm=[1, 0, 2]),
    ]
    path = _file(tmp_path, nodes, {"x": ("n", 5, 3)}, ["out", "last"], constants)
    x = _small(7, 5, 3, seed=4)
    found, wanted = _imported(tmp_path, path, x), _expected(path, x)
    np.testing.assert_allclose(found["out"], wanted[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["last"], np.moveaxis(wanted[1], 1, 0), rtol=1e-5, atol=1e-6)
    assert import_file(path, tmp_path / "again.yaml").batches == {"last": 1}


@pytest.mark.parametrize("mask", ["none", "causal", "where", "window", "all"])
def test_attention_of_products(tmp_path: Path, mask: str) -> None:
    """Queries and keys that are scaled apart; a mask that is not causal; one that leaves nothing is refused."""
    n = onnx.helper.make_node
    late = np.triu(np.ones((4, 4), bool), 1)
    window, everything = np.triu(late, 2) | late.T, np.ones((4, 4), bool)
    hidden = {"none": ~everything, "causal": late, "where": late, "window": window, "all": everything}[mask]
    constants = {
        **{part: _small(6, 6, seed=k) for k, part in enumerate(("q", "k", "v"))},
        "heads": np.array([0, 0, 2, 3]), "flat": np.array([0, 0, 6]), "root": np.array(3**-0.25, np.float32),
        "mask": np.where(hidden, -np.inf, 0.0).astype(np.float32)[None, None],
        "seen": ~late, "low": np.array(-1e9, np.float32),
    }  # fmt: skip
    nodes = []
    for part, turn in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            n("MatMul", ["x", part], [f"{part}1"]),
            n("Reshape", [f"{part}1", "heads"], [f"{part}2"]),
            n("Transpose", [f"{part}2"], [f"{part}3"], perm=turn),
        ]
    nodes += [
        n("Mul", ["q3", "root"], ["q4"]),
        n("Mul", ["k3", "root"], ["k4"]),
        n("MatMul", ["q4", "k4"], ["scores"]),
        n("Where", ["seen", "scores", "low"], ["masked"])
        if mask == "where"
        else n("Add", ["scores", "mask"], ["masked"]),
        n("Softmax", ["masked"], ["p"], axis=-1),
        n("MatMul", ["p", "v3"], ["context"]),
        n("Transpose", ["context"], ["turned"], perm=[0, 2, 1, 3]),
        n("Reshape", ["turned", "flat"], ["out"]),
    ]
    path = _file(tmp_path, nodes, {"x": ("n", 4, 6)}, ["out"], constants)
    if mask == "all":
        with pytest.raises(RunError) as caught:
            import_file(path, tmp_path / "m.yaml")
        assert "a step sees nothing" in caught.value.message
        return
    x = _small(5, 4, 6, seed=9)
    np.testing.assert_allclose(_imported(tmp_path, path, x)["out"], _expected(path, x)[0], rtol=1e-5, atol=1e-6)


def test_products_that_are_no_attention(tmp_path: Path) -> None:
    """As `matmul`: used by others than a softmax, with numbers in their places, of leading axes that differ."""
    n = onnx.helper.make_node
    constants = {
        "seen": np.tri(4, dtype=bool), "zero": np.array(0, np.float32), "half": np.array(0.5, np.float32),
        "heads": np.array([0, 4, 2, 3]), "one": np.array([1]), "offset": _small(4, 4, seed=5),
    }  # fmt: skip
    turn = n("Transpose", ["x"], ["t"], perm=[0, 2, 1])
    gram = [turn, n("MatMul", ["x", "t"], ["y"])]
    split = [
        n("Reshape", ["x", "heads"], ["h"]), n("Transpose", ["h"], ["hp"], perm=[0, 2, 1, 3]),
        n("Transpose", ["x"], ["x3"], perm=[0, 2, 1]), n("Slice", ["x3", "zero1", "three", "one"], ["x4"]),
        n("Unsqueeze", ["x4", "one"], ["x5"]), n("MatMul", ["hp", "x5"], ["z"]),
    ]  # fmt: skip
    constants |= {"zero1": np.array([0]), "three": np.array([3])}
    cases = {
        "y": (gram, "transposed: second"),
        "z_relu": ([*gram, n("Relu", ["y"], ["z_relu"])], "matmul"),
        "z_twice": ([*gram, n("Softmax", ["y"], ["p"]), n("MatMul", ["p", "x"], ["a"]), n("MatMul", ["y", "x"], ["b"]),
                     n("Add", ["a", "b"], ["z_twice"])], "dot_attention"),
        "z_zero": ([*gram, n("Where", ["seen", "y", "zero"], ["m"]), n("Softmax", ["m"], ["p"]),
                    n("MatMul", ["p", "x"], ["z_zero"])], "matmul"),
        "z_scaled": ([*gram, n("Mul", ["y", "half"], ["s"]), n("Add", ["s", "offset"], ["o"]),
                      n("Tanh", ["o"], ["z_scaled"])], "0.5 * "),
        "z": (split, "matmul"),
        "first": ([turn, n("MatMul", ["t", "x"], ["first"])], "transposed: first"),
    }  # fmt: skip
    x = _small(5, 4, 6, seed=9)
    for end, (nodes, part) in cases.items():
        used = {i for node in nodes for i in node.input}
        folder = tmp_path / end
        folder.mkdir()
        path = _file(folder, nodes, {"x": ("n", 4, 6)}, [end], {k: v for k, v in constants.items() if k in used})
        found = next(iter(_imported(folder, path, x).values()))
        np.testing.assert_allclose(found, _expected(path, x)[0], rtol=1e-5, atol=1e-5, err_msg=end)
        assert part in (folder / "m.yaml").read_text(), end


def test_products_along_the_batch(tmp_path: Path) -> None:
    n = onnx.helper.make_node
    nodes = [n("Transpose", ["x"], ["t"], perm=[1, 0]), n("MatMul", ["x", "t"], ["y"])]
    with pytest.raises(RunError) as caught:
        import_file(_file(tmp_path, nodes, {"x": ("n", 4)}, ["y"]), tmp_path / "m.yaml")
    assert caught.value.code == "E0918" and "along the batch" in caught.value.message


def test_constants(tmp_path: Path) -> None:
    """Arrays beside computed tensors: joined to them, multiplied element by element, as queries; copies; casts."""
    n = onnx.helper.make_node
    constants = {
        "token": _small(1, 1, 6), "grid": _small(5, 6, seed=2), "queries": _small(1, 2, 6, seed=3),
        "twice": np.array([1, 2, 1]), "one": np.array([1, 6]), "zero": np.array(0, np.float32),
    }  # fmt: skip
    nodes = [
        n("Shape", ["x"], ["batch"], end=1),
        n("Concat", ["batch", "one"], ["tokens"], axis=0),
        n("Expand", ["token", "tokens"], ["repeated"]),
        n("Concat", ["repeated", "x"], ["longer"], axis=1),
        n("Mul", ["longer", "grid"], ["each"]),
        n("Greater", ["each", "zero"], ["positive"]),
        n("Cast", ["positive"], ["ones"], to=onnx.TensorProto.FLOAT),
        n("Add", ["each", "ones"], ["moved"]),
        n("Transpose", ["moved"], ["turned"], perm=[0, 2, 1]),
        n("MatMul", ["queries", "turned"], ["scores"]),
        n("Softmax", ["scores"], ["p"], axis=-1),
        n("MatMul", ["p", "moved"], ["seen"]),
        n("Tile", ["seen", "twice"], ["out"]),
    ]
    path = _file(tmp_path, nodes, {"x": ("n", 4, 6)}, ["out", "positive"], constants)
    x = _small(3, 4, 6, seed=9)
    found, wanted = _imported(tmp_path, path, x), _expected(path, x)
    assert wanted[1].dtype == bool and wanted[1].any() and not wanted[1].all()
    for name, value in zip(("out", "positive_out"), wanted, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attrs", "shape", "part"),
    [
        (
            "LRN",
            {"size": 3},
            (1, 3, 4, 4),
            "LRN (node `it`) cannot be imported: no layer of the language does the same",
        ),
        ("Softmax", {"axis": 0}, ("n", 3), "it works along the batch"),
        ("Relu", {}, ("n", "m"), "an axis other than the batch has no fixed extent"),
        ("Relu", {}, (), "it has no batch axis"),
    ],
)
def test_refused(tmp_path: Path, op: str, attrs: dict[str, object], shape: tuple[int, ...], part: str) -> None:
    path = _file(tmp_path, [onnx.helper.make_node(op, ["x"], ["y"], name="it", **attrs)], {"x": shape}, ["y"])
    with pytest.raises(RunError) as caught:
        import_file(path, tmp_path / "m.yaml")
    assert caught.value.code == "E0918" and caught.value.exit_code == 1
    assert part in caught.value.message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx"]


def test_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08garbage")
    with pytest.raises(RunError) as caught:
        import_file(path, tmp_path / "m.yaml")
    assert caught.value.code == "E0919" and caught.value.exit_code == 2
    (tmp_path / "m.yaml").write_text("mine")
    with pytest.raises(RunError) as caught:
        import_file(path, tmp_path / "m.yaml")
    assert caught.value.code == "E0911" and (tmp_path / "m.yaml").read_text() == "mine"
