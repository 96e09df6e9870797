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
    shape: tuple[int, ...] = ()  # row-major; () without one
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Send:
    """`deliver(value)`, `deliver(value, post.x)` or `deliver(value, pre.x)`: adds to an input of the target or of the
    source. `into` None: the input that the projection's `deliver: {into: ...}` names."""

    value: Expr
    end: str = "post"
    into: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Action = Set | Send
"""A statement of a synapse. Set's target: a state of the synapse or a local."""


@dataclass(frozen=True)
class EndDef:
    """`pre:` or `post:` of a synapse: variables held once per source (or target) neuron of each projection and read as
    `pre.x` (`post.x`). `dynamics` and `update` run in every step, `on_spike` at a spike; they read own states, params
    of the synapse, `t`, `dt`."""

    state: tuple[StateDecl, ...]
    dynamics: tuple[Ode, ...] = ()
    update: tuple[Set, ...] = ()
    on_spike: tuple[Set, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SynapseEvent:
    """A spike-like event with a condition of its own: in each step, for every neuron of `end` ("pre" | "post") for
    which `when` holds (after the neurons' step; names without a dot are params of the synapse, `pre.v` or `post.v`
    are that neuron's), the actions run at its synapses, after `on_pre` and `on_post`."""

    name: str
    end: str
    when: Expr
    actions: tuple[Action, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SynapseDef:
    """A synapse model. Names in expressions: own params, state and lets; `pre.x` and `post.x`: a state of `pre:` or
    `post:`, or else a state, input or param of the source (target) neuron; `pre.last_spike`, `pre.previous_spike` and
    post's: times [ms] of the last spike before this one that reached the synapse, and of the one before it (-1e9 when
    there was none); `t`, `dt` [ms]; model params; random().

    Order within step k, in whole steps, never by comparing times: neurons (dynamics, spikes) | `pre`/`post` dynamics
    and update, then synapses' dynamics and update (unless event-driven) | for sources whose spike of step k - delay
    arrives: on_pre, then `pre: on_spike` | for targets that spiked in step k - back_delay: on_post, then
    `post: on_spike` | events. So a pre and a post spike that meet in one step count as pre before post, and a trace
    jumps after the statements of its own spike have read it.

    `event_driven`: dynamics (linear, each state by itself) are applied exactly, for the time that passed, right
    before an event of the synapse instead of in every step.
    """

    name: str
    params: tuple[ParamDecl, ...]
    state: tuple[StateDecl, ...]
    lets: tuple[Set, ...] = ()
    pre: EndDef | None = None
    post: EndDef | None = None
    dynamics: tuple[Ode, ...] = ()
    update: tuple[Action, ...] = ()
    on_pre: tuple[Action, ...] = ()
    on_post: tuple[Action, ...] = ()
    events: tuple[SynapseEvent, ...] = ()
    method: Method = Method.AUTO
    event_driven: bool = False
    model_params: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Planes:
    """Layout of a conv2d or avg_pool2d connection (see Toeplitz in ir/program.py). `weights` of kernel elements are
    in the order (out channel, in channel, ky, kx)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    depthwise: bool = False
    shared: bool = False


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
    params: tuple[tuple[str, Value], ...] = ()
    init: tuple[tuple[str, Value], ...] = ()
    back_delay: int = 0


@dataclass(frozen=True)
class Projection:
    """A family of projections with one rule, one input and one synapse model (None: static, one delivery of `weight`).
    With a synapse, members give a value for each of its params and states (`params`, `init`: defaults filled in), and
    `into` is "" when it names every input itself.

    rule: all_to_all | one_to_one | fixed_probability | fixed_total | fixed_indegree | fixed_outdegree | expression |
    pairs | conv2d | avg_pool2d. `probability`: of rule "expression", over `i`, `j`, `n_from`, `n_to`, params and the
    coordinates of both ends. storage: auto | sparse | dense | bitmask | procedural | toeplitz. `planes`: of conv2d
    and avg_pool2d.
    """

    name: str
    rule: str
    into: str
    members: tuple[Member, ...]
    pair_lists: tuple[tuple[tuple[int, int], ...], ...] = ()  # (source, target) as the user ordered them
    synapse: SynapseDef | None = None
    storage: str = "auto"
    probability: Expr | None = None
    planes: Planes | None = None
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
class RecordSynapses:
    """Variables of the synapses of a projection, one value per synapse in storage order (source by source, targets
    ascending; explicit pairs in the user's order), sampled at the end of steps k with k % every == 0. `weight` is the
    name of a static synapse's. `every` 0: at the end of the run only."""

    projection: str
    variables: tuple[str, ...]
    every: int
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
    synapses: tuple[RecordSynapses, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
