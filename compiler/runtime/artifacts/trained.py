"""A network with its weights, for `evaluate`, `predict`, `export` and standalone builds.

Assumes: run directories as run_folder.py leaves them; model files.
Guarantees: a run directory gives the model as it ran (precision and order too) and weights.safetensors; data paths
count from the folder of the original file, as run.json gives it or, if the files are not there (any more), relative to
the run directory. A model file gives the weights that `--weights` or `network: {weights: ...}` names. Weights are
compared with the network before anything is built.
Does not: lower or run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Diagnostic, ModelError, RunError, Severity, Sink
from compiler.frontend.load import load_model, name_of
from compiler.runtime.artifacts.records import damaged, fault_of
from compiler.runtime.artifacts.safetensors import Reals, Shapes, fitting
from compiler.runtime.common.options import Options
from compiler.runtime.prepare import seed_of, with_options
from compiler.tune.lock import lock_path

WEIGHTS = "weights.safetensors"
_NOT_THERE = frozenset({"E0701"})


@dataclass(frozen=True)
class Trained:
    """`place`: where the model names the file of its weights, if it does; `lock`: the lock file of the model, whether
    there is one or not."""

    model: l0.Model
    file: Path
    weights_file: Path
    place: l0.InitialWeights | None
    warnings: tuple[Diagnostic, ...]
    lock: Path

    @property
    def seed(self) -> int:
        return seed_of(self.model)

    def weights(self, wanted: Shapes) -> dict[str, Reals]:
        """The weights, which must be those that are wanted. Raises RunError, ModelError (E0916)."""
        return fitting(self.weights_file, wanted, self.place)


class Untrained(RunError):
    """A model file whose weights nothing names."""


def open_trained(source: Path, options: Options, data: bool = False) -> Trained:
    """The network of a run directory or model file; with `data`, the files that it was trained on must be there.
    Raises ModelError, RunError (E0916, exit 2)."""
    sink = Sink()
    unread = frozenset({"init"} if data else {"init", "data"})
    if source.is_dir():
        record = record_of_run(source)
        numerics = record["numerics"]
        options = replace(
            options,
            precision=options.precision or numerics["precision"],
            order=options.order or numerics["order"],
        )
        file = source / "model.yaml"
        name = Path(record["model"].get("file") or file).name
        locks = [lock_path(folder / name) for folder in data_folders(source, record["model"])]
        lock = next((p for p in locks if p.is_file()), locks[0])
        model = _of_run(source, record, options, sink, unread | {"weights"})
    else:
        file, lock = source, lock_path(source)
        model = load_model(file, options.set, sink=sink, unread=unread, swept=False)
    alone = model.network is not None and not model.in_trials
    model = with_options(replace(model, simulate=None) if alone else model, options)
    if model.network is None:
        raise RunError("E0912", f"`{source}` has no network of layers")
    weights, place = _weights(source, model, options)
    return Trained(model, file, weights, place, tuple(sink.items), lock)


def _of_run(source: Path, record: Mapping[str, Any], options: Options, sink: Sink, unread: frozenset[str]) -> l0.Model:
    """The model of a run directory under the name that it ran with, its paths counting from the first of
    `data_folders` that has its files. Raises ModelError: of the first folder, with what to do where files are not
    there."""
    folders = data_folders(source, record["model"])
    failures: list[ModelError] = []
    for folder in folders:
        inner = Sink()
        try:
            model = load_model(
                source / "model.yaml", options.set, sink=inner, folder=folder, unread=unread, swept=False
            )
        except ModelError as error:
            failures.append(error)
            if any(d.code not in _NOT_THERE for d in error.diagnostics if d.severity is Severity.ERROR):
                break
        else:
            sink.items += inner.items
            own = model.name != name_of(source / "model.yaml")
            return model if own else replace(model, name=name_of(Path(f"{record.get('name', model.name)}.yaml")))
    looked = " and ".join(f"`{f}`" for f in folders)
    help = f"the paths of this run count from {looked}; `--data FILE` measures other samples"
    first = failures[0].diagnostics
    raise ModelError(replace(d, help=help) if d.code in _NOT_THERE else d for d in first)


def model_of_run(source: Path) -> l0.Model:
    """The model of a run directory as it ran, without files that others replace. Raises ModelError, RunError."""
    return _of_run(source, record_of_run(source), Options(), Sink(), frozenset({"init", "data", "weights"}))


def data_folders(source: Path, record: Mapping[str, Any]) -> tuple[Path, ...]:
    """Candidates for the folder that paths of a run's model count from: the folder of the model file at the time of
    the run, or the one that was moved together with the run."""
    noted, way = record.get("folder"), record.get("from_run")
    first = Path(noted) if isinstance(noted, str) else Path(record["file"]).absolute().parent
    if not isinstance(way, str):
        return (first,)
    moved = Path(os.path.normpath(source.resolve() / way))
    return (first,) if moved == first else (first, moved)


def samples_of_run(source: Path) -> str | None:
    """The file of samples that a run directory was trained on in place of its model's; None where there was none."""
    found = record_of_run(source).get("data") if source.is_dir() else None
    return found if isinstance(found, str) else None


def record_of_run(folder: Path) -> Mapping[str, Any]:
    """run.json of a run directory. Raises RunError (E0916, E0927)."""
    try:
        record: Mapping[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        assert isinstance(record["model"]["file"], str) and isinstance(record["numerics"]["order"], str)
    except (OSError, ValueError, KeyError, TypeError, AssertionError):
        message = f"`{folder}` is not a run directory: it has no readable run.json"
        raise RunError("E0916", message, "give the directory that `netloom run` wrote") from None
    if fault := fault_of(record):
        raise damaged(folder / "run.json", fault)
    return record


def _weights(source: Path, model: l0.Model, options: Options) -> tuple[Path, l0.InitialWeights | None]:
    assert model.network is not None
    if options.weights is not None:
        return weights_file(options.weights), None
    if source.is_dir():
        return weights_file(source), None
    place = model.network.weights
    if place is None:
        help = "give `--weights FILE`, or write `network: {weights: FILE}` into the model"
        raise Untrained("E0916", f"`{source}` says nothing of its weights", help)
    return Path(place.file.path), place


def weights_file(place: Path) -> Path:
    """`place` itself, or the weights of a run directory. Raises RunError (E0916, exit 2)."""
    if place.is_file():
        return place
    if not place.is_dir():
        raise RunError("E0916", f"there is no file of weights or run directory `{place}`")
    if not (place / WEIGHTS).is_file():
        trained, ran = ((place / name).is_file() for name in ("metrics.jsonl", "run.json"))
        help = "the training did not get to its end: name a checkpoint" if trained else "name that of a training"
        what = f"`{place}` {'is a run without a training, and ' if ran and not trained else ''}holds no {WEIGHTS}"
        raise RunError("E0916", what, help)
    return place / WEIGHTS


def initial_weights(model: l0.Model, wanted: Shapes, options: Options) -> dict[str, Reals] | None:
    """The weights that a training begins with, if not drawn. Raises RunError, ModelError (E0916)."""
    place = model.network.weights if model.network is not None else None
    if options.weights is not None:
        if model.network is None:
            raise RunError("E0912", "--weights is for models with a `network`")
        return fitting(weights_file(options.weights), wanted, drawn=True)
    return None if place is None else fitting(Path(place.file.path), wanted, place, drawn=True)
