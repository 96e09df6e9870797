"""Level 0, networks of layers: inputs, layers, optimizers, losses, training.

Assumes, guarantees: compiler/ir/level0/model.py, which shows these names to everyone else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr
from compiler.ir.level0.spiking import Set
from compiler.ir.level0.values import FromFile


@dataclass(frozen=True)
class Activity:
    """What a population did in a trial. `population`: its name before there are instances; `variable`: what is read,
    SPIKES and RATE among it; `every`: the length of a frame in steps, of which a trial has a whole number."""

    population: str
    variable: str
    every: int


SPIKES: Final = "spikes"
"""The number of spikes of each neuron in a frame."""
RATE: Final = "rate"
"""The same as a rate [Hz]."""


@dataclass(frozen=True)
class TensorInput:
    """`shape` without the batch axis; dtype "real" or "int32". `activity`: of an input that is computed in trials, and
    not read from the data."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    activity: Activity | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


BESIDE = ("mask", "offset", "initial", "initial_memory")
"""What attention may read besides queries, keys and values, in this order."""

Attr = int | float | str | bool | tuple[int, ...] | FromFile


@dataclass(frozen=True)
class Layer:
    """One layer, after expansion of repeat. `inputs`: names of layers or network inputs. `shape`: inferred output
    shape without the batch axis. `attrs`: what the shape rule of the kind gives (compiler/layers), defaults filled
    in, sorted by name; beside that init (name), init_value (its number) and init_file (of "values"), where given; of a
    formula the numbers of the model's params, `p_<name>`.
    `activation`: name of a built-in or user function applied to the result, with its body in `function`. A map has its
    expression there, over x0, x1, ... (its inputs) and its attrs.
    `shared`: its trained arrays that are those of another layer: (the part of the name behind the layer's, the array).
    `checkpoint`: the number of its block (from 1) if what that computes is not kept for gradients. `fuse`: where it is
    asked that no fusion is missed, or NOWHERE.
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    attrs: tuple[tuple[str, Attr], ...]
    activation: str | None
    function: FunctionDef | None
    shape: tuple[int, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    checkpoint: int = field(default=0, compare=False)
    fuse: Span = field(default=NOWHERE, compare=False, repr=False)
    shared: tuple[tuple[str, str], ...] = ()

    def attr(self, name: str) -> Attr:
        return dict(self.attrs)[name]

    def array(self, part: str) -> str:
        """The name of a trained array: `<layer>.<part>`, or that of the layer with which it is shared."""
        return dict(self.shared).get(part, f"{self.name}.{part}")


@dataclass(frozen=True)
class FunctionDef:
    """A function of the file: pure, its body over its arguments (other functions inlined)."""

    name: str
    args: tuple[str, ...]
    body: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class InitialWeights:
    """A safetensors file with the values that weights begin with. `layers`: those whose weights it gives, in order;
    None: all, and then it holds no others."""

    file: FromFile
    layers: tuple[str, ...] | None = None

    def gives(self, array: str) -> bool:
        return self.layers is None or array.split(".", 1)[0] in self.layers


@dataclass(frozen=True)
class Network:
    """`weights`: what weights begin with, where they are not drawn."""

    inputs: tuple[TensorInput, ...]
    layers: tuple[Layer, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    weights: InitialWeights | None = None

    @property
    def shared(self) -> frozenset[str]:
        """Trained arrays of several layers."""
        return frozenset(array for layer in self.layers for _, array in layer.shared)

    @property
    def readers(self) -> dict[str, list[str]]:
        """For each input and layer that layers read, these; twice what reads it twice."""
        found: dict[str, list[str]] = {}
        for layer in self.layers:
            for name in layer.inputs:
                found.setdefault(name, []).append(layer.name)
        return found

    def needed(self, names: Iterable[str], ends: frozenset[str] = frozenset()) -> set[str]:
        """Layers and inputs that `names` depend on, themselves included; not what layers of the kinds `ends` read."""
        layers = {layer.name: layer for layer in self.layers}
        seen: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack += layers[name].inputs if name in layers and layers[name].kind not in ends else ()
        return seen


@dataclass(frozen=True)
class OptimizerDef:
    """An optimizer as text: statements over `param`, `gradient`, `step` and `epoch` (from 1), `steps` and `epochs` (of
    the whole training), its params and its state (one of each per trained value). A parameter that follows a schedule
    is no param but a statement that comes first. `norm(e)` stands alone on a right-hand side: the root of the sum of
    e ** 2 over the elements of the trained array."""

    name: str
    params: tuple[tuple[str, float], ...]  # values in force
    state: tuple[tuple[str, float], ...]  # initial values
    update: tuple[Set, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Kept:
    """Samples that are kept for validation: a fraction, or with `folds` the `fold`-th (from 0) of so many parts, or the
    `last` so many of the file.
    `strata`: path and array ("": the only one) of whole numbers, one per sample, that all parts have in the same
    proportions."""

    fraction: float
    folds: int = 0
    fold: int = 0
    strata: tuple[str, str] | None = None
    last: int = 0

    def count(self, samples: int) -> int:
        """How many of so many samples are kept."""
        if self.last:
            return min(self.last, samples)
        if self.folds:
            return len(range(self.fold, samples, self.folds))
        return round(self.fraction * samples)


DEFAULT_MEMORY: Final = 2 * 10**9


@dataclass(frozen=True)
class Data:
    """`arrays`: network input -> (array in the file, factor). Without a `path`, each has a file (path, array in it or
    "") of its own among `files`. `columns`: of an array that is put together of columns, their names. `memory`: bytes
    that samples may take; those that need more are read while the training runs."""

    path: str
    arrays: tuple[tuple[str, str, float], ...]
    validation: float | Kept  # a number: the fraction
    shuffle: bool = True
    files: tuple[tuple[str, str, str], ...] = ()
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    memory: int = DEFAULT_MEMORY
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def kept(self) -> Kept:
        """`validation`, a fraction too."""
        return self.validation if isinstance(self.validation, Kept) else Kept(self.validation)

    @property
    def missing(self) -> bool:
        """Whether the model names no samples: whoever runs it gives them."""
        return not self.path and bool(self.files) and not any(path for _, path, _ in self.files)


@dataclass(frozen=True)
class Loss:
    """Means over the samples. kind: the name of a LossKind (compiler/losses). `attrs`: its numbers.
    `class_weights`: one per class, or (). An expression has its body in `function` and reads `inputs`; a sum has
    `terms` with their weights, and the first one's prediction and target. `target` is "" where there is none.
    `mask`: an input whose shape is that of a sample's losses, or its first axes; what it is 0 for does not count,
    and the mean is over what counts. `ignore`: the number of a class that does not count. `mean`: what it is over,
    where the kind has a choice: of losses of classes the weights of the right ones ("weights"). `beside`: what else it
    reads, by key."""

    kind: str
    prediction: str
    target: str
    attrs: tuple[tuple[str, float], ...] = ()
    class_weights: tuple[float, ...] = ()
    inputs: tuple[str, ...] = ()
    function: FunctionDef | None = None
    terms: tuple[tuple[float, Loss], ...] = ()
    mask: str = ""
    ignore: int | None = None
    mean: str = ""
    beside: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def each(self) -> tuple[Loss, ...]:
        """Its terms, or itself."""
        return tuple(t for _, t in self.terms) or (self,)

    @property
    def masked(self) -> bool:
        """Whether the mean is not over all samples, in a term of a sum too."""
        own = bool(self.mask) or self.ignore is not None or self.mean == "weights"
        return own or any(t.masked for _, t in self.terms)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every layer and network input that the loss is computed from."""
        own = (*(self.inputs if self.kind == "expression" else (self.prediction, self.target)), self.mask)
        own = (*own, *(name for _, name in self.beside))
        return tuple(dict.fromkeys(n for n in (*own, *(m for _, t in self.terms for m in t.reads)) if n))


