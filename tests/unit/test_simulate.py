"""The loop of a spiking run: when buffers are drained."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.runtime.common.progress import Progress
from compiler.runtime.common.signals import Stop
from compiler.runtime.health import Health
from compiler.runtime.record.record import SpikeWriter
from compiler.runtime.record.writers import Writers
from compiler.runtime.session import Session
from compiler.runtime.spiking.simulate import simulate

TEXT = """
language: 1
name: one
populations: {p: {neuron: library/neurons/poisson, size: 1, params: {rate: 10 Hz}}}
simulate: {dt: 0.1 ms, duration: 1 s, warmup: 0.1 s, seed: 1}
"""


class Full:
    """An instance whose buffers have room for `room` steps; None: for all."""

    def __init__(self, room: int | None) -> None:
        self.room, self.left, self.runs = room, room, 0

    def run(self, phase: str, first_step: int, steps: int) -> int:
        self.runs += 1
        ran = steps if self.left is None else min(steps, self.left)
        if self.left is not None:
            self.left -= ran
        return ran


class Writer:
    """Notes whether what it drains is kept."""

    def __init__(self) -> None:
        self.kept: list[bool] = []

    def drain(self, instance: Any, keep: bool = True) -> None:
        self.kept.append(keep)
        instance.left = instance.room

    def flush(self) -> None:
        pass

    def sync(self) -> None:
        pass


class Healthy:
    """Notes the steps by which it is asked to look at the state."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def look(self, *_: Any, **__: Any) -> None:
        pass

    def look_at_step(self, _: Any, where: str, due: bool) -> None:
        if due:
            self.steps.append(int(where.split()[2]))


@pytest.fixture
def model(tmp_path: Any) -> Model:
    path = tmp_path / "one.yaml"
    path.write_text(TEXT)
    return load_model(path, {})


def run(
    model: Model, instance: Full, writer: Writer, monkeypatch: pytest.MonkeyPatch, healthy: Healthy | None = None
) -> int:
    """The last step; no time passes that would ask for a drain."""
    monkeypatch.setattr("compiler.runtime.spiking.simulate.FLUSH_SECONDS", 1e9)
    prepared = SimpleNamespace(model=model)
    session = SimpleNamespace(prepared=prepared, instance=instance, stop=Stop(), progress=Progress())
    return simulate(
        cast(Session, session), Writers(spikes=cast(SpikeWriter, writer)), cast(Health, healthy or Healthy())
    ).step


def test_drained_when_full_and_at_the_ends(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the warm-up and at the end; and whenever a run stops early."""
    writer = Writer()
    assert run(model, Full(None), writer, monkeypatch) == 11_000
    assert writer.kept == [False, True]
    writer, instance = Writer(), Full(3000)
    assert run(model, instance, writer, monkeypatch) == 11_000
    assert writer.kept == [False, *[True] * 4]
    assert instance.runs > len(writer.kept)


@pytest.mark.parametrize("room", [None, 3000, 700])
def test_the_state_is_looked_at_every_thousand_steps(
    model: Model, monkeypatch: pytest.MonkeyPatch, room: int | None
) -> None:
    """Also where buffers fill in between, and however long the blocks are."""
    monkeypatch.setattr("compiler.runtime.spiking.simulate.BLOCK_SECONDS", 1e9)
    healthy = Healthy()
    run(model, Full(room), Writer(), monkeypatch, healthy)
    assert healthy.steps == [*range(1000, 11_001, 1000)]


def test_buffers_that_stay_full_end_the_run(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="does not advance"):
        run(model, Full(0), Writer(), monkeypatch)
