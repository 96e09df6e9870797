"""Connectivity, shapes and storage in the frontend: the resulting level 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from compiler.expr.ast import show
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Const, Distribution, FromFile, Listed, Planes, Projection
from compiler.ir.level2.target import Capabilities
from compiler.passes.pipeline.lower import lower

CELLS = """
language: 1
params: {reach: {type: int, value: 2}, sigma: {value: 2.5}, mirror: {type: bool, value: true}}
neurons:
  cell: {state: {v: 0}, inputs: {g: {}}, update: [v = v + g], spike: {when: v > 1, reset: [v = 0]}}
populations:
  a: {neuron: cell, shape: [2, 6, 8]}
  b: {neuron: cell, shape: [3, 4, 6]}
  half: {neuron: cell, shape: [2, 3, 4]}
  line: {neuron: cell, size: 9}
"""
END = "simulate: {dt: 0.5 ms, duration: 20 ms, seed: 2}\n"


def projection(
    folder: Path, connect: str, to: str = "b", source: str = "a", weight: str = "1", more: str = ""
) -> Projection:
    text = f"{CELLS}projections:\n  p:\n    from: {source}\n    to: {to}\n    connect: {connect}\n"
    text += f"    deliver: {{into: g, weight: {weight}}}\n{more}{END}"
    (folder / "m.yaml").write_text(text)
    return load_model(folder / "m.yaml", {}).projections[0]


def test_shapes(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(CELLS + END)
    found = {p.name: (p.size, p.shape) for p in load_model(tmp_path / "m.yaml", {}).populations}
    assert found == {"a": (96, (2, 6, 8)), "b": (72, (3, 4, 6)), "half": (24, (2, 3, 4)), "line": (9, ())}


def test_numbers_of_fixed_rules(tmp_path: Path) -> None:
    found = projection(tmp_path, "{fixed_indegree: {number: n_from / 4, multapses: false}}")
    assert (found.rule, found.storage) == ("fixed_indegree", "auto")
    assert dict(found.members[0].args) == {"number": 24, "multapses": 0, "autapses": 1}
    found = projection(tmp_path, "{fixed_outdegree: {number: 5, autapses: false, storage: sparse}}", to="a")
    assert (found.rule, found.storage) == ("fixed_outdegree", "sparse")
    assert dict(found.members[0].args) == {"number": 5, "multapses": 1, "autapses": 0}
    # the largest numbers that are possible
    for rule, number in (("fixed_indegree", 95), ("fixed_outdegree", 95), ("fixed_total", 96 * 95)):
        connect = f"{{{rule}: {{number: {number}, multapses: false, autapses: false}}}}"
        assert len(projection(tmp_path, connect, to="a").members) == 1


def test_expressions(tmp_path: Path) -> None:
    connect = '{rule: {probability: "exp(-distance / sigma) if mirror else reach / n_to", when: c_i == c_j}}'
    found = projection(tmp_path, connect, to="a")
    assert found.rule == "expression" and found.probability is not None
    args = dict(found.members[0].args)
    assert (
        args.items() >= {"w_from": 8, "h_from": 6, "w_to": 8, "h_to": 6, "sigma": 2.5, "reach": 2, "mirror": 1}.items()
    )
    assert isinstance(args["reach"], int) and isinstance(args["sigma"], float)
    text = show(found.probability)
    assert "distance" not in text and "sqrt(" in text and "mirror != 0" in text and "c_i == c_j" in text
    spaced = projection(tmp_path, "{rule: {when: distance < 50 um, spacing: 20 um, periodic: true}}", to="a")
    assert dict(spaced.members[0].args)["spacing"] == 20.0
    assert spaced.probability is not None and "w_to" in show(spaced.probability)
    line = projection(tmp_path, "{rule: {when: abs(x_i - x_j) < 2}}", source="line", to="line")
    assert dict(line.members[0].args) == {"autapses": 1, "w_from": 9, "h_from": 1, "w_to": 9, "h_to": 1}


@pytest.mark.parametrize(
    ("connect", "to", "planes"),
    [
        ("{conv2d: {kernel: 3}}", "b", Planes((3, 3), (1, 1), (0, 0))),
        ("{conv2d: {kernel: [4, 2], stride: [1, 2], padding: [1, 0], depthwise: true}}", "c", None),
        ("{avg_pool2d: {size: 2}}", "half", Planes((2, 2), (2, 2), (0, 0), True, True)),
        ("{avg_pool2d: {size: [4, 3], stride: 1}}", "half2", None),
    ],
)
def test_planes(tmp_path: Path, connect: str, to: str, planes: Planes | None) -> None:
    extra = {"c": "shape: [2, 5, 4]", "half2": "shape: [2, 3, 6]"}
    global_cells = CELLS + "".join(f"  {n}: {{neuron: cell, {s}}}\n" for n, s in extra.items())
    text = (
        f"{global_cells}projections:\n  p: {{from: a, to: {to}, connect: {connect}, deliver: {{into: g, weight: 6}}}}\n"
    )
    (tmp_path / "m.yaml").write_text(text + END)
    found = load_model(tmp_path / "m.yaml", {}).projections[0]
    assert found.planes is not None and (planes is None or found.planes == planes)
    window = found.planes.kernel[0] * found.planes.kernel[1] if found.rule == "avg_pool2d" else 1
    assert found.members[0].weight == Const(6.0 / window)
    if to == "c":
        assert found.planes == Planes((4, 2), (1, 2), (1, 0), True)


def test_kernels(tmp_path: Path) -> None:
    """A list, an array of the full shape or a flat one, a distribution."""
    kernel = np.arange(3 * 2 * 3 * 3, dtype=np.float64)
    np.savez(tmp_path / "k.npz", full=kernel.reshape(3, 2, 3, 3), flat=kernel)
    for array in ("full", "flat"):
        found = projection(tmp_path, "{conv2d: {kernel: 3}}", weight=f"{{file: k.npz, array: {array}}}")
        assert isinstance(found.members[0].weight, FromFile)
    found = projection(tmp_path, "{conv2d: {kernel: 3}}", weight=str([float(x) for x in kernel]))
    assert found.members[0].weight == Listed(tuple(kernel.tolist()))
    found = projection(tmp_path, "{conv2d: {kernel: 3}}", weight="{normal: {mean: 1, std: 2}}")
    assert isinstance(found.members[0].weight, Distribution)


@pytest.mark.parametrize(
    ("connect", "to", "storage"),
    [
        ("{conv2d: {kernel: 3, storage: toeplitz}}", "b", "toeplitz"),
        ("{conv2d: {kernel: 3, storage: procedural}}", "b", "toeplitz"),
        ("{conv2d: {kernel: 3, storage: sparse}}", "b", "sparse"),
        ("{all_to_all: {storage: dense}}", "b", "dense"),
        ("{all_to_all: {storage: bitmask}}", "b", "bitmask"),
        ("{one_to_one: {storage: sparse}}", "a", "sparse"),
        ("{fixed_probability: {p: 0.1, storage: procedural}}", "b", "procedural"),
        ("{fixed_outdegree: {number: 9, storage: procedural}}", "b", "procedural"),
        ("{rule: {when: i == j, storage: bitmask}}", "b", "bitmask"),
        ("{pairs: {list: [[0, 1]], storage: sparse}}", "b", "sparse"),
    ],
)
def test_storage(tmp_path: Path, connect: str, to: str, storage: str) -> None:
    assert projection(tmp_path, connect, to=to).storage == storage


def test_pairs_from_sonata(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "e.h5", "w") as file:
        for name, pairs in (("one", [(3, 1), (0, 2), (3, 0)]), ("two", [(5, 5)])):
            group = file.create_group(f"edges/{name}")
            group["source_node_id"], group["target_node_id"] = np.array(pairs, np.uint64).T
            group["0/syn_weight"] = np.arange(len(pairs)) + 0.5
    found = projection(
        tmp_path, "{pairs: {file: e.h5, population: one}}", weight="{file: e.h5, array: edges/one/0/syn_weight}"
    )
    assert found.pair_lists == (((3, 1), (0, 2), (3, 0)),)
    assert isinstance(found.members[0].weight, FromFile)
    program = lower(load_model(tmp_path / "m.yaml", {}), Capabilities("reference", 0, True, frozenset()), True).merged
    assert program.constants["p[a->b].weight"].tolist() == [1.5, 2.5, 0.5]  # as stored: source by source
    order: Any = program.constants["p[a->b]'order"]
    back = np.empty(3)
    back[order] = program.constants["p[a->b].weight"]
    assert back.tolist() == [0.5, 1.5, 2.5]
    connect = "{pairs: {file: e.h5, sources: edges/two/source_node_id, targets: edges/two/target_node_id}}"
    assert projection(tmp_path, connect).pair_lists == (((5, 5),),)


def test_pairs_and_weights_from_one_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("pre,post,w\n0,1,0.25\n0,3,-1\n2,0,8\n")
    found = projection(
        tmp_path, "{pairs: {file: t.csv, sources: pre, targets: post}}", weight="{file: t.csv, array: w}"
    )
    assert found.pair_lists == (((0, 1), (0, 3), (2, 0)),)
    program = lower(load_model(tmp_path / "m.yaml", {}), Capabilities("reference", 0, True, frozenset()), True).merged
    assert program.constants["p[a->b].weight"].tolist() == [0.25, -1, 8]
    assert "p[a->b].order" not in program.constants  # they stand in storage order already


RULES = {
    "fixed_indegree": "{fixed_indegree: {number: 7, multapses: false}}",
    "fixed_outdegree": "{fixed_outdegree: {number: 7}}",
    "fixed_total": "{fixed_total: {number: 70, multapses: false}}",
    "rule": '{rule: {probability: "exp(-distance / sigma)", periodic: true, when: "c_i == c_j or mirror"}}',
    "condition": "{rule: {when: x_i + reach > y_j and i != j}}",
}


@pytest.mark.nvrtc
@pytest.mark.parametrize("order", ["fast", "reproducible", "bitwise"])
def test_every_rule_compiles_for_cuda(tmp_path: Path, order: str) -> None:
    entries = "".join(
        f"  {n}: {{from: a, to: a, connect: {c}, deliver: {{into: g, weight: 1}}}}\n" for n, c in RULES.items()
    )
    (tmp_path / "m.yaml").write_text(f"{CELLS}projections:\n{entries}{END}numerics: {{order: {order}}}\n")
    program = lower(load_model(tmp_path / "m.yaml", {}), CudaBackend().capabilities, True).merged
    emitted = emit(program)
    assert "nl__shuffled_once(" in emitted.text and "x_i" in emitted.text
    assert compile_text(emitted, "rules", order == "bitwise", "sm_90").binary.stat().st_size > 1000


def test_a_delay_for_each_pair(tmp_path: Path) -> None:
    """In the user's order at level 0, in storage order below; inline and from a column."""
    (tmp_path / "t.csv").write_text("pre,post,late\n5,1,2.5\n0,3,0\n2,0,1\n")
    pairs = "{pairs: {file: t.csv, sources: pre, targets: post}}"
    for delay in ("{file: t.csv, array: late}", "[2.5 ms, 0 ms, 1 ms]"):
        found = projection(tmp_path, pairs, more=f"    delay: {delay}\n")
        assert found.members[0].delays == Listed((5, 0, 2)) and found.members[0].delay == 5
        model = load_model(tmp_path / "m.yaml", {})
        program = lower(model, Capabilities("reference", 0, True, frozenset()), True).merged
        late = program.constants["p[a->b]'delay"]
        assert late.dtype == np.uint8 and late.tolist() == [0, 2, 5]


def test_one_to_one_without_itself(tmp_path: Path) -> None:
    """Between several populations, each is connected to all others."""
    cell = "{state: {v: 0}, inputs: {g: {}}, update: [v = v + g], spike: {when: v > 1, reset: [v = 0]}}"
    text = f"language: 1\nneurons: {{cell: {cell}}}\npopulations: {{a: {{neuron: cell, size: 4}}, "
    text += "b: {neuron: cell, size: 4}}\nprojections:\n  p: {from: all, to: all, connect: {one_to_one: "
    text += "{autapses: false}}, deliver: {into: g, weight: 1}}\nsimulate: {dt: 1 ms, duration: 1 ms}\n"
    (tmp_path / "m.yaml").write_text(text)
    members = load_model(tmp_path / "m.yaml", {}).projections[0].members
    assert [(m.source, m.target) for m in members] == [("a", "b"), ("b", "a")]
