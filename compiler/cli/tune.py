"""The command `netloom tune`: measure strategies and write them beside the model.

Assumes: compiler/cli/app.py imports this module, which adds its commands to the application.
Guarantees: as app.py.
Does not: do anything itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.cli.errors import Format, show
from compiler.cli.options import BATCH, FORMAT, MODEL, QUIET, command, option
from compiler.runtime.common.options import Options

if TYPE_CHECKING:
    from compiler.tune.result import TuneResult


@command(
    "only budget batch check report out target set precision order device workspace portable rounds whole format quiet"
)
def tune(
    model: MODEL,
    options: Options,
    rounds: Annotated[int, typer.Option(help="How often each way is measured.", min=1)] = 7,
    only: Annotated[str | None, option("CONTRACTIONS:STRATEGIES, such as 'conv*:winograd,fft'.")] = None,
    budget: Annotated[str | None, option("Time for measuring, such as '60 s'; the largest come first.")] = None,
    batch: BATCH = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether the lock file is complete.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Show all candidates of every contraction.")] = False,
    out: Annotated[Path | None, option("An HTML file for the report.", "--out", "-o")] = None,
    whole: Annotated[bool, typer.Option(help="Whole steps have the last word.")] = True,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Measure how to compute each contraction and write MODEL.lock.

    `build` and `run` use the file when it stands beside the model. `--batch` measures predictions, too; a model without
    `train` has them alone.
    """
    from compiler.runtime.common.amounts import seconds_of
    from compiler.runtime.tuned_before import tune as tune_model
    from compiler.tune.wishes import EVERYTHING, Wishes, parsed

    wishes = Wishes(
        rounds, EVERYTHING if only is None else parsed(only), seconds_of("--budget", budget), batch, whole and not check
    )
    if check:
        from compiler.runtime.tuning import check_lock

        found = check_lock(model, options, wishes)
        show(found, format)
        if not found and not quiet and format is Format.human:
            typer.echo(f"{model.with_suffix('.lock')}: complete")
        raise typer.Exit(1 if found else 0)

    def watch(number: int, count: int, path: str) -> None:
        if not quiet and format is Format.human:
            typer.echo(f"{number}/{count} {path}", err=True)

    result = tune_model(model, options, watch=watch, wishes=wishes)
    show(result.warnings, format)
    if out is not None:
        _write(out, model, result)
    if format is Format.json:
        typer.echo(json.dumps(_as_json(result, report)))
    elif not quiet:
        _report(result, report)


def _write(out: Path, model: Path, result: TuneResult) -> None:
    from compiler.core.disk import write_text
    from compiler.report.tuning import page

    write_text(out, page(model.name, result.device, result.rows, result.steps, result.single), "the report")


def _as_json(result: TuneResult, report: bool) -> dict[str, object]:
    found: dict[str, object] = {"file": str(result.file), "contractions": result.summary(), "left": list(result.left)}
    found["steps"] = [asdict(s) for s in result.steps]
    found["forks"] = {x.path: {"way": x.way, "rules": x.rules} for x in result.layers}
    if report:
        found["candidates"] = [asdict(r) for r in result.rows]
        found["one_way"] = dict(result.single)
    return found


def _report(result: TuneResult, every: bool) -> None:
    """The contractions whose strategy changed, or all candidates; then whole steps, and the lock file."""
    from compiler.cli.output.table import table
    from compiler.core.disk import bytes_text

    changed = [[c.path, c.way, f"{c.microseconds:.1f}", f"{c.before:.1f}"] for c in result.contractions if c.changed]
    if every:
        rows = [
            [
                r.path,
                r.way,
                r.mark,
                f"{r.microseconds:.1f}",
                "" if r.share is None else f"{100 * r.share:.0f}",
                bytes_text(r.workspace) if r.workspace else "",
                "" if r.error is None else f"{r.error:.1e}",
            ]
            for r in result.rows
        ]
        typer.echo(table(["contraction", "way", "", "us", "% limit", "memory", "error"], rows, 3, len(rows)))
        typer.echo("in one way: " + ", ".join(f"{many} {kind}" for kind, many in sorted(result.single.items())))
    elif changed:
        typer.echo(table(["contraction", "way", "us", "us before"], changed, 2))
    for x in result.layers:
        if x.changed:
            typer.echo(f"{x.path}: {x.way}; a step of {x.microseconds:,.1f} us, {x.before:,.1f} us by the rules")
    for step in result.steps:
        back = f"; {len(step.back)} back to the rules" if step.back else ""
        typer.echo(f"a step of {step.phase}: {step.after:,.1f} us, {step.before:,.1f} us with the rules{back}")
    if result.left:
        typer.echo(f"{len(result.left)} contractions were not measured within the budget")
    changed += [[x.path] for x in result.layers if x.changed]
    many = len(result.contractions)
    same = "all as the rules say" if not changed else f"{len(changed)} not as the rules say"
    more = f" and {len(result.layers)} ways of layers" if result.layers else ""
    typer.echo(f"{result.file}: {many} {'contraction' if many == 1 else 'contractions'}{more}, {same}")
