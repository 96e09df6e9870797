"""The commands for runs that are there: runs, diff, plot and report.

Assumes: compiler/cli/app.py imports this module, which adds its commands to the application.
Guarantees: as app.py.
Does not: do anything itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.cli.errors import Format
from compiler.cli.options import FORMAT, argument, command, option
from compiler.core.strict_json import dumps


@command("filter sort format")
def runs(
    folders: Annotated[list[Path] | None, argument("Folders that hold runs; else `runs`.")] = None,
    filter: Annotated[
        list[str] | None, option("status=ok, n_exc=400, 'rate.exc>5'. Repeatable.", "--filter", "-f")
    ] = None,
    sort: Annotated[str | None, option("A setting or result; -NAME: largest first.")] = None,
    format: FORMAT = Format.human,
) -> None:
    """List runs: when, what was set, main results."""
    from compiler.cli.output.table import table
    from compiler.report.runs import find_runs, matching, ordered

    default = Path("runs")
    found = matching(find_runs(folders or ([default] if default.exists() else [])), filter or ())
    if sort is not None:
        found = ordered(found, sort)
    if format is Format.json:
        listed = [
            {"folder": str(r.folder), "name": r.name, "started": r.started, "status": r.status, "settings": r.settings,
             "results": r.results, "seconds": r.seconds} for r in found
        ]  # fmt: skip
        typer.echo(dumps(listed, indent=2))
        return
    rows = []
    for run in found:
        given = " ".join(f"{n}={v}" for n, v in run.settings.items() if n != "target" or v != "cpu")
        results = ", ".join(f"{n} {v:.4g}" for n, v in list(run.results.items())[:4] if v is not None)
        rows.append([run.folder.name, run.name, run.started.replace("T", " ").rstrip("Z"), run.status, given, results])
    typer.echo(table(["run", "model", "started (UTC)", "status", "set", "results"], rows, 6, 200))


RUN = Annotated[Path, argument("A run directory.")]


@command("format")
def diff(first: RUN, second: RUN, format: FORMAT = Format.human) -> None:
    """What differs between two runs: settings, model, results, weights."""
    from compiler.cli.output.table import table
    from compiler.report.runs import difference, open_run

    found = difference(open_run(first), open_run(second))
    if format is Format.json:
        parts = {"settings": found.settings, "results": found.results, "model": found.model, "weights": found.weights}
        typer.echo(dumps(parts, indent=2))
        return
    for title, values in (("settings", found.settings), ("results", found.results)):
        if values:
            rows = [[n, *("-" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in pair)]
                    for n, pair in values.items()]  # fmt: skip
            typer.echo(f"{title}\n{table(['', 'first', 'second'], rows)}\n")
    if found.weights:
        rows = [[n, "another shape" if d is None else f"{d:.3g}"] for n, d in found.weights.items()]
        typer.echo(f"weights (distance over the norm of the first)\n{table(['', ''], rows)}\n")
    if found.model:
        typer.echo("model\n" + "\n".join(f"  {line}" for line in found.model))
    if not (found.settings or found.results or found.weights or found.model):
        typer.echo("nothing differs")


@command("only image style out")
def plot(
    run: RUN,
    only: Annotated[list[str] | None, option("raster, trace, training, ... Repeatable.")] = None,
    image: Annotated[list[str] | None, option("png, svg or pdf; else png and svg. Repeatable.")] = None,
    style: Annotated[str | None, option("paper, a style of matplotlib, or a .mplstyle file.")] = None,
    out: Annotated[Path | None, option("Where; else `plots` in the run's folder.")] = None,
) -> None:
    """Draw the plots of a run again, without running it."""
    from compiler.core.diagnostics import RunError
    from compiler.report.runs import open_run
    from compiler.runtime.artifacts.trained import model_of_run
    from compiler.runtime.plots.plots import IMAGES, draw_plots, wanted_plots

    found = open_run(run)
    model = model_of_run(run)
    kinds = {p.kind for p in wanted_plots(model)}
    for wanted in only or ():
        if wanted not in kinds:
            help = f"its `plots` are {', '.join(sorted(kinds))}" if kinds else "its model has no `plots`"
            raise RunError("E0912", f"`{run}` has no plot `{wanted}`", help)
    for suffix in image or ():
        if suffix not in IMAGES:
            raise typer.BadParameter(f"`{suffix}` is not one of {', '.join(IMAGES)}", param_hint="--image")
    window = found.record.get("recorded_steps")
    steps = (window[0], window[1]) if window else None
    result = draw_plots(run, model, steps, tuple(only or ()), tuple(image or ()), out, style)
    if result.warning:
        raise RunError("E0914", result.warning, exit_code=5)
    for file in result.files:
        typer.echo((out or run / "plots") / Path(file).name)


@command("out")
def report(
    folders: Annotated[list[Path], argument("Run directories, or the folder of a sweep.")],
    out: Annotated[Path | None, option("The HTML file; else report.html beside the results.", "--out", "-o")] = None,
) -> None:
    """Write a report as one HTML file."""
    from compiler.core.disk import write_text
    from compiler.report.page import report as page

    text = page(folders)
    path = out or (folders[0] / "report.html" if len(folders) == 1 else Path("report.html"))
    write_text(path, text, "the report")
    typer.echo(path)
