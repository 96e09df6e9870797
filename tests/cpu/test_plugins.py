"""Strategies of other packages: measured, pinned, run, and refused where they are none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from backends.c_family.skeletons import skeletons
from backends.cpu.backend import CpuBackend
from compiler.core.diagnostics import RunError
from compiler.ir.level0.model import Numerics
from compiler.strategies import choose
from compiler.strategies.choice import Choice, Problem
from compiler.strategies.cpu import lanes_dense
from compiler.strategies.permissions import permitted
from compiler.strategies.plugins import installed
from compiler.strategies.strategy import Strategy
from compiler.strategies.variants import identity
from compiler.tune.measure import measure
from tests.cpu.contractions import dense
from tests.cpu.test_tune import bench, counted, site

pytestmark = pytest.mark.usefixtures("cc")

TEMPLATE = (Path(__file__).parents[2] / "backends/cpu/templates/strategy_lanes_dense.c.j2").read_text()
HALF = TEMPLATE.replace("f.s_w_out, f.s_ins) }}", "f.s_w_out, f.s_ins ~ ' / 2') }}")
assert HALF != TEMPLATE


def match(p: Problem) -> Choice:
    return replace(lanes_dense.match(p), strategy="borrowed")


OWN = Strategy("borrowed", match, target="cpu", template=TEMPLATE)
WRONG = replace(OWN, template=HALF)
LOOSE = replace(OWN, products="bf16")


@dataclass(frozen=True)
class Entry:
    """An entry point of a package that is installed."""

    value: object
    name: str = "borrowed"
    dist: None = None

    def load(self) -> object:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def forget() -> None:
        installed.cache_clear()
        skeletons.cache_clear()

    def put(*values: object) -> None:
        monkeypatch.setattr("compiler.strategies.plugins.entry_points", lambda group: [Entry(v) for v in values])
        forget()

    yield put
    monkeypatch.undo()
    forget()


def test_a_package_that_is_installed_changes_no_result(install: Callable[..., None]) -> None:
    node, tensors = dense(48, 31, 29)
    before = choose(node, tensors, 16, 4, CpuBackend().capabilities.strategies)
    install(OWN)
    available = CpuBackend().capabilities.strategies
    assert "borrowed" in available
    assert choose(node, tensors, 16, 4, available) == before


@pytest.mark.parametrize(("strategy", "wrong"), [(OWN, False), (WRONG, True)])
def test_it_is_measured_and_compared_like_the_others(
    strategy: Strategy, wrong: bool, install: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path))
    install(strategy)
    here = site(dense(48, 31, 29))
    (way,) = (w for w in map(identity, here.ways) if w.startswith("borrowed"))
    result = measure([here], bench(counted(lambda phase: 10.0)[0]))[0]
    assert way in result.microseconds
    assert (way in result.wrong) is wrong


def test_it_says_what_it_needs(install: Callable[..., None]) -> None:
    install(LOOSE)
    for products, may in (("exact", False), ("float32", False), ("tf32", False), ("bf16", True)):
        found = permitted(CpuBackend().capabilities, Numerics(products=products)).strategies
        assert ("borrowed" in found) is may


REFUSED = [
    (ImportError("no module"), "ImportError: no module"),
    (3, "it is neither a Strategy nor a tuple of them"),
    ((OWN, 3), "it is neither a Strategy nor a tuple of them"),
    (replace(OWN, name="a b"), "a strategy has a name that is an identifier"),
    (replace(OWN, template=""), "the text of a template"),
    (replace(OWN, target="cuda"), "its target is `cuda`, and templates are of cpu"),
    (replace(OWN, products="fast"), "its `products` is none of exact"),
    ((OWN, OWN), "another one is called `borrowed`, too"),
]


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_what_is_no_strategy_is_an_error(value: object, why: str, install: Callable[..., None]) -> None:
    install(value)
    with pytest.raises(RunError) as caught:
        CpuBackend().capabilities  # noqa: B018
    assert caught.value.code == "E0946"
    assert "`borrowed`" in caught.value.message
    assert why in caught.value.message


def test_entry_points_are_read_from_the_metadata_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_strategies.py").write_text("from tests.cpu.test_plugins import OWN\nSTRATEGIES = (OWN,)\n")
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[netloom.strategies]\nborrowed = their_strategies:STRATEGIES\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed.cache_clear()
    try:
        assert [s.name for s in installed()] == ["borrowed"]
        (tmp_path / "their_strategies.py").unlink()
        sys.modules.pop("their_strategies")
        installed.cache_clear()
        with pytest.raises(RunError, match="of the package `theirs` cannot be used: "):
            installed()
    finally:
        sys.modules.pop("their_strategies", None)
        installed.cache_clear()
