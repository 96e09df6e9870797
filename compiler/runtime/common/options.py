"""The options that the command line, the Python API and the runner share, each described once.

Assumes: compiler/runtime/common/arguments.py checks values of Python callers.
Guarantees: `Options` is plain immutable data. compiler/cli/options.py makes the parameters of the commands from its
fields, `accepts` the signatures of the Python functions.
Does not: validate against a model (compiler/runtime/prepare.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, TypedDict, TypeVar, cast, get_type_hints

from compiler.runtime.common.arguments import (
    choice_or_none,
    flag,
    integer_or_none,
    names_of,
    number_or_none,
    path_of,
    path_or_none,
    settings_of,
    target_of,
    text_or_none,
)

PRECISIONS: Final = ("float32", "float64", "mixed")
ORDERS: Final = ("fast", "reproducible", "bitwise")

F = TypeVar("F", bound=Callable[..., Any])
PathArgument = str | PathLike[str]
Settings = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Option:
    """The description of a field of `Options` for the command line and the Python API."""

    help: str
    check: Callable[[str, Any], Any]
    """From a name and the value of a Python caller to the value of the field. Raises RunError (E0912)."""
    short: str | None = None
    """The flag with one letter."""
    choices: tuple[str, ...] = ()


_SET = Option("Another value of a parameter: name=value. Repeatable.", settings_of, "-s")
_PRECISION = Option(
    "float32, float64 or mixed, instead of the model's.", partial(choice_or_none, among=PRECISIONS), choices=PRECISIONS
)
_ORDER = Option(
    "fast, reproducible or bitwise, instead of the model's.", partial(choice_or_none, among=ORDERS), choices=ORDERS
)
_DURATION = Option(
    "Simulated time instead of the model's, such as '2 s'.", partial(text_or_none, wanted="a time such as '200 ms'")
)
_EPOCHS = Option("Epochs instead of the model's.", partial(integer_or_none, least=1))
_DATA = Option("Samples to train on in place of the model's: any data file, or a folder of images.", path_or_none)
_VALIDATION = Option(
    "The part of the samples that is kept for validation, or from 1 on how many of the last ones, instead of the "
    "model's `split`.",
    partial(number_or_none, least=0.0),
)
_RESUME = Option("A run directory or checkpoint to go on from, bit for bit.", path_or_none)
_DEVICE = Option("The number of the GPU, or of the OpenCL device.", partial(integer_or_none, least=0))
_ARCH = Option(
    "The GPU's architecture, such as sm_90.",
    partial(text_or_none, wanted="the name of an architecture, such as 'sm_90'"),
)
_WEIGHTS = Option("A safetensors file or run directory that the weights are read from.", path_or_none)
_WORKSPACE = Option(
    "The memory that a contraction may take beside its arrays, such as '1 GB'.",
    partial(text_or_none, wanted="a size such as '1 GB'"),
)
_FREEZE = Option("`learning`, or a projection whose synapses keep what they have learned. Repeatable.", names_of)


@dataclass(frozen=True)
class Options:
    """What a caller may choose beside the model file. None: what the model says."""

    target: Annotated[str, Option("cpu, reference, cuda or opencl.", target_of, "-t")] = "cpu"
    set: Annotated[Mapping[str, str], _SET] = field(default_factory=dict)
    precision: Annotated[str | None, _PRECISION] = None
    order: Annotated[str | None, _ORDER] = None
    seed: Annotated[int | None, Option("Instead of the model's seed.", integer_or_none)] = None
    duration: Annotated[str | None, _DURATION] = None
    epochs: Annotated[int | None, _EPOCHS] = None
    portable: Annotated[bool, Option("Code that runs on other machines of this kind, too.", flag)] = False
    verify: Annotated[bool, Option("Check every level of the IR after each pass.", flag)] = False
    build_dir: Annotated[Path, Option("Where build folders are made.", path_of)] = Path("build")
    keep_build: bool = True
    """Whether a run makes a build folder; trials of sweeps, and models in Python that name none, compile without."""
    runs_dir: Annotated[Path, Option("Where run directories are made.", path_of)] = Path("runs")
    out: Annotated[Path | None, Option("The run directory itself.", path_or_none)] = None
    resume: Annotated[Path | None, _RESUME] = None
    device: Annotated[int | None, _DEVICE] = None
    arch: Annotated[str | None, _ARCH] = None
    weights: Annotated[Path | None, _WEIGHTS] = None
    lock: Annotated[bool, Option("Leave out the lock file that `tune` wrote.", flag)] = True
    """Use the lock file beside the model, if there is one. On the command line the flag `--no-lock`."""
    workspace: Annotated[str | None, _WORKSPACE] = None
    data: Annotated[Path | None, _DATA] = None
    validation: Annotated[float | None, _VALIDATION] = None
    plots: Annotated[bool, Option("Draw no plots.", flag)] = True
    """Draw what `plots` asks for. On the command line the flag `--no-plots`."""
    tensorboard: Annotated[bool, Option("Write TensorBoard event files into the run's folder, too.", flag)] = False
    folder: Path | None = None
    """Where the paths in the model count from, instead of the folder of the file; for texts (netloom/model.py)."""
    freeze: Annotated[tuple[str, ...], _FREEZE] = ()
    """In place of what `simulate: {freeze: ...}` names."""

    def backend_options(self) -> dict[str, str]:
        """The options that backends know, by name; those that were not chosen are left out."""
        chosen = {"portable": "1" if self.portable else "", "arch": self.arch or ""}
        return {name: value for name, value in chosen.items() if value}


TYPES: Final = MappingProxyType(get_type_hints(Options))
"""The type of each field."""
DESCRIBED: Final[Mapping[str, Option]] = MappingProxyType(
    {
        name: hint.__metadata__[0]
        for name, hint in get_type_hints(Options, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    }
)
DEFAULTS: Final = Options()


# Keyword arguments of the Python functions, as editors and type checkers see them.


class CompileOptions(TypedDict, total=False):
    precision: str | None
    order: str | None
    portable: bool
    verify: bool
    build_dir: PathArgument


class TrainedOptions(CompileOptions, total=False):
    weights: PathArgument | None
    lock: bool
    workspace: str | None


class SimulationOptions(CompileOptions, total=False):
    device: int | None
    arch: str | None
    lock: bool
    freeze: str | Sequence[str]


class BuildOptions(TrainedOptions, total=False):
    seed: int | None
    device: int | None
    arch: str | None


class FitOptions(BuildOptions, total=False):
    duration: str | None
    epochs: int | None
    out: PathArgument | None
    resume: PathArgument | None
    runs_dir: PathArgument
    plots: bool
    tensorboard: bool
    freeze: str | Sequence[str]


class RunOptions(FitOptions, total=False):
    data: PathArgument | None
    validation: float | None


def checked(given: Mapping[str, Any]) -> Options:
    """Options from arguments of a Python caller. Raises RunError (E0912, exit 2) for one of another type."""
    return Options(**{name: DESCRIBED[name].check(name, value) for name, value in given.items()})


def accepts(keywords: type[Any], **defaults: object) -> Callable[[F], F]:
    """For `function(..., **options: Unpack[keywords])`: its signature has the keywords with their defaults (or those of
    `defaults`), and any other keyword is a TypeError, as for every function."""
    accepted = get_type_hints(keywords)

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        *named, _ = own.parameters.values()
        kind = inspect.Parameter.KEYWORD_ONLY
        shown = {n: defaults.get(n, getattr(DEFAULTS, n)) for n in accepted}
        extra = [inspect.Parameter(n, kind, default=shown[n], annotation=t) for n, t in accepted.items()]
        signature = own.replace(parameters=[*named, *extra])

        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            signature.bind(*args, **given)
            return function(*args, **given)

        call.__dict__["__signature__"] = signature
        return cast(F, call)

    return decorate
