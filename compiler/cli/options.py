"""The application, and a decorator that makes commands from functions and the options in
compiler/runtime/common/options.py.

Assumes: typer.
Guarantees: an option has one name, one help text and one check everywhere; exceptions of commands are handled by
compiler/cli/errors.py.
Does not: have commands (app.py, trained.py, tune.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from compiler.cli.completion import OF_OPTIONS, among, models
from compiler.cli.errors import Format, guarded
from compiler.cli.help import Grouped, epilog
from compiler.runtime.common.options import DEFAULTS, DESCRIBED, TYPES, Options

app = typer.Typer(
    name="netloom",
    help="Compiles neural networks that are described in YAML: `netloom run models/cuba.yaml`.",
    no_args_is_help=True,
    cls=Grouped,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def option(help: str, *names: str, **more: Any) -> Any:
    """An option whose help tells what happens without it."""
    return typer.Option(*names, help=help, show_default=False, **more)


def argument(help: str, **more: Any) -> Any:
    return typer.Argument(help=help, show_default=False, **more)


MODEL = Annotated[Path, argument("The model file.", autocompletion=models)]
FORMAT = Annotated[Format, typer.Option(help="How messages are shown.")]
QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="Show errors only.")]
BATCH = Annotated[int | None, option("Samples that are computed at once.")]
LAYERS = Annotated[str | None, option("Which layers are outputs, with commas; else the last ones.")]


def with_command(words: list[str]) -> typer.Typer:
    """The application, which has made only the command that the first word names, if it names one: they are many."""
    own = [c for c in app.registered_commands if c.callback is not None and [c.name or c.callback.__name__] == words]
    if not own:
        return app
    one = copy(app)
    one.registered_commands = own
    return one


F = TypeVar("F", bound=Callable[..., None])
_REPEATED: Final = frozenset(n for n, kind in TYPES.items() if kind in (Mapping[str, str], tuple[str, ...]))


def command(order: str = "", name: str | None = None, end: str | None = None) -> Callable[[F], F]:
    """Adds a function to the application as a command.

    `order`: the names of its options as the help lists them. Those that are no parameters of the function are fields of
    `Options`, which the function is given as `options`. Without an order, its own parameters are the options. `end` is
    the end of its help.
    """

    def decorate(function: F) -> F:
        own = inspect.signature(function, eval_str=True).parameters
        words = order.split() or list(own)
        first = [n for n in own if n != "options" and n not in words]
        both = (own[n] if n in own else _parameter(n) for n in (*first, *words))
        shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in both]

        def call(**given: Any) -> None:
            with guarded(given.get("format", Format.human)):
                chosen = {n: given.pop(n) for n in words if n not in own}
                if "options" in own:
                    given["options"] = _options(chosen)
                function(**given)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        call.__annotations__ = {p.name: p.annotation for p in shown}
        call.__dict__["__signature__"] = inspect.Signature(shown)
        app.command(name=name, epilog=epilog(name or function.__name__, end))(call)
        return function

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    """The parameter of a command for a field of `Options`; a flag that is on by default gets the form --no-X."""
    option, default, kind = DESCRIBED[name], getattr(DEFAULTS, name), TYPES[name]
    if name in _REPEATED:
        default, kind = None, list[str] | None
    flag = f"--{'no-' if default is True else ''}{name.replace('_', '-')}"
    default = False if default is True else default
    flags = (flag, option.short) if option.short else (flag,)
    completer = among(option.choices) if option.choices else OF_OPTIONS.get(name)
    info = typer.Option(*flags, help=option.help, show_default=default is not None, autocompletion=completer)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=Annotated[kind, info])


def _options(given: Mapping[str, Any]) -> Options:
    """Options from the values of `_parameter`s."""
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if name == "set":
            value = settings(value)
        elif name in _REPEATED:
            value = tuple(value or ())
        elif getattr(DEFAULTS, name) is True:
            value = not value
        chosen[name] = choice(value, choices, f"--{name}") if (choices := DESCRIBED[name].choices) else value
    return Options(**chosen)


def settings(given: list[str] | None) -> dict[str, str]:
    """`--set name=value` as a mapping. Exits with a usage error for anything else."""
    values: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"`{item}` is not name=value", param_hint="--set")
        values[name.strip()] = value.strip()
    return values


def choice(value: str | None, allowed: tuple[str, ...], option: str) -> str | None:
    if value is not None and value not in allowed:
        raise typer.BadParameter(f"`{value}` is not one of {', '.join(allowed)}", param_hint=option)
    return value
