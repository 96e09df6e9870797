"""In-place results that reuse the arrays of their operands: when it is legal, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from compiler.ir.level1.graph import Map, Node, Reindex, Store, Variable
from compiler.ir.level2.program import ArrayFormal, Assign, Merged, Mode, Nest
from compiler.layout.memory_report import memory_bill
from compiler.layout.plan_memory import place
from compiler.passes.fusion.fuse_epilogues import Epilogue
from compiler.passes.fusion.reuse_arrays import reused
from compiler.passes.kernels import lower_tensors
from compiler.passes.pipeline.lower import lower
from tests.cpu.test_layers import HEAD, NETS, TAIL, write
from tests.numeric.simulated import model_of
from tests.numeric.trained import load
from tests.unit.test_fuse_siblings import feed, made, tensor


def taken(*nodes: Node, outputs: tuple[str, ...] = (), joined: tuple[str, ...] = ()) -> dict[str, str]:
    """Result -> whose array it takes, when each map is a kernel but those that are `joined`."""
    maps = [n for n in nodes if isinstance(n, Map)]
    group = tuple(m for m in maps if m.out.name in joined)
    kernels = [(m,) for m in maps if m not in group] + ([group] if group else [])
    groups = {k[0].out.name: Epilogue(k, frozenset(m.out.name for m in k)) for k in kernels}
    return reused(nodes, outputs, {}, {}, groups, {})[0]


def test_a_value_that_nothing_reads_afterwards() -> None:
    """Not what comes from outside, nor what leaves the phase."""
    assert taken(feed("image"), made("x", "image"), made("y", "x"), made("z", "y"), outputs=("z",)) == {"y": "x"}


def test_read_earlier_is_read_no_longer() -> None:
    nodes = (feed("image"), made("x", "image"), made("across", "x", axes=(1, 0), shape=(5, 4)), made("y", "x"))
    assert taken(*nodes, outputs=("across",)) == {"y": "x"}
    later = (*nodes[:2], nodes[3], nodes[2])
    assert taken(*later, outputs=("across",)) == {}


@pytest.mark.parametrize(
    "nodes",
    [
        (made("y", "x", axes=(1, 0), shape=(5, 4)),),  # each point reads another's element
        (Reindex(tensor("flat", (20,)), "x"), made("y", "x"), made("z", "flat", axes=(0,), shape=(20,))),
        (made("y", "x"), Variable(tensor("v"), 0.0), Store("v", "x")),
    ],
)
def test_what_stays(nodes: tuple[Node, ...]) -> None:
    assert taken(feed("image"), made("x", "image"), *nodes, outputs=("y", "z")) == {}
    assert "y" not in taken(feed("image"), made("x", "image"), *nodes)


def test_each_array_is_taken_once() -> None:
    nodes = (feed("image"), made("a", "image"), made("b", "image"), made("y", "a", "b"), made("z", "b"), made("w", "a"))
    assert taken(*nodes, joined=("y", "z", "w")) == {"y": "a", "z": "b"}


GATED = """\
    - conv2d: {name: a, filters: 4, kernel: 3, padding: 1}
    - global_avg_pool: {name: mean}
    - reshape: {name: gate, shape: [4, 1, 1]}
    - map: {up: a * sigmoid(gate)}
    - map: {down: a - gate}
    - max_pool2d: {name: of_up, inputs: up, size: 2}
    - max_pool2d: {name: of_down, inputs: down, size: 2}
    - concat: {inputs: [of_up, of_down]}
"""


def text_of(layers: str, shape: tuple[int, ...]) -> str:
    tail = TAIL.replace("shuffle: false}", "shuffle: false, split: {validation: 0.5}}")
    return HEAD.replace("SHAPE", str(list(shape))) + layers + tail + "numerics: {order: bitwise}\n"


def merged(text: str, folder: Path) -> Merged:
    return lower(model_of(text, folder), CpuBackend().capabilities, verify=True).merged


def test_a_value_that_two_maps_of_the_kernel_read(tmp_path: Path) -> None:
    """`up` is written where `a` was, which `down` reads, too: from a local."""
    write(tmp_path, (2, 4, 4))
    program = merged(text_of(GATED, (2, 4, 4)), tmp_path)
    kernels = [t for t in program.templates if t.name.startswith("up.y: elementwise")]
    kernel = next(t for t in kernels if any(isinstance(f, ArrayFormal) and f.mode is Mode.UPDATE for f in t.formals))
    assert isinstance(kernel.body, Nest)
    assert [s.target for s in kernel.body.prologue if isinstance(s, Assign)] == ["v0", "y", "y1"]
    rows = program.tables[kernel.index]
    assert rows.arrays["y"] == ("eval/a.biased",)
    bill = memory_bill(program, place(program, {}), {})
    assert "eval/a.biased" in bill.in_place and not any(b.array.name == "eval/up.y" for b in bill.arrays)


@pytest.mark.parametrize("name", ["gated", "images", "branches"])
def test_the_same_bits_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Training and validation, on the reference."""
    compare(tmp_path, monkeypatch, name, "reference")


@pytest.mark.usefixtures("cc")
def test_the_same_bits_in_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(tmp_path, monkeypatch, "gated", "cpu")


def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: str) -> None:
    shape, layers = ((2, 4, 4), GATED) if name == "gated" else NETS[name]
    write(tmp_path, shape)
    text = text_of(layers, shape)
    ours = load(text, tmp_path, target)
    monkeypatch.setattr(lower_tensors, "reused", lambda *_: ({}, []))
    theirs = load(text, tmp_path, target)
    assert len(ours.program.arrays) < len(theirs.program.arrays)
    for one in (ours, theirs):
        one.step(1, range(6))
        one.step(2, range(4))
        one.step(1, range(5), "eval")
    for key, value in theirs.weights().items():
        assert value.tobytes() == ours.weights()[key].tobytes(), key
    assert ours.metric("loss") == theirs.metric("loss") != 0
