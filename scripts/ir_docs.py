"""docs/ir.md: the three levels of the IR, from the modules that define them.

    python -m scripts.ir_docs

Assumes: docstrings of the dataclasses say in their first sentence what a node is; the specs of legality stand in the
headers of compiler/verify.
Guarantees: the same page for the same code; every node of compiler/ir/text.py that has a name in the text is there.
Does not: explain passes (docs/architecture.md).
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from backends.cpu.backend import CpuBackend
from compiler.core.source import Span
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.level1.graph import TensorGraph, Weight
from compiler.ir.text import print_ir
from compiler.passes.pipeline.lower import Lowered, lower

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ir.md"
IR = "compiler.ir"


@dataclass(frozen=True)
class Level:
    """A chapter: what is said of a level, the modules of its nodes, and those of its legality."""

    text: str
    nodes: tuple[str, ...]
    specs: tuple[str, ...]


START = """\
# The IR

<!-- Written by `python -m scripts.ir_docs`, from the code; change it there. -->

A model is the same thing at three levels: as it was written (0), as pure functions (1), as kernels over arrays (2).
All nodes are frozen dataclasses with structural equality; the place in the file that a node came from (`span`) is no
part of it. `netloom show MODEL --stage after:PASS` prints the level that a pass left; with `--verify` each level that a
pass made is held against its spec below. A breach is a fault of the compiler, never of a model file.

## The text

`compiler/ir/text.py`; `tests/parse_ir.py` reads it back exactly, floats and vectors included. Tests use it as input
(`tests/passes`). Fields at their default are left out. Below, each node is shown with its fields and the first sentence
of its docstring, which says more.

| text | what it is |
| --- | --- |
| `Dim(i, n)`, `Kernel(name="exc: update", ...)` | a node: fields without default by position where it fits on a line, else all by name |
| `exc.v`, `"a -> b"`, `3`, `0.1`, `-inf`, `true`, `none` | strings (quoted unless words), numbers, truth values, nothing |
| `[a, b]`, `{k: v}` | sequences and mappings |
| `` `v + 1.0` ``, ``` ``v + 20 ms`` ``` | expressions; doubled quotes where quantities with units stand in them |
| ``v <- `e` `` | `Set`: an assignment of levels 0 and 1 |
| ``v := `e` ``, ``v += `e` `` | `Assign` and `Add` of level 2 |
| `<2*o + k; -1>/2` | an affine index: terms, constant, divisor |
| `@[<2*oy + ky; pad>/2:h*w]`, `@post`, `@whole` | accesses: strided (extent and stride behind the index), at an end of a synapse, by the kernel's structure |
| `#f64[0.5, 1.0]`, `#u8(2, 2)[0, 1, 1, 0]` | vectors and arrays of numbers |
| `graph.Contract(...)` | a name that two modules have, with its module |

Expressions (`compiler/expr/ast.py`) are numbers, truth values, quantities, names, `-` and `not`, arithmetic, comparisons,
`and` and `or`, `a if c else b`, and calls; level 1 and 2 have no units.
"""  # noqa: E501

LEVELS = (
    Level(
        """\
## Level 0: the model

A typed mirror of the file. Names are bound, expressions are parsed and checked for units; numbers are in canonical
units (ms, mV, pA, nS, pF, GOhm, um, mM). Nothing has an effect: it is what was said.
""",
        ("level0.model", "level0.values", "level0.spiking", "level0.synapses", "level0.tensors"),
        ("model", "control", "synapses"),
    ),
    Level(
        """\
## Level 1: the graph

Pure. A neuron model is a function of its state and inputs (`Cell`); the layers of a phase are tensors in single
assignment (`TensorGraph`), on which gradients are made. Families of projections know how their synapses are held and
what their spikes deliver (`StoredProjection`), and a synapse model is a list of operations in the stages of a step
(`SynapseCell`, `compiler/ir/level1/stages.py`). The only effects are `Store` and `Update`, at the end of a
phase; random numbers have a key and a counter, so that they are no effect either.
""",
        ("level1.graph", "level1.cells", "level1.spiking", "level1.synapses"),
        ("graph", "cells", "projections"),
    ),
    Level(
        """\
## Level 2: the program

