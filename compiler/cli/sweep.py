"""`netloom sweep`: run the trials of a parameter study.

Assumes: compiler/cli/app.py imports this module, which adds its command to the application.
Guarantees: as app.py; the exit code is 5 when a trial failed, 130 after Ctrl-C.
Does not: do anything itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.cli.errors import Format
from compiler.cli.options import FORMAT, MODEL, QUIET, command, option
from compiler.core.source import NOWHERE, SourceFile, Span
from compiler.core.strict_json import dumps
from compiler.frontend.yaml.tree import Entry, Mapping, Scalar, Sequence
from compiler.runtime.common.options import Options

if TYPE_CHECKING:
    from compiler.sweep.plan import Plan
    from compiler.sweep.table import SweepResult


@command(
    "grid seeds workers scheduler cluster out dry_run set target precision order duration epochs data validation "
    "freeze weights tensorboard device arch portable verify lock format quiet"
)
def sweep(
    model: MODEL,
    options: Options,
    grid: Annotated[
        list[str] | None, option("In place of the model's `sweep`: name=1,2,3. Repeatable.", "--grid", "-g")
    ] = None,
    seeds: Annotated[int | None, option("Run each trial with so many seeds.", min=1)] = None,
    workers: Annotated[int | None, option("Processes; else one per processor.", "--workers", "-j", min=1)] = None,
    scheduler: Annotated[str | None, option("Run trials on the workers of this Dask scheduler.")] = None,
    cluster: Annotated[str | None, option("Start workers on slurm, pbs or ssh:host1,host2.")] = None,
    out: Annotated[Path | None, option("The sweep's folder; else sweeps/<name>.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the trials.")] = False,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Run a model for many settings.

    The trials are those of `sweep` in the model, or of --grid. Each has a directory, named by its settings: a sweep
    that is started again runs only what is missing. The results of all are in sweep.csv (and sweep.parquet).
    """
    from compiler.sweep.cluster import where
    from compiler.sweep.run import planned, run_sweep
    from compiler.sweep.show import shown

    count = workers or len(os.sched_getaffinity(0))
    elsewhere = where(scheduler, cluster, count)
    plan = planned(model, _grid(grid), seeds, options)
    if dry_run:
        _list(plan)
        return
    folder = out or Path("sweeps") / plan.name
    start = count if elsewhere is None else elsewhere.start
    result = run_sweep(plan, options, folder, start, shown(quiet or format is Format.json))
    if format is Format.json:
        found = {"folder": str(result.folder), "ran": result.ran, "best": result.best, "rows": list(result.rows)}
        typer.echo(dumps(found))
    elif quiet:
        typer.echo(result.folder)
    else:
        _show(result)
    if result.interrupted:
        raise typer.Exit(130)
    if result.failed:
        raise typer.Exit(5)


def _list(plan: Plan) -> None:
    """What would run."""
    for trial in plan.trials:
        seed = "" if trial.seed is None else f"seed {trial.seed}"
        typer.echo(" ".join([trial.key, *(f"{n}={v}" for n, v in trial.settings.items()), seed]).rstrip())
    if plan.search is not None:
        what = f"{'maximize' if plan.search.maximize else 'minimize'} {plan.search.goal}"
        typer.echo(f"{plan.count} trials that follow from the results of those before them: {what}")


def _grid(given: list[str] | None) -> Mapping | None:
    """`--grid n=1,2` as the tree of a sweep. Exits with a usage error for anything else."""
    entries = [_values(item) for item in given or ()]
    if not entries:
        return None
    last = {e.name: e for e in entries}  # as for --set
    return Mapping((Entry(_scalar("grid", NOWHERE), Mapping(tuple(last.values()), NOWHERE)),), NOWHERE)


def _values(item: str) -> Entry:
    """`n=1,2` as an entry whose spans show the option."""
    name, equals, text = item.partition("=")
    if not equals or not name.strip() or not text.strip():
        raise typer.BadParameter(f"`{item}` is not name=value,value", param_hint="--grid")
    file = SourceFile("--grid", item)
    scalars, at = [], len(name) + 1
    for part in text.split(","):
        begin = at + len(part) - len(part.lstrip())
        scalars.append(_scalar(part.strip(), Span(file, begin, begin + len(part.strip()))))
        at += len(part) + 1
    key = _scalar(name.strip(), Span(file, 0, len(name)))
    return Entry(key, Sequence(tuple(scalars), Span(file, len(name) + 1, len(item))))


def _scalar(text: str, span: Span) -> Scalar:
    return Scalar(text, text, True, span)


def _show(result: SweepResult) -> None:
    """The table with the swept parameters and the results, then what happened."""
    from compiler.cli.output.table import table
    from compiler.sweep.show import settings_text

    rows = result.rows
    hidden = {"trial", "message", "seconds"}
    names = [n for n in dict.fromkeys(n for row in rows for n in row) if n not in hidden]
    names = [n for n in names if n != "seed" or any(row.get("seed") is not None for row in rows)][:10]
    cells = [[_cell(row.get(n)) for n in names] for row in rows]
    typer.echo(table([n.removeprefix("set.") for n in names], cells, 0))
    for row in [r for r in rows if r["message"]][:5]:
        typer.echo(f"{row['trial']}: {row['message']}")
    states = {s: sum(r["status"] == s for r in rows) for s in ("ok", "pruned", "failed", "interrupted", "missing")}
    said = ", ".join(f"{count} {s}" for s, count in states.items() if count)
    if result.best is not None and result.goal is not None:
        value = result.best[result.goal]
        typer.echo(f"best: {result.goal} {value:.6g} with {settings_text(result.best)} (trial {result.best['trial']})")
    typer.echo(f"{len(rows)} trials ({said}), {result.ran} run now: {result.folder}/sweep.csv")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
