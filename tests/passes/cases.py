"""Test cases of passes: an input text, and the output of the pass.

A case is a file `PASS.NAME.txt`: a line `// acts` or `// leaves`, lines `// ...` that say why, the input, a line
`// -----` and the output of the pass (where it leaves the input unchanged: its decisions, if any). The input is IR (a
graph, or programs with `// and` between them) on which the pass runs alone, or a model on which all passes up to this
one run. Words after `// acts` and `// leaves` are the target (default: cpu) and `predict` for the use of a network.

Assumes: IR texts contain what the pass requires; models read `samples.npz` of the same folder.
Guarantees: the output for IR is its text; for a model, each new level, and the diff of each changed one.
Does not: compare.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from backends.registry import backend
from compiler.core.diagnostics import ModelError
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model, Network
from compiler.ir.level1.graph import TensorGraph
from compiler.ir.level2.program import Merged, Order, Program
from compiler.ir.space import DType
from compiler.ir.text import print_ir
from compiler.passes import passes_for
from compiler.passes.pipeline.lower import lower, lower_predict
from compiler.passes.pipeline.manager import Context, Lowering, PhaseGraph, Ran, run_passes
from compiler.verify.verify import verify_graph, verify_program
from tests.parse_ir import parse_ir

HERE = Path(__file__).resolve().parent
CUT, AND = "\n// -----\n", "\n// and\n"
BATCH = 4


@dataclass(frozen=True)
class Case:
    """`words`: the target, and `predict`; `head`: the lines before the input."""

    path: Path
    acts: bool
    words: frozenset[str]
    head: str
    input: str
    expected: str

    @property
    def name(self) -> str:
        """Of the pass."""
        return self.path.name.split(".")[0]


def read(path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    count = next(i for i, line in enumerate(lines) if not line.startswith("// "))
    what, *words = lines[0].removeprefix("// ").split()
    assert what in ("acts", "leaves"), f"{path}: the first line says neither `// acts` nor `// leaves`"
    given, _, expected = "".join(lines[count:]).partition(CUT)
    return Case(path, what == "acts", frozenset(words), "".join(lines[:count]), given.rstrip("\n"), expected)


def cases() -> list[Case]:
    """All of them, by name."""
    return [read(path) for path in sorted(HERE.glob("*.txt"))]


def result(case: Case, folder: Path) -> tuple[bool, str]:
    """Whether the pass changes a level, and what it makes of the input (nothing changed: its decisions)."""
    if case.input.startswith("language:"):
        return _of_model(case, folder)
    return _of_text(case)


# -------------------------------------------------------------------------------------------- IR as text


def _of_text(case: Case) -> tuple[bool, str]:
    given = [parse_ir(text) for text in case.input.split(AND)]
    target = backend(next(iter(case.words), "cpu")).capabilities
    if isinstance(given[0], TensorGraph):
        phase = given[0].phase
        context = Context(target, DType.F32, Order.FAST, phases=(phase,))
        for graph in given:
            verify_graph(graph)
        graphs = tuple(PhaseGraph(g.phase, g.nodes, g.outputs) for g in given)
        before = Lowering(cast(Model, None), "case", Network((), ()), graphs=graphs)
    else:
        context = Context(target, DType.F32, Order.FAST)
        before = Lowering(cast(Model, None), "case", programs=tuple(given))
    one = next(p for p in passes_for() if p.name == case.name)
    after = run_passes((one,), context, before)
    for g in after.graphs:
        verify_graph(g.graph)
    for program in after.programs:
        verify_program(program)
    levels: tuple[TensorGraph | Program, ...] = tuple(g.graph for g in after.graphs) or after.programs
    texts = [merged_text(after.merged)] if after.merged is not None else [print_ir(x) for x in levels]
    acts = after.merged is not None or list(levels) != given
    return acts, "".join(f"{line}\n" for line in [*(texts if acts else ()), *_decisions(after)])


def _decisions(ir: Lowering) -> list[str]:
    made = [*ir.decisions, *(d.within(g.phase) for g in ir.graphs for d in g.decisions)]
    return [f"// {d.subject}: {d.verdict}" + (f" ({d.reason})" if d.reason else "") for d in made]


def merged_text(merged: Merged) -> str:
    """Templates with the number of their rows, the launches of each phase, and what lies elsewhere in each step."""
    counted = zip(merged.templates, merged.tables, strict=True)
    lines = [f"{t.index} x {rows.count} {type(t.body).__name__} {t.name}" for t, rows in counted]
    for phase in merged.phases:
        lines.append(f"{phase.name}:")
        lines += [f"  {merged.templates[x.template].name} [{x.lo}, {x.hi})" for x in phase.launches]
        for x in phase.loops:
            words = [f"{x.steps} steps: {x.first} to {x.last}"]
            words += [f"{x.samples} samples apart"] if x.samples else []
            lines.append("  " + ", ".join([*words, *(["one launch"] if x.pays else [])]))
    for a in merged.arrays:
        if a.by_step:
            ring = f", {a.ring} of them" if a.ring else ""
            lines.append(f"{a.name}: from {a.first} in {a.within}, {a.by_step} on in each step{ring}")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------- models


def _of_model(case: Case, folder: Path) -> tuple[bool, str]:
    path = folder / "model.yaml"
    path.write_text(case.input, encoding="utf-8")
    draws = np.random.default_rng(1)
    x = draws.integers(0, 9, (8, 4)).astype(np.float32)
    np.savez(folder / "samples.npz", x=x, wide=x.reshape(8, 1, 2, 2), long=x, label=np.arange(8, dtype=np.int32) % 3)
    model = load_model(path, shown=case.path.name)
    parts = _parts(Lowering(model, model.name))
    found: list[tuple[bool, str]] = []

    def observe(ran: Ran) -> None:
        nonlocal parts
        before, parts = parts, _parts(ran.ir)
        if ran.name == case.name and not found:
            found.append(_changes(before, parts))

    target = backend(next(iter(case.words - {"predict"}), "cpu")).capabilities
    try:
        if "predict" in case.words:
            lower_predict(model, target, BATCH, observe=observe)
        else:
            lower(model, target, observe=observe)
    except ModelError as error:
        return True, "".join(f"{d.code}: {d.message}\n" for d in error.diagnostics)
    return found[0] if found else (False, "")


def _parts(ir: Lowering) -> Mapping[str, str]:
    """Texts of the levels, as they are now (a graph that is being built changes)."""
    found = {"model": print_ir(ir.model)}
    if ir.spiking is not None:
        found |= {f"cell {c.name}": print_ir(c) for c in ir.spiking.cells}
        found |= {f"source {x.cell.name}": print_ir(x) for x in ir.spiking.sources}
        found |= {f"population {x.name}": print_ir(x) for x in ir.spiking.instances}
        found |= {f"history {x.population}.{x.variable}": print_ir(x) for x in ir.spiking.past}
        found |= (
            {"turns": "\n".join(map(print_ir, (*ir.spiking.before, *ir.spiking.turns)))} if ir.spiking.turns else {}
        )
        found |= {f"synapse {k} {c.definition.name}": print_ir(c) for k, c in enumerate(ir.spiking.synapses)}
        found |= {f"projection {p.name}": print_ir(p) for p in ir.spiking.projections}
    if ir.data is not None:
        rows = [f"{name}: {a.dtype} {list(a.shape)}" for name, a in ir.data.arrays.items()]
        found["data"] = "\n".join([*rows, *(f"rows of {phase}: {n}" for phase, n in ir.data.rows.items())])
    for g in ir.graphs:
        nodes = g.nodes or (*(g.layers.graph.nodes if g.layers is not None else ()), *g.marks)
        found[f"graph {g.phase}"] = print_ir(TensorGraph(g.phase, tuple(nodes), g.outputs))
    for k, program in enumerate(ir.programs):
        found[f"program {k}"] = print_ir(replace(program, constants={}))
    if ir.merged is not None:
        found["merged"] = merged_text(ir.merged)
    return found | ({"decisions": "\n".join(_decisions(ir))} if _decisions(ir) else {})


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[bool, str]:
    lines: list[str] = []
    for name, text in after.items():
        if name not in before:
            lines += [f"==== {name}", text]
        elif before[name] != text:
            both = before[name].splitlines(), text.splitlines()
            lines += [f"==== {name}", *list(difflib.unified_diff(*both, lineterm="", n=1))[2:]]
    changed = any(before.get(name) != text for name, text in after.items() if name != "decisions")
    return changed, "".join(f"{line}\n" for line in lines)
