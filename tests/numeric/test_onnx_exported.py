"""Import of what PyTorch exports: files of tests/numeric/exported/ (tests/torch/exports.py wrote them), against ONNX's
reference implementation; graphs with a nontrivial batch axis; files without an ONNX model."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError, RunError
from compiler.frontend.load import load_model
from compiler.interchange.onnx.import_file import import_file
from tests.numeric.onnx_nodes import difference

onnx = pytest.importorskip("onnx")
FILES = sorted((Path(__file__).parent / "exported").glob("*.onnx"))


def _reference(file: Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        evaluator = ReferenceEvaluator(onnx.load(file))
        return list(evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True))))


@pytest.mark.parametrize("file", FILES, ids=[f.stem for f in FILES])
def test_exported(tmp_path: Path, file: Path) -> None:
    with np.load(file.with_suffix(".npz")) as data:
        inputs = [data[n] for n in data.files]
    assert difference(file, inputs, tmp_path, _reference(file, inputs)) < 1e-5


def test_an_encoder_has_the_layers_that_it_was_made_of(tmp_path: Path) -> None:
    """Queries, keys and values out of one product are the projections of `attention` layers."""
    (file,) = (f for f in FILES if f.stem == "encoder_steps_norm_gelu_final")
    done = import_file(file, tmp_path / "m.yaml")
    network = load_model(done.model).network
    assert network is not None
    block = ["layer_norm", "attention", "add", "layer_norm", "dense", "activation", "dense", "add"]
    assert [layer.kind for layer in network.layers] == [*block, *block, "layer_norm"]
    assert done.batches == {"in0": 1, "layer_norm_4": 1}


# ------------------------------------------------------------------------------------------- batches


def _file(folder: Path, nodes: list[object], inputs: dict[str, tuple[int | str, ...]], outputs: list[str],
          constants: dict[str, np.ndarray] | None = None) -> Path:  # fmt: skip
    h, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info(n, real, s) for n, s in inputs.items()],
        [h.make_tensor_value_info(n, real, ("of_some_shape",)) for n in outputs],
        [onnx.numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    path = folder / "m.onnx"
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


def _moves(rng: np.random.Generator, shape: list[int], batch: int) -> tuple[list[object], dict[str, np.ndarray]]:
    """Random transpositions and reshapes of a tensor whose extents are known, each with an operator between."""
    n, nodes, constants, at = onnx.helper.make_node, [], {}, "x"
    for k in range(6):
        kind = rng.integers(3)
        if kind == 0 and len(shape) > 1:
            perm = [int(p) for p in rng.permutation(len(shape))]
            nodes.append(n("Transpose", [at], [f"t{k}"], perm=perm))
            shape = [shape[p] for p in perm]
        elif kind == 1 and len(shape) > 2:
            a = int(rng.integers(len(shape) - 1))
            shape = [*shape[:a], shape[a] * shape[a + 1], *shape[a + 2 :]]
            constants[f"s{k}"] = np.array(shape)
            nodes.append(n("Reshape", [at, f"s{k}"], [f"t{k}"]))
        else:
            a = int(rng.integers(len(shape)))
            part = int(rng.choice([d for d in range(1, shape[a] + 1) if shape[a] % d == 0]))
            shape = [*shape[:a], part, shape[a] // part, *shape[a + 1 :]]
            constants[f"s{k}"] = np.array(shape)
            nodes.append(n("Reshape", [at, f"s{k}"], [f"t{k}"]))
        nodes.append(n("Sin" if k % 2 else "Tanh", [f"t{k}"], [f"u{k}"]))
        at = f"u{k}"
    return nodes, constants


def test_the_batch_is_followed_through_moves(tmp_path: Path) -> None:
    """A random walk of transpositions and reshapes is imported with the same numbers, or refused. Batches of 7 share
    no factor with other extents, so that each is followed in one way; few are refused, as a batch is hardly ever
    parted."""
    done = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        nodes, constants = _moves(rng, [4, 7, 6], 1)
        folder = tmp_path / str(seed)
        folder.mkdir()
        file = _file(folder, nodes, {"x": (4, 7, 6)}, [nodes[-1].output[0]], constants)  # type: ignore[attr-defined]
        x = rng.normal(size=(4, 7, 6)).astype(np.float32)
        try:
            worst = difference(file, [x], folder, _reference(file, [x]))
        except RunError as error:
            assert error.code == "E0918"
            continue
        assert worst < 1e-5, seed
        done += 1
    assert done >= 30


def test_a_size_of_the_batch_is_no_number(tmp_path: Path) -> None:
    """x times the size of its batch, and the sum of as many ones as the batch is large."""
    n = onnx.helper.make_node
    shape = [n("Shape", ["x"], ["all"]), n("Gather", ["all", "zero"], ["size"])]
    constants = {"zero": np.array(0), "one": np.array([1]), "axes": np.array([0])}
    ones = [n("Unsqueeze", ["size", "axes"], ["sizes"]), n("ConstantOfShape", ["sizes"], ["ones"])]
    ways = (
        [*shape, n("Cast", ["size"], ["many"], to=1), n("Mul", ["x", "many"], ["y"])],
        [*shape, *ones, n("ReduceSum", ["ones", "axes"], ["many"]), n("Add", ["x", "many"], ["y"])],
    )
    for nodes in ways:
        with pytest.raises(RunError) as caught:
            import_file(_file(tmp_path, nodes, {"x": ("n", 6)}, ["y"], constants), tmp_path / "m.yaml")
        assert caught.value.code == "E0918" and "batch" in caught.value.message


def test_integers(tmp_path: Path) -> None:
    """A mask of integers: moved, turned round, made real; divided integers are refused."""
    n, h = onnx.helper.make_node, onnx.helper
    move = [n("Unsqueeze", ["seen", "axes"], ["wide"]), n("Sub", ["one", "wide"], ["hidden"])]
    constants = {"axes": np.array([2]), "one": np.array(1), "two": np.array(2)}
    rest = [n("Cast", ["hidden"], ["real"], to=1), n("Mul", ["x", "real"], ["y"])]
    for extra, last in (([], "hidden"), ([n("Div", ["hidden", "two"], ["half"])], "half")):
        nodes = [*move, *extra, *rest]
        nodes[-2] = n("Cast", [last], ["real"], to=1)
        path = _file(tmp_path, nodes, {"x": ("n", 4, 3)}, ["y"], constants)
        model = onnx.load(path)
        model.graph.input.append(h.make_tensor_value_info("seen", onnx.TensorProto.INT64, ("n", 4)))
        path.write_bytes(model.SerializeToString())
        if extra:
            with pytest.raises(RunError, match="whole numbers"):
                import_file(path, tmp_path / "other.yaml")
            continue
        rng = np.random.default_rng(1)
        given = [rng.normal(size=(2, 4, 3)).astype(np.float32), rng.integers(0, 2, (2, 4))]
        assert difference(path, given, tmp_path, _reference(path, given)) == 0


# ------------------------------------------------------------------------------------------- other files


def _pickle() -> bytes:
    import pickle

    return pickle.dumps({"weights": [1.0, 2.0]}, protocol=2)


def _safetensors() -> bytes:
    from safetensors.numpy import save

    return bytes(save({"a": np.zeros(3, np.float32)}))


OTHERS = {
    "empty": (lambda: b"", "it is empty"),
    "text": (lambda: "language: 1\nname: für\n".encode(), "it is text"),
    "page": (lambda: b"\n<!DOCTYPE html><html>not found</html>", "it is an HTML page"),
    "pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "it is a pointer of Git LFS"),
    "safetensors": (_safetensors, "it is a safetensors file: weights without a graph"),
    "pickle": (_pickle, "it is a pickle of Python"),
    "zip": (lambda: b"PK\x03\x04" + bytes(100), "it is a zip archive, as PyTorch and NumPy write them"),
    "zeros": (lambda: bytes(1000), "it is not in ONNX's format"),
    "noise": (lambda: np.random.default_rng(1).bytes(1000), "it is not in ONNX's format"),
    "truncated": (lambda: FILES[0].read_bytes()[:-100], "it ends early: the file is cut off"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say so, and without the package `onnx`."""
    content, reason = OTHERS[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(content())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(RunError) as caught:
        import_file(path, tmp_path / "m.yaml")
    assert caught.value.code == "E0919" and caught.value.exit_code == 2
    assert f"is not an ONNX file: {reason}" in caught.value.message


def test_every_cut_is_told(tmp_path: Path) -> None:
    """A file that ends anywhere is refused as one that is cut off, or not in the format; whole files are not."""
    from compiler.files.onnx_files import not_onnx

    whole = (Path(__file__).parent / "exported" / "stepwise.onnx").read_bytes()
    path = tmp_path / "m.onnx"
    for size in range(1, len(whole) - 1, 3):
        path.write_bytes(whole[:size])
        with pytest.raises((RunError, ModelError)):
            import_file(path, tmp_path / "m.yaml")
    path.write_bytes(whole)
    assert not_onnx(path) is None and all(not_onnx(f) is None for f in FILES)


def test_weights_in_a_file_beside(tmp_path: Path) -> None:
    source = next(f for f in FILES if f.stem == "stepwise")
    model = onnx.load(source)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    with np.load(source.with_suffix(".npz")) as data:
        inputs = [data[n] for n in data.files]
    assert difference(tmp_path / "m.onnx", inputs, tmp_path, _reference(source, inputs)) < 1e-5
    (tmp_path / "m.data").unlink()
    with pytest.raises(RunError) as caught:
        import_file(tmp_path / "m.onnx", tmp_path / "other.yaml")
    assert caught.value.code == "E0919" and "its weights in `m.data`, which is not beside it" in caught.value.message
