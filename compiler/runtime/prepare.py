"""From a model file and a caller's options to a lowered program, with the time of each part.

Assumes: compiler.frontend.load reads and checks the file.
Guarantees: options are applied to the checked model, so that the file is never rewritten; a model that has nothing
to run is refused here.
Does not: compile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import compiler.ir.level0.model as l0
from backends.protocol import Backend
from backends.registry import TARGETS
from backends.registry import backend as backend_of
from compiler.core.diagnostics import Diagnostic, ModelError, Related, RunError, Sink, did_you_mean
from compiler.expr.units import TIME, parse_unit, to_canonical
from compiler.passes.pipeline.lower import Lowered, lower
from compiler.runtime.common.locks import lock_warnings, locked
from compiler.runtime.common.options import Options
from compiler.runtime.common.samples import data_of, headers_checked
from compiler.runtime.common.timing import Times
from compiler.runtime.resources.bill import Need, large, least_needs, needs_of, refuse
from compiler.runtime.resources.bill import warnings as too_large
from compiler.tune.lock import lock_path


@dataclass(frozen=True)
class Prepared:
    """A model as it will run. `warnings`: diagnostics that did not stop it."""

    path: Path
    model: l0.Model
    lowered: Lowered
    backend: Backend
    seed: int
    warnings: tuple[Diagnostic, ...]


def load_checked(
    path: Path, options: Options, times: Times, swept: bool = False
) -> tuple[l0.Model, tuple[Diagnostic, ...]]:
    """The model of a file with the options applied, and warnings. `swept`: with the values of its `sweep`, which a run
    does not use. Raises ModelError."""
    with times.part("load"):
        from compiler.frontend.load import load_model

        sink = Sink()
        model = load_model(
            path,
            options.set,
            sink=sink,
            shown=None if options.folder is None else path.name,
            folder=options.folder,
            unread=frozenset() if options.data is None else frozenset({"data"}),
            timed=times.steps_of("load"),
            swept=swept,
        )
        refuse_two_halves(model)
        model = with_samples(with_options(model, options), options)
    return model, tuple(sink.items)


def prepare(path: Path, options: Options, times: Times) -> Prepared:
    """Load, check and lower, without samples too. Raises ModelError, BackendError, RunError."""
    refuse_options(options)
    model, warnings = load_checked(path, options, times)
    refuse_nothing_to_run(model, samples=False)
    return _lowered(path, options, times, model, warnings)


def prepare_to_run(path: Path, options: Options, times: Times) -> Prepared:
    """As `prepare`, before a build or run: RunError (E0905) where the model exceeds the memory or disk of this
    machine, before anything large is allocated; a warning (W0005) above half of it."""
    refuse_options(options)
    return prepare_loaded(path, options, times, *load_checked(path, options, times))


def prepare_loaded(
    path: Path, options: Options, times: Times, model: l0.Model, warnings: tuple[Diagnostic, ...]
) -> Prepared:
    """As `prepare_to_run`, of a model that is loaded."""
    refuse_nothing_to_run(model)
    refuse(least_needs(model, options))
    prepared = _lowered(path, options, times, model, warnings)
    needs = needs_of(prepared.model, prepared.lowered.merged, prepared.backend, options)
    refuse(needs)
    return replace(prepared, warnings=(*prepared.warnings, *too_large(needs)))


@dataclass(frozen=True)
class Checked:
    """The result of a check. `name`, `needs`: of the model; None and empty after errors."""

    diagnostics: tuple[Diagnostic, ...]
    name: str | None = None
    needs: tuple[Need, ...] = ()


def check_model(path: Path, options: Options, lowered: bool) -> Checked:
    """The diagnostics of a model file. `lowered`: also of its lowering for the target, unless it is too large.
    Raises BackendError, RunError."""
    try:
        model, warnings = load_checked(path, options, Times(), swept=True)
        needs = look_ahead(path, options, model)
        if (lowered or options.verify) and not large(needs, 1):
            prepare(path, options, Times())
    except ModelError as error:
        return Checked(error.diagnostics)
    return Checked((*warnings, *too_large(needs)), model.name, needs)


def look_ahead(path: Path, options: Options, model: l0.Model) -> tuple[Need, ...]:
    """The memory and disk needs of a checked model: complete where something is large and the model can be lowered
    here, otherwise those that are known without lowering."""
    needs = least_needs(model, options)
    runnable = (model.simulate is not None and bool(model.populations)) or model.train is not None
    if not runnable or large(needs, 1) or not large(needs, FEW):
        return needs
    prepared = _lowered(path, options, Times(), model, ())
    return needs_of(prepared.model, prepared.lowered.merged, prepared.backend, options)


FEW: Final = 32
"""Needs below 1 / FEW of the machine's capacity are not computed exactly."""


