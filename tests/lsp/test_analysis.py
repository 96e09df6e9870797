"""Analyses of texts, without a server: they stop, and read a file once."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from compiler.frontend.resolve.use import LibraryFinder
from compiler.lsp.analysis import Stopped, analyse
from compiler.lsp.texts import Texts

MODEL = "language: 1\npopulations: {exc: {neuron: lif, size: 10}}\nsimulate: {dt: 0.1 ms, duration: 1 s}\n"


def test_an_outdated_analysis_stops(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        analyse(tmp_path / "m.yaml", Texts({tmp_path / "m.yaml": MODEL}), LibraryFinder(), stop)


def test_a_long_analysis_stops_in_the_middle() -> None:
    path = (Path(__file__).parents[2] / "models" / "multi_area_structure.yaml").resolve()

    class Later(Event):
        """Set after it was asked 100 times: in the 64,516 members of the one projection."""

        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 100

    stop = Later()
    with pytest.raises(Stopped):
        analyse(path, Texts({path: path.read_text(encoding="utf-8")}), LibraryFinder(), stop)
    assert stop.asked == 101


def test_the_library_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.yaml"
    texts, library, read = Texts({path: MODEL}), LibraryFinder(), []
    plain = Texts.read

    def counting(self: Texts, at: Path, *rest: object) -> object:
        read.append(at.name)
        return plain(self, at, *rest)

    monkeypatch.setattr(Texts, "read", counting)
    for _ in range(3):
        assert analyse(path, texts, library, Event()).diagnostics == ()
    assert sorted(read) == ["lif.yaml", "m.yaml", "m.yaml", "m.yaml"]
