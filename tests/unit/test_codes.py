"""The catalogue of codes is complete, without unused ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.core.catalogue import CATALOGUE, TEXT, explain
from compiler.core.diagnostics import EXIT_CODES, RunError, Severity, Sink
from compiler.core.source import SourceFile
from compiler.frontend.yaml.yaml12 import load_text

REPOSITORY = Path(__file__).resolve().parents[2]
_CODE = re.compile(r"""["']([EW][0-9]{4})["']""")
_RAISED = re.compile(r"""(?:RunError|BackendError)\(\s*["'](E[0-9]{4})["']""")


def used(pattern: re.Pattern[str] = _CODE) -> set[str]:
    """Every code that stands as a string in the source tree."""
    found: set[str] = set()
    for folder in ("compiler", "backends", "netloom"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            found.update(pattern.findall(path.read_text("utf-8")))
    return found - {"E0123"}  # the example in documentation


def test_every_code_that_is_used_is_listed() -> None:
    assert used() - set(CATALOGUE) == set()


# Codes of parts that are not in the tree yet; the list may only become shorter.
NOT_YET = {"E0201", "E0501", "E0502", "E0601"}


def test_every_code_that_is_listed_is_used() -> None:
    assert set(CATALOGUE) - used() <= NOT_YET


def test_codes_are_unique_and_in_order() -> None:
    listed = re.findall(r"^## (\w+)", TEXT.read_text("utf-8"), re.MULTILINE)
    errors = [c for c in listed if c[0] == "E"]
    assert len(listed) == len(set(listed)) == len(CATALOGUE)
    assert errors == sorted(errors)


def test_errors_of_runs_and_tools_have_an_exit_code() -> None:
    assert used(_RAISED) <= set(EXIT_CODES) <= used()
    assert RunError("E0912", "no").exit_code == 2
    assert RunError("E0906", "a fault", exit_code=70).exit_code == 70


@pytest.mark.parametrize("code", CATALOGUE)
def test_each_code_is_explained(code: str) -> None:
    text = explain(code.lower())
    assert text is not None
    assert text.startswith(f"{code}: ")
    assert CATALOGUE[code].explanation.endswith(".")


@pytest.mark.parametrize("code", [c for c in CATALOGUE if c.startswith("E00") and CATALOGUE[c].example_bad])
def test_examples_of_yaml_mistakes_give_their_code(code: str) -> None:
    info = CATALOGUE[code]

    def codes(text: str) -> list[str]:
        sink = Sink()
        load_text(SourceFile("m.yaml", text), sink)
        return [d.code for d in sink.items if d.severity is Severity.ERROR]

    assert codes(info.example_bad) == [code]
    assert code not in codes(info.example_good)


def test_unknown_codes() -> None:
    assert explain("E9999") is None