def _lowered(path: Path, options: Options, times: Times, model: l0.Model, warnings: tuple[Diagnostic, ...]) -> Prepared:
    with times.part("lower"):
        chosen = backend_of(options.target, options.device or 0, options.verify, options.arch)
        lock = locked(lock_path(path), options, chosen)
        lowered = lower(
            model, lock.capabilities, options.verify, lock.pins, lambda ran: times.step("lower", ran.name, ran.seconds)
        )
        warnings += lock_warnings(path, lock, lowered)
    return Prepared(path, model, lowered, chosen, seed_of(model), warnings)


def refuse_seed(what: str, seed: int) -> None:
    """A seed that is none in a model file either: keys of random streams are made of 64 bits, and others would be a
    second name of one of these. Raises RunError (E0912)."""
    if not 0 <= seed < 1 << 63:
        raise RunError("E0912", f"{what} is a whole number from 0 to {(1 << 63) - 1:,}, not {seed:,}")


def seed_of(model: l0.Model) -> int:
    """The seed of all random streams of a run."""
    if model.simulate is not None:
        return model.simulate.seed
    return model.train.seed if model.train is not None else 0


def refuse_two_halves(model: l0.Model) -> None:
    """Populations and a network that are not connected are two models. Raises ModelError (E0802)."""
    sink = Sink()
    if model.populations and model.network is not None and not model.in_trials:
        sink.error(
            "E0802",
            "no input of the network reads the `populations`, so that nothing is trained on what they do",
            model.network.span,
            f"write `inputs: {{activity: {{from: {model.populations[0].name}, of: spikes}}}}`, or put the network, "
            "with its `train` block, into a file of its own",
            (Related("the populations begin here", model.populations[0].span),),
        )
    sink.check()


def refuse_nothing_to_run(model: l0.Model, samples: bool = True) -> None:
    """A file that only defines things can be checked, not run; so can a training without `samples`. Raises
    ModelError."""
    sink = Sink()
    if model.simulate is None and model.train is None:
        missing = "train" if model.network is not None else "simulate"
        use = "`netloom predict` uses a network that has its weights from a file"
        help = use if model.network is not None else None
        sink.error("E0103", f"there is nothing to run: `{missing}` is missing", model.span, help)
    elif model.simulate is not None and not model.populations:
        sink.error("E0103", "there is nothing to simulate: `populations` is missing", model.span)
    elif samples and model.train is not None and model.train.data.missing:
        help = "write `data: {file: ...}`, or give samples: `--data FILE`, from Python `fit({...})`"
        sink.error("E0103", "`train` has no `data`", model.train.span, help)
    sink.check()


def refuse_options(options: Options) -> None:
    """Options that the target has no use for. Raises RunError (E0912, exit 2)."""
    target = TARGETS.get(options.target)
    if target is None:
        return
    for name, given, has in (
        ("device", options.device, target.devices),
        ("arch", options.arch, target.architectures),
    ):
        if given is not None and not has:
            raise RunError("E0912", f"the target `{target.name}` has no --{name}")
    if options.portable and target.name != "cpu":
        raise RunError("E0912", f"the target `{target.name}` has no --portable")


def with_options(model: l0.Model, options: Options) -> l0.Model:
    """`model` with its values replaced by those of the options. Raises RunError (E0912, exit 2)."""
    numerics = model.numerics
    if options.precision is not None:
        numerics = replace(numerics, precision=options.precision)
    if options.order is not None:
        numerics = replace(numerics, order=options.order)
    refuse_mixed(model, numerics)
    simulate, train = model.simulate, model.train
    if options.seed is not None:
        refuse_seed("--seed", options.seed)
        simulate = replace(simulate, seed=options.seed) if simulate is not None else None
        train = replace(train, seed=options.seed) if train is not None else None
    if options.duration is not None:
        if simulate is None:
            raise RunError("E0912", "--duration is for models with `simulate`")
        if model.in_trials:
            message = "--duration would change the length of a trial, and with it the shape of what the network reads"
            raise RunError("E0912", message, "change `duration` of `simulate` in the file")
        simulate = replace(simulate, steps=whole_steps(options.duration, simulate.dt, simulate.warmup))
    if options.freeze:
        if simulate is None:
            raise RunError("E0912", "--freeze is for models with `simulate`")
        simulate = replace(simulate, freeze=_frozen(options.freeze, model))
    if options.epochs is not None:
        if train is None:
            raise RunError("E0912", "--epochs is for models with `train`")
        if options.epochs < 1:
            raise RunError("E0912", "--epochs is at least 1")
        train = replace(train, epochs=options.epochs)
    return replace(model, numerics=numerics, simulate=simulate, train=train)


