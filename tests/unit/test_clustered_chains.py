"""Chains in clusters of blocks: when they are, and what each block has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.emit import emit
from backends.cuda.persistent import rnn, spread
from backends.cuda.persistent.rnn_plan import shapes_of
from backends.cuda.persistent.rnn_table import walk
from backends.cuda.run.backend import CudaBackend
from compiler.ir.level2.batch_independence import chain_violations
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from compiler.strategies import clustered_rnn
from compiler.strategies.cost.devices import H200
from tests.chain_tables import Table
from tests.recurrent import Network, network
from tests.unit.test_chains import ROOM, device_words, phase_of, program_of


def blocks_of(program: Merged) -> set[tuple[int, int]]:
    """(cluster, spread) of the chains that are trained."""
    return {(x.cluster, x.spread) for x in phase_of(program, "train").chains}


@pytest.mark.parametrize(
    ("n", "cluster"),
    [
        (Network("lstm", 128, 4), 4),
        (Network("gru", 128, 4), 4),
        (Network("gru", 256, 4), 8),
        (Network("rnn", 256, 4), 4),
        (Network("lstm", 64, 4), 1),  # a block has them all, and nothing to wait for
        (Network("rnn", 128, 4), 1),
    ],
    ids=str,
)
def test_matrices_are_divided_among_blocks_of_a_cluster(tmp_path: Path, n: Network, cluster: int) -> None:
    program = program_of(tmp_path, n)
    assert blocks_of(program) == {(cluster, 1)}
    text = emit(program).text
    assert (f"__cluster_dims__({cluster}, 1, 1)" in text) == (cluster > 1)
    assert f" {rnn.name_of(cluster)}(" in text and f" {spread.NAME}(" not in text


def test_what_fits_in_no_cluster_is_spread(tmp_path: Path) -> None:
    assert all(members > 1 for _, members in blocks_of(program_of(tmp_path, Network("lstm", 512, 4))))


def test_older_devices_have_no_clusters(tmp_path: Path) -> None:
    model = network(tmp_path, Network("gru", 128, 4))
    for arch, many in (("sm_89", 1), ("sm_90", 4)):
        program = lower(model, CudaBackend(arch=arch).capabilities, True).merged
        assert {x.cluster for x in phase_of(program, "train").loops} == {many}


def test_directions_of_a_layer_divide_the_processors(tmp_path: Path) -> None:
    """So that clusters of both run at the same time."""
    program = program_of(tmp_path, Network("lstm", 128, 4, bidirectional=True))
    words, kernels, shapes = device_words(program)[0], emit(program).kernels, shapes_of(program)
    phase = phase_of(program, "train")
    assert not list(chain_violations(program, phase))
    for chain in phase.chains:
        assert chain.cluster > 1 and len(chain.beside) == 2
        found = walk(program, kernels, phase, chain, words, shapes, H200.processors, ROOM)
        assert found is not None and found.blocks <= H200.processors // 2
        assert found.function == rnn.name_of(chain.cluster)


@pytest.mark.parametrize("n", [Network("gru", 20, 9, batch=30), Network("lstm", 32, 9, batch=7)], ids=str)
def test_each_block_has_its_part(tmp_path: Path, n: Network) -> None:
    """Of all matrices together the parts are the whole, once; all blocks are told what the next stage multiplies."""
    program = program_of(tmp_path, n)
    words, names = device_words(program)
    kernels, shapes = emit(program).kernels, shapes_of(program)
    phase = phase_of(program, "train")
    for chain in phase.chains:
        whole, part = (
            walk(program, kernels, phase, replace(chain, cluster=c), words, shapes, H200.processors, ROOM)
            for c in (1, 2)
        )
        assert whole is not None and part is not None
        assert part.blocks == 2 * -(-n.batch // part.samples) and part.function == rnn.name_of(2)
        before, after = Table.of(whole), Table.of(part)
        outs = 1 << int(after.head["part"])
        assert outs == 16 and 2 * outs >= n.units
        assert sorted(int(m["from"]) for m in before.matrices) == sorted(int(m["from"]) for m in after.matrices)
        for m in after.matrices:
            by_out = bool(m["rows_each"])
            assert (int(m["rows_each"]), int(m["columns_each"])) == ((outs, 0) if by_out else (0, outs))
            assert int(m["by_block"]) == outs * (int(m["by_row"]) if by_out else 1)
            assert names[int(m["from"])]
        assert after.head["values"] <= before.head["values"]  # matrices
        fed = after.stages["fed"]
        assert fed[-1] == 0 and np.all(fed[:-1] > 0)


def test_clusters_that_run_at_the_same_time() -> None:
    """No more than a device with parts of 16 to 18 processors has, 66, 30 and 15 of them here."""
    found = [clustered_rnn.groups(n, H200.processors) for n in (1, 2, 4, 8)]
    assert found[:2] == [132, 66] and 28 <= found[2] <= 30 and 14 <= found[3] <= 15
    assert clustered_rnn.groups(8, 4) == 1


def test_outputs_are_divided_by_powers_of_two() -> None:
    assert [clustered_rnn.bits(130, n) for n in (2, 5, 8)] == [7, 5, 5]
    assert clustered_rnn.sizes(130, H200) == [2, 3, 5]  # with eight, three would have none
    assert clustered_rnn.sizes(16, H200) == [2]
