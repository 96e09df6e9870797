"""Output of commands: summaries, reports of builds and runs, tables of expectations, decisions of the passes.

Assumes: results of compiler/runtime.
Guarantees: plain text on standard output; `--format json` prints one JSON object instead.
Does not: decide exit codes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import typer

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.cli.errors import Format, colored, show
from compiler.cli.output.table import table
from compiler.core.catalogue import explain
from compiler.core.diagnostics import RunError
from compiler.core.disk import bytes_text
from compiler.core.strict_json import dumps
from compiler.ir.level2.synapse_values import own_name
from compiler.layout.plan_memory import Placement, place
from compiler.passes.relations.expected_sizes import expected_sizes, synapse_counts
from compiler.runtime.artifacts.results import BuildResult, RunResult
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.expectations import Check
from compiler.runtime.prepare import Prepared, load_checked, prepare
from compiler.runtime.resources.bill import LISTED, Need, large, least_needs, needs_of
from compiler.runtime.resources.bill import warnings as too_large


def seconds_text(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


# --------------------------------------------------------------------------------------------- summary


def show_summary(path: Path, options: Options, format: Format) -> None:
    """Populations, projections, layers and memory of a model."""
    model, _ = load_checked(path, options, Times())
    lowers = model.simulate is not None or model.train is not None
    runnable = lowers and not (model.train is not None and model.train.data.missing)
    needs = least_needs(model, options)
    prepared = prepare(path, options, Times()) if lowers and not large(needs, 1) else None
    if prepared is not None:
        needs = needs_of(model, prepared.lowered.merged, prepared.backend, options)
    if format is Format.json:
        typer.echo(json.dumps(_summary(model, prepared, needs), indent=2))
        return
    typer.echo(model.name + (f": {' '.join(model.description.split())}" if model.description else ""))
    _spiking_sections(model)
    if model.network is not None:
        _layers_section(model.network, _parameters(prepared))
    if model.simulate is not None:
        s = model.simulate
        warmup = f" after {s.warmup * s.dt:g} ms of warm-up" if s.warmup else ""
        trials = f"trials of {s.steps * s.dt:g} ms, one for each sample, {s.instances} at a time,"
        what = trials if model.in_trials else f"{s.steps * s.dt:g} ms{warmup}"
        _section("simulate", f"  {what} in steps of {s.dt:g} ms, seed {s.seed}")
    if model.train is not None:
        t = model.train
        _section("train", f"  {t.optimizer.name}, batches of {t.batch}, {t.epochs} epochs, seed {t.seed}")
    if prepared is not None:
        _program_sections(prepared, options.target)
    if runnable:
        disk = next(n for n in needs if n.kind == "on disk")
        rows = [[p.what, p.note, bytes_text(p.bytes)] for p in disk.parts if p.bytes]
        rows.append(["total", "", bytes_text(disk.bytes)])
        _section("a run writes", table(["", "", "size"], rows, left=2))
        rows = [[n.kind, bytes_text(n.bytes), _room(n)] for n in needs]
        _section("needs", table(["", "size", "there is"], rows))
    show(too_large(needs), format)


def _spiking_sections(model: l0.Model) -> None:
    """Parameters, populations and projections."""
    if model.params:
        values = [f"{p.value:g}" if isinstance(p.value, float) else str(p.value) for p in model.params]
        units = ["" if p.unit == "1" else p.unit for p in model.params]
        rows = [[p.name, v, u, p.doc] for p, v, u in zip(model.params, values, units, strict=True)]
        _section("parameters (change them with --set)", table(["name", "value", "unit", ""], rows, left=1))
    if model.populations:
        rows = [[p.name, p.neuron.name, f"{p.size:,}"] for p in model.populations]
        rows.append(["total", "", f"{sum(p.size for p in model.populations):,}"])
        _section("populations", table(["name", "neuron", "size"], rows, left=2))
    if model.projections:
        synapses = synapse_counts(model)
        rows = [
            [f.name, f"{m.source} -> {m.target}", f.rule, f.into, f"{synapses[own_name(f, m)]:,.0f}", str(m.delay)]
            for f in model.projections
            for m in f.members
        ]
        _section("projections", table(["name", "", "rule", "into", "synapses", "delay (steps)"], rows, left=4))


def _layers_section(network: l0.Network, counts: Mapping[str, int]) -> None:
    rows = [[i.name, "input", "x".join(map(str, i.shape)) or "-", ""] for i in network.inputs]
    for x in network.layers:
        kind = x.kind + (f", {x.activation}" if x.activation else "")
        count = f"{counts[x.name]:,}" if counts.get(x.name) else ""
        rows.append([x.name, kind, "x".join(map(str, x.shape)) or "-", count])
    rows.append(["total", "", "", f"{sum(counts.values()):,}"])
    _section("layers", table(["name", "kind", "shape", "parameters"], rows, left=2))


def _program_sections(prepared: Prepared, target: str) -> None:
    """Memory and code of the lowered program."""
    arenas, merged = _arenas(prepared), prepared.lowered.merged
    rows = [[role, bytes_text(size)] for role, size in arenas.items() if size]
    rows.append(["total", bytes_text(sum(arenas.values()))])
    drawn = ", synapses as expected" if any(a.size_from for a in merged.arrays) else ""
    _section(f"memory ({target}{drawn})", table(["arena", "size"], rows))
    launches = sum(len(p.launches) for p in merged.phases)
    count = sum(r.count for r in merged.tables)
    _section("code", f"  {len(merged.templates)} kernels for {count:,} rows, {launches} launches")


def _room(need: Need) -> str:
    return "-" if need.room is None else bytes_text(need.room.bytes)


def _section(title: str, text: str) -> None:
    typer.echo(f"\n{title}\n{text}")


def _parameters(prepared: Prepared | None) -> dict[str, int]:
    """Trained values by layer."""
    counts: dict[str, int] = {}
    if prepared is not None and prepared.lowered.tensors:
        for node in prepared.lowered.tensors[0].nodes:
            if isinstance(node, l1.Weight):
                layer = node.out.name.rpartition(".")[0]
                counts[layer] = counts.get(layer, 0) + prod(node.out.shape)
    return counts


def _arenas(prepared: Prepared) -> dict[str, int]:
    placed, _ = placed_arrays(prepared)
    return {role.value: size for role, size in placed.arena_bytes.items()}


def placed_arrays(prepared: Prepared) -> tuple[Placement, dict[str, int]]:
    """(where the arrays of the program are, the expected sizes of those whose sizes are drawn)."""
    sizes = expected_sizes(prepared.model, prepared.lowered.merged)
    return place(prepared.lowered.merged, sizes, prepared.backend.capabilities.apart), sizes


def _summary(model: l0.Model, prepared: Prepared | None, needs: Sequence[Need]) -> dict[str, object]:
    counts = _parameters(prepared)
    return {
        "name": model.name,
        "params": {p.name: p.value for p in model.params},
        "populations": {p.name: {"neuron": p.neuron.name, "size": p.size} for p in model.populations},
        "projections": {p.name: {"rule": p.rule, "members": len(p.members)} for p in model.projections},
        "layers": [
            {"name": x.name, "kind": x.kind, "shape": list(x.shape), "parameters": counts.get(x.name, 0)}
            for x in (model.network.layers if model.network else ())
        ],
        "arena_bytes": _arenas(prepared) if prepared else None,
        "kernels": len(prepared.lowered.merged.templates) if prepared else None,
        "needs": [
            {
                "kind": n.kind,
                "bytes": n.bytes,
                "room": None if n.room is None else n.room.bytes,
                "parts": [{"what": p.what, "bytes": p.bytes, "note": p.note} for p in n.parts[:LISTED]],
            }
            for n in needs
        ],
    }


def show_expanded(path: Path, options: Options) -> None:
    """The file with `use`, `for`, `repeat` and classes expanded."""
    from compiler.runtime.artifacts.expanded import expanded_yaml

    load_checked(path, options, Times())
    typer.echo(expanded_yaml(path, options.set), nl=False)


AFTER = "after:"
"""Prefix of `--stage` for the levels after one pass."""


def show_stage(path: Path, options: Options, stage: str, passes: str | None = None) -> None:
    """A level of the IR as text, or the levels after one pass."""
    from compiler.ir.text import print_ir

    if stage.startswith(AFTER):
        _show_after(path, options, stage.removeprefix(AFTER), passes)
        return
    if stage == "model":
        typer.echo(print_ir(load_checked(path, options, Times())[0]))
        return
    lowered = prepare(path, options, Times()).lowered
    if stage == "program":
        typer.echo(print_ir(lowered.merged))
        return
    if lowered.spiking is not None:
        for node in lowered.spiking.nodes:
            typer.echo(print_ir(node))
    for graph in lowered.tensors:
        typer.echo(print_ir(graph))


def _show_after(path: Path, options: Options, name: str, passes: str | None) -> None:
    """The levels after the last run of the pass `name`; `passes`: the optional passes that run. Raises BadParameter
    for names of no pass."""
    from backends.registry import backend
    from compiler.ir.text import print_ir
    from compiler.passes import passes_for
    from compiler.passes.pipeline.lower import lower
    from compiler.passes.pipeline.manager import Ran

    only = None if passes is None else frozenset(passes.split(",")) - {""}
    _known_passes(frozenset({name}), {p.name for p in passes_for()})
    _known_passes(only or frozenset(), {p.name for p in passes_for() if p.optional})
    last: list[Ran] = []

    def observe(ran: Ran) -> None:
        if ran.name == name:
            last[:] = [ran]

    model = load_checked(path, options, Times())[0]
    lower(model, backend(options.target).capabilities, observe=observe, only=only)
    if not last:
        raise typer.BadParameter(f"the pass `{name}` does not run for this model and target")
    ir = last[-1].ir
    shown: list[object] = [*(ir.spiking.nodes if ir.spiking else ()), *(g.graph for g in ir.graphs if g.nodes)]
    if ir.programs:
        shown = list(ir.programs)
    if ir.merged is not None:
        shown = [ir.merged]
    typer.echo("\n".join(print_ir(level) for level in shown or [ir.model]))


def _known_passes(asked: frozenset[str], known: set[str]) -> None:
    for name in sorted(asked - known):
        raise typer.BadParameter(f"`{name}` is not among the passes {', '.join(sorted(known))}")


def show_code(path: Path, options: Options) -> None:
    """The text that is compiled."""
    prepared = prepare(path, options, Times())
    typer.echo(prepared.backend.emit(prepared.lowered.merged), nl=False)


# -------------------------------------------------------------------------------------------- explain


def is_code(text: str) -> bool:
    return re.fullmatch(r"[EWew]\d{4}", text) is not None


def explain_code(code: str) -> None:
    """The catalogue's text. Raises RunError (E0915, exit 2) for a code that does not exist."""
    text = explain(code)
    if text is None:
        raise RunError("E0915", f"there is no code `{code}`")
    typer.echo(text, nl=False)


