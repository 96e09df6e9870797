"""The comparison of emitted text: comments are ignored, any other difference is reported under its kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends.c_family import source_map
from backends.c_family.access import Kernel
from backends.cpu.backend import CpuBackend
from backends.cpu.kernels import propagate
from backends.cpu.kernels.csr_prefetch import function_ahead
from backends.kernel_ir.stmt import Stmt, Text
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Csr
from compiler.passes.pipeline.lower import lower
from scripts.replay import ROOT, Compared, code_lines, compared, emitted, report

KEY = ("models/cuba.yaml", "cpu", "code")


@pytest.fixture(scope="module")
def here() -> str:
    """What the command line prints for a model."""
    text = emitted(ROOT, [KEY])[KEY]
    assert text is not None
    return text


def text() -> str:
    model = load_model(ROOT / KEY[0], shown=KEY[0])
    return CpuBackend().emit(lower(model, CpuBackend().capabilities).merged)


def test_equal_texts_are_equal(here: str) -> None:
    assert compared(KEY, here, text()) == Compared(KEY, "equal", {})


def test_comments_do_not_count(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_map, "heading", lambda *_: [Text("/* something else */")])
    changed = text()
    assert changed != here
    assert compared(KEY, here, changed).verdict == "equal"


def test_a_changed_kernel_is_named(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = function_ahead

    def shorter(k: Kernel, relation: Csr, *work: Any) -> list[Stmt]:
        """Without what happens at an event."""
        lines: list[Stmt] = whole(k, relation, *work[:-1], [])
        return lines

    monkeypatch.setattr(propagate, "function_ahead", shorter)
    found = compared(KEY, here, text())
    assert found.verdict == "differs"
    assert any("propagation" in name for name in found.diffs)
    assert not any("neuron_update" in name for name in found.diffs)
    assert any(line.startswith("-") for lines in found.diffs.values() for line in lines)


def test_what_stands_on_one_side() -> None:
    decisions = ("m", "cpu", "decisions")
    verdicts = [compared(decisions, a, b).verdict for a, b in [(None, "x"), ("x", None), (None, None), ("x", "y")]]
    assert verdicts == ["new", "gone", "refused on both", "differs"]
    assert "\n".join(report([compared(decisions, "x", "y")])).startswith(
        "\n==== m cpu decisions: decisions\n@@ -1 +1 @@"
    )


def test_strings_are_no_comments() -> None:
    assert code_lines('a("/* kept */"); /* gone\n */ b; // gone\n\n  c;') == ['a("/* kept */"); b;', "  c;"]


def test_a_refused_model_has_no_text(tmp_path: Path) -> None:
    key = (str(tmp_path / "none.yaml"), "cuda", "decisions")
    assert emitted(ROOT, [key]) == {key: None}
