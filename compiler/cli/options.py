"""The application and the options that several commands have.

Assumes: typer.
Guarantees: an option has one name, one help text and one check everywhere.
Does not: have commands (cli_app.py, cli_trained.py, cli_tune.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.cli.errors import Format

if TYPE_CHECKING:
    from compiler.runtime.common.options import Options

app = typer.Typer(
    name="netloom",
    help="Compiles neural networks that are described in YAML: `netloom run models/cuba.yaml`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MODEL = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]
TARGET = Annotated[str, typer.Option("--target", "-t", help="cpu, reference or cuda.")]
SET = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Another value of a parameter: name=value. Repeatable.", show_default=False),
]
PRECISION = Annotated[str | None, typer.Option(help="float32 or float64, instead of the model's.", show_default=False)]
ORDER = Annotated[
    str | None, typer.Option(help="fast, reproducible or bitwise, instead of the model's.", show_default=False)
]
SEED = Annotated[int | None, typer.Option(help="Instead of the model's seed.", show_default=False)]
FORMAT = Annotated[Format, typer.Option(help="How messages are shown.")]
VERIFY = Annotated[bool, typer.Option("--verify", help="Check every level of the IR after each pass.")]
PORTABLE = Annotated[bool, typer.Option("--portable", help="Code that runs on other machines of this kind, too.")]
QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="Show errors only.")]
BUILD_DIR = Annotated[Path, typer.Option(help="Where build folders are made.")]
RUNS_DIR = Annotated[Path, typer.Option(help="Where run directories are made.")]
OUT = Annotated[Path | None, typer.Option(help="The run directory itself.", show_default=False)]
RESUME = Annotated[
    Path | None,
    typer.Option(help="A run directory or checkpoint to go on from, bit for bit.", show_default=False),
]
DURATION = Annotated[
    str | None, typer.Option(help="Simulated time instead of the model's, such as '2 s'.", show_default=False)
]
DEVICE = Annotated[int | None, typer.Option(help="The number of the GPU.", show_default=False)]
ARCH = Annotated[str | None, typer.Option(help="The GPU's architecture, such as sm_90.", show_default=False)]
WEIGHTS = Annotated[
    Path | None,
    typer.Option(help="A safetensors file or run directory that the weights are read from.", show_default=False),
]
STANDALONE = Annotated[bool, typer.Option("--standalone", help="One C file that computes a trained network's outputs.")]
EMBED = Annotated[bool, typer.Option("--embed", help="With --standalone: the weights stand in the C file.")]
BATCH = Annotated[int | None, typer.Option(help="Samples that are computed at once.", show_default=False)]
NO_LOCK = Annotated[bool, typer.Option("--no-lock", help="Leave out the lock file that `tune` wrote.")]
FREEZE = Annotated[
    list[str] | None,
    typer.Option(
        help="`learning`, or a projection whose synapses keep what they have learned. Repeatable.", show_default=False
    ),
]
EPOCHS = Annotated[int | None, typer.Option(help="Epochs instead of the model's.", show_default=False)]


def settings(given: list[str] | None) -> dict[str, str]:
    """`--set name=value` as a mapping. Exits with a usage error for anything else."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"`{item}` is not name=value", param_hint="--set")
        found[name.strip()] = value.strip()
    return found


def choice(value: str | None, allowed: tuple[str, ...], option: str) -> str | None:
    if value is not None and value not in allowed:
        raise typer.BadParameter(f"`{value}` is not one of {', '.join(allowed)}", param_hint=option)
    return value


def options_of(
    target: str = "cpu",
    set: list[str] | None = None,
    precision: str | None = None,
    order: str | None = None,
    seed: int | None = None,
    **more: object,
) -> Options:
    from compiler.runtime.common.options import ORDERS, PRECISIONS, Options

    return Options(
        target,
        settings(set),
        choice(precision, PRECISIONS, "--precision"),
        choice(order, ORDERS, "--order"),
        seed,
        **more,  # type: ignore[arg-type]
    )
