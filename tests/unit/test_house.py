"""The structure of the code: small folders, no cycles among them, few floors, backends that import no passes."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from scripts.house import PICTURE, folder, folders, imports, picture

ROOT = Path(__file__).resolve().parents[2]

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


SEARCHING = {
    *("processor.py", "c_family/device_library.py", "c_family/names.py", "c_family/skeletons.py"),
    *("c_family/source_map.py", "cpu/emit/build.py", "cpu/export/standalone.py"),
    *("cuda/emit/compile.py", "cuda/device/device.py", "kernel_ir/expr.py"),
}
"""Files of backends with regular expressions: over names, headers, skeletons, quotations, and what devices and
compilers say."""


def test_no_emitted_text_is_searched() -> None:
    """What a kernel reads and calls is data (backends/kernel_ir)."""
    files = {p.relative_to(ROOT / "backends").as_posix(): p for p in (ROOT / "backends").rglob("*.py")}
    assert {f for f, p in files.items() if "import re\n" in p.read_text(encoding="utf-8")} == SEARCHING


@pytest.mark.parametrize("folder", ["layers", "losses", "connect"])
def test_kinds_and_rules_stand_on_core_expressions_and_ir(folder: str) -> None:
    """A loss takes the reference to a layer from the keys of layers."""
    own = f"compiler/{folder}/"
    below = ("compiler/core/", "compiler/expr/", "compiler/ir/", "compiler/layers/shared/", own, "compiler/__init__.py")
    wrong = {f: sorted(x) for f, seen in imports().items() if f.startswith(own)
             and (x := {o for o in seen if not o.startswith(below)})}  # fmt: skip
    assert wrong == {}


def test_the_picture_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "stale: run `python -m scripts.house --picture`"


TOPS = ("netloom", "compiler", "backends", "scripts")
CITING = ("netloom", "compiler", "backends", "docs")


def test_files_that_are_cited_exist() -> None:
    """Python files that docstrings, comments and pages cite: by path, or by name from beside."""
    tops = (*TOPS, "tests", "benchmarks")
    files = {p.relative_to(ROOT).as_posix() for top in tops for p in (ROOT / top).rglob("*.py")}
    for path in (p for top in CITING for p in (ROOT / top).rglob("*.*") if p.suffix in (".py", ".md")):
        # `self.py` is the row of a neuron's pool
        cited = re.findall(r"(?<![\w/*.])[a-z]\w*(?:/\w+)*\.py\b", path.read_text(encoding="utf-8"))
        near = path.relative_to(ROOT).parent.as_posix()
        missing = {c for c in cited if c != "self.py" and files.isdisjoint({c, f"{near}/{c}", f"compiler/{c}"})}
        assert not missing, f"{path}: {sorted(missing)}"


LONGEST = 60
LONG = frozenset(
    {
        ("compiler/expr/keys/values.py", "_distribution"),
    }
)
"""Functions of more than 60 lines that are still to be taken apart."""


def test_functions_are_short() -> None:
    root, long = PICTURE.parents[1], set()
    for path in chain.from_iterable(
        (root / top).rglob("*.py") for top in ("netloom", "compiler", "backends", "scripts")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST:
                long.add((path.relative_to(root).as_posix(), node.name))
    assert long == LONG


def test_tests_import_no_private_names() -> None:
    root = PICTURE.parents[1]
    for path in (root / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
                "netloom",
                "compiler",
                "backends",
            ):
                private = [a.name for a in node.names if a.name.startswith("_")]
                assert not private, f"{path}: {private}"
