"""The numbers of a GPU, and tuning on one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from backends.cuda.device.driver import Driver
from backends.cuda.run.backend import CudaBackend
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.tuning import check_lock, tune_model
from compiler.strategies.cost.devices import GPUS
from compiler.tune.wishes import Wishes

pytestmark = pytest.mark.gpu

MODELS = Path(__file__).parents[2] / "models"


def test_the_driver_states_the_numbers_of_the_device() -> None:
    found, driver = CudaBackend().capabilities.device, Driver()
    assert (found.name, found.architecture) == (driver.name(0), driver.architecture(0))
    assert 1 <= found.processors < 1000 and found.shared_block >= 48 << 10
    assert found.warp == 32
    assert found.shared_block <= found.shared_processor <= 256 << 10
    assert found.caches[1] > found.shared_processor
    assert 500 < found.clock < 4000
    assert 100 < found.bandwidth < 20_000
    assert found.registers == 65536
    known = {g.architecture: g for g in GPUS}.get(found.architecture)
    assert known is None or known.lanes == found.lanes


def test_a_model_is_tuned_and_all_candidates_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate computes its contraction, whole steps run, and what is written is valid where it was measured."""
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))
    shutil.copytree(MODELS, tmp_path / "models")
    path, options = tmp_path / "models" / "lenet_digits.yaml", Options(target="cuda")
    wishes = Wishes(2, batch=32, whole=True)
    result = tune_model(path, options, wishes=wishes)
    assert {t.path.partition("/")[0] for t in result.contractions} == {"train", "eval", "predict@32"}
    assert [row for row in result.rows if row.wrong] == []
    assert check_lock(path, options, wishes) == ()
    tune_model(path, options, wishes=wishes)  # measured again: as valid, though other candidates may be the fastest
    assert check_lock(path, options, wishes) == ()
    assert prepare(path, options, Times()).warnings == ()
