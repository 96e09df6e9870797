"""The command `netloom tune`: measure strategies and write them beside the model.

Assumes: compiler/cli/app.py imports this module, which adds its commands to the application.
Guarantees: as app.py.
Does not: do anything itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.cli.errors import Format, show
from compiler.cli.options import FORMAT, MODEL, QUIET, command
from compiler.runtime.common.options import Options

if TYPE_CHECKING:
    from compiler.runtime.tuning import TuneResult


@command("target set precision order device portable rounds format quiet")
def tune(
    model: MODEL,
    options: Options,
    rounds: Annotated[int, typer.Option(help="How often each way is measured.", min=1)] = 7,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Measure how to compute each contraction and write MODEL.lock.

    `build` and `run` use the file when it stands beside the model.
    """
    from compiler.runtime.tuning import tune_model

    def watch(number: int, count: int, path: str) -> None:
        if not quiet and format is Format.human:
            typer.echo(f"{number}/{count} {path}", err=True)

    result = tune_model(model, replace(options, lock=False), rounds, watch)
    show(result.warnings, format)
    if format is Format.json:
        typer.echo(json.dumps({"file": str(result.file), "contractions": result.summary()}))
    elif not quiet:
        _report(result)


def _report(result: TuneResult) -> None:
    """The contractions whose strategy changed, and the lock file."""
    from compiler.cli.show import table

    rows = [
        [path, str(entry["way"]), f"{entry['microseconds']:.1f}", f"{entry['before']:.1f}"]
        for path, entry in result.summary().items()
        if entry["way"] != entry["rules"]
    ]
    if rows:
        typer.echo(table(["contraction", "way", "us", "us before"], rows, 2))
    many = len(result.tuned)
    same = "all as the rules say" if not rows else f"{len(rows)} not as the rules say"
    typer.echo(f"{result.file}: {many} {'contraction' if many == 1 else 'contractions'}, {same}")
