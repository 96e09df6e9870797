"""Embeddings as gathers and scatter-adds: bitwise equal on every backend, without one-hot vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.ir.level0.model import Model
from compiler.ir.level2.program import Contract, Merged, Nest
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of
from tests.numeric.trained import Trained, load

TEXT = """\
language: 1
name: words
network:
  inputs: {words: {shape: [STEPS], dtype: int32}, label: {shape: [], dtype: int32}}
  layers:
    - embedding: {name: table, inputs: words, count: COUNT, size: SIZE}
    - positions: {encoding: trained}
    - layer_norm: {}
    - flatten: {}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {words: words, label: labels}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 6
  epochs: 1
  seed: 1
numerics: {order: ORDER}
"""


def write(folder: Path, count: int = 7, size: int = 5, steps: int = 4, order: str = "bitwise") -> str:
    rng = np.random.default_rng(3)
    words = rng.integers(0, count, (18, steps)).astype(np.int32)
    np.savez(folder / "samples.npz", words=words, labels=rng.integers(0, 3, 18).astype(np.int32))
    text = TEXT.replace("COUNT", str(count)).replace("SIZE", str(size)).replace("STEPS", str(steps))
    return text.replace("ORDER", order)


def program(model: Model, target: str, ordered: bool | None = None) -> Merged:
    """`ordered`: whether additions of one launch have an order, where it is not as the target says."""
    known = backend(target).capabilities
    if ordered is not None:
        known = replace(known, atomic_order=ordered)
    return lower(model, known, verify=True).merged


def two_steps(trained: Trained) -> dict[str, bytes]:
    trained.step(1, range(6))
    trained.step(2, range(6, 10))
    return {name: value.tobytes() for name, value in trained.weights().items()}


@pytest.mark.usefixtures("cc", "little_optimized")
def test_cpu_is_the_reference(tmp_path: Path) -> None:
    text = write(tmp_path)
    cpu, reference = (load(text, tmp_path, target) for target in ("cpu", "reference"))
    start = cpu.read("table.weight")
    assert two_steps(cpu) == two_steps(reference)
    assert not np.array_equal(start, cpu.read("table.weight"))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_rows_are_read_where_they_stand(tmp_path: Path, target: str) -> None:
    """No sum over all rows of the table is left."""
    merged = program(model_of(write(tmp_path), tmp_path), target)
    (read,) = (t for t in merged.templates if t.name.endswith(": rows"))
    assert isinstance(read.body, Nest)
    assert not [t.name for t in merged.templates if isinstance(t.body, Contract) and t.name.startswith("table")]


@pytest.mark.parametrize(("target", "classes", "read"), [("cpu", 40, 1), ("cuda", 40, 0), ("cuda", 9000, 1)])
def test_the_right_class_is_read_where_it_stands(tmp_path: Path, target: str, classes: int, read: int) -> None:
    """A loss does not pass over all classes to find one, except where its threads have them."""
    text = write(tmp_path, order="reproducible").replace("units: 3", f"units: {classes}")
    merged = program(model_of(text, tmp_path), target)
    assert sum(t.name.endswith("picked: elements") for t in merged.templates) == read


def test_a_row_is_summed_once(tmp_path: Path) -> None:
    """By the first position that asks for it; others only look whether an earlier one does."""
    merged = program(model_of(write(tmp_path), tmp_path), "cuda")
    (sums,) = (t for t in merged.templates if "sums of rows" in t.name)
    text = backend("cuda").emit(merged)
    begin = text.index(f"void k{sums.index}_sums_of_rows_block")
    assert "nl_earlier = __syncthreads_or(" in text[begin : text.index("extern", begin)]


def test_sums_of_places_are_additions_in_order(tmp_path: Path) -> None:
    """The fallback of targets without ordered additions is bitwise equal."""
    model = model_of(write(tmp_path), tmp_path)
    found = []
    for ordered in (True, False):
        merged = program(model, "reference", ordered)
        (sums,) = (t for t in merged.templates if "sums of rows" in t.name)
        assert isinstance(sums.body, Nest) and (sums.body.combine is None) == ordered
        chosen = backend("reference")
        instance = chosen.load(chosen.build(merged, tmp_path / "build", {}), merged, 1)
        order = next(a for a in merged.arrays if a.name == "train.order")
        for step in (1, 2):
            instance.write("train.order", np.resize(np.arange(6 * step - 6, 6 * step, dtype=np.int32), order.shape))
            instance.run("train", step, 1)
        found.append(instance.read("table.weight").tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_one_text_for_every_size(tmp_path: Path, target: str) -> None:
    chosen = backend(target)
    sizes = ({}, {"count": 900}, {"size": 12}, {"steps": 9})
    texts = [chosen.emit(program(model_of(write(tmp_path, **s), tmp_path), target)) for s in sizes]
    assert texts == texts[:1] * len(sizes)


@pytest.mark.usefixtures("cc", "little_optimized")
def test_many_words(tmp_path: Path) -> None:
    """50,000 words of 64 numbers: nothing is larger than the table, and a step changes the rows that it read alone."""
    count, size, steps = 50_000, 64, 4
    text = write(tmp_path, count, size, steps, "reproducible")
    trained = load(text, tmp_path)
    merged = program(model_of(text, tmp_path), "cpu")
    assert max(a.physical_size for a in merged.arrays) == count * size
    with np.load(tmp_path / "samples.npz") as file:
        read = np.unique(file["words"][:6])
    start = trained.read("table.weight")
    trained.step(1, range(6))
    changed = np.flatnonzero((trained.read("table.weight") != start).any(1))
    assert changed.tolist() == read.tolist()


@pytest.mark.nvrtc
def test_cuda_compiles(tmp_path: Path) -> None:

    target = backend("cuda")
    merged = program(model_of(write(tmp_path), tmp_path), "cuda")
    assert target.build(merged, tmp_path / "build", {"arch": "sm_90"}).binary.stat().st_size > 0


@pytest.mark.gpu
def test_cuda_is_the_reference(tmp_path: Path) -> None:
    text = write(tmp_path)
    assert two_steps(load(text, tmp_path, "cuda")) == two_steps(load(text, tmp_path, "reference"))
