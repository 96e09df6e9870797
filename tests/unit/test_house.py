"""The structure of the code: small folders, no cycles among them, few floors, backends that import no passes."""

from __future__ import annotations

import pytest

from scripts.house import PICTURE, folder, folders, imports, picture

FLOORS = {"compiler/frontend": 6, "compiler/passes": 5, "backends/cuda": 4}
"""The longest chain of imports among the direct children of a folder, at most."""

TOGETHER = {frozenset({"diagnostics.py", "render.py"})}
"""Files that may import each other: a diagnostic shows itself as it is rendered."""


@pytest.mark.parametrize("path", folders())
def test_folders_are_small_and_without_cycles(path: str) -> None:
    measured = folder(path)
    assert set(measured.cycles) <= TOGETHER
    assert measured.modules <= 15
    assert measured.height <= FLOORS.get(path, 12)


def test_backends_import_no_passes() -> None:
    wrong = {f: sorted(x) for f, seen in imports().items() if f.startswith("backends/")
             and (x := {o for o in seen if o.startswith(("compiler/passes/", "compiler/frontend/"))})}  # fmt: skip
    assert wrong == {}


def test_layers_stand_on_core_expressions_and_ir() -> None:
    below = ("compiler/core/", "compiler/expr/", "compiler/ir/", "compiler/layers/", "compiler/__init__.py")
    wrong = {f: sorted(x) for f, seen in imports().items() if f.startswith("compiler/layers/")
             and (x := {o for o in seen if not o.startswith(below)})}  # fmt: skip
    assert wrong == {}


def test_the_picture_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "stale: run `python -m scripts.house --picture`"
