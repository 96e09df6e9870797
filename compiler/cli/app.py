"""The commands of `netloom`.

Assumes: typer. Heavy imports are inside the commands, so that each loads only what it needs.
Guarantees: results go to standard output, everything else to standard error; exit codes as errors.py lists them.
Does not: do anything itself: a command reads its options, calls the runner and shows the results.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from compiler.cli.completion import models as models_of
from compiler.cli.completion import targets as targets_of
from compiler.cli.errors import EXIT_CODES, EXPECTATION, Format, guarded, show
from compiler.cli.options import (
    BATCH,
    FORMAT,
    LAYERS,
    MODEL,
    QUIET,
    app,
    argument,
    choice,
    command,
    option,
    with_command,
)
from compiler.runtime.common.options import Options


def _version(wanted: bool) -> None:
    if wanted:
        from compiler.core.version import VERSION

        typer.echo(f"netloom {VERSION}")
        raise typer.Exit()


@app.callback(epilog=EXIT_CODES)
def netloom(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Compiles neural networks that are described in YAML."""


@command("set target verify format quiet")
def check(
    models: Annotated[list[Path], argument("Model files.", autocompletion=models_of)],
    options: Options,
    target: Annotated[
        str | None, option("Lower for this target, too.", "--target", "-t", autocompletion=targets_of)
    ] = None,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Say whether models are right; errors point at the line."""
    from compiler.runtime.prepare import FEW, check_model
    from compiler.runtime.resources.bill import bill_text, large

    options = replace(options, target=target or "cpu")
    failed = False
    for path in models:
        with guarded(format):
            checked = check_model(path, options, target is not None)
            show(checked.diagnostics, format, out=True)
            if checked.name is None:
                failed = True
            elif not quiet and format is Format.human:
                bill = f": {bill_text(checked.needs)}" if large(checked.needs, FEW) else ""
                typer.echo(f"{path}: ok ({checked.name}){bill}")
    raise typer.Exit(1 if failed else 0)


@command(
    "target set precision order seed device arch portable verify lock workspace build_dir standalone weights embed "
    "batch layers timings format quiet"
)
def build(
    model: MODEL,
    options: Options,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="One C file that computes a trained network's outputs.")
    ] = False,
    embed: Annotated[bool, typer.Option("--embed", help="With --standalone: the weights stand in the C file.")] = False,
    batch: BATCH = None,
    layers: LAYERS = None,
    timings: Annotated[bool, typer.Option("--timings", help="Show the CPU time of each part and pass.")] = False,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Emit code and compile it into build/<name>/."""
    if standalone and timings:
        raise typer.BadParameter("--timings is for builds that are not --standalone")
    if standalone:
        from compiler.cli.trained import standalone as write

        write(model, options, embed, batch, layers, format, quiet)
        return
    if options.weights is not None or embed or batch is not None or layers is not None:
        raise typer.BadParameter("--weights, --embed, --batch and --layers of a build go with --standalone")
    from compiler.cli.output.show import report_build
    from compiler.runtime.build import build_model

    result, prepared = build_model(model, options)
    show(prepared.warnings, format)
    if not quiet:
        report_build(result, format, timings)


@command(
    "target set precision order seed duration freeze epochs data validation resume weights out plots tensorboard "
    "device arch portable verify lock workspace build_dir runs_dir format quiet",
    end=EXIT_CODES,
)
def run(
    model: MODEL,
    options: Options,
    format: FORMAT = Format.human,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the run's folder, and errors, only.")] = False,
) -> None:
    """Run a model and write runs/<name>-<stamp>/."""
    from compiler.cli.output.show import report_run
    from compiler.runtime.common.progress import progress
    from compiler.runtime.execute import run_model

    result = run_model(model, options, progress(quiet or format is Format.json))
    if quiet:
        typer.echo(result.folder)
    else:
        report_run(result, format)
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)


