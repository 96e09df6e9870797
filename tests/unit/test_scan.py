"""Time as a Scan: what passes see of it, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from compiler.ir.level1.graph import Scan
from compiler.ir.level2.dependence import parts_of
from compiler.ir.level2.program import Array
from compiler.ir.space import DType, Role
from compiler.passes.pipeline.lower import lower
from compiler.passes.pipeline.manager import Ran
from tests.recurrent import Network, network


def nodes_before_expansion(folder: Path, n: Network) -> tuple[int, int]:
    """How many nodes the training has while time is a Scan, and how many of them are Scans."""
    seen: dict[str, Ran] = {}

    def observe(ran: Ran) -> None:
        if "expand_scans" not in seen:
            seen["expand_scans" if ran.name == "expand_scans" else "before"] = ran

    lower(network(folder, n), CpuBackend().capabilities, observe=observe)
    nodes = seen["before"].ir.graphs[0].nodes
    return len(nodes), sum(isinstance(x, Scan) for x in nodes)


def test_passes_see_one_step(tmp_path: Path) -> None:
    """However many there are: one Scan a direction and one for its gradient."""
    n = Network("lstm", 3, 4, bidirectional=True)
    few, scans = nodes_before_expansion(tmp_path, n)
    assert scans == 4
    assert nodes_before_expansion(tmp_path, Network("lstm", 3, 40, bidirectional=True)) == (few, scans)


@pytest.mark.parametrize("backend", [CpuBackend, CudaBackend])
def test_nothing_is_copied_but_the_samples(tmp_path: Path, backend: type[CpuBackend] | type[CudaBackend]) -> None:
    """Of a layer below another, too, whose states are the upper one's rows. Both begin with the same zeros, which can
    lie before the states of one of them."""
    program = lower(network(tmp_path, Network("gru", 8, 9, layers=2, batch=32)), backend().capabilities, True).merged
    copies = [p for t, rows in zip(program.templates, program.tables, strict=True) if t.name.endswith(": copy")
              for p in rows.paths]  # fmt: skip
    assert sorted(copies) == ["gru_1.rows", "gru_1.rows", "gru_2.at.h.before.steps.part_0"]  # eval has the rows, too
    arrays = {a.name: a for a in program.arrays}
    state = arrays["train/gru_1.at_3.h"]
    assert state.within == arrays["train/gru_1.states"].within == "train/gru_1.states.both"
    assert state.first == arrays["train/gru_1.states"].first + 3 * state.physical_size


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
    assert parts == {"whole": {"a", "b", "c", "ab", "bc"}, "ab": {"a", "b"}, "bc": {"b", "c"}}
