"""The commands for trained networks: evaluate, predict, import, export, and standalone builds.

Assumes: compiler/cli/app.py imports this module, which adds its commands to the application.
Guarantees: as app.py.
Does not: do anything itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from compiler.cli.completion import runs
from compiler.cli.errors import Format, show
from compiler.cli.options import BATCH, FORMAT, LAYERS, QUIET, argument, choice, command, option
from compiler.core.strict_json import dumps
from compiler.runtime.common.options import Options

RUN = Annotated[Path, argument("A run directory, or a model file with weights.", autocompletion=runs)]
DATA = Annotated[Path, option("The samples: any data file, or a folder of images.")]


@command("data weights target set precision order portable verify lock workspace build_dir format")
def evaluate(
    run: RUN,
    options: Options,
    data: Annotated[Path | None, option("A data file or folder of images, instead of the validation samples.")] = None,
    format: FORMAT = Format.human,
) -> None:
    """Measure a trained network: its loss and metrics on a data set."""
    from compiler.runtime.inference.predict import evaluate_file

    result = evaluate_file(run, options, data)
    show(result.warnings, format)
    if format is Format.json:
        shown = {"samples": result.samples, "part": result.part, "metrics": dict(result.metrics)}
        if result.confusion is not None:
            shown["confusion"] = result.confusion
        typer.echo(dumps(shown))
        return
    what = "validation samples" if result.part == "validation" else "samples"
    typer.echo(f"{result.samples:,} {what}: " + ", ".join(f"{k} {v:.4g}" for k, v in result.metrics.items()))
    for row in result.confusion or ():
        typer.echo(" ".join(f"{n:6g}" for n in row))


@command(
    "data out layers weights batch explain target set precision order portable verify lock workspace build_dir format "
    "quiet"
)
def predict(
    run: RUN,
    options: Options,
    data: DATA,
    out: Annotated[Path, option("The .npz file that the outputs are written to.")],
    layers: LAYERS = None,
    batch: BATCH = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what was decided: folded norms, strategies.")
    ] = False,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Compute the outputs of a trained network for samples."""
    from compiler.runtime.inference.predict import predict_file

    result = predict_file(run, data, options, out, _names(layers), batch)
    show(result.warnings, format)
    if format is Format.json:
        shapes = {n: list(v.shape) for n, v in result.outputs.items()}
        typer.echo(json.dumps({"samples": result.samples, "file": str(out), "outputs": shapes}))
        return
    for d in result.decisions if explain else ():
        typer.echo(f"{d.pass_name}: {d.subject}: {d.verdict}" + (f" ({d.reason})" if d.reason else ""))
    if not quiet:
        listed = ", ".join(f"{n} {'x'.join(map(str, v.shape))}" for n, v in result.outputs.items())
        typer.echo(f"{out}: {listed}")


@command(name="import")
def import_model(
    file: Annotated[Path, argument("An ONNX file.")],
    out: Annotated[Path | None, option("The model file to write; its weights stand beside it.")] = None,
    format: FORMAT = Format.human,
    quiet: QUIET = False,
) -> None:
    """Write a network of another program as a model file and its weights."""
    from compiler.interchange.onnx.import_file import import_file

    written = import_file(file, out)
    if quiet:
        return
    typer.echo(f"{written.model} and {written.weights}: {written.layers} layers, {written.parameters:,} weights")
    for name, axis in written.batches.items():
        typer.echo(f"the batch is the first axis of `{name}` here; in {file.name} it is the axis {axis}")
    for name, (before, after) in written.joined.items():
        one = " x ".join(str(n) for n in (before, "batch", after) if n != 1)
        typer.echo(f"`{name}` has the batch as an axis of its own here; {file.name} has {one} as one axis")


@command("out to layers weights set precision quiet")
def export(
    run: RUN,
    options: Options,
    out: Annotated[Path | None, option("The file to write; else <name>.onnx.")] = None,
    to: Annotated[str, typer.Option("--format", help="The format: onnx.")] = "onnx",
    layers: LAYERS = None,
    quiet: QUIET = False,
) -> None:
    """Write a trained network for other programs."""
    from compiler.interchange.onnx.export import export_file

    choice(to, ("onnx",), "--format")
    written = export_file(run, options, out, _names(layers))
    if not quiet:
        typer.echo(f"{written.file}: {written.nodes} nodes, opset {written.opset}, {written.precision}")


def _names(layers: str | None) -> tuple[str, ...]:
    """The layers of `--layers a,b`."""
    return tuple(n.strip() for n in (layers or "").split(",") if n.strip())


def standalone(
    model: Path, options: Options, embed: bool, batch: int | None, layers: str | None, format: Format, quiet: bool
) -> None:
    """`netloom build --standalone`."""
    from compiler.runtime.inference.standalone import build_standalone

    result = build_standalone(model, options, embed, 1 if batch is None else batch, _names(layers))
    show(result.warnings, format)
    if format is Format.json:
        typer.echo(json.dumps({"files": [str(f) for f in result.files]}))
    elif not quiet:
        typer.echo("\n".join(str(f) for f in result.files))
