"""The error corpus: every file below holds one kind of mistake, in the folder of its code, and beside it the exact text
that a user gets. `--update-golden` writes the texts again; read them in review as a user would.

A first line `# --set name=value` stands for that option of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.core.catalogue import CATALOGUE
from compiler.core.diagnostics import Diagnostic, ModelError, Sink
from compiler.core.render import render
from compiler.frontend.load import load_model
from compiler.ir.level2.target import Capabilities
from compiler.passes.pipeline.lower import lower
from compiler.runtime.prepare import refuse_two_halves

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("[EW]*/*.yaml"))
TARGET = Capabilities("reference", 0, True, frozenset())
GENERATED = {"E0002", "E0014", "E0015"}
"""Codes of the tests below, whose files are too large, too deep or not there."""
NOT_BY_A_MODEL = {
    "E0305": "only random numbers have no derivative, and they are refused (E0309) before training asks",
    "E0001": "the loader's last resort, for a message of libyaml that has no code of its own",
    "E0211": "reported by the command line",
    "W0004": "about a lock file that is older than its model (tests/unit/test_tune.py)",
    "W0005": "about what a machine has (tests/unit/test_bill.py)",
}
_SETTING = re.compile(r"# --set ([\w.]+)=(.*)")


def diagnostics(path: Path) -> tuple[Diagnostic, ...]:
    """What loading, and if that goes well lowering, has to say about a file."""
    setting = _SETTING.match(path.read_bytes().split(b"\n")[0].decode("utf-8", "replace"))
    settings = {} if setting is None else {setting[1]: setting[2]}
    sink = Sink()
    try:
        model = load_model(path, settings, sink=sink, shown=path.name)
        refuse_two_halves(model)
        lower(model, TARGET)
    except ModelError as error:
        return error.diagnostics
    return tuple(sink.items)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_text(path: Path, golden: Callable[[Path, str], None]) -> None:
    found = diagnostics(path)
    assert found, "the file has no mistake"
    text = render(found, "human")
    assert f"[{path.parent.name}]" in text.splitlines()[0]
    assert str(HERE.parents[1]) not in text
    golden(path.with_suffix(".txt"), text)


def test_every_code_has_a_file() -> None:
    covered = {d.code for path in CASES for d in diagnostics(path)}
    of_tools = {code for code in CATALOGUE if code.startswith("E09")}
    assert set(CATALOGUE) - covered - GENERATED - NOT_BY_A_MODEL.keys() - of_tools == set()


def codes(path: Path) -> list[str]:
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert render(caught.value.diagnostics, "human")
    return [d.code for d in caught.value.diagnostics]


@pytest.mark.parametrize("opening", ["[", "{a: ", "\n- " + "- " * 200_000])
def test_nesting_200000_deep(tmp_path: Path, opening: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("language: 1\nx-a: " + opening * (200_000 if len(opening) < 10 else 1))
    assert codes(path) == ["E0014"]


def test_deep_indentation(tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("language: 1\n" + "".join(" " * i + "x-a:\n" for i in range(2_000)))
    assert codes(path) == ["E0014"]


def test_file_larger_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    assert codes(path) == ["E0015"]


def test_no_such_file(tmp_path: Path) -> None:
    assert codes(tmp_path / "none.yaml") == ["E0002"]
    assert codes(tmp_path) == ["E0002"]
