"""Golden text of the IR and of the emitted C and CUDA: the effects of a compiler change are visible in review.

`make golden` (or `pytest --update-golden tests/golden`) writes the files again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from compiler.frontend.load import load_model
from compiler.ir.text import print_ir
from compiler.passes.pipeline.lower import Lowered, lower, lower_predict
from compiler.strategies.cost.devices import CORE
from tests.parse_ir import parse_ir

HERE = Path(__file__).resolve().parent
MODELS = ("cuba", "lenet_digits")
Golden = Callable[[Path, str], None]


@cache
def lowered(root: Path, name: str) -> Lowered:
    """A model of the repository for the CPU; `shown` keeps the folder of the checkout out of the text."""
    model = load_model(root / "models" / f"{name}.yaml", shown=f"models/{name}.yaml")
    return lower(model, replace(CpuBackend().capabilities, device=CORE), verify=True)


def rounded(text: str) -> str:
    """Long decimals to 12 digits: matrix exponentials may differ in the last bit between machines."""
    return re.sub(r"-?\d+\.\d{12,}(?:e-?\d+)?", lambda m: f"{float(m[0]):.12g}", text)


@pytest.mark.parametrize("name", MODELS)
def test_graph(root: Path, golden: Golden, name: str) -> None:
    """Level 1: cells after integration, projections, tensors after fusion."""
    done = lowered(root, name)
    nodes = (*(done.spiking.nodes if done.spiking is not None else ()), *done.tensors)
    texts = [print_ir(node) for node in nodes]
    assert [parse_ir(text) for text in texts] == list(nodes)
    golden(HERE / f"{name}.graph.ir", "\n\n".join(texts) + "\n")


@pytest.mark.parametrize("name", MODELS)
def test_program(root: Path, golden: Golden, name: str) -> None:
    """Level 2 before merging: arrays, kernels with their rows, phases; without the data set."""
    program = replace(lowered(root, name).program, constants={})
    text = print_ir(program)
    assert parse_ir(text) == program
    golden(HERE / f"{name}.program.ir", rounded(text) + "\n")


@pytest.mark.parametrize("name", MODELS)
def test_templates(root: Path, golden: Golden, name: str) -> None:
    """Level 2, merged: templates, their numbers of rows, and the launches of each phase."""
    merged = lowered(root, name).merged
    lines = [
        f"{t.index:3} x {rows.count:<3} {type(t.body).__name__:<13} {t.name}"
        for t, rows in zip(merged.templates, merged.tables, strict=True)
    ]
    for phase in merged.phases:
        lines += ["", f"{phase.name}:"]
        for x in phase.launches:
            when = f" every {x.every} + {x.offset}" if x.every > 1 else ""
            lines.append(f"  {merged.templates[x.template].name} [{x.lo}, {x.hi}){when}")
    golden(HERE / f"{name}.merged.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", ["cuba", "custom_optimizer"])
def test_emitted_c(root: Path, golden: Golden, name: str) -> None:
    golden(HERE / f"{name}.c", CpuBackend().emit(lowered(root, name).merged))


@pytest.mark.parametrize(("name", "phases"), [("cuba", "all"), ("lenet5", "train"), ("lstm", "predict"),
                                             ("transformer", "predict")])  # fmt: skip
def test_emitted_cuda(root: Path, golden: Golden, name: str, phases: str) -> None:
    """Spikes (the whole text); the kernels of a convolution with its gradients, a recurrent layer, attention."""
    model = load_model(root / "models" / f"{name}.yaml", shown=f"models/{name}.yaml")
    cuda = CudaBackend()
    use = phases == "predict"
    program = lower_predict(model, cuda.capabilities, 64).lowered if use else lower(model, cuda.capabilities)
    text = cuda.emit(program.merged)
    golden(HERE / f"{name}.{phases}.cu", text if phases == "all" else text[text.index("/* ==== kernels") :])


@pytest.mark.parametrize("name", MODELS)
def test_decisions(root: Path, golden: Golden, name: str) -> None:
    """Decisions of the passes, as printed by `netloom explain`."""
    lines = [f"{d.pass_name}: {d.subject}: {d.verdict} ({d.reason})" for d in lowered(root, name).decisions]
    golden(HERE / f"{name}.decisions.txt", "\n".join(lines) + "\n")
