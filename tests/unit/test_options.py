"""Options: the command line, the Python API and the runner have equal options, with equal meaning, default and errors.

All is generated from the parameters of the commands and the description in compiler/runtime/common/options.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from compiler.cli.app import app
from compiler.core.diagnostics import RunError
from compiler.runtime.common import options as described
from compiler.runtime.common.options import DEFAULTS, DESCRIBED, TYPES, Options
from netloom import Model, build, check, evaluate, predict, run

FUNCTIONS: Mapping[str, Callable[..., Any]] = {f.__name__: f for f in (check, build, run, evaluate, predict)}
RUNNERS = {
    "check": "compiler.runtime.prepare.check_model",
    "build": "compiler.runtime.build.build_model",
    "run": "compiler.runtime.execute.run_model",
    "evaluate": "compiler.runtime.inference.predict.evaluate_file",
    "predict": "compiler.runtime.inference.predict.predict_file",
}
SHOWN = {"format", "explain", "quiet", "timings", "help"}
"""Of the command line alone: how results are printed."""
BESIDE = {"data", "layers", "out", "batch", "standalone", "embed"}
"""Of one command, and no fields of Options there."""


def commands() -> dict[str, dict[str, Any]]:
    """The options of every command that has a Python function, by name."""
    group: Any = typer.main.get_command(app)
    return {n: {p.name: p for p in c.params if p.param_type_name == "option"} for n, c in group.commands.items()}


CASES = [(c, n) for c in FUNCTIONS for n in commands()[c] if n not in SHOWN]
SHARED = [(c, n) for c, n in CASES if n in DESCRIBED and (n not in BESIDE or c == "run")]


def value_of(name: str) -> tuple[Any, list[str]]:
    """(a value that is not the default for Python, the same on the command line)."""
    option, kind = DESCRIBED[name], TYPES[name]
    flag = "--" + name.replace("_", "-")
    if kind is bool:
        return (not getattr(DEFAULTS, name)), ["--no-" + name if getattr(DEFAULTS, name) else flag]
    if kind == Mapping[str, str]:
        return {"n": 3}, [flag, "n=3"]
    if kind == tuple[str, ...]:
        return ("a", "b"), [flag, "a", flag, "b"]
    text = option.choices[-1] if option.choices else "7"
    if kind == float | None:
        return 7.0, [flag, text]
    return (int(text) if kind == int | None else text), [flag, text]


class Caught(Exception):
    """In place of a run."""


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """The options that the runner is given."""
    given: list[Options] = []

    def runner(*arguments: Any) -> None:
        given.extend(a for a in arguments if isinstance(a, Options))
        raise Caught

    for place in RUNNERS.values():
        monkeypatch.setattr(place, runner)
    monkeypatch.setattr("compiler.runtime.inference.standalone.build_standalone", runner)
    return given


def positional(command: str) -> list[str]:
    return ["x.yaml", "y.npy"] if command == "predict" else ["x.yaml"]


@pytest.mark.parametrize(("command", "name"), CASES, ids=lambda v: str(v))
def test_the_python_function_has_every_option_of_the_command(command: str, name: str) -> None:
    parameter = inspect.signature(FUNCTIONS[command]).parameters[name]
    if (command, name) in SHARED and parameter.default is not None:
        assert parameter.default in (getattr(DEFAULTS, name), str(getattr(DEFAULTS, name)))
    if command != "check" and (command, name) in SHARED:
        typed = commands()[command][name].default
        assert typed in (None, str(getattr(DEFAULTS, name)), getattr(DEFAULTS, name)) or name in ("lock", "plots")


@pytest.mark.parametrize("command", FUNCTIONS)
def test_the_function_has_no_other_option(command: str) -> None:
    parameters = list(inspect.signature(FUNCTIONS[command]).parameters)[1:]
    assert set(parameters) <= set(commands()[command])


@pytest.mark.parametrize(("command", "name"), SHARED, ids=lambda v: str(v))
def test_an_option_means_the_same(command: str, name: str, caught: list[Options]) -> None:
    """The runner is given the same options, which are the defaults but for the one that is chosen."""
    value, words = value_of(name)
    alone = {"standalone": True} if (command, name) == ("build", "weights") else {}
    with pytest.raises(Caught):
        FUNCTIONS[command](*positional(command), **{name: value}, **alone)
    more = ["--data", "y.npy", "--out", "o.npz"] if command == "predict" else []
    result = CliRunner().invoke(app, [command, "x.yaml", *words, *more, *(f"--{n}" for n in alone)])
    assert result.exit_code == 70, result.output
    assert len(caught) == 2 and caught[0] == caught[1]
    assert [n for n in DESCRIBED if getattr(caught[0], n) != getattr(DEFAULTS, n)] == [name]


@pytest.mark.parametrize(
    ("command", "name"), [(c, n) for c, n in SHARED if DESCRIBED[n].choices or TYPES[n] == int | None]
)
def test_an_option_is_refused_alike(command: str, name: str, caught: list[Options]) -> None:
    """A value that it cannot have is a usage error: exit code 2, and the text names the option."""
    with pytest.raises(RunError) as error:
        FUNCTIONS[command](*positional(command), **{name: "wrong"})
    assert error.value.exit_code == 2 and error.value.message.startswith(f"`{name}` is ")
    more = ["--data", "y.npy", "--out", "o.npz"] if command == "predict" else []
    result = CliRunner().invoke(app, [command, "x.yaml", f"--{name}", "wrong", *more])
    assert result.exit_code == 2 and f"--{name}" in result.output
    assert not caught


def test_the_typed_keywords_are_the_fields() -> None:
    """What editors see (the TypedDict of `run`) are the fields of Options, beside the target and the settings."""
    assert {*described.RunOptions.__annotations__, "target", "set"} == set(DESCRIBED)


@pytest.mark.parametrize("name", ["build", "run", "simulation", "sweep", "fit", "evaluate", "predict"])
def test_methods_of_a_model_take_no_other_keyword(name: str) -> None:
    method = getattr(Model(Path("x.yaml"), None, None), name)
    with pytest.raises(TypeError, match="unexpected keyword argument 'batch'"):
        method(*([{}] if name == "predict" else []), batch=8)
    assert inspect.signature(method).parameters.keys() >= {"precision", "order"}


def test_no_other_keyword_is_taken() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sede'"):
        run("x.yaml", sede=1)  # type: ignore[call-arg]
