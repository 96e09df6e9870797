"""docs/ir.md is up to date with the code."""

from __future__ import annotations

from compiler.ir.text import MODULES
from scripts.ir_docs import LEVELS, PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "stale: run `python -m scripts.ir_docs`"


def test_all_modules_of_the_text_are_there() -> None:
    told = {f"compiler.ir.{name}" for level in LEVELS for name in level.nodes}
    assert told | {"compiler.expr.ast", "compiler.ir.space"} == set(MODULES)
