"""Time as a Scan: what passes see of it, and the loop that becomes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cpu.emit.emit import emit
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.persistent.rnn_plan import shapes_of
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.load_plan import launched_at_once
from backends.manifest import manifest
from backends.reference.load import ReferenceInstance
from compiler.frontend.load import load_model
from compiler.ir.level1.graph import Scan
from compiler.ir.level2.dependence import parts_of
from compiler.ir.level2.program import Array, ArrayFormal, Loop, Merged, in_order
from compiler.ir.space import DType, Role
from compiler.layout.plan_memory import place
from compiler.layout.write_tables import rows_of_steps, write_tables
from compiler.passes.pipeline.lower import Lowered, lower
from compiler.passes.pipeline.manager import Context, Lowering
from compiler.passes.pipeline.programs import JOIN_HALVES
from compiler.strategies.cost.devices import H200
from compiler.verify.program import merged_violations
from compiler.verify.verify import verify_merged
from tests.recurrent import Network, network, trained
from tests.unroll_loops import unroll_loops

ROOT = Path(__file__).resolve().parents[2]


def lowered(folder: Path, n: Network, **numerics: str) -> Lowered:
    return lower(network(folder, n, **numerics), CpuBackend().capabilities, True)


def test_passes_see_one_step(tmp_path: Path) -> None:
    """However many there are: one Scan a direction and one for its gradient, and a loop for each."""
    few, many = (lowered(tmp_path, Network("lstm", 3, steps, bidirectional=True)) for steps in (4, 16))
    for x in (few, many):  # of both, sums over all steps are short (long_sums)
        assert sum(isinstance(n, Scan) for n in x.tensors[0].nodes) == 4
        assert [loop.steps for loop in x.merged.phases[1].loops] == [4 if x is few else 16] * 4
    assert len(few.tensors[0].nodes) == len(many.tensors[0].nodes)
    assert [t.digest for t in few.merged.templates] == [t.digest for t in many.merged.templates]
    assert [rows.count for rows in few.merged.tables] == [rows.count for rows in many.merged.tables]
    assert [p.launches for p in few.merged.phases] == [p.launches for p in many.merged.phases]
    assert [a.name for a in few.merged.arrays] == [a.name for a in many.merged.arrays]


def test_decisions_about_a_step_are_made_once(tmp_path: Path) -> None:
    told = lowered(tmp_path, Network("lstm", 3, 4)).decisions
    (memory,) = (d for d in told if d.subject == "train: lstm_1.at.memory" and d.pass_name == "fuse_maps")
    assert memory.reason == "it is also read by another step or something outside"


def test_the_text_is_a_loop(tmp_path: Path) -> None:
    some, more = (20, 50), (4, 16)  # sums over all steps are long, and short (long_sums)
    for steps in (some, more):
        few, many = (emit(lowered(tmp_path, Network("gru", 3, n)).merged) for n in steps)
        assert few.text == many.text and few.header == many.header
    assert "for (nl_i64 t = 0; t < l->steps; t++)" in few.text
    other = lower(load_model(ROOT / "models" / "lenet_digits.yaml", {}), CpuBackend().capabilities).merged
    assert "nl_loop" not in emit(other).text + emit(other).header


@pytest.mark.usefixtures("little_optimized")
@pytest.mark.parametrize(
    "n",
    [
        Network("rnn", 3, 5, batch=6),
        Network("gru", 3, 4, layers=2, batch=5),
        Network("lstm", 3, 4, bidirectional=True, batch=4),
        Network("lstm", 3, 1, batch=4),
    ],
    ids=str,
)
def test_all_steps_one_after_the_other_have_the_same_bits(tmp_path: Path, n: Network) -> None:
    """A loop, and its launches unrolled, on the reference, and compiled, where arrays share memory."""
    program = lowered(tmp_path, n, order="bitwise").merged
    unrolled = unroll_loops(program)
    verify_merged(unrolled)
    assert not any(p.loops for p in unrolled.phases) and not any(a.by_step for a in unrolled.arrays)
    expected = trained(ReferenceInstance(program, 3), program)
    compiled = CpuBackend().load(CpuBackend().compile(program, {}), program, 3)
    for found in (trained(ReferenceInstance(unrolled, 3), unrolled), trained(compiled, program)):
        for name, values in expected.items():
            assert np.array_equal(values, found[name]), name


def test_halves_keep_their_loops(tmp_path: Path) -> None:
    """A phase that both have runs one after the other."""
    one = lowered(tmp_path, Network("gru", 3, 4))
    model = network(tmp_path, Network("gru", 3, 4))
    context = Context(one.program.precision, one.program.order, CpuBackend().capabilities)
    both = JOIN_HALVES.run(context, Lowering(model, model.name, programs=(one.program, one.program))).programs[0]
    for phase, twice in zip(one.program.phases, both.phases, strict=True):
        moved = [
            replace(x, first=x.first + len(phase.launches), last=x.last + len(phase.launches)) for x in phase.loops
        ]
        assert list(twice.loops) == [*phase.loops, *moved]


def test_the_manifest_has_loops_and_parts(tmp_path: Path) -> None:
    program = lowered(tmp_path, Network("gru", 3, 4)).merged
    made = CpuBackend().compile(program, {})
    found = json.loads(manifest(program, place(program, {}), made, 3, "cpu"))
    (train,) = (p for p in found["phases"] if p["name"] == "train")
    loops = next(p.loops for p in program.phases if p.name == "train")
    assert train["loops"] == [[x.first, x.last, 4] for x in loops]
    arrays = {a["name"]: a for a in found["arrays"]}
    after = arrays["train/gru_1.at.h"]
    assert after["by_step"] == 64 * 3 and after["ring"] == 0 and "by_step" not in arrays["train/gru_1.last"]


def test_loops_are_verified(tmp_path: Path) -> None:
    program = lowered(tmp_path, Network("rnn", 3, 4)).merged
    assert not merged_violations(program)

    def with_loops(*loops: Loop) -> list[str]:
        phases = tuple(replace(p, loops=loops) if p.name == "eval" else p for p in program.phases)
        return merged_violations(replace(program, phases=phases))

    ((loop,),) = (p.loops for p in program.phases if p.name == "eval")
    assert "but is used in none" in with_loops()[0]
    assert "has no part in `eval/rnn_1.state.biased` for each of 5 steps" in with_loops(replace(loop, steps=5))[0]
    assert "begins before" in with_loops(loop, loop)[0]
    assert "has no end" in with_loops(replace(loop, steps=0))[0]
    (moving, *_) = (a for a in program.arrays if a.by_step)
    nowhere = tuple(replace(a, within="", first=0) if a is moving else a for a in program.arrays)
    assert any("no place in another" in v for v in merged_violations(replace(program, arrays=nowhere)))


@pytest.mark.parametrize("backend", [CpuBackend, CudaBackend])
def test_nothing_is_copied(tmp_path: Path, backend: type[CpuBackend] | type[CudaBackend]) -> None:
    """Samples are fed in the order of steps. Both layers begin with the same zeros, and the states of the lower one are
    the upper one's rows."""
    program = lower(network(tmp_path, Network("gru", 8, 9, layers=2, batch=32)), backend().capabilities, True).merged
    assert not [t.name for t in program.templates if t.name.endswith(": copy")]
    arrays = {a.name: a for a in program.arrays}
    states, state = arrays["train/gru_1.states"], arrays["train/gru_1.at.h"]
    assert (state.first, state.by_step) == (states.first, state.physical_size)
    assert state.within == states.within == "train/gru_1.at.h.before.slots"


