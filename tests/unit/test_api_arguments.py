"""The Python API: valid arguments, and error messages as text."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom
from backends.protocol import BackendError
from compiler.cli.errors import complain, show
from compiler.core.diagnostics import ModelError, RunError
from netloom import build, check, evaluate, predict, run
from tests.unit.test_cli import TINY

WRONG = """\
language: 1
name: wrong
neurons:
  n: {state: {v: 0}, update: [v = v + missing], spike: {when: v > 1, reset: [v = 0]}}
populations: {p: {neuron: n, size: 3}}
simulate: {dt: 1 ms, duration: 20, seed: 0}
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------- errors


def test_text_of_a_model_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That of the command line: code, file, line, column, caret, help; each diagnostic has its part of it."""
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG, encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        run(path)
    text = str(caught.value)
    show(caught.value.diagnostics)
    assert capsys.readouterr().err == text + "\n"
    for part in ("error[E", f"--> {path}:4:39", "^^^^^^^", "missing", "= help: ", "2 errors in "):
        assert part in text, part
    for d in check(path):
        assert d.file == str(path) and d.line is not None and d.column is not None
        assert f"{d.file}:{d.line}:{d.column}\n" in str(d) and str(d) in text
    first = check(path)[0]
    assert first.span is not None and (first.line, first.column) == (first.span.line, first.span.column)
    assert repr(first.span) == f"<Span {path}:4:39 to 4:46>"


@pytest.mark.parametrize("kind", [RunError, BackendError])
def test_text_of_other_errors(kind: type[RunError | BackendError], capsys: pytest.CaptureFixture[str]) -> None:
    for message, help in (("it failed", None), ("it failed", "do this"), ("cc failed\nx.c:1: no\nx.c:2: no", "look")):
        error = kind("E0912", message, help)
        complain(error.code, error.message, error.help)
        assert capsys.readouterr().err == str(error) + "\n"
    assert str(error) == "error[E0912]: cc failed\n  = help: look\n  | x.c:1: no\n  | x.c:2: no"
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.message, again.help, again.exit_code) == (
        error.code, error.message, error.help, error.exit_code
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- arguments

WRONG_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "path": (None, 3, b"x", ""),
    "source": (None, 3, b"x", ""),
    "target": (None, 1, ["cpu"]),
    "set": (3, "n=3", [("n", 3)], {3: 4}, {"n": None}, {"n": [1]}, {"n": np.arange(3)}),
    "precision": (32, "float16", "double"),
    "order": (1, "exact"),
    "seed": (1.0, "1", True, [1]),
    "duration": (0.2, 200, ["200 ms"]),
    "epochs": (0, -1, 2.0, "2", False),
    "out": (3, b"x"),
    "resume": (3, True),
    "weights": (3, True),
    "build_dir": (None, 3),
    "runs_dir": (None, 3),
    "device": (-1, "0", 0.0, True),
    "arch": (90, ["sm_90"]),
    "portable": (None, 1, "yes"),
    "verify": (None, 1, "yes"),
    "lock": (None, 0, "no"),
    "standalone": (None, 1, "yes"),
    "embed": (None, 1, "yes"),
    "freeze": (None, 1, [1], {"learning": True}),
    "quiet": (None, 1),
    "layers": (None, 1, [1]),
    "batch": (0, 1.5, "8", True),
    "data": (3,),
    "validation": (-0.1, "0.2", True),
    "plots": (None, 1, "yes"),
    "tensorboard": (None, 1, "yes"),
    "workspace": (3, True),
}
FUNCTIONS = (check, build, run, evaluate, predict)


@pytest.mark.parametrize("function", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])
def test_every_argument_of_a_wrong_type_is_refused(function: Any, tiny: Path) -> None:
    """By its name, with what it may be and what it was; nothing is built or run."""
    parameters = inspect.signature(function).parameters
    for name in parameters:
        for value in WRONG_ARGUMENTS[name]:
            if (function is predict and name == "data") or value is parameters[name].default:
                continue
            given = {n: str(tiny) for n in ("path", "source", "data") if n in parameters} | {name: value}
            with pytest.raises(RunError) as caught:
                function(**given)
            error = caught.value
            assert error.code == "E0912" and error.exit_code == 2, (name, value)
            assert error.message.startswith((f"`{name}` is ", f"`{name}[")) and ", not " in error.message
    assert [p.name for p in tiny.parent.iterdir()] == ["tiny.yaml"]


def test_a_duration_is_a_time(tiny: Path) -> None:
    with pytest.raises(RunError) as caught:
        run(tiny, duration=0.2)  # type: ignore[arg-type]
    assert str(caught.value) == "error[E0912]: `duration` is a time such as '200 ms', not 0.2 (float)"
    with pytest.raises(RunError) as caught:
        run(tiny, duration="0.2", target="reference")
    assert caught.value.message == "the duration is a time such as '200 ms', not '0.2'"
    for longest, words in (("1e12 s", "more than 2,147,483,647 steps"), ("1e308 s", "is a time such as '200 ms'")):
        with pytest.raises(RunError, match=words) as caught:
            run(tiny, duration=longest, target="reference")
        assert (caught.value.code, caught.value.exit_code) == ("E0912", 2)


def test_what_may_be_given(tiny: Path) -> None:
    """Numbers of NumPy, paths of both kinds, truth values."""
    folder = tiny.parent / "r"
    result = run(str(tiny), "reference", {"n": np.int32(4)}, seed=np.int64(3), duration="0.01 s", verify=np.bool_(True),
                 build_dir=str(tiny.parent / "b"), runs_dir=folder)  # type: ignore[arg-type]  # fmt: skip
    assert result.record["seed"] == 3 and result.record["params"]["n"] == 4 and result.folder.parent == folder
    assert netloom.check(tiny, {"n": "5"}) == []


def test_arguments_of_a_model_and_a_simulation(tiny: Path) -> None:
    """Also those that no command has."""
    s = netloom.load(tiny).simulation()
    for act, said in (
        (lambda: netloom.load(tiny, set=["n=3"]), "`set` is a dict of parameters"),  # type: ignore[arg-type]
        (lambda: s.run(10), "`duration` is a time such as '100 ms', not 10"),  # type: ignore[arg-type]
        (lambda: s.every(10, print), "`interval` is a time such as '100 ms', not 10"),  # type: ignore[arg-type]
    ):
        with pytest.raises(RunError) as caught:
            act()
        assert caught.value.code == "E0912" and said in str(caught.value)