@command("target set precision order seed build_dir runs_dir format quiet")
def test(
    models: Annotated[list[Path], argument("Model files with `expect`.", autocompletion=models_of)],
    options: Options,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Run models and check what they `expect`.

    The exit code is 6 when something is not met.
    """
    from compiler.cli.output.show import report_checks
    from compiler.core.diagnostics import RunError
    from compiler.runtime.common.progress import progress
    from compiler.runtime.execute import run_model

    failed = False
    for path in models:
        result = run_model(path, options, progress(quiet or format is Format.json))
        if result.signal is not None:
            raise typer.Exit(128 + result.signal)
        if not result.checks:
            raise RunError("E0914", f"`{path}` expects nothing", "add `expect` to the model")
        failed |= not all(c.met for c in result.checks)
        if not quiet:
            report_checks(result, format)
    raise typer.Exit(EXPECTATION if failed else 0)


@command("expanded stage passes code memory target set precision order format", name="show")
def show_model(
    model: MODEL,
    options: Options,
    expanded: Annotated[bool, typer.Option("--expanded", help="The file with everything expanded.")] = False,
    stage: Annotated[str | None, option("The IR as text: model, graph, program, or after:PASS.")] = None,
    passes: Annotated[str | None, option("Of the passes that may be left out, run these alone (a,b,c).")] = None,
    code: Annotated[bool, typer.Option("--code", help="The generated code.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="What takes how much memory, and when.")] = False,
    format: FORMAT = Format.human,
) -> None:
    """Show sizes, shapes and memory of a model.

    Or its expansion, its IR, its code, or the bill of its memory.
    """
    from compiler.cli.output import show as cli_show

    if stage is None or not stage.startswith(cli_show.AFTER):
        choice(stage, ("model", "graph", "program"), "--stage")
    if passes is not None and (stage is None or not stage.startswith(cli_show.AFTER)):
        raise typer.BadParameter("--passes goes with --stage after:PASS")
    if sum((expanded, code, memory, stage is not None)) > 1:
        raise typer.BadParameter("--expanded, --stage, --code and --memory exclude each other")
    if expanded:
        cli_show.show_expanded(model, options)
    elif stage is not None:
        cli_show.show_stage(model, options, stage, passes)
    elif code:
        cli_show.show_code(model, options)
    elif memory:
        from compiler.cli.output.memory import show_memory

        show_memory(model, options, format)
    else:
        cli_show.show_summary(model, options, format)


@command("details target set lock format")
def explain(
    what: Annotated[str, argument("A code such as E0123, or a model file.", autocompletion=models_of)],
    options: Options,
    details: Annotated[str | None, option("What one pass decided about a model, or all of them did.")] = None,
    format: FORMAT = Format.human,
) -> None:
    """Tell more about a code, or a model.

    Of a code such as E0101, what it means; of a model, what runs, where its work is, and what could be changed.
    """
    if not Path(what).exists():
        from compiler.cli.output import show as cli_show

        if cli_show.is_code(what):
            if details is not None:
                raise typer.BadParameter("--details is for models")
            cli_show.explain_code(what)
            return
    from compiler.cli.output.explained import explain_model

    explain_model(Path(what), options, details)


@command()
def schema() -> None:
    """Print the JSON Schema of the language, for editors."""
    from compiler.frontend.schema.json_schema import render

    typer.echo(render(), nl=False)


@command()
def targets() -> None:
    """List the targets and whether they can be used here."""
    from backends.registry import TARGETS
    from compiler.cli.actions.doctor import state_of

    for target in TARGETS.values():
        typer.echo(f"{target.name:<10} {target.title}: {state_of(target)}")


@command()
def doctor() -> None:
    """Say what is installed and what is missing."""
    from compiler.cli.actions.doctor import examine

    raise typer.Exit(examine())


@command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("model.yaml"),
    kind: Annotated[str, typer.Option(help="Which one; --list shows them.")] = "spiking",
    source: Annotated[Path | None, option("Fit the model to a data file or folder of images.", "--from")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the kinds.")] = False,
) -> None:
    """Write a small commented model to begin with."""
    from compiler.cli.actions.init import KINDS, OTHER_NAMES, list_kinds, write_model

    if listed:
        list_kinds()
        return
    choice(kind, (*KINDS, *OTHER_NAMES), "--kind")
    write_model(file, kind, source)


@command("build_dir runs_dir cache dead_runs dry_run")
def clean(
    options: Options,
    cache: Annotated[bool, typer.Option("--cache", help="Empty the cache of compiled code, too.")] = False,
    dead_runs: Annotated[
        bool, typer.Option("--dead-runs", help="Also runs that died and could be gone on with.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be removed.")] = False,
) -> None:
    """Remove build folders, and what processes that died left behind.

    Finished runs, and whatever a living process is writing, are never touched.
    """
    from compiler.cli.actions.clean import remove

    remove(options.build_dir, options.runs_dir, cache, dead_runs, dry_run)


import compiler.cli.lsp  # noqa: E402
import compiler.cli.runs  # noqa: E402
import compiler.cli.sweep  # noqa: E402
import compiler.cli.trained  # noqa: E402  (their commands come after those above in the help)
import compiler.cli.tune  # noqa: E402, F401


def run_app() -> int:
    """Run the command in sys.argv; returns the exit code."""
    try:
        with_command(sys.argv[1:2])(prog_name="netloom")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        return code or _flushed()
    return _flushed()


def _flushed() -> int:
    """0 when standard output takes what was printed. Python itself would say so with a traceback, and exit with 120."""
    try:
        with guarded():
            sys.stdout.flush()
    except typer.Exit as end:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return end.exit_code
    return 0
