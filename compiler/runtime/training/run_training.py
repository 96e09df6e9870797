"""A training run in its folder: epochs, validation, metrics, checkpoints, weights.

Assumes: phases "train" and "eval" as compiler/passes/kernels/lower_tensors.py makes them: step k takes batch
(k - 1) mod batches of `<phase>.order`; sums over an epoch stand in `metric.*`.
Guarantees: what epoch e does depends on the weights before it and on (seed, e); metrics.jsonl has a flushed line per
epoch; a run that is resumed, in the middle of an epoch too, ends bitwise equal to an uninterrupted one;
weights.safetensors has the best weights where these are requested.
Does not: build or plot.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.core.cache import cache_folder
from compiler.core.diagnostics import RunError
from compiler.core.disk import append_text, sync, write_text
from compiler.core.strict_json import dumps
from compiler.losses import LOSS_KIND
from compiler.passes.pipeline.lower import Lowered
from compiler.passes.tensors.accumulate import averages_of
from compiler.passes.tensors.expand_updates import PLATEAU
from compiler.runtime.artifacts.checkpoint import (
    Position,
    best_of_checkpoint,
    cut_short,
    save_checkpoint,
    write_tensors,
)
from compiler.runtime.artifacts.safetensors import learned
from compiler.runtime.common.arrays import read_logical
from compiler.runtime.common.metrics import Sums, confusion_of, metrics_of, read_metrics
from compiler.runtime.common.watch import best_epoch, plateau_factor, stops
from compiler.runtime.health import Health
from compiler.runtime.plots.confusion import CONFUSION
from compiler.runtime.record.continued import adopt_checkpoint
from compiler.runtime.session import Outcome, Session, TrainingSummary
from compiler.runtime.training.data import Indices, epoch_order, split
from compiler.runtime.training.feed import Feed
from compiler.runtime.trials import refuse_many

METRICS: Final = "metrics.jsonl"
BLOCK_SECONDS = 0.1  # target wall time of a block of batches: the longest delay of a signal


@dataclass
class _Loop:
    """State of one training run."""

    session: Session
    train: l0.Train
    program: l2.Merged
    instance: Instance
    feed: Feed
    samples: Indices
    validation: Indices
    batches: int
    block: int = 1
    shown: str = ""  # the results of the last epoch, for the progress
    history: list[dict[str, float]] = field(default_factory=list)  # the rows of metrics.jsonl
    best: dict[str, AnyArray] = field(default_factory=dict)  # the best weights so far, if kept
    best_epoch: int = 0  # their epoch
    adopted: Path | None = None  # the checkpoint to resume from, until the run has its own
    enough: bool = False  # the caller's function asked to stop after the epoch

    @property
    def kept(self) -> int:
        """Batches of validation."""
        return -(-len(self.validation) // self.train.batch)

    @property
    def ended(self) -> bool:
        """Whether early stopping, or the caller, ends the training after the epochs that are done."""
        return self.enough or (self.train.stop is not None and stops(self.history, self.train.stop))

    @property
    def stopped(self) -> bool:
        return self.session.stop.number is not None


def run_training(session: Session) -> Outcome:
    """Train to the last epoch, or to a signal."""
    train = session.prepared.model.train
    network = session.prepared.model.network
    assert train is not None and network is not None
    with Feed(session.instance, session.prepared.lowered.merged, network, train, cache_folder()) as feed:
        return _trained(_open(session, train, feed))


def _trained(loop: _Loop) -> Outcome:
    session, train, epoch, batch = loop.session, loop.train, 1, 0
    if session.resumed is not None:
        position, path = session.resumed
        epoch, batch = position.epoch + 1, position.batch
        if epoch > train.epochs + cut_short(path):
            raise RunError(
                "E0909",
                f"`{path}` stands after epoch {position.epoch}, where the training ends",
                "give more `--epochs`",
            )
        loop.history = _copy_metrics(path, session.folder, position.epoch)
        _follow(loop, path, position)
        loop.adopted = adopt_checkpoint(path, session.folder)
    health = Health(loop.program, loop.session.prepared.model)
    cpu, wall = time.process_time(), time.perf_counter()
    session.progress.start(session.prepared.model.name, train.epochs)
    saved = 0
    try:
        append_text(session.folder / METRICS, "", "the metrics")
        while epoch <= train.epochs and not loop.stopped and not loop.ended:
            batch = _epoch(loop, epoch, batch)
            if batch < loop.batches:
                break
            health.look(loop.instance, f"after epoch {epoch}")
            if train.checkpoint_every and epoch % train.checkpoint_every == 0:
                _save(loop, epoch, 0)
                saved = epoch
            epoch, batch = epoch + 1, 0
    finally:
        session.progress.finish()
    if saved != epoch - 1 or batch:
        _save(loop, epoch - 1, batch)
    course = _course(loop, epoch - 1)
    if course.weights == "best":
        write_tensors(session.folder / "weights.safetensors", loop.best, {"epoch": str(loop.best_epoch)})
    else:
        weights = learned_weights(loop.instance, session.prepared.lowered, train)
        write_tensors(session.folder / "weights.safetensors", weights)
    seconds = time.process_time() - cpu
    rows = read_metrics(session.folder)
    return Outcome(
        {},
        {},
        {k: v for k, v in rows[-1].items() if k not in ("epoch", "seconds")} if rows else {},
        session.stop.number if epoch <= train.epochs and not loop.ended else None,
        (seconds, time.perf_counter() - wall),
        {"simulation_cpu_seconds": seconds, "training_cpu_seconds": seconds},
        course=course,
    )


def _course(loop: _Loop, epochs: int) -> TrainingSummary:
    """The summary after so many epochs. The best epoch counts if its weights are available."""
    train = loop.train
    watched = train.best or (train.stop.watched if train.stop is not None else None)
    best = 0 if watched is None else best_epoch(loop.history, watched)
    name = "" if watched is None else watched.name
    return TrainingSummary(
        epochs,
        train.epochs,
        loop.ended,
        best,
        name,
        loop.history[best - 1][name] if best else math.nan,
        "best" if train.use_best and best and loop.best_epoch == best else "last",
        loop.enough,
    )


def _open(session: Session, train: l0.Train, feed: Feed) -> _Loop:
    program = session.prepared.lowered.merged
    samples, validation = split(feed.examples, train.data.validation, train.seed)
    if len(samples) == 0:
        raise RunError("E0910", "no samples are left to train on", "make `split` smaller")
    batches = next(a.shape[0] for a in program.arrays if a.name == "train.order")
    if session.trials is not None:
        refuse_many(session.trials.steps, batches, train.epochs, -(-len(validation) // train.batch))
    return _Loop(session, train, program, session.instance, feed, samples, validation, batches)


def _epoch(loop: _Loop, epoch: int, batch: int) -> int:
    """Train the batches of an epoch from `batch` on and write its metrics; returns the batches that are done."""
    train, instance = loop.train, loop.instance
    begin = time.perf_counter()
    order = epoch_order(loop.samples, train.seed, epoch, train.data.shuffle)
    loop.feed.begin("train", order)
    done = _batches(loop, "train", (epoch - 1) * loop.batches, batch, loop.batches, epoch)
    if done < loop.batches:
        return done
    sums = take_sums(instance, loop.program)
    row = {"epoch": epoch, **metrics_of(sums)}
    confusion = {"training": confusion_of(sums)}
    if not math.isfinite(row["loss"]):
        Health(loop.program, loop.session.prepared.model).look_at_learned(instance, f"in epoch {epoch}")
        message = f"the loss is {row['loss']} in epoch {epoch}"
        helps = [LOSS_KIND[each.kind].infinite for each in train.loss.each if row["loss"] == math.inf]
        help = next(filter(None, helps), "a smaller learning rate may help")
        raise RunError("E0908", message, help, span=train.loss.span)
    if len(loop.validation):
        loop.feed.begin("eval", loop.validation)
        _batches(loop, "eval", 0, 0, loop.kept, None)
        sums = take_sums(instance, loop.program)
        row |= {f"validation_{k}": v for k, v in metrics_of(sums).items()}
        confusion["validation"] = confusion_of(sums)
    loop.history.append(row)
    if train.best is not None and best_epoch(loop.history, train.best) == epoch:
        loop.best = learned_weights(instance, loop.session.prepared.lowered, train)
        loop.best_epoch = epoch
        _write_best(loop)
    if train.plateau is not None:
        _set_factor(loop)
    row["seconds"] = round(time.perf_counter() - begin, 6)
    append_text(loop.session.folder / METRICS, dumps(row) + "\n", "the metrics")
    if confusion["training"] is not None:
        line = dumps({"epoch": epoch, **confusion}) + "\n"
        append_text(loop.session.folder / CONFUSION, line, "the confusion matrices")
    last = [k for k in row if k != "seconds"][-1]
    loop.shown = f", loss {row['loss']:.3g}" + (f", {last} {row[last]:.3g}" if last != "loss" else "")
    loop.session.progress.update(epoch, f"epoch {epoch} of {train.epochs}{loop.shown}")
    loop.enough = loop.session.progress.epoch(dict(row))
    return done


def _batches(loop: _Loop, phase: str, before: int, first: int, count: int, epoch: int | None) -> int:
    """Run batches [first, count) of a phase, whose step numbers follow `before`. Only training (with `epoch`)
    stops at a signal; validation takes a moment and is finished."""
    done = first
    while done < count and not (epoch is not None and loop.stopped):
        begin = time.perf_counter()
        wanted = min(loop.block, loop.feed.ready(done) - done)
        if loop.session.trials is not None:
            loop.session.trials.run(done if epoch is None else loop.kept + before + done)
        ran = loop.instance.run(phase, before + done + 1, wanted)
        if ran <= 0:
            raise RunError("E0906", "the training does not advance", exit_code=70)
        done += ran
        seconds = time.perf_counter() - begin
        if seconds < BLOCK_SECONDS / 2:
            loop.block = min(2 * loop.block, 1 << 20)
        elif seconds > 2 * BLOCK_SECONDS:
            loop.block = max(1, loop.block // 2)
        if epoch is not None:
            loop.session.progress.update(epoch - 1 + done / count, f"epoch {epoch} of {loop.train.epochs}{loop.shown}")
    return done


def take_sums(instance: Instance, program: l2.Merged) -> Sums:
    """The sums for metrics over the rows since the last call; they become zero."""
    sums: dict[str, npt.NDArray[np.float64]] = {}
    for array in program.arrays:
        if array.name.startswith("metric."):
            sums[array.name.removeprefix("metric.")] = np.array(instance.read(array.name), np.float64)
            instance.write(array.name, np.zeros(array.physical_size, array.dtype.numpy))
    return sums


def _save(loop: _Loop, epoch: int, batch: int) -> None:
    """Write a checkpoint after `epoch` complete epochs and `batch` batches."""
    step = epoch * loop.batches + batch
    position = Position("training", step, loop.session.prepared.seed, loop.session.hash, epoch, batch, loop.best_epoch)
    name = f"epoch-{epoch:06d}.safetensors" if not batch else f"epoch-{epoch:06d}-{batch:06d}.safetensors"
    path = loop.session.folder / "checkpoints" / name
    sync(loop.session.folder / METRICS)
    save_checkpoint(path, loop.instance, loop.program, position, loop.best)
    if loop.adopted is not None and loop.adopted != path:
        loop.adopted.unlink(missing_ok=True)
    loop.adopted = None


def learned_weights(instance: Instance, lowered: Lowered, train: l0.Train) -> dict[str, AnyArray]:
    """Trained values (their averages, where these are kept) and running statistics by name, in logical shape."""
    averages = averages_of([node for graph in lowered.tensors for node in graph.nodes], train)
    arrays = {a.name: a for a in lowered.merged.arrays}
    return {n: read_logical(instance, arrays[averages.get(n, n)]) for n in sorted(learned(lowered.tensors))}


def _write_best(loop: _Loop) -> None:
    write_tensors(loop.session.folder / "best.safetensors", loop.best, {"epoch": str(loop.best_epoch)})


def _set_factor(loop: _Loop) -> None:
    assert loop.train.plateau is not None
    array = next(a for a in loop.program.arrays if a.name == PLATEAU)
    loop.instance.write(PLATEAU, np.array([plateau_factor(loop.history, loop.train.plateau)], array.dtype.numpy))


def _follow(loop: _Loop, path: Path, position: Position) -> None:
    """Restore what depends on earlier epochs: the best weights and the learning rate. Raises RunError (E0909) where
    their metrics are needed and missing."""
    train = loop.train
    watched = (train.best, *(w.watched for w in (train.stop, train.plateau) if w is not None))
    known = len(loop.history) == position.epoch
    for name in sorted({w.name for w in watched if w is not None}):
        if not known or any(name not in row for row in loop.history):
            message = f"`{path}` stands after epoch {position.epoch}, and `{name}` of the epochs before it is not known"
            help = "resume from the run's own folder: its metrics.jsonl says how the training went"
            raise RunError("E0909", message, help)
    if loop.ended and not cut_short(path):
        message = f"`{path}` stands after epoch {position.epoch}, where `stop` ended the training"
        raise RunError("E0909", message, "give `stop` more `patience`, or leave it out")
    if train.best is not None and position.epoch:
        best = best_epoch(loop.history, train.best)
        if position.best in (0, best):  # the checkpoint may be of a run that watched another metric
            loop.best = best_of_checkpoint(path)
        if loop.best:
            loop.best_epoch = best
            _write_best(loop)
    if train.plateau is not None:
        _set_factor(loop)


def _copy_metrics(checkpoint: Path, folder: Path, epochs: int) -> list[dict[str, float]]:
    """Begin with the metrics of the run that `checkpoint` belongs to, up to `epochs`."""
    rows = [r for r in read_metrics(checkpoint.parent.parent) if r["epoch"] <= epochs]
    text = "".join(dumps(r) + "\n" for r in rows)
    write_text(folder / METRICS, text, "the metrics")
    if (matrices := checkpoint.parent.parent / CONFUSION).is_file():
        lines = matrices.read_text(encoding="utf-8").splitlines(keepends=True)[: len(rows)]
        write_text(folder / CONFUSION, "".join(lines), "the confusion matrices")
    return rows
