"""The commands of `netloom`.

Assumes: typer. Heavy imports stand inside of the commands, so that each loads only what it needs.
Guarantees: results go to standard output, everything else to standard error; exit codes as cli_guard.py lists them.
Does not: do anything itself: a command reads its options, calls the runner and shows what comes back.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compiler.cli.errors import EXIT_CODES, EXPECTATION, Format, guarded, show
from compiler.cli.options import (
    ARCH,
    BATCH,
    BUILD_DIR,
    DEVICE,
    DURATION,
    EMBED,
    EPOCHS,
    FORMAT,
    FREEZE,
    MODEL,
    NO_LOCK,
    ORDER,
    OUT,
    PORTABLE,
    PRECISION,
    QUIET,
    RESUME,
    RUNS_DIR,
    SEED,
    SET,
    STANDALONE,
    TARGET,
    VERIFY,
    WEIGHTS,
    app,
    choice,
    options_of,
)


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


@app.command()
def check(
    models: Annotated[list[Path], typer.Argument(help="Model files.", show_default=False)],
    set: SET = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Lower for this target, too.", show_default=False)
    ] = None,
    verify: VERIFY = False,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Say whether models are right; errors point at the line."""
    from compiler.core.errors import ModelError
    from compiler.runtime.common.timing import Times
    from compiler.runtime.prepare import FEW, load_checked, look_ahead, prepare
    from compiler.runtime.resources.bill import bill_text, large
    from compiler.runtime.resources.bill import warnings as too_large

    failed = False
    for path in models:
        with guarded(format):
            options = options_of(target or "cpu", set, verify=verify)
            try:
                model, warnings = load_checked(path, options, Times())
                needs = look_ahead(path, options, model)
                fits = not large(needs, 1)
                if (target is not None or verify) and fits:
                    prepare(path, options, Times())
            except ModelError as error:
                failed = True
                show(error.diagnostics, format, out=True)
                continue
            show((*warnings, *too_large(needs)), format, out=True)
            if not quiet and format is Format.human:
                bill = f": {bill_text(needs)}" if large(needs, FEW) else ""
                typer.echo(f"{path}: ok ({model.name}){bill}")
    raise typer.Exit(1 if failed else 0)