Kernels over arrays. Effects are declared: each array formal has a mode (`r` reads, `w` writes, `rw` reads and writes,
`acc` adds), and rows of a launch may not touch what another of its rows writes. A kernel is written over formals, its
rows are data; merged, kernels of one text are one `Template` with a table of rows, and backends print the templates.
An order class (`fast`, `reproducible`, `bitwise`) says how far sums may be reordered.
""",
        ("level2.program", "level2.nests", "level2.relations"),
        ("kernel", "program"),
    ),
)


def page() -> str:
    """The text of docs/ir.md."""
    parts = [START]
    for level, example in zip(LEVELS, (_model, _graph, _program), strict=True):
        parts += [level.text]
        for name in level.nodes:
            path = f"{IR}.{name}".replace(".", "/")
            parts += [f"### Nodes of `{path}.py`\n", *_nodes(f"{IR}.{name}"), ""]
        parts += ["### Legality\n"]
        parts += [f"`compiler/verify/{name}.py`:\n\n```text\n{_spec(name)}\n```\n" for name in level.specs]
        parts += ["### An example\n", *(f"{what}:\n\n```text\n{_rounded(text)}\n```\n" for what, text in example())]
    return "\n".join(parts)


# ------------------------------------------------------------------------------------- from the modules


def _nodes(module: str) -> Iterator[str]:
    for cls in vars(importlib.import_module(module)).values():
        if not isinstance(cls, type) or cls.__module__ != module:
            continue
        said = _first_sentence(cls.__doc__ or "")
        if dataclasses.is_dataclass(cls):
            fields = ", ".join(f.name for f in dataclasses.fields(cls) if f.type not in (Span, "Span", "Final[Span]"))
            said = "" if (cls.__doc__ or "").startswith(f"{cls.__name__}(") else said  # what dataclasses write
            yield f"* **{cls.__name__}**({fields})" + (f": {said}" if said else "")
        elif issubclass(cls, Enum):
            values = ", ".join(f"`{x.value}`" for x in cls)
            yield f"* **{cls.__name__}**: one of {values}"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    return re.split(r"(?<=[^.]{3}\.) (?=[A-Z`])", line, maxsplit=1)[0]


def _spec(name: str) -> str:
    """What stands under `Guarantees` in the header of a verifier."""
    header = importlib.import_module(f"compiler.verify.{name}").__doc__ or ""
    found = re.search(r"^Guarantees: (.*?)^Does not", header, re.DOTALL | re.MULTILINE)
    assert found is not None, f"the header of verify/{name}.py has no spec"
    return found[1].rstrip()


# ------------------------------------------------------------------------------------------- examples


@cache
def _lowered(name: str) -> Lowered:
    return lower(_loaded(name), CpuBackend().capabilities)


def _loaded(name: str) -> Model:
    return load_model(ROOT / "models" / f"{name}.yaml", shown=f"models/{name}.yaml")


def _rounded(text: str) -> str:
    """Long decimals to 12 digits: matrix exponentials may differ in the last bit between machines."""
    return re.sub(r"-?\d+\.\d{12,}(?:e-?\d+)?", lambda m: f"{float(m[0]):.12g}", text)


def _model() -> Iterator[tuple[str, str]]:
    model = _loaded("brunel")
    yield "The neuron of `models/brunel.yaml`", print_ir(model.populations[0].neuron)
    yield "Its first projection", print_ir(model.projections[0])


def _graph() -> Iterator[tuple[str, str]]:
    spiking = _lowered("brunel").spiking
    assert spiking is not None
    yield "The same neuron, integrated: a linear equation has become a propagator", print_ir(spiking.cells[0])
    graph = _lowered("custom_optimizer").tensors[0]
    first = next(i for i, n in enumerate(graph.nodes) if isinstance(n, Weight))
    few = TensorGraph(graph.phase, graph.nodes[: first + 4], ())
    yield "The first layer of `models/custom_optimizer.yaml`", print_ir(few)


def _program() -> Iterator[tuple[str, str]]:
    lowered = _lowered("brunel")
    kernel = next(k for k in lowered.program.kernels if "neuron update" in k.name)
    yield "The kernel of that neuron, with a row for each population", print_ir(kernel)
    yield "The launches of a step, merged", print_ir(next(p for p in lowered.merged.phases if p.name == "step"))


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
