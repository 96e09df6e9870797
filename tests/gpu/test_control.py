"""Pools, events of phases, synapses at events and instances on a GPU: bitwise equal to cpu and reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from backends.protocol import Instance
from backends.reference.load import ReferenceInstance
from compiler.passes.pipeline.lower import lower
from tests.numeric import test_instances, test_phases, test_pools, test_rewiring, test_synapse_phases, test_synapse_sums
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.gpu

STEPS = 120
PHASES = "{trial: {every: 5 ms, events: {start: 0 ms, mid: 2 ms}}, other: {every: 33.5 ms, events: {start: 0 ms}}}"
MODELS = {
    "pools": test_pools.text(
        test_pools.RANDOM, test_pools.TWO, "x, y", "a, b", "{precision: PRECISION, order: bitwise}"
    ),
    "every reduction": test_pools.text(
        test_pools.EVERYTHING,
        "  a: {neuron: cell, size: 2400, pools: 8, init: {x: {uniform: {low: 0, high: 1}}}}",
        "x",
        "a",
        "{precision: PRECISION, order: bitwise}",
    ),
    "phases": test_phases.text(test_phases.RANDOM, PHASES, "x, y, g", test_phases.LOOP, size=500)
    + "numerics: {precision: PRECISION, order: bitwise}\n",
    "synapses": test_synapse_phases.TEXT.replace("ORDER", "bitwise").replace("float64", "PRECISION"),
    "sums over synapses": test_synapse_sums.text(test_synapse_sums.NORMALISE, size=140).replace("float64", "PRECISION"),
    "sums in every step": test_synapse_sums.text(
        test_synapse_sums.EVERY_STEP, test_synapse_sums.CONNECT["no autapses"]
    ).replace("float64", "PRECISION"),
    "rewiring": test_rewiring.text(test_rewiring.RULE + "        - w = w / sum_post(w)\n").replace(
        "float64", "PRECISION"
    ),
    "instances": test_instances.text(", instances: 5, weights: shared")
    + "numerics: {precision: PRECISION, order: bitwise}\n",
}


def run(instance: Instance, used: list[str]) -> None:
    """All steps, with the records dropped."""
    done = 0
    while done < STEPS:
        done += instance.run("step", done + 1, STEPS - done)
        for name in used:
            instance.write(name, np.zeros(1, np.int64))


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_agree(tmp_path: Path, name: str, precision: str) -> None:
    model = model_of(MODELS[name].replace("PRECISION", precision), tmp_path)
    cuda, cpu = CudaBackend(), CpuBackend()
    ours, theirs = (lower(model, b.capabilities, True).merged for b in (cuda, cpu))
    here = cuda.load(cuda.build(ours, tmp_path / "cuda", {}), ours, 3)
    there = cpu.load(cpu.build(theirs, tmp_path / "cpu", {}), theirs, 3)
    reference = ReferenceInstance(ours, 3)
    used = [a.name for a in ours.arrays if a.name.endswith("'used")]
    for instance in (here, there, reference):
        run(instance, used)
    kept = [a.name for a in ours.arrays if a.role.value in ("state", "synapse")]
    for n in kept:
        assert np.array_equal(here.read(n), there.read(n)), n
        assert np.array_equal(here.read(n), reference.read(n)), n
    assert any(np.ptp(here.read(n)) > 0 for n in kept if here.read(n).size > 1)
    here.close()
