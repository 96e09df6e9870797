"""The pages of the library: each definition has one, with all its parameters and equations, a figure and its papers."""

from __future__ import annotations

import pytest

import netloom
from scripts.site import figures
from scripts.site.library import KINDS, Definition, definitions, page
from scripts.site.papers import PAPERS, WITHOUT

ALL = [d for kind in KINDS for d in definitions(kind)]


@pytest.mark.parametrize("definition", ALL, ids=lambda d: d.name)
def test_page(definition: Definition) -> None:
    text = page(definition)
    for name in definition.body.get("params", {}):
        assert f"| `{name}` |" in text
    statements = [*definition.body.get("dynamics", {}), *definition.body.get("update", [])]
    assert text.count("$$") >= 2 * len(statements)
    assert definition.text in text


def test_papers_are_those_of_the_library() -> None:
    assert {d.name for d in ALL} == set(PAPERS) | WITHOUT
    assert not set(PAPERS) & WITHOUT


def test_figures_are_those_of_the_library() -> None:
    shown = {
        "neurons": {*figures.DRIVES, *figures.RASTERS},
        "synapses": {*figures.PAIRED, *figures.OTHERS},
        "currents": set(figures.CURRENTS),
    }
    for kind, names in shown.items():
        assert names == {d.name for d in definitions(kind)}


def test_names_of_the_library_are_found(tmp_path: object) -> None:
    cells = {d.name: {"neuron": f"library/neurons/{d.name}", "size": 1} for d in definitions("neurons")}
    cells["spike_times"]["params"] = {"times": ["1 ms"], "indices": [0]}  # type: ignore[assignment]
    model = {"language": 1, "populations": cells, "simulate": {"dt": "0.1 ms", "duration": "1 ms"}}
    assert netloom.load(model).check() == []