@app.command()
def build(
    model: MODEL,
    target: TARGET = "cpu",
    set: SET = None,
    precision: PRECISION = None,
    order: ORDER = None,
    seed: SEED = None,
    device: DEVICE = None,
    arch: ARCH = None,
    portable: PORTABLE = False,
    verify: VERIFY = False,
    no_lock: NO_LOCK = False,
    build_dir: BUILD_DIR = Path("build"),
    standalone: STANDALONE = False,
    weights: WEIGHTS = None,
    embed: EMBED = False,
    batch: BATCH = None,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Emit code and compile it into build/<name>/."""
    with guarded(format):
        if standalone or weights is not None or embed or batch is not None:
            from compiler.cli.trained import standalone as write

            options = options_of(
                target, set, precision, order, seed, portable=portable, verify=verify, build_dir=build_dir,
                device=device, arch=arch, weights=weights,
            )  # fmt: skip
            write(model, options, standalone, embed, batch, format, quiet)
            return
        from compiler.cli.show import report_build
        from compiler.runtime.execute import build_model

        options = options_of(
            target,
            set,
            precision,
            order,
            seed,
            device=device,
            arch=arch,
            portable=portable,
            verify=verify,
            lock=not no_lock,
            build_dir=build_dir,
        )
        result, prepared = build_model(model, options)
        show(prepared.warnings, format)
        if not quiet:
            report_build(result, format)


@app.command(epilog=EXIT_CODES)
def run(
    model: MODEL,
    target: TARGET = "cpu",
    set: SET = None,
    precision: PRECISION = None,
    order: ORDER = None,
    seed: SEED = None,
    duration: DURATION = None,
    freeze: FREEZE = None,
    epochs: EPOCHS = None,
    resume: RESUME = None,
    weights: WEIGHTS = None,
    out: OUT = None,
    device: DEVICE = None,
    arch: ARCH = None,
    portable: PORTABLE = False,
    verify: VERIFY = False,
    no_lock: NO_LOCK = False,
    build_dir: BUILD_DIR = Path("build"),
    runs_dir: RUNS_DIR = Path("runs"),
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Run a model and write runs/<name>-<stamp>/."""
    with guarded(format):
        from compiler.cli.show import report_run
        from compiler.runtime.common.progress import progress
        from compiler.runtime.execute import run_model

        options = options_of(
            target,
            set,
            precision,
            order,
            seed,
            duration=duration,
            freeze=tuple(freeze or ()),
            epochs=epochs,
            resume=resume,
            weights=weights,
            out=out,
            device=device,
            arch=arch,
            portable=portable,
            verify=verify,
            lock=not no_lock,
            build_dir=build_dir,
            runs_dir=runs_dir,
        )
        result = run_model(model, options, progress(quiet or format is Format.json))
        if not quiet:
            report_run(result, format)
        if result.signal is not None:
            raise typer.Exit(128 + result.signal)


@app.command()
def test(
    models: Annotated[list[Path], typer.Argument(help="Model files with `expect`.", show_default=False)],
    target: TARGET = "cpu",
    set: SET = None,
    precision: PRECISION = None,
    order: ORDER = None,
    seed: SEED = None,
    build_dir: BUILD_DIR = Path("build"),
    runs_dir: RUNS_DIR = Path("runs"),
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Run models and check what they `expect`.

    The exit code is 6 when something is not met.
    """
    with guarded(format):
        from compiler.cli.show import report_checks
        from compiler.core.errors import RunError
        from compiler.runtime.common.progress import progress
        from compiler.runtime.execute import run_model

        options = options_of(target, set, precision, order, seed, build_dir=build_dir, runs_dir=runs_dir)
        failed = False
        for path in models:
            result = run_model(path, options, progress(quiet or format is Format.json))
            if result.signal is not None:
                raise typer.Exit(128 + result.signal)
            if not result.checks:
                raise RunError("E0914", f"`{path}` expects nothing", "add `expect` to the model", exit_code=1)
            failed |= not all(c.met for c in result.checks)
            if not quiet:
                report_checks(result, format)
        raise typer.Exit(EXPECTATION if failed else 0)


@app.command(name="show")
def show_model(
    model: MODEL,
    expanded: Annotated[bool, typer.Option("--expanded", help="The file with everything expanded.")] = False,
    stage: Annotated[
        str | None,
        typer.Option(help="The IR as text: model, graph, program, or after:PASS.", show_default=False),
    ] = None,
    passes: Annotated[
        str | None,
        typer.Option(help="Of the passes that may be left out, run these alone (a,b,c).", show_default=False),
    ] = None,
    code: Annotated[bool, typer.Option("--code", help="The generated code.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="What takes how much memory, and when.")] = False,
    target: TARGET = "cpu",
    set: SET = None,
    precision: PRECISION = None,
    order: ORDER = None,
    format: FORMAT = Format.human,
) -> None:
    """Show sizes, shapes and memory of a model.

    Or its expansion, its IR, its code, or the bill of its memory.
    """
    with guarded(format):
        from compiler.cli import show as cli_show

        options = options_of(target, set, precision, order)
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
            from compiler.cli.memory import show_memory

            show_memory(model, options, format)
        else:
            cli_show.show_summary(model, options, format)


@app.command()
def explain(
    what: Annotated[str, typer.Argument(help="A code such as E0123, or a model file.", show_default=False)],
    target: TARGET = "cpu",
    set: SET = None,
    no_lock: NO_LOCK = False,
    format: FORMAT = Format.human,
) -> None:
    """Tell more about a code, or a model.

    Of a code such as E0101, what it means; of a model, what the passes decided.
    """
    with guarded(format):
        from compiler.cli import show as cli_show

        if not Path(what).exists() and cli_show.is_code(what):
            cli_show.explain_code(what)
        else:
            cli_show.explain_model(Path(what), options_of(target, set, lock=not no_lock))


@app.command()
def schema() -> None:
    """Print the JSON Schema of the language, for editors."""
    with guarded():
        from compiler.frontend.schema.json_schema import render

        typer.echo(render(), nl=False)


@app.command()
def targets() -> None:
    """List the targets and whether they can be used here."""
    with guarded():
        from backends.registry import TARGETS
        from compiler.cli.doctor import state_of

        for target in TARGETS.values():
            typer.echo(f"{target.name:<10} {target.title}: {state_of(target)}")


@app.command()
def doctor() -> None:
    """Say what is installed and what is missing."""
    with guarded():
        from compiler.cli.doctor import examine

        raise typer.Exit(examine())


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("model.yaml"),
    kind: Annotated[str, typer.Option(help="spiking or network.")] = "spiking",
) -> None:
    """Write a small commented model to begin with."""
    with guarded():
        from compiler.cli.init import write_model

        choice(kind, ("spiking", "network"), "--kind")
        write_model(file, kind)


@app.command()
def clean(
    build_dir: BUILD_DIR = Path("build"),
    runs_dir: RUNS_DIR = Path("runs"),
    cache: Annotated[bool, typer.Option("--cache", help="Empty the cache of compiled code, too.")] = False,
    dead_runs: Annotated[
        bool, typer.Option("--dead-runs", help="Also runs that died and could be gone on with.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be removed.")] = False,
) -> None:
    """Remove build folders, and what processes that died left behind.

    Finished runs, and whatever a living process is writing, are never touched.
    """
    with guarded():
        from compiler.cli.clean import remove

        remove(build_dir, runs_dir, cache, dead_runs, dry_run)


import compiler.cli.trained  # noqa: E402  (their commands come after those above in the help)
import compiler.cli.tune  # noqa: E402, F401


def run_app() -> int:
    """Run the command in sys.argv; returns the exit code."""
    try:
        app(prog_name="netloom")
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
