"""Checkpoints: everything that determines how a run goes on, in one file.

Assumes: connections are drawn from the seed, so that they need no place in the file.
Guarantees: written to a temporary name, put on disk and renamed, so that it is whole or not there; arrays are stored by
name in logical shape, so that another target may resume; a checkpoint that does not fit the program is refused with the
name of the first array that differs.
Does not: hold records (they are drained before), but for what a record has begun (a bin that is not full).

The file is safetensors; its metadata says `kind` (spiking | training), `step`, `epoch`, `seed`, `model` (hash).
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.core.diagnostics import RunError
from compiler.core.disk import in_use, new_file, sync
from compiler.files.guard import regular
from compiler.runtime.artifacts.digest import check_digest, sealed
from compiler.runtime.common.arrays import persistent_arrays, read_logical, to_physical

FORMAT = "netloom checkpoint 1"


@dataclass(frozen=True)
class Position:
    """Where a run stands: steps done (of the simulation, or training steps); for training also the epochs that are
    complete, the batches done of the next one, and the epoch that the best weights so far are of (0: none are kept)."""

    kind: str
    step: int
    seed: int
    model: str
    epoch: int = 0
    batch: int = 0
    best: int = 0


BEST = "best/"
"""What the names of the best weights so far begin with: they go along, so that a resumed run has them."""
BEGUN = "record/"
"""What the names of records that are begun start with; they are no arrays of the program either."""


def save_checkpoint(
    path: Path,
    instance: Instance,
    program: l2.Merged,
    position: Position,
    best: Mapping[str, AnyArray] | None = None,
    frozen: bool = False,
    begun: Mapping[str, AnyArray] | None = None,
) -> None:
    """Write the state at `position` to `path`, atomically; `frozen`: what has been learned stands still in this run;
    `begun`: what records have begun, by name."""
    arrays = {a.name: read_logical(instance, a) for a in persistent_arrays(program, frozen)}
    arrays |= {f"{BEST}{name}": value for name, value in (best or {}).items()}
    arrays |= {f"{BEGUN}{name}": value for name, value in (begun or {}).items()}
    metadata = {"format": FORMAT} | {k: str(v) for k, v in asdict(position).items()}
    write_tensors(path, arrays, metadata, "a checkpoint")


def write_tensors(
    path: Path, arrays: Mapping[str, AnyArray], metadata: dict[str, str] | None = None, what: str = "the weights"
) -> None:
    """A safetensors file with its digest, atomically, with the permissions of any other new file. Raises RunError
    (E0930)."""
    # By hand, array by array: the library makes three copies of all of them first.
    kept = {n: np.ascontiguousarray(v) for n, v in arrays.items()}
    kinds = {n: f"{_LETTERS[a.dtype.kind]}{8 * a.itemsize}" for n, a in kept.items()}
    order = sorted(kept, key=lambda n: (_KINDS.index(kinds[n]), n))  # as the library does: every array is aligned
    header: dict[str, object] = {}
    at = 0
    for name in order:
        a = kept[name]
        header[name] = {"dtype": kinds[name], "shape": list(a.shape), "data_offsets": [at, at := at + a.nbytes]}
    numbers = (kept[name].reshape(-1).view(np.uint8).data for name in order)
    start = sealed(header, metadata or {}, numbers)
    with new_file(path, what, len(start) + at) as file:
        file.write(start)
        for name in order:
            file.write(kept[name].reshape(-1).view(np.uint8).data)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


_LETTERS: Final[Mapping[str, str]] = MappingProxyType({"f": "F", "i": "I", "u": "U"})
_KINDS: Final = ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8")


@dataclass(frozen=True)
class Latest:
    """The checkpoint to resume from, and the newer ones that were passed over because they are damaged."""

    path: Path
    damaged: tuple[Path, ...] = ()


def latest_checkpoint(place: Path) -> Latest:
    """The checkpoint to resume from: `place` itself, or the newest undamaged one of a run directory (its `checkpoints`
    may be named, too); where there is no `place`, of the folder that a killed run of this name has left. Raises
    RunError (E0909, also where the run is still going on; E0927 where the file that is named, or every checkpoint of
    the folder, is damaged)."""
    if place.is_file():
        check_digest(place)
        return Latest(place)
    if place.name == "checkpoints" and not (place / place.name).is_dir():
        place = place.parent
    folder = place if place.is_dir() else _left_over(place)
    if folder is None:
        raise RunError("E0909", f"there is no run directory or checkpoint `{place}`")
    if in_use(folder):
        message = f"the run in `{folder}` is still going on"
        raise RunError("E0909", message, "wait until it has ended, or stop it (Ctrl-C) first")
    files = sorted((folder / "checkpoints").glob("*.safetensors"))
    if not files:
        raise RunError("E0909", f"`{folder}` holds no checkpoints", _instead(folder))
    whole = whole_checkpoints(folder)
    damaged = [path for path in files if path not in whole]
    first: RunError | None = None
    for path in reversed(whole):
        try:
            check_digest(path)
        except RunError as error:
            first = first or error
            damaged.append(path)
        else:
            return Latest(path, tuple(damaged))
    if first is not None:
        raise first
    raise RunError("E0909", f"`{folder}` holds no whole checkpoint: `{files[-1]}` cannot be read")


def whole_checkpoints(folder: Path) -> tuple[Path, ...]:
    """The checkpoints of a run directory that can be read, the newest last."""
    readable: list[tuple[int, str, Path]] = []
    for path in (folder / "checkpoints").glob("*.safetensors"):
        with contextlib.suppress(RunError):
            readable.append((read_position(path).step, path.name, path))
    return tuple(path for _, _, path in sorted(readable))


def resumable(folder: Path) -> bool:
    """Whether a run directory, of a killed run too, holds what `--resume` can go on from."""
    return bool(whole_checkpoints(folder))


def unfinished(runs: Path, name: str = "*") -> tuple[Path, ...]:
    """The folders of runs in `runs` that are not finished, because they still run or were killed: hidden, with the name
    that they would have got and more. The newest last."""
    folders = [f for f in runs.glob(f".{name}.*") if (f / "run.json").is_file()]
    return tuple(sorted(folders, key=lambda f: (f.stat().st_mtime, f.name)))


def _left_over(place: Path) -> Path | None:
    """The folder that a killed run left, which was to be called `place`: the newest one with a checkpoint."""
    folders = unfinished(place.parent, glob.escape(place.name))
    return next((f for f in reversed(folders) if resumable(f)), folders[-1] if folders else None)


def cut_short(path: Path) -> bool:
    """Whether the run that a checkpoint belongs to was killed (its folder may not even have got its name), or failed:
    what comes after its last step is to do."""
    folder = path.parent.parent
    status = _said(folder, "status")
    return status is not None and (status != "ok" or folder.name.startswith("."))


def _said(folder: Path, key: str) -> Any:
    """What run.json says; None without it."""
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return None


def _instead(folder: Path) -> str:
    """What to do about a run that left no checkpoint."""
    earlier = _said(folder, "resumed_from")
    if earlier:
        return f"it went on from `{earlier}`: resume that again"
    return (
        "run the model anew; with `checkpoint: {every_wall: 5 min}` in `simulate` a killed run can be resumed"
        " (`checkpoint: {every: 1}` in `train`)"
    )


def read_position(path: Path) -> Position:
    """What the checkpoint says of itself. Raises RunError (E0909) when it is not one."""
    from safetensors import SafetensorError, safe_open

    try:
        regular(path)
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError("E0909", f"`{path}` cannot be read: {error}") from None
    if metadata.get("format") != FORMAT:
        raise RunError("E0909", f"`{path}` is not a checkpoint")
    try:
        if metadata["kind"] not in ("spiking", "training"):
            raise ValueError
        step, seed, epoch, batch = (int(metadata[k]) for k in ("step", "seed", "epoch", "batch"))
        if min(step, epoch, batch) < 0 or max(step, seed, epoch, batch) >= 2**63:
            raise ValueError
        best = int(metadata.get("best", 0))
        return Position(metadata["kind"], step, seed, metadata["model"], epoch, batch, best)
    except (KeyError, ValueError):
        raise RunError("E0909", f"`{path}` does not say where its run stood: its metadata are damaged") from None


def _arrays_of(path: Path) -> dict[str, AnyArray]:
    """The arrays of a checkpoint. Raises RunError (E0909) where they cannot be read, E0927 where it is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        check_digest(path)
        arrays: dict[str, AnyArray] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise RunError("E0909", f"`{path}` cannot be read: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # a type that numpy lacks, as bfloat16
        raise RunError("E0909", f"`{path}` holds numbers of a type that checkpoints do not have: {error}") from None
    other = next((n for n, v in arrays.items() if v.dtype.isbuiltin != 1), None)
    if other is not None:  # numpy has bfloat16 where some package has brought it
        message = f"`{path}` holds numbers of a type that checkpoints do not have: `{other}` is {arrays[other].dtype}"
        raise RunError("E0909", message)
    return arrays


def restore_checkpoint(path: Path, instance: Instance, program: l2.Merged, frozen: bool = False) -> None:
    """Put the arrays of a checkpoint into an instance. Raises RunError (E0909) when they do not fit, E0927 when
    the file is damaged. A `frozen` run has no place for some of what learning needs, and synapses that nothing ever
    changes are as they were drawn."""
    stored = {n: v for n, v in _arrays_of(path).items() if not n.startswith((BEST, BEGUN))}
    needed = frozenset(a.name for a in persistent_arrays(program))
    for array in persistent_arrays(program, frozen):
        values = stored.pop(array.name, None)
        if values is None and array.name not in needed:
            continue
        if values is None:
            raise _misfit(path, f"it has no `{array.name}`")
        if values.dtype != np.dtype(array.dtype.numpy):
            raise _misfit(path, f"`{array.name}` is {values.dtype}, not {array.dtype.numpy}")
        if array.size_from is None and values.shape != array.shape:
            raise _misfit(path, f"`{array.name}` is shaped {values.shape}, not {array.shape}")
        try:
            instance.write(array.name, to_physical(array, values))
        except ValueError as error:
            raise _misfit(path, str(error)) from None
    if stored and not frozen:
        raise _misfit(path, f"it holds `{next(iter(stored))}`, which the model does not have")


SAME: Final = "resume with the model, the settings, the precision and the version of netloom of the run that wrote it"


def check_origin(path: Path, position: Position, kind: str, seed: int, model: str) -> None:
    """Refuse a checkpoint of another kind of run, seed or model (its hash). Raises RunError (E0909)."""
    if position.kind != kind:
        raise RunError("E0909", f"`{path}` is of a {position.kind} run, not of a {kind} one")
    if position.seed != seed:
        message = f"`{path}` was written with seed {position.seed}, not {seed}"
        raise RunError("E0909", message, f"resume with `--seed {position.seed}`")
    if position.model != model:
        anew = f"; `--weights {path}` begins anew with its weights" if kind == "training" else ""
        raise RunError("E0909", f"`{path}` was written by another model", f"{SAME}{anew}")


def best_of_checkpoint(path: Path) -> dict[str, AnyArray]:
    """The best weights so far of the run that wrote a checkpoint; {} where it kept none."""
    return _part(path, BEST)


def begun_of_checkpoint(path: Path) -> dict[str, AnyArray]:
    """What the records of the run that wrote a checkpoint had begun, by name."""
    return _part(path, BEGUN)


def _part(path: Path, prefix: str) -> dict[str, AnyArray]:
    """The arrays of a checkpoint whose names begin so, without the prefix."""
    return {n.removeprefix(prefix): v for n, v in _arrays_of(path).items() if n.startswith(prefix)}


def _misfit(path: Path, reason: str) -> RunError:
    return RunError(
        "E0909",
        f"the checkpoint `{path}` does not fit this model: {reason}",
        SAME,
    )