@dataclass(frozen=True)
class Penalty:
    """Added to the loss: l1 * sum |w| + l2 * sum w ** 2, over the trained arrays of the classes `of`."""

    l1: float
    l2: float
    of: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class WeightGroup:
    """Trained arrays with settings of their own. `of`: names of layers, or "weights", "biases", "norms", "all".
    `params`: values of optimizer parameters; `optimizer`: another one, None for that of the groups before or of the
    training. `every`, `first`: they change in step `first` and every `every`-th after it; 0: as groups before say."""

    of: tuple[str, ...]
    params: tuple[tuple[str, float], ...] = ()
    frozen: bool = False
    optimizer: OptimizerDef | None = None
    every: int = 0
    first: int = 0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Watched:
    """A number of every epoch (`loss`, a metric, `validation_...`), and whether more of it is better."""

    name: str
    larger: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Stop:
    """The training ends after `patience` epochs that were not better, by more than `margin`, than the best before."""

    watched: Watched
    patience: int
    margin: float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Plateau:
    """`learning_rate` is multiplied by `factor` after `patience` epochs that were not better; of its value at least
    the part `lowest` remains."""

    watched: Watched
    patience: int
    factor: float
    lowest: float
    margin: float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Train:
    """`clip`: ("value", v): elements of gradients are held within [-v, v]; ("norm", v): all gradients are scaled so
    that their norm together is at most v. `groups`: in order, later ones win. `accumulate`: batches per change of the
    weights. `average`: the part of the moving average of weights that remains at each step; 0: none is kept. `best`:
    the number by which the best weights are kept; `use_best`: whether they are the weights of a finished training."""

    data: Data
    loss: Loss
    metrics: tuple[str, ...]
    optimizer: OptimizerDef
    batch: int
    epochs: int
    seed: int
    checkpoint_every: int = 0  # epochs; 0: only at the end
    clip: tuple[str, float] | None = None
    groups: tuple[WeightGroup, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    accumulate: int = 1
    average: float = 0.0
    stop: Stop | None = None
    plateau: Plateau | None = None
    best: Watched | None = None
    use_best: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def optimizers(self) -> tuple[OptimizerDef, ...]:
        """Its own and those of groups."""
        return (self.optimizer, *(g.optimizer for g in self.groups if g.optimizer is not None))

    @property
    def frozen(self) -> frozenset[str]:
        """Layers and classes of weights that are frozen."""
        return frozenset(name for g in self.groups if g.frozen for name in g.of)
