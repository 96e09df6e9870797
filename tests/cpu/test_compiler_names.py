"""A model may use every name that the compiler uses itself: it computes what it does with other names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import compiler.ir.level0.model as l0
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from compiler.ir.space import OWN
from tests.compiler_names import PLAIN, VARIANTS, named, renamed
from tests.construct_runs import Array, compare, construct, lowered, results
from tests.grids import one_in

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    folder = tmp_path_factory.mktemp("plain")
    found = results(named(folder / "model", PLAIN), folder, "reference")
    compare("names", found, found)
    return found


@pytest.mark.parametrize("names", one_in(2, VARIANTS), ids=lambda names: names["state1"])
def test_results_are_those_with_plain_names(names: Mapping[str, str], plain: dict[str, Array], tmp_path: Path) -> None:
    model = named(tmp_path / "model", names)
    for target in ("cpu", "reference"):
        found = results(model, tmp_path, target)
        for name, values in plain.items():
            np.testing.assert_array_equal(found[renamed(name, names)], values, err_msg=f"{target}: {name}")


NAMED = ["control", "cleared", "convolutions", "events", "parts", "sums and new synapses", "sums over kernels"]
NAMED += ["transposed", "tile", "values of connections", "synapses of a file", "pairs"]


@pytest.mark.parametrize("name", NAMED)
def test_arrays_without_the_mark_are_those_of_variables(name: str, tmp_path: Path) -> None:
    """What stands beside the variables of populations and synapses has names that no names of a model give."""
    model = construct(name, tmp_path, "float32")
    given = {p.name for p in model.populations if p.neuron.source != "equations"}
    populations = {p.name: {*p.neuron.units, *(x.name for x in p.neuron.params)} for p in model.populations}
    synapses = {p.name: {"weight"} if p.synapse is None else _names(p.synapse) for p in model.projections}
    program = lowered(model, "reference")
    assert any(OWN in array.name for array in program.arrays)
    for array in (x for x in program.arrays if OWN not in x.name):
        owner, _, part = array.name.rpartition(".")
        family, bracket, _ = owner.partition("[")
        if bracket and owner.endswith("]"):
            assert part in synapses[family], array.name
        elif owner in populations and owner not in given:
            assert part in populations[owner], array.name


def _names(synapse: l0.SynapseDef) -> set[str]:
    return {*(s.name for s in synapse.state), *(p.name for p in synapse.params)}


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("names", VARIANTS, ids=lambda names: names["state1"])
def test_cuda_compiles(names: Mapping[str, str], tmp_path: Path) -> None:
    compile_text(emit(lowered(named(tmp_path / "model", names), "cuda")), "names", False, "sm_90")
