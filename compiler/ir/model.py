"""Level 0, model: a typed mirror of the resolved YAML.

Assumes: resolve has expanded `use`, `for`, `repeat` and classes, and evaluated `params`.
Guarantees: names are checked (every reference is to something that exists), expressions are parsed, typed
and dimension-checked; numbers are in canonical units (compiler/expr/units.py: ms, mV, pA, nS, pF, GOhm, um, mM);
the `unit` beside a value is its canonical unit's name. A family of projections is ONE object with members.
Does not: choose integrators, storage, kernels or layouts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from compiler.expr.ast import Expr
from compiler.source import NOWHERE, Span

# ---------------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class Const:
    """One number, the same for every element; canonical units."""

    value: float | int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Distribution:
    """Drawn per element. kind and args (canonical numbers):
    uniform: low, high; normal: mean, std (relative_std is resolved to std), optional min, max (clipped),
    keep_sign (0/1: values of the wrong sign become 0); exponential: mean; lognormal: mean, std (of the value's log).
    """

    kind: str
    args: tuple[tuple[str, float], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class FromFile:
    """An array of a file; `path` absolute, `array` its name in an .npz, `scale` to canonical units."""

    path: str
    array: str | None
    scale: float = 1.0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Listed:
    """Numbers given inline, one per element."""

    values: tuple[float, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Formula:
    """An expression over the parameters of the thing it initialises (`v: v_rest`), evaluated per element."""

    expr: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Value = Const | Distribution | FromFile | Listed | Formula

# ------------------------------------------------------------------------------------------- the language


@dataclass(frozen=True)
class ModelParam:
    """A parameter of the model: the only thing `--set` and sweeps may change."""

    name: str
    kind: str  # "float" | "int" | "bool" | "string"
    value: float | int | bool | str
    unit: str = "1"
    doc: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class Method(StrEnum):
    AUTO = "auto"
    EXACT = "exact"
    EXPONENTIAL_EULER = "exponential_euler"
    EULER = "euler"
    RK2 = "rk2"
    RK4 = "rk4"


@dataclass(frozen=True)
class ParamDecl:
    name: str
    unit: str
    default: Value | None
    doc: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class StateDecl:
    name: str
    unit: str
    init: Value
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class InputDecl:
    """A named input that projections deliver into. `decay` is a time constant (expression over params, ms):
    the input is a state that decays exponentially. None: it holds what was delivered in the last step only."""

    name: str
    unit: str
    decay: Expr | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Ode:
    """d(state)/dt = rhs, per ms."""

    state: str
    rhs: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Set:
    """`target = value` (augmented forms are expanded)."""

    target: str
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Spike:
    """`when` is tested after dynamics and update. `refractory`: ms, expression over params, whole steps;
    `hold`: the states that keep their value while refractory (default: the states in `when`)."""

    when: Expr
    reset: tuple[Set, ...]
    refractory: Expr | None
    hold: tuple[str, ...]
    round_refractory: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class NeuronDef:
    """A neuron model. Expressions may use: own params, state, inputs, lets, `t` and `dt` (ms), model params
    (listed in `model_params`), functions (already inlined), random().
    `source`: "equations", or "spike_times" (params: file arrays times [ms], indices)."""

    name: str
    params: tuple[ParamDecl, ...]
    state: tuple[StateDecl, ...]
    inputs: tuple[InputDecl, ...]
    lets: tuple[Set, ...]
    dynamics: tuple[Ode, ...]
    update: tuple[Set, ...]
    spike: Spike | None
    method: Method
    source: str = "equations"
    model_params: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Population:
    """`params` and `init` give a value for every declared param and state (defaults filled in)."""

    name: str
    neuron: NeuronDef
    size: int
    params: tuple[tuple[str, Value], ...]
    init: tuple[tuple[str, Value], ...]
    classes: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Member:
    """One projection of a family: from one population to one population.

    `args`: numbers of the connect rule (p, number, autapses 0/1); `weight` in the input's unit;
    `delay` in whole steps, or (with `delays`) the largest of delays that differ from synapse to synapse:
    `delays` is then their distribution in steps, before rounding to whole steps (min and max among its
    args); `pairs`: for rule "pairs" an index into Projection.pair_lists.
    """

    source: str
    target: str
    args: tuple[tuple[str, float | int], ...]
    weight: Value
    delay: int
    pairs: int | None = None
    delays: Distribution | None = None


@dataclass(frozen=True)
class Projection:
    """A family of static projections with one rule and one input. rule: all_to_all | one_to_one |
    fixed_probability | fixed_total | pairs."""

    name: str
    rule: str
    into: str
    members: tuple[Member, ...]
    pair_lists: tuple[tuple[tuple[int, int], ...], ...] = ()  # (source, target) as the user ordered them
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class PoissonInput:
    """Independent Poisson trains, one per neuron of a population, delivered at the end of each step: `rate` in
    1/ms (mean number of events per ms), `weight` in the input's unit."""

    name: str
    population: str
    into: str
    rate: float
    weight: float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Simulate:
    """dt in ms; duration and warmup in whole steps."""

    dt: float
    steps: int
    warmup: int
    seed: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordSpikes:
    populations: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordTraces:
    """Sampled at the end of steps k with k % every == 0. `variables`: states, inputs. Units beside them."""

    population: str
    variables: tuple[str, ...]
    members: tuple[int, ...]
    every: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# ----------------------------------------------------------------------------------------------- tensors


@dataclass(frozen=True)
class TensorInput:
    """`shape` without the batch axis; dtype "real" or "int32"."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Attr = int | float | str | bool | tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One layer, after expansion of repeat. `inputs`: names of layers or network inputs. `shape`: inferred
    output shape without the batch axis. `attrs`: everything the kind needs, defaults filled in, sorted by name:
      dense: units, bias | conv2d: filters, kernel (h, w), stride (h, w), padding (top, bottom, left, right),
      dilation (h, w), groups, bias | max_pool2d / avg_pool2d: size (h, w), stride (h, w), padding (4)
      flatten | add | batch_norm: momentum, epsilon | dropout: rate | activation: -
    `activation`: name of a built-in or user function applied to the result, with its body in `function`.
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    attrs: tuple[tuple[str, Attr], ...]
    activation: str | None
    function: FunctionDef | None
    shape: tuple[int, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def attr(self, name: str) -> Attr:
        return dict(self.attrs)[name]


@dataclass(frozen=True)
class FunctionDef:
    """A function of the file: pure, its body over its arguments (other functions inlined)."""

    name: str
    args: tuple[str, ...]
    body: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Network:
    inputs: tuple[TensorInput, ...]
    layers: tuple[Layer, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class OptimizerDef:
    """An optimizer as text: statements over `param`, `gradient`, `step` (from 1), its params and its state
    (one of each per trained value)."""

    name: str
    params: tuple[tuple[str, float], ...]  # values in force
    state: tuple[tuple[str, float], ...]  # initial values
    update: tuple[Set, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Data:
    """`arrays`: network input -> (array in the file, factor)."""

    path: str
    arrays: tuple[tuple[str, str, float], ...]
    validation: float  # fraction
    shuffle: bool = True
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Loss:
    """kind: softmax_cross_entropy (prediction = logits, target = class index) | mean_squared_error."""

    kind: str
    prediction: str
    target: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Train:
    data: Data
    loss: Loss
    metrics: tuple[str, ...]
    optimizer: OptimizerDef
    batch: int
    epochs: int
    seed: int
    checkpoint_every: int = 0  # epochs; 0: only at the end
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# --------------------------------------------------------------------------------------------- the rest


@dataclass(frozen=True)
class Plot:
    """kind: raster | trace | histogram | training; args as given (names, numbers, strings)."""

    kind: str
    args: tuple[tuple[str, str | int | float | tuple[str, ...]], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Expectation:
    """kind: rate (of, between in 1/ms) | spikes (of, at_least, at_most) | metric (name, at_least, at_most)."""

    kind: str
    args: tuple[tuple[str, str | float | int], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Numerics:
    precision: str = "float32"
    order: str = "reproducible"


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
    span: Span = field(default=NOWHERE, compare=False, repr=False)
