"""Emitted text as a reader sees it: names by meaning, formulas of the user, rows without columns that nothing reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backends.kernel_ir.layout import WIDTH
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower

MODELS = Path(__file__).resolve().parents[2] / "models"
LARGE = ("multi_area_structure", "ring_10k")


def emitted(name: str, target: str = "cpu") -> str:
    chosen = backend(target)
    return chosen.emit(lower(load_model(MODELS / f"{name}.yaml"), chosen.capabilities).merged)


@pytest.fixture(scope="module")
def lenet5() -> str:
    return emitted("lenet5")


def _kernels(text: str) -> list[str]:
    return re.split(r"/\* ---- k\d+  ", text)[1:]


def test_operands_are_called_after_what_they_are(lenet5: str) -> None:
    convolution = next(k for k in _kernels(lenet5) if k.startswith("conv1.activated"))
    row = convolution[: convolution.index("} k")]
    assert [x in row for x in ("activated_", "x_", "weight_", "bias_")] == [True] * 4


def test_lanes_stand_last_in_the_shape_of_an_operand(lenet5: str) -> None:
    shapes = re.findall(r"/\* real (\S[^*]*), (?:read|written)", lenet5)
    assert any("[lane]" in s for s in shapes)
    assert all(s.endswith("[lane]") for s in shapes if "[lane]" in s)


def test_rows_have_no_columns_that_nothing_reads(lenet5: str) -> None:
    for kernel in _kernels(lenet5):
        row, _, code = kernel.partition("_row;")
        for field in re.findall(r"\w+_(?=[,;])", row):
            assert f"self->{field}" in code, field


def test_guards_that_arrays_share_stand_once(lenet5: str) -> None:
    assert lenet5.count("= (i2 - r + y_grad_from2_) / 2;") == 1


def test_formulas_of_the_user_stand_above_their_lines() -> None:
    text = emitted("cuba")
    assert re.search(r"/\* cuba.yaml:\d+  dv/dt: \(v_rest - v \+ ge \+ gi\) / tau_m \*/\n *real v_next_ =", text)
    assert re.search(r"/\* cuba.yaml:\d+  when: v > v_thresh \*/\n *int spiked_ =", text)


def test_a_contraction_says_what_it_sums(lenet5: str) -> None:
    found = re.findall(r"^/\* ---- k\d+  (\S+): .*\n/\* (.*) \*/$", lenet5, re.MULTILINE)
    told = dict(found)
    assert told["conv1.activated"] == "acc = sum over c, r, s of x * weight; activated = relu(acc + bias)"
    assert told["max_pool2d.y.grad"] == "y_grad = sum over k, r, s of biased_grad * weight"
    assert "max_pool2d.y" not in told


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_lists_and_rows_of_synapses_have_axes(target: str) -> None:
    text = emitted("stdp", target)
    assert re.search(r"spikes_; /\* (nl_i32 )?\[slot\]\[event\], read \*/", text)
    assert re.search(r"buffer_; /\* (nl_i32 )?\[event\]\[2\], updated \*/", text)
    assert "[]" not in text[text.index("/* ==== kernels") :]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("cpu", sorted(p.stem for p in MODELS.glob("*.yaml") if p.stem not in LARGE)),
        ("opencl", ["cuba", "lenet5", "lstm", "stdp"]),
    ],
)
def test_lines_fit_on_a_page(target: str, names: list[str]) -> None:
    """Those of CUDA: test_cuda_emit.py."""
    assert [x for name in names for x in emitted(name, target).split("\n") if len(x) > WIDTH] == []


def test_a_network_is_read_in_one_sitting(lenet5: str) -> None:
    """LeNet-5 has fewer than 1,800 lines, and no sum over nothing."""
    assert lenet5.count("\n") < 1800
    assert "sum over :" not in lenet5
    assert "sum over  " not in lenet5
