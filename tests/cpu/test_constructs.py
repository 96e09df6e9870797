"""Every construct of the spiking language: cpu is bitwise equal to the reference, and the list is complete."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.emit import build
from compiler.connect import CONNECT
from compiler.core.diagnostics import ModelError
from compiler.frontend.language.recording import RECORD
from compiler.frontend.language.spiking.currents import LIBRARY_CURRENTS
from compiler.frontend.language.spiking.synapses import LIBRARY_SYNAPSES
from compiler.frontend.load import load_model
from netloom import run
from tests.construct_runs import compare, construct, results, stored_results, write_construct
from tests.constructs import CONNECTING, CONSTRUCTS, CURRENTS, GRID, LIBRARY, LINE, PLANES, POOLS, RECORDS, connected
from tests.grids import slow

pytestmark = pytest.mark.usefixtures("cc")


ALIKE = ("copies", "control, copies", "events, frozen", "frozen in part", "synapse stdp_multiplicative")
ALIKE += ("synapse stdp_nearest", "synapse stdp_triplet_hippocampal")
"""What others of the quick ones, and tests/numeric, hold too."""


@pytest.mark.parametrize("precision", ["float32", *slow("float64")])
@pytest.mark.parametrize(
    "name", [*(n for n in CONSTRUCTS if n not in ("neurons of the library", *ALIKE)), *slow(*ALIKE)]
)
def test_cpu_gives_the_bits_of_the_reference(
    tmp_path: Path, name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neurons of the library are compared in tests/numeric/test_library_bits.py. The quick ones compile without
    optimization, the slow ones as a user does."""
    if precision == "float32":
        monkeypatch.setattr(build, "FLAGS", ("-O0", *(f for f in build.FLAGS if f != "-O3")))
    model = construct(name, tmp_path, precision)
    compare(name, results(model, tmp_path, "cpu"), results(model, tmp_path, "reference"))


def test_files_of_a_run_hold_the_same(tmp_path: Path) -> None:
    """Every kind of record through the runner, spikes, traces, rates, synapses and histograms."""
    path = write_construct("records", tmp_path, "float32")
    stored = {}
    for target in ("cpu", "reference"):
        run(path, target, out=tmp_path / target, build_dir=tmp_path / f"build-{target}")
        stored[target] = stored_results(tmp_path / target)
    assert {n.split("/")[0] for n in stored["cpu"]} == {"spikes", "events", "traces", "rates", "synapses"}
    assert stored["cpu"].keys() == stored["reference"].keys()
    for name, values in stored["cpu"].items():
        np.testing.assert_array_equal(values, stored["reference"][name], err_msg=name)


# ------------------------------------------------------------------------------------- nothing is missing

ARGUMENTS = {  # what a rule needs beside its storage, and the shapes of source and target
    "all_to_all": ("", LINE, LINE),
    "one_to_one": ("", LINE, LINE),
    "fixed_probability": ("p: 0.3, ", LINE, LINE),
    "fixed_indegree": ("number: 3, ", LINE, LINE),
    "fixed_outdegree": ("number: 3, ", LINE, LINE),
    "fixed_total": ("number: 30, ", LINE, LINE),
    "rule": ("probability: 0.3, ", GRID, GRID),
    "pairs": ("list: [[0, 1], [2, 0]], ", LINE, LINE),
    "conv2d": ("kernel: 3, padding: 1, ", PLANES, PLANES),
    "tile": ("size: 2, ", POOLS, POOLS),
    "avg_pool2d": ("size: 2, stride: 1, ", PLANES, "shape: [2, 5, 6]"),
}


def test_every_rule_is_stored_in_every_way_or_refused(tmp_path: Path) -> None:
    """Combinations missing in the list are rejected by the language, with a reason."""
    held = {m for text in CONNECTING.values() for m in re.findall(r"connect: {(\w+): {.*?storage: (\w+)", text)}
    assert {rule for rule, _ in held} <= ARGUMENTS.keys() == {a.name for a in CONNECT.alternatives}
    for rule, (arguments, source, target) in ARGUMENTS.items():
        assert re.search(rf"connect: {{{rule}: ", "".join(CONNECTING.values())), rule
        for storage in ("sparse", "dense", "bitmask", "procedural", "toeplitz"):
            if (rule, storage) in held:
                continue
            entry = f"{rule}: {{{arguments}storage: {storage}}}"
            path = tmp_path / "one.yaml"
            path.write_text(connected(source, [(entry,)], target), encoding="utf-8")
            if (rule, storage) in SPARSE_ANYWAY:
                load_model(path, {})
                continue
            with pytest.raises(ModelError) as e:
                load_model(path, {})
            assert [d.code for d in e.value.diagnostics] == ["E0611"], (rule, storage)


SPARSE_ANYWAY = {(rule, "sparse") for rule in ("fixed_indegree", "fixed_total")}  # what `auto` is for these


def test_every_file_of_the_library_and_every_kind_of_value_is_used() -> None:
    assert LIBRARY.keys() == set(LIBRARY_SYNAPSES)
    for current in LIBRARY_CURRENTS:
        assert f"source: {current}" in CURRENTS, current
    for kind in RECORD.item.alternatives:
        assert f"  - {kind.name}: " in RECORDS, kind.name
    everything = "".join(CONNECTING.values())
    for drawn in ("uniform", "normal", "exponential", "lognormal"):
        assert f"weight: {{{drawn}: " in everything, drawn
    for drawn in ("uniform", "normal"):
        assert f"delay: {{{drawn}: " in everything, drawn