def test_samples_of_two_steps_share_no_vector(tmp_path: Path) -> None:
    for batch, rows in ((32, False), (40, True)):
        lowered = lower(network(tmp_path, Network("rnn", 8, 4, batch=batch)), CpuBackend().capabilities, True)
        reasons = [d.reason for d in lowered.decisions if d.verdict == "row by row"]
        assert reasons == (["steps of sequences have batches that 16 lanes do not divide"] if rows else [])


def test_what_lies_in_an_array_is_touched_with_it() -> None:
    def array(name: str, size: int, first: int = 0, within: str = "whole") -> Array:
        return Array(name, DType.F32, (size,), Role.WORK, within=within, first=first)

    arrays = [array("whole", 9, within=""), array("a", 3), array("b", 3, 3), array("c", 3, 6), array("ab", 6),
              array("bc", 6, 3), array("other", 9, within="")]  # fmt: skip
    parts = {name: set(inner) for name, inner in parts_of(arrays).items()}
    assert parts == {"whole": {"a", "b", "c", "ab", "bc"}, "ab": {"a", "b", "bc"}, "bc": {"b", "c"}}


# ------------------------------------------------------------------------------------------------ on a GPU


def cuda(folder: Path, n: Network, chains: bool = True, **numerics: str) -> Merged:
    return lower(network(folder, n, **numerics), CudaBackend(chains=chains).capabilities, True).merged


def test_what_is_not_chained_stays_a_loop(tmp_path: Path) -> None:
    """Its launches, rows, and what is launched do not grow with the steps; independent kernels of a step of both
    directions are one launch."""
    device = SimpleNamespace(room=lambda name: 227 << 10, target=H200)
    found = []
    for steps in (4, 30):
        program = cuda(tmp_path, Network("lstm", 3, steps, batch=5, bidirectional=True), order="bitwise")
        assert not any(a.ring and not a.by_step for a in program.arrays)
        (phase,) = (p for p in program.phases if p.name == "train")
        assert [x.steps for x in phase.loops] == [steps] * 2  # both directions are one
        units = launched_at_once(device, program, emit_cuda(program).kernels, phase, [], shapes_of(program))  # type: ignore[arg-type]
        assert [x.launches[0] for x in units] == list(phase.launches)
        assert [x.loop for x in units if x.loop is not None] == [
            loop for loop in phase.loops for _ in range(loop.first, loop.last)
        ]
        found.append((phase.launches, [t.count for t in program.tables], emit_cuda(program).text))
    assert found[0] == found[1]


def test_rows_of_steps_are_those_of_all_steps_one_after_the_other(tmp_path: Path) -> None:
    """The addresses of each step; an array with fewer parts than steps begins again."""
    program = cuda(tmp_path, Network("gru", 3, 5, layers=2, batch=6), False)
    placement = place(program, {}, 1 << 30)
    tables = write_tables(program, placement, 3, {})
    longer, begins = rows_of_steps(program, tables)
    arrays = {a.name: a for a in program.arrays}
    rings = set[int]()
    for phase in program.phases:
        for n, step in in_order(len(phase.launches), phase.loops):
            x = phase.launches[n]
            if (phase.name, n) not in begins:
                continue
            rows, formals = program.tables[x.template], program.templates[x.template].formals
            for row in range(x.lo, x.hi):
                now = longer[x.template][begins[phase.name, n] + step * (x.hi - x.lo) + row - x.lo]
                for column, f in enumerate(formals):
                    expected = tables[x.template][row, column]
                    if isinstance(f, ArrayFormal):
                        a = arrays[rows.arrays[f.name][row]]
                        rings.add(a.ring)
                        assert int(now[column]) == int(expected) + (a.first_at(step) - a.first) * a.dtype.bytes
                    else:
                        assert now[column] == expected
    assert len(rings) > 1
    assert all(np.array_equal(long[: len(table)], table) for long, table in zip(longer, tables, strict=True))
