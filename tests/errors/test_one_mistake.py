"""One mistake gives one error, without follow-up errors.

Every model of models/ and of tests is given one mistake in one node (mistakes.py). All errors are then at that node,
or about a name that it takes away, wherever that is used.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.core.diagnostics import ModelError, Severity, Sink
from compiler.core.render import ordered
from compiler.frontend.load import load_model
from compiler.frontend.yaml.tree import Mapping
from compiler.frontend.yaml.yaml12 import load_file
from tests.constructs import CONSTRUCTS, write_files
from tests.errors.mistakes import follow_ups, mistakes

ROOT = Path(__file__).parents[2]
LARGE = {"ring_10k", "multi_area_structure", "microcircuit"}
"""Models that take long to load."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("one_mistake")
    write_files(found)
    return found


def models(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Name, text and folder of every model."""
    for path in (*sorted((ROOT / "models").glob("*.yaml")), *sorted((ROOT / "tests/unit").glob("build_*.yaml"))):
        yield path.stem, path.read_text(encoding="utf-8"), path.parent
    for name, text in CONSTRUCTS.items():
        yield name, text.replace("NUMERICS", "{precision: float64}"), folder


def explore(folder: Path, seed: int, each: int, skipped: set[str]) -> list[str]:
    """Follow-up errors of `each` mistakes in every model."""
    rng = random.Random(seed)
    found: list[str] = []
    tried = refused = 0
    path = folder / "model.yaml"
    for name, text, beside in models(folder):
        path.write_text(text, encoding="utf-8")
        root = load_file(path, Sink())
        assert isinstance(root, Mapping)
        if name in skipped:
            continue
        every = list(mistakes(text, root))
        for mistake in rng.sample(every, min(each, len(every))):
            path.write_text(mistake.text, encoding="utf-8")
            tried += 1
            try:
                load_model(path, folder=beside)
            except ModelError as error:
                refused += 1
                errors = [d for d in ordered(error.diagnostics) if d.severity is Severity.ERROR]
                found += [
                    f"{name}: {mistake.kind} at {mistake.place}: {errors[0].message} -> {d.message}"
                    for d in follow_ups(tuple(errors), mistake)
                ]
    assert refused > 0.8 * tried > 0
    return found


def test_one_mistake_is_one_error(folder: Path) -> None:
    assert explore(folder, 1, 3, LARGE) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_mistakes_one_at_a_time(folder: Path, seed: int) -> None:
    assert explore(folder, seed, 40, LARGE if seed > 2 else {"ring_10k"}) == []
