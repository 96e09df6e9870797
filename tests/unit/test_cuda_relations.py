"""Every relation as CUDA: one text of all propagations, compiled without a GPU; how work is divided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.launch_geometry import array_elements, calls_of
from backends.cuda.kernels.launch_work import Work
from backends.cuda.run.backend import CudaBackend
from backends.protocol import BackendError
from compiler.ir.level2.program import Connect, Launch, Merged, Mode, Propagate, Template
from compiler.layout.plan_memory import place
from compiler.layout.write_tables import write_tables
from compiler.passes.pipeline.lower import lower
from tests.cpu.programs import assign
from tests.cpu.test_relations import models_by_relation


def merged_of(order: str) -> dict[str, Merged]:
    backend = CudaBackend()
    found = {n: m for n, m in models_by_relation().items() if n.endswith(order)}
    return {n: lower(m, backend.capabilities, verify=True).merged for n, m in found.items()}


def one_program(order: str) -> Merged:
    """All propagations and connecting kernels of models that differ in their relation."""
    programs = merged_of(order)
    found: dict[str, Template] = {}
    for program in programs.values():
        for t in program.templates:
            if isinstance(t.body, Propagate | Connect):
                found.setdefault(t.digest, replace(t, index=len(found)))
    first = next(iter(programs.values()))
    return replace(first, templates=tuple(found.values()), tables=(), arrays=(), phases=())


@pytest.mark.nvrtc
@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
@pytest.mark.parametrize("arch", ["sm_90"])
def test_every_relation_compiles(order: str, arch: str) -> None:
    program = one_program(order)
    relations = {t.body.relation for t in program.templates if isinstance(t.body, Propagate)}
    assert len({type(r).__name__ for r in relations}) == 6
    artifact = compile_text(emit(program), "relations", order == "bitwise", arch)
    code = artifact.binary.read_bytes()
    for t in program.templates:
        assert f"k{t.index}_".encode() in code


def test_blocks_are_given_to_every_relation() -> None:
    """No row is without a block, and all together are no more than run side by side."""
    for name, program in merged_of("reproducible").items():
        sizes = {a.name: 1000 for a in program.arrays if a.size_from is not None}
        sizes |= {a.size_from: 1000 for a in program.arrays if a.size_from is not None}
        placement = place(program, sizes)
        tables = write_tables(program, placement, 1, sizes)
        physical = {a.name: a.physical_size for a in program.arrays}
        for t, k, rows, table in zip(program.templates, emit(program).kernels, program.tables, tables, strict=True):
            if not isinstance(t.body, Propagate):
                continue
            launch = Launch(t.index, 0, rows.count)
            work = Work(t, k, rows, table, launch, array_elements(sizes, physical), 264)
            (call,) = calls_of(work)
            assert 1 <= call.grid <= 264, name


def test_elements_that_positions_share_cannot_be_written() -> None:
    """The synapse of a convolution is an element of the kernel: no thread owns it."""
    for name, program in merged_of("reproducible").items():
        for t in program.templates:
            if not name.startswith("padding") or not isinstance(t.body, Propagate):
                continue
            formals = tuple(replace(f, mode=Mode.UPDATE) if f.name == "weight" else f for f in t.formals)
            learns = replace(t.body, statements=(*t.body.statements, assign("weight", "weight * 2.0")))
            changed = replace(t, formals=formals, body=learns, index=0)
            with pytest.raises(BackendError) as e:
                emit(replace(program, templates=(changed,), phases=()))
            assert e.value.code == "E0903"
            assert "shared by synapses" in e.value.message
