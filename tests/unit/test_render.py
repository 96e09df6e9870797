"""Rendering of diagnostics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.core.diagnostics import Diagnostic, ModelError, Related, Severity
from compiler.core.render import MAX_SHOWN, MAX_WIDTH, Format, clip, ordered, render
from compiler.core.source import NOWHERE, Origin, SourceFile, Span
from compiler.frontend.load import load_model

TEXT = "language: 1\npopulations:\n  exc: 1\npopultions:\n  inh: 2\n"
FILE = SourceFile("models/cuba.yaml", TEXT)


def span(word: str, file: SourceFile = FILE, via: Origin | None = None) -> Span:
    start = file.text.index(word)
    return Span(file, start, start + len(word), via)


def error(message: str, at: Span | None, **more: object) -> Diagnostic:
    return Diagnostic("E0101", message, at, **more)  # type: ignore[arg-type]


def carets(line: str, word: str) -> tuple[str, str]:
    """The source line and the caret line for `word` in `line`."""
    shown = render([error("m", span(word, SourceFile("f", line)))], "human").split("\n")
    return shown[3][4:], shown[4][4:]


def test_everything_that_a_diagnostic_may_carry() -> None:
    use = Origin("use", "use of library/neurons/adex", span("exc"))
    at = span("popultions", via=use)
    found = error(
        "unknown key `popultions`",
        at,
        help="did you mean `populations`?",
        related=(Related("first declared here", span("populations")),),
    )
    warning = Diagnostic("W0001", "odd", span("language"), severity=Severity.WARNING)
    assert render([found, warning], "human") == (
        "warning[W0001]: odd\n"
        " --> models/cuba.yaml:1:1\n"
        "  |\n"
        "1 | language: 1\n"
        "  | ^^^^^^^^\n"
        "\n"
        "error[E0101]: unknown key `popultions`\n"
        " --> models/cuba.yaml:4:1\n"
        "  |\n"
        "4 | popultions:\n"
        "  | ^^^^^^^^^^\n"
        "  = help: did you mean `populations`?\n"
        "  = note: first declared here: models/cuba.yaml:2:1\n"
        "  |\n"
        "2 | populations:\n"
        "  | ^^^^^^^^^^^\n"
        "  = via use of library/neurons/adex (models/cuba.yaml:3:3)\n"
        "\n"
        "error: 1 error and 1 warning in models/cuba.yaml\n"
    )


def test_short_and_json() -> None:
    found = error("bad", span("popultions"), help="h", related=(Related("r", span("exc")),))
    assert render([found], "short") == "models/cuba.yaml:4:1: error[E0101]: bad\n"
    assert json.loads(render([found], "json")) == {
        "code": "E0101",
        "severity": "error",
        "message": "bad",
        "path": "models/cuba.yaml",
        "line": 4,
        "column": 1,
        "end_line": 4,
        "end_column": 11,
        "help": "h",
        "related": [
            {
                "message": "r",
                "path": "models/cuba.yaml",
                "line": 3,
                "column": 3,
                "end_line": 3,
                "end_column": 6,
            }
        ],
        "via": [],
    }


def test_nothing_renders_as_nothing() -> None:
    for form in ("human", "short", "json"):
        assert render([], form) == ""  # type: ignore[arg-type]


def test_without_a_place() -> None:
    found = error("there is no file `x.yaml`", None)
    assert render([found], "human") == ("error[E0101]: there is no file `x.yaml`\n\nerror: 1 error\n")
    assert render([found], "short") == "error[E0101]: there is no file `x.yaml`\n"
    assert json.loads(render([found], "json"))["line"] is None


@pytest.mark.parametrize(
    ("line", "word", "column", "width"),
    [
        ("abc def", "def", 4, 3),
        ("日本 def", "def", 5, 3),
        ("a: 日本", "日本", 3, 4),
        ("cafe\u0301 def", "def", 5, 3),
        ("a\tdef", "def", 4, 3),
        ("日\tdef", "def", 4, 3),
        ("🙂 x", "x", 3, 1),
        ("a\u200b x", "x", 2, 1),
    ],
)
def test_carets_line_up(line: str, word: str, column: int, width: int) -> None:
    _, marks = carets(line, word)
    assert marks == " " * column + "^" * width


def test_control_and_bidirectional_characters_are_made_visible() -> None:
    shown, marks = carets("a\x00\x1b[31m\u202eb x", "x")
    assert shown == "a␀␛[31m\ufffdb x"
    assert marks == " " * 10 + "^"


def test_an_empty_span_gets_one_caret() -> None:
    file = SourceFile("f", "a:\n")
    shown = render([error("m", Span(file, 2, 2))], "human").split("\n")
    assert shown[4] == "  |   ^"


def test_the_end_of_the_file_can_be_marked() -> None:
    file = SourceFile("f", "a: [\n")
    assert "f:2:1" in render([error("m", Span(file, 5, 5))], "human")


def test_a_span_of_several_lines() -> None:
    file = SourceFile("f", "a: [1,\n  2,\n  3]\nb: 1\n")
    shown = render([error("m", Span(file, 3, 16))], "human").split("\n")
    assert shown[3:5] == ["1 | a: [1,", "  |    ^^^ to line 3"]
    shown = render([error("m", Span(file, 17, 22))], "human").split("\n")
    assert shown[3:5] == ["4 | b: 1", "  | ^^^^"]


@pytest.mark.parametrize("begin", [0, 10, 50, 95, 400, 990])
@pytest.mark.parametrize("size", [0, 3, 60, 500])
def test_long_lines_are_clipped_around_the_span(begin: int, size: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(1000))
    end = min(begin + size, 1000)
    shown, before, width = clip(line, begin, end)
    assert len(shown) <= MAX_WIDTH
    marked = shown[before : before + width]
    assert line[begin:end].startswith(marked)
    assert len(marked) >= min(end - begin, MAX_WIDTH - 20)


@given(st.text(max_size=300), st.data())
def test_clip_never_fails(line: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(begin, len(line)))
    shown, before, width = clip(line, begin, end)
    assert "\n" not in shown
    assert before >= 0
    assert width >= 0


def test_sorted_and_without_duplicates() -> None:
    other = SourceFile("a.yaml", "x: 1\n")
    via = Origin("for", "for i = 1", NOWHERE)
    items = [
        error("two", span("popultions")),
        error("one", span("exc")),
        error("one", span("exc", via=via)),
        error("zero", span("x", other)),
        error("nowhere", None),
    ]
    assert [d.message for d in ordered(items)] == ["nowhere", "zero", "one", "two"]
    assert render(items, "human").endswith("error: 4 errors in 2 files\n")


def test_at_most_a_hundred_are_shown() -> None:
    items = [error(f"m{i}", span("exc")) for i in range(MAX_SHOWN + 37)]
    shown = render(items, "human")
    assert shown.count("error[E0101]") == MAX_SHOWN
    assert "\n\n... and 37 more\n\nerror: 137 errors in" in shown
    assert render(items, "short").endswith("... and 37 more\n")
    assert len(render(items, "json").splitlines()) == MAX_SHOWN + 37


def test_colour_changes_nothing_but_colour() -> None:
    import re

    items = [error("m", span("exc"), help="h", related=(Related("r", span("popultions")),))]
    colored = render(items, "human", color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(items, "human")


def test_only_warnings() -> None:
    items = [Diagnostic("W0001", "odd", span("exc"), severity=Severity.WARNING)]
    assert render(items, "human").endswith("warning: 1 warning in models/cuba.yaml\n")


def test_long_texts_of_users_are_cut(tmp_path: Path) -> None:
    """A suggestion may repeat what the user wrote, which may be megabytes."""
    pairs = ", ".join(f"dv{n}/dt = -v{n}" for n in range(20_000))
    (tmp_path / "long.yaml").write_text(f"language: 1\nneurons: {{cell: {{dynamics: [{pairs}]}}}}\n")
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "long.yaml")
    formats: tuple[Format, ...] = ("human", "short", "json")
    for format in formats:
        shown = render(caught.value.diagnostics, format)
        assert "error" in shown and len(shown) < 20_000
