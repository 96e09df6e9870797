"""`netloom explain MODEL`: a summary of what runs, where the work is, what memory it takes and what could be changed;
on demand what the passes decided.

Assumes: a model that can be run.
Guarantees: work is counted from the model, not measured, and the text says so.
Does not: load or time the program (`times` in run.json does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path

import typer

import compiler.ir.level1.graph as l1
from compiler.cli.output.table import table
from compiler.core.diagnostics import did_you_mean
from compiler.core.disk import bytes_text
from compiler.ir.level2.synapse_values import own_name
from compiler.passes.program.decisions import Decision
from compiler.passes.relations.expected_sizes import synapse_counts
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import Prepared, prepare
from compiler.runtime.resources.bill import Need, needs_of
from compiler.runtime.resources.recorded import SPIKE_RATE
from compiler.tune.lock import section_name

ALL = "all"
MOST = 5
"""Rows of the table of work."""
LARGE = 5e8
"""Operations of a batch, or of a second of a simulation, from which a GPU is worth a trial."""


def explain_model(path: Path, options: Options, topic: str | None) -> None:
    """Print the summary, or the decisions of a pass (`topic`; "all": of all), and the device that they are for. Raises
    ModelError, BadParameter."""
    prepared = prepare(path, options, Times())
    model, device = prepared.model, section_name(options.target, prepared.backend.capabilities.device)
    title = f"{model.name} on {device}; {model.numerics.precision}, order {model.numerics.order}"
    decisions = prepared.lowered.decisions
    names = tuple(dict.fromkeys(d.pass_name for d in decisions))
    if topic is None:
        typer.echo(title + "\n" + _summary(path, prepared, options))
        return
    if topic != ALL and topic not in names:
        listed = ", ".join((ALL, *names))
        help = did_you_mean(topic, names) or f"there is {listed}"
        raise typer.BadParameter(f"`{topic}` decided nothing about this model: {help}", param_hint="--details")
    typer.echo(title)
    for name in names if topic == ALL else (topic,):
        typer.echo(name)
        for d in decisions:
            if d.pass_name == name:
                typer.echo(f"  {d.subject}: {d.verdict}" + (f" ({d.reason})" if d.reason else ""))


def _summary(path: Path, prepared: Prepared, options: Options) -> str:
    model, merged = prepared.model, prepared.lowered.merged
    needs = needs_of(model, merged, prepared.backend, options)
    network = model.train is not None
    phases = [f"{len(p.launches)} in {p.name}" for p in merged.phases if p.launches]
    lines = [
        f"  {_what(prepared)}",
        f"  {len(merged.templates)} kernels; launches: {', '.join(phases)}",
    ]
    work = _layers(prepared) if network else _neurons(prepared)
    total = sum(work.values())
    unit = "a batch, forward and back" if network else "a simulated second"
    if total:
        rows = [[n, f"{count:.2g}", f"{100 * count / total:.0f} %"] for n, count in work.most_common(MOST)]
        lines += [f"\nwhere the work is (operations of {unit}; counted, not measured)"]
        lines += [table(["", "operations", "share"], rows)]
    if model.numerics.precision == "mixed":
        lines += ["\nwhat runs in which type", table(["", "type"], _types(prepared.lowered.decisions))]
    lines += ["\nmemory", *(_need(n) for n in needs)]
    hints = _hints(prepared, options, total)
    if hints:
        lines += ["\nwhat could be changed", *(f"  {h}" for h in hints)]
    lines += ["\ndecisions", *_topics(path, prepared.lowered.decisions)]
    return "\n".join(lines)


def _types(decisions: Sequence[Decision]) -> list[list[str]]:
    """What mixed precision computes and stores in which type."""
    made = [d for d in decisions if d.pass_name == "mixed_precision"]
    kept = dict.fromkeys(d.subject.partition(": ")[2] for d in made if "registers" in d.reason)
    rows = [
        ["weights, their gradients, the optimizer's state", "float32"],
        ["activations and their gradients", "bf16, rounded where they are made"],
        ["factors of products", "bf16; weights are rounded once a step"],
        ["sums, means and other statistics, losses, metrics", "float32"],
    ]
    return [*rows, *([[f"recurrent layers: {', '.join(kept)}", "float32"]] if kept else [])]


def _what(prepared: Prepared) -> str:
    """What a run does, as a sentence."""
    model = prepared.model
    if model.train is not None:
        t, layers = model.train, len(model.network.layers) if model.network else 0
        weights = {n.out.name: n for n in prepared.lowered.tensors[0].nodes if isinstance(n, l1.Weight)}
        count = sum(prod(n.out.shape) for n in weights.values())
        how = f"{t.epochs} epochs, batches of {t.batch}"
        return f"trains {layers} layers with {count:,} weights by {t.optimizer.name}, {how}"
    neurons, synapses = sum(p.size for p in model.populations), sum(synapse_counts(model).values())
    s = model.simulate
    time = f" for {s.steps * s.dt:g} ms in {s.steps:,} steps of {s.dt:g} ms" if s is not None else ""
    return f"simulates {neurons:,} neurons and {synapses:,.0f} synapses{time}"


def _layers(prepared: Prepared) -> Counter[str]:
    """Additions and multiplications of a batch by layer."""
    work: Counter[str] = Counter()
    train = prepared.model.train
    assert train is not None
    for node, times in l1.with_bodies(prepared.lowered.tensors[0].nodes):
        if isinstance(node, l1.Contract) and len(node.ins) > 1:
            work[node.out.name.partition(".")[0]] += 2 * times * prod(size for _, size in node.dims)
    return work


def _neurons(prepared: Prepared) -> Counter[str]:
    """In a simulated second: updates of states, deliveries through synapses at SPIKE_RATE, and values of inputs."""
    model = prepared.model
    assert model.simulate is not None
    work: Counter[str] = Counter()
    steps = 1000 / model.simulate.dt
    for p in model.populations:
        work[f"neurons of {p.name}"] += round(p.size * steps * max(1, len(p.neuron.state)))
    counts = synapse_counts(model)
    for f in model.projections:
        events = sum(counts[own_name(f, m)] for m in f.members) * SPIKE_RATE
        work[f"synapses of {f.name}, at {SPIKE_RATE:g} Hz"] += round(events)
    for d in model.drives:
        size = next(p.size for p in model.populations if p.name == d.population)
        work[f"input {d.name}"] += round(size * steps)
    return work


def _need(need: Need) -> str:
    there = f" of {bytes_text(need.room.bytes)}" if need.room is not None else ""
    largest = ", ".join(f"{p.what} {bytes_text(p.bytes)}" for p in need.parts[:3] if p.bytes)
    return f"  {need.kind}: {bytes_text(need.bytes)}{there}" + (f"; the largest: {largest}" if largest else "")


def _hints(prepared: Prepared, options: Options, total: float) -> Sequence[str]:
    """What is slow for a reason that a user can change."""
    model, out = prepared.model, []
    if total > LARGE and options.target == "cpu":
        out.append("much work in one step: a GPU may be faster (--target cuda)")
    if options.target == "reference":
        out.append("the reference interprets the program, to compare with: --target cpu is many times as fast")
    if model.numerics.precision == "float64":
        out.append("--precision float32 halves the memory of numbers, and vectors hold twice as many")
    if model.numerics.order == "bitwise":
        out.append("--order reproducible lets sums be vectorised; the bits of targets then differ")
    inexact = [d for d in prepared.lowered.decisions if d.pass_name == "integrate_odes" and d.verdict != "exact"]
    out += [f"{d.subject} is solved by {d.verdict}: its error depends on dt ({d.reason})" for d in inexact[:MOST]]
    choices = prepared.backend.capabilities.strategies
    tunable = model.train is not None and model.numerics.order != "bitwise" and bool(choices)
    if tunable and not any(".lock: " in d.reason for d in prepared.lowered.decisions):
        out.append("`netloom tune` measures which way of computing each product is the fastest here")
    return out


def _topics(path: Path, decisions: Sequence[Decision]) -> Sequence[str]:
    counts = Counter(d.pass_name for d in decisions)
    listed = ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
    return (f"  {listed}", f"  more: netloom explain {path} --details {next(iter(counts), ALL)}, or {ALL}")