# -------------------------------------------------------------------------------------------- reports


def report_build(result: BuildResult, format: Format, timings: bool) -> None:
    """Where the build is and how long it took."""
    if format is Format.json:
        shown = {
            "folder": str(result.folder),
            "artifact": str(result.artifact),
            "compiled": result.compiled,
            "seconds": dict(result.seconds),
        }
        steps = [{"part": p, "step": s, "seconds": t} for (p, s), t in result.steps.items()]
        typer.echo(json.dumps(shown | ({"steps": steps} if timings else {})))
        return
    parts = ", ".join(f"{n} {seconds_text(s)}" for n, s in result.seconds.items() if s >= 0.0005)
    state = "compiled" if result.compiled else "nothing to compile"
    typer.echo(f"{result.folder}: {state} ({parts})")
    if timings:
        typer.echo(_timings(result))


def _timings(result: BuildResult) -> str:
    """A table of CPU milliseconds: each part with its steps, the remainder of the part, and the total."""
    rows = []
    for part, seconds in result.seconds.items():
        steps = {step: s for (of, step), s in result.steps.items() if of == part}
        rest = {"other" if steps else "": seconds - sum(steps.values())}
        rows += [[part, step, f"{s * 1000:.1f}"] for step, s in (steps | rest).items()]
    rows.append(["total", "", f"{sum(result.seconds.values()) * 1000:.1f}"])
    return table(["part", "step", "CPU ms"], rows, left=2, long=len(rows))


