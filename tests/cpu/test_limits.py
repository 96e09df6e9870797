"""What a core reaches, as a loop measures it."""

from __future__ import annotations

import pytest

import backends.cpu.run.limits as module
from backends.processor import processor
from backends.registry import backend
from backends.stopwatch import limits
from compiler.core.cache import cache_folder

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")


def test_limits_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = limits(backend("cpu"))
    stated = processor()
    assert (found.name, found.lanes, found.caches) == (stated.name, stated.lanes, stated.caches)
    assert 0.5 < found.gflops < 5_000
    assert 0.5 < found.bandwidth < 5_000
    calls = []
    monkeypatch.setattr(module, "_measured", lambda core: calls.append(core) or {"gflops": 64.0, "bandwidth": 7.0})
    assert limits(backend("cpu")) == found
    assert not calls
    (entry,) = (cache_folder() / "tuned" / "limits").iterdir()
    entry.write_text("damaged")
    assert limits(backend("cpu")).gflops == pytest.approx(64.0, rel=1e-2)
    assert len(calls) == 1
