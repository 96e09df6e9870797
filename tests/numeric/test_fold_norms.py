"""fold_norms: the folded network is equivalent to float64 rounding; norms that are not folded, and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.frontend.load import load_model
from compiler.passes.tensors.fold_norms import Fold, fold_norms, folded
from netloom import predict
from tests.cpu.networks_for_use import samples, write_network

IMAGE = "{x: {shape: [4, 7, 6]}}"
FOLDED = {
    "conv": "conv2d: {name: w, filters: 6, kernel: 3, padding: same}",
    "without a bias": "conv2d: {name: w, filters: 6, kernel: 3, bias: false}",
    "groups": "conv2d: {name: w, filters: 6, kernel: 3, groups: 2}",
    "transposed": "conv_transpose2d: {name: w, filters: 6, kernel: 3, stride: 2}",
    "dense": "flatten: {}\ndense: {name: w, units: 6}",
}


@pytest.mark.parametrize("case", FOLDED)
def test_the_same_numbers(tmp_path: Path, case: str) -> None:
    layers = FOLDED[case] + "\nbatch_norm: {name: n, epsilon: 1e-2}\nactivation: {name: y, function: tanh}"
    path = write_network(tmp_path, IMAGE, layers, "numerics: {precision: float64}")
    network = load_model(path).network
    assert network is not None
    simple, folds, stands, decisions = fold_norms(network, ("y",))
    assert [f.layer for f in folds] == ["w"] and stands == {"n": "w"}
    assert [layer.kind for layer in simple.layers][-1] == "activation"
    assert ("n", "folded") in {(d.subject, d.verdict) for d in decisions}
    x = samples(path, 3)
    # Under `order: bitwise` norms stay as they are.
    plain, quick = (predict(path, x, target="reference", order=o, build_dir=tmp_path / o)["y"]
                    for o in ("bitwise", "reproducible"))  # fmt: skip
    np.testing.assert_allclose(quick, plain, rtol=1e-12, atol=1e-12)
    assert not np.array_equal(quick, plain)


def test_by_hand() -> None:
    w = {"c.weight": np.array([[2.0]]), "n.weight": np.array([3.0]), "n.bias": np.array([5.0]),
         "n.running_mean": np.array([7.0]), "n.running_var": np.array([3.0])}  # fmt: skip
    assert {k: v.item() for k, v in folded(w, (Fold("n", "c", 1.0, 0, False),)).items()} == {
        "c.weight": 2 * 3 / 2,
        "c.bias": (0 - 7) * 3 / 2 + 5,
    }


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ("max_pool2d: {name: w, size: 2}", "has no weights"),
        ("conv2d: {name: w, filters: 4, kernel: 3, activation: relu}", "has an activation"),
        ("permute: {axes: [0, 2, 1]}\nreshape: {shape: [4, 42]}\ndense: {name: w, units: 6}", "steps of a sequence"),
        ("conv_transpose2d: {name: w, filters: 4, kernel: 3, groups: 2}", "has groups"),
    ],
)
def test_what_stays(tmp_path: Path, layers: str, reason: str) -> None:
    path = write_network(tmp_path, IMAGE, f"{layers}\nbatch_norm: {{name: n}}")
    network = load_model(path).network
    assert network is not None
    simple, folds, _, decisions = fold_norms(network, ("n",))
    assert folds == () and simple == network
    assert any(d.subject == "n" and d.verdict == "not folded" and reason in d.reason for d in decisions)


def test_what_others_read_stays(tmp_path: Path) -> None:
    layers = "conv2d: {name: w, filters: 4, kernel: 3}\nbatch_norm: {name: n}\nadd: {name: y, inputs: [w, n]}"
    path = write_network(tmp_path, IMAGE, layers)
    network = load_model(path).network
    assert network is not None
    assert "is read by `n`, `y`" in fold_norms(network, ("y",))[3][0].reason
    alone = write_network(tmp_path, IMAGE, "\n".join(layers.splitlines()[:2]), name="alone")
    network = load_model(alone).network
    assert network is not None
    assert "kept for the host" in fold_norms(network, ("n", "w"))[3][0].reason


def test_dropout_goes(tmp_path: Path) -> None:
    path = write_network(tmp_path, IMAGE, "dropout: {rate: 0.5}\nflatten: {name: y}")
    network = load_model(path).network
    assert network is not None
    simple, _, _, decisions = fold_norms(network, ("y",))
    assert [layer.inputs for layer in simple.layers] == [("x",)]
    assert [d.verdict for d in decisions] == ["removed"]
