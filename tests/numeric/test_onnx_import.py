"""Import: ONNX's own node tests (slow), folding of constants, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from compiler import predict
from compiler.interchange.onnx_import import import_file
from compiler.runner.errors import RunError

onnx = pytest.importorskip("onnx")


@pytest.mark.slow
def test_node_cases_of_onnx(tmp_path: Path, record_property: pytest.FixtureRequest) -> None:
    """Nothing that is imported gives other numbers; at least 240 of the cases are imported (the others ask for what no
    layer does: other types, axes along the batch, dilated pooling, interpolation)."""
    from tests.numeric.onnx_nodes import all_outcomes

    outcomes = all_outcomes(tmp_path)
    states = Counter(o.state for o in outcomes)
    lines = [f"{o.state:8} {o.operator:22} {o.case} {o.reason}" for o in outcomes]
    print(f"{dict(states)}\n" + "\n".join(lines))
    assert [line for line in lines if line.startswith("failed")] == []
    assert states["passed"] >= 240


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


@pytest.mark.parametrize(
    ("op", "attrs", "shape", "part"),
    [
        (
            "LRN",
            {"size": 3},
            (1, 3, 4, 4),
            "LRN (node `it`) cannot be imported: no layer of the language does the same",
        ),
        ("Transpose", {"perm": [1, 0]}, ("n", 3), "it moves the batch"),
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