def refuse_mixed(model: l0.Model, numerics: l0.Numerics) -> None:
    """Mixed precision where it has no meaning. Raises RunError (E0912, exit 2)."""
    if numerics.precision != "mixed":
        return
    if model.network is None:
        raise RunError("E0912", "--precision mixed is for models with a `network`")
    if numerics.order == "bitwise":
        help = "use --order reproducible, or --precision float32"
        raise RunError("E0912", "`precision: mixed` has no bitwise order of sums", help)


def with_samples(model: l0.Model, options: Options) -> l0.Model:
    """`model` trained on the samples that the options name. Raises RunError (E0912, E0917, exit 2)."""
    if options.data is None and options.validation is None:
        return model
    train, network = model.train, model.network
    if train is None or network is None:
        raise RunError("E0912", "--data and --validation are for models with `train`")
    data = train.data
    if options.data is not None:
        read = {name for name, _, _ in data.arrays}
        wanted = [i for i in network.inputs if i.name in read]
        data = replace(data_of(options.data, wanted, model), validation=data.validation, shuffle=data.shuffle)
        headers_checked(data, wanted)
    if options.validation is not None:
        if not 0 <= options.validation < 1 and not (options.validation >= 1 and options.validation % 1 == 0):
            message = f"--validation is a part from 0 to 1, or a whole number of samples, not {options.validation:g}"
            raise RunError("E0912", message)
        last = int(options.validation) if options.validation >= 1 else 0
        data = replace(data, validation=l0.Kept(0.0, last=last) if last else options.validation)
    return replace(model, train=replace(train, data=data))


def _frozen(names: tuple[str, ...], model: l0.Model) -> tuple[str, ...]:
    """The projections that `--freeze` means. Raises RunError (E0912) for one that has nothing to freeze."""
    plastic = tuple(p.name for p in model.projections if p.synapse is not None)
    if names == ("learning",):
        return plastic
    for name in names:
        if name not in plastic:
            help = did_you_mean(name, ("learning", *plastic)) or "write `--freeze learning`, or a projection's name"
            raise RunError("E0912", f"`--freeze {name}`: no projection with a synapse has this name", help)
    return names


def whole_steps(duration: str, dt: float, warmup: int) -> int:
    """A duration such as "2 s" in whole steps, behind a warm-up. Raises RunError (E0912)."""
    time = _milliseconds(duration)
    if time is None or time < 0:
        raise RunError("E0912", f"the duration is a time such as '200 ms', not '{duration}'")
    if time / dt + warmup > l0.MOST_STEPS:
        message = f"{duration} (and the warm-up) in steps of {dt:g} ms are more than {l0.MOST_STEPS:,} steps"
        raise RunError("E0912", message, f"the longest duration is {(l0.MOST_STEPS - warmup) * dt:g} ms")
    steps = round(time / dt)
    if abs(steps * dt - time) > 1e-9 * max(time, dt):
        raise RunError(
            "E0912",
            f"{duration} is not a whole number of steps of {dt:g} ms",
            f"the nearest are {steps * dt:g} ms and {(steps + (1 if steps * dt < time else -1)) * dt:g} ms",
        )
    return steps


def _milliseconds(text: str) -> float | None:
    """A number and a unit of time ("2 s") in ms; None for any other text."""
    match = re.fullmatch(r"\s*([-+0-9.eE]+)\s*([A-Za-zµ]+)\s*", text)
    if match is None:
        return None
    unit = parse_unit(match[2])
    if unit is None or unit[0] != TIME:
        return None
    try:
        return to_canonical(float(match[1]), match[2])
    except (ValueError, OverflowError):
        return None
