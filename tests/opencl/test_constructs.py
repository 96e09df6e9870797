"""Every construct of the spiking language: opencl is bitwise equal to the reference (on the device of
conftest.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from backends.opencl import compile as opencl_compile
from netloom import run
from tests.construct_runs import compare, construct, results, stored_results, write_construct
from tests.constructs import CONSTRUCTS
from tests.grids import one_in

pytestmark = pytest.mark.usefixtures("device")
QUICK = ("fixed degrees", "fixed total", "rule", "pairs", "convolutions", "delays", "synapse stdp_triplet", "records")
"""Rules and storages, learning, delays, draws, pools and records; the others take too long together."""


@pytest.fixture
def without_optimization() -> Iterator[None]:
    """Kernels are compiled with little optimization, which takes a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl_compile, "OPTIONS", (*opencl_compile.OPTIONS, "-cl-opt-disable"))
        yield


@pytest.mark.parametrize("name", one_in(2, QUICK))
@pytest.mark.usefixtures("without_optimization")
def test_opencl_gives_the_bits_of_the_reference(tmp_path: Path, name: str) -> None:
    model = construct(name, tmp_path, "float32")
    compare(name, results(model, tmp_path, "opencl"), results(model, tmp_path, "reference"))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in CONSTRUCTS if n != "neurons of the library"])
def test_optimized_code_gives_the_bits_of_the_reference(tmp_path: Path, name: str, precision: str) -> None:
    model = construct(name, tmp_path, precision)
    compare(name, results(model, tmp_path, "opencl"), results(model, tmp_path, "reference"))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["reproducible", "fast"])
def test_other_orders_run(tmp_path: Path, order: str) -> None:
    """`fast` adds reals atomically: the sums differ in their last bits, and the spikes of a short run do not. What was
    delivered in the last step is still apart from its input where it is summed as integers."""
    model = construct("fixed degrees", tmp_path, "float64", order)
    ours, theirs = (results(model, tmp_path, target) for target in ("opencl", "reference"))
    apart = {name for name in ours if name.endswith("'delivered")}
    compared = ours.keys() - apart - {name.removesuffix("'delivered") for name in apart}
    assert {"s.v", "s.v'record.0", "t7.v", "s'spikes'record"} <= compared
    for name in compared:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.usefixtures("without_optimization")
def test_files_of_a_run_hold_the_same(tmp_path: Path) -> None:
    """Every kind of record through the runner, and a build folder with the source."""
    path = write_construct("records", tmp_path, "float32")
    stored = {}
    for target in ("opencl", "reference"):
        run(path, target, out=tmp_path / target, build_dir=tmp_path / f"build-{target}")
        stored[target] = stored_results(tmp_path / target)
    assert {n.split("/")[0] for n in stored["opencl"]} == {"spikes", "events", "traces", "rates", "synapses"}
    assert stored["opencl"].keys() == stored["reference"].keys()
    for name, values in stored["opencl"].items():
        np.testing.assert_array_equal(values, stored["reference"][name], err_msg=name)
    (folder,) = (tmp_path / "build-opencl").iterdir()
    assert {"manifest.json"} | {f.name for f in folder.glob("*.cl")} <= {f.name for f in folder.iterdir()}
    assert "__kernel void k0_" in next(folder.glob("*.cl")).read_text()
