"""Level 0, model: a typed mirror of the resolved YAML.

Assumes: resolve has expanded `use`, `for`, `repeat` and classes, and evaluated `params`.
Guarantees: names are checked (every reference is to something that exists), expressions are parsed, typed
and dimension-checked; numbers are in canonical units (compiler/expr/units.py: ms, mV, pA, nS, pF, GOhm, um, mM);
the `unit` beside a value is its canonical unit's name. A family of projections is ONE object with members.
Does not: choose integrators, storage, kernels or layouts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.core.source import NOWHERE, Span

# This module is the face of level 0: `import compiler.ir.level0.model as l0` gives all of its nodes.
# ruff: noqa: F403, F405
from compiler.ir.level0.spiking import *
from compiler.ir.level0.synapses import *
from compiler.ir.level0.tensors import *
from compiler.ir.level0.values import *


@dataclass(frozen=True)
class Look:
    """How a figure is drawn. `time`: ms, and `limits`: of the vertical axis, in the unit of what is drawn (None: all of
    it); `size`: width and height in um; `images`: file formats, in order (empty: the usual ones)."""

    title: str | None = None
    time: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None
    size: tuple[float, float] | None = None
    style: str = "default"
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plot:
    """kind: raster | trace | rate | isi | spectrum | correlogram | psth | connectivity | histogram | matrix | evolution
    | training | confusion; args as given (names, numbers, strings), times in steps."""

    kind: str
    args: tuple[tuple[str, str | int | float | tuple[str, ...]], ...]
    look: Look = Look()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Expectation:
    """kind: rate (of, between in 1/ms) | spikes (of, at_least, at_most) | metric (name, at_least, at_most)."""

    kind: str
    args: tuple[tuple[str, str | float | int], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Numerics:
    """precision: float32 | float64 | mixed; order: fast | reproducible | bitwise; products: exact | float32 | tf32x3 |
    tf32 | bf16, how exact products are that targets may take (strategies/cuda/tensor_cores.py)."""

    precision: str = "float32"
    order: str = "reproducible"
    products: str = "float32"


@dataclass(frozen=True)
class Model:
    name: str
    description: str
    params: tuple[ModelParam, ...]
    functions: tuple[FunctionDef, ...]
    populations: tuple[Population, ...]
    projections: tuple[Projection, ...]
    simulate: Simulate | None
    spikes: tuple[RecordSpikes, ...]
    traces: tuple[RecordTraces, ...]
    network: Network | None
    train: Train | None
    plots: tuple[Plot, ...]
    expect: tuple[Expectation, ...]
    numerics: Numerics
    poisson: tuple[PoissonInput, ...] = ()
    drives: tuple[Drive, ...] = ()
    timed: tuple[TimedArray, ...] = ()
    synapses: tuple[RecordSynapses, ...] = ()
    rates: tuple[RecordRate, ...] = ()
    histograms: tuple[RecordHistogram, ...] = ()
    tables: tuple[RecordTable, ...] = ()
    events: tuple[RecordOwnEvents, ...] = ()
    phases: tuple[PhaseDef, ...] = ()
    lookups: tuple[LookupTable, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def in_trials(self) -> bool:
        """Whether a network input is what a population does: each sample of the training is a trial of `simulate`."""
        return self.network is not None and any(i.activity is not None for i in self.network.inputs)