def report_run(result: RunResult, format: Format) -> None:
    """The results of a run and its directory."""
    if format is Format.json:
        typer.echo(dumps({"folder": str(result.folder), **result.record}))
        return
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    times = result.record["times"]
    name = result.record["name"]
    wall = times["run"]["wall_seconds"]
    if "simulated_ms" in times:
        typer.echo(
            f"{name}: {times['simulated_ms'] / 1000:g} s simulated in {seconds_text(wall)} "
            f"({times['real_time_factor']:.3g} x real time)"
        )
        sizes = [
            [n, f"{result.rates[n]:.2f} Hz", f"{c:,} spikes"] for n, c in result.counts.items() if n in result.rates
        ]
        if sizes:
            typer.echo("\n".join(table(["", "", ""], sizes).split("\n")[1:]))
        if result.course:
            typer.echo(f"  {result.course}")
        for name, value in result.metrics.items():
            typer.echo(f"  {name} {value:.4g}")
    else:
        typer.echo(f"{name}: trained in {seconds_text(wall)}" + (f"; {result.course}" if result.course else ""))
        if result.metrics:
            typer.echo("  " + ", ".join(f"{k} {v:.4g}" for k, v in result.metrics.items()))
    if result.checks:
        _print_checks(result.checks)
    if result.status == "interrupted":
        typer.echo(f"interrupted; go on with --resume {result.folder}", err=True)
    typer.echo(f"results: {result.folder}")


def report_checks(result: RunResult, format: Format) -> None:
    """The expectations of a model and the values."""
    if format is Format.json:
        typer.echo(dumps({"folder": str(result.folder), "expectations": [c.as_json() for c in result.checks]}))
        return
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(result.record["name"])
    _print_checks(result.checks)


def _print_checks(checks: Sequence[Check]) -> None:
    marks = {True: "met", False: "NOT MET"}
    rows = [[c.subject, c.shown, c.bounds, marks[c.met]] for c in checks]
    text = table(["expected", "value", "good", ""], rows, left=4)
    if colored(sys.stdout):
        text = text.replace("NOT MET", "\x1b[1;31mNOT MET\x1b[0m")
    typer.echo(text)
