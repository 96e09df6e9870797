"""The network of layers: shapes inferred, names given, activations resolved.

Assumes: `repeat` has been expanded.
Guarantees: a layer reads preceding layers or inputs of the network; every extent is positive and matches `expect`;
attributes are as defined in compiler/ir/level0/model.py.
Does not: define how a layer is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at, did_you_mean
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr, Ref, calls, refs, substitute
from compiler.expr.functions import COUNTS, called_table
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.functions import Functions
from compiler.frontend.build.shared.readers import Reader, integer
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.build.shared.values import Context, entries_of, items_of, listed, mapping, text_of
from compiler.frontend.build.tensors.initial_weights import build_initial_weights, own_arrays
from compiler.frontend.build.tensors.layers import init_of, settings_of, shaped
from compiler.frontend.build.tensors.whole import check_alike, check_fixed
from compiler.frontend.resolve.repeat import names_of, value_of_layer
from compiler.frontend.schema.wording import allowed, suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.layers import KIND, KINDS, MAP, SLICE, SPLIT
from compiler.layers.elementwise import broadcast
from compiler.layers.shared.keys import ACTIVATIONS, RESERVED, SHAPE
from compiler.layers.shared.kind import LayerKind, Shape, article, shown


@dataclass
class Built:
    """The network as seen by later blocks. A shape is None after an error."""

    inputs: dict[str, l0.TensorInput] = field(default_factory=dict)
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    layers: list[l0.Layer] = field(default_factory=list)
    computed: set[str] = field(default_factory=set)  # inputs that populations give, also after an error
    whole: dict[str, l0.TensorInput] = field(default_factory=dict)  # what holds whole numbers: of this input
    network: l0.Network | None = None

    def scope(self, c: Context) -> Scope:
        """That of formulas over layers and inputs."""
        names = [n for n in self.shapes if n in self.places]
        return c.names.scope.extended(dict.fromkeys(names, DIMENSIONLESS), self.places)

    def read_by(self, e: Expr) -> list[str]:
        """The layers and inputs that a formula reads."""
        return [n for n in self.shapes if n in self.places and n in refs(e)]

    def together(self, sources: list[str], what: str, at: Span, c: Context) -> Shape | None:
        """The shape of a formula over `sources`; None where that of one is not known, and after an error (E0501)."""
        shapes = [s for n in sources if (s := self.shapes[n]) is not None]
        shape = broadcast(shapes) if len(shapes) == len(sources) else None
        if shape is None and len(shapes) == len(sources):
            listed = ", ".join(f"`{n}` {shown(s)}" for n, s in zip(sources, shapes, strict=True))
            help = "the last axes are put together; for numbers of channels, `- reshape: {shape: [8, 1, 1]}`"
            c.sink.error("E0501", f"the shapes in {what} do not go together: {listed}", at, help)
        return shape


@dataclass(frozen=True)
class _Around:
    """Settings of the enclosing blocks of a layer: the number of the checkpointed one (0: none) and its span, and the
    span of `fuse: required`."""

    checkpoint: int = 0
    place: Span = NOWHERE
    fuse: Span = NOWHERE


ActivityOf = Callable[[str, tree.Mapping], tuple[l0.Activity, Shape] | None]
"""What an input with `from` reads, and its shape; None after an error (frontend/build/trials/activity.py)."""


@dataclass
class _Reader:
    c: Context
    functions: Functions
    precision: str
    out: Built
    named: dict[str, Span]  # names of all layers, for forward references
    activity: ActivityOf
    counts: dict[str, int] = field(default_factory=dict)
    previous: str | None = None
    blocks: int = 0  # checkpointed blocks so far
    around: _Around = _Around()


def build_network(block: tree.Mapping, c: Context, functions: Functions, precision: str, activity: ActivityOf) -> Built:
    """The network of `block`; `network` is None in the result after an error."""
    before = len(c.sink.items)
    out = Built()
    items = listed(block.get("layers"))
    named: dict[str, Span] = {}
    for item in items:
        for name in names_of(item):
            named.setdefault(name.text, name.span)
    r = _Reader(c, functions, precision, out, named, activity)
    for entry in entries_of(block.get("inputs")):
        _input(r, entry.name, mapping(entry.value), entry.key.span)
    for item in items:
        _layer(r, item)
    unknown = any(out.shapes[n] is None for n in out.computed)  # of a population that has an error
    if not unknown and not c.sink.failed(before):
        check_fixed(out.inputs.values(), out.layers, out.whole, c)
    if not unknown and not c.sink.failed(before):
        weights = build_initial_weights(block, out.layers, out.inputs, c)
        out.network = l0.Network(tuple(out.inputs.values()), tuple(out.layers), block.span, weights)
    return out


def _block(r: _Reader, settings: tree.Mapping) -> None:
    """Layers with the settings of their block."""
    before = r.around
    checkpoint = settings.get("checkpoint")
    if isinstance(checkpoint, Scalar) and checkpoint.value is True:
        if before.checkpoint:
            message = "a checkpointed block stands inside of another"
            related = (Related("the outer one", before.place),)
            r.c.sink.error("E0802", message, checkpoint.span, "set `checkpoint` for one of them", related)
        r.blocks += 1
        r.around = replace(r.around, checkpoint=r.blocks, place=checkpoint.span)
    fuse = settings.get("fuse")
    if fuse is not None:
        r.around = replace(r.around, fuse=fuse.span if text_of(fuse) == "required" else NOWHERE)
    for item in items_of(settings.get("layers")):
        _layer(r, item)
    r.around = before


def _input(r: _Reader, name: str, block: tree.Mapping | None, at: Span) -> None:
    if block is None:
        return
    found = None
    if block.get("from") is not None:
        r.out.computed.add(name)
        found = r.activity(name, block)
    shape = _shape(block.get("shape"), r.c, f"`shape` of `{name}`") if found is None else found[1]
    dtype = block.get("dtype")
    text = text_of(dtype)
    kind = "int32" if text == "int32" else "real"
    if dtype is not None and text not in ("int32", "float32" if r.precision == "mixed" else r.precision):
        if text == "int64":
            r.c.sink.error("E0801", "`int64` is not supported yet", dtype.span, "write `int32`")
        else:
            message = f"`{name}` is {text}, but the model computes in {r.precision}"
            help = "leave `dtype` out: real inputs follow `numerics: {precision: ...}`"
            r.c.sink.error("E0802", message, dtype.span, help)
    if name == "loss":
        message = "`loss` is a name that a training has for itself and cannot name an input"
        r.c.sink.error("E0107", message, at, "for example `target`")
    r.out.places[name] = at
    r.out.shapes[name] = shape
    r.out.inputs[name] = l0.TensorInput(name, shape or (), kind, None if found is None else found[0], at)
    if kind != "real":
        r.out.whole[name] = r.out.inputs[name]


def _shape(node: Node | None, c: Context, what: str) -> Shape | None:
    if not isinstance(node, Sequence):
        return None
    extents = [integer(SHAPE, i, c, f"each number of {what}") for i in node.items]
    return None if None in extents else tuple(e for e in extents if e is not None)


# ---------------------------------------------------------------------------------------- layers


def _layer(r: _Reader, item: Node) -> None:
    settings = value_of_layer(item)
    if settings is None or not isinstance(item, tree.Mapping):
        return
    word, at = item.entries[0].name, item.entries[0].key.span
    if word == "block":
        _block(r, settings)
        return
    kind = KIND[word]
    if kind is MAP:
        for entry in settings.entries:
            _formula(r, entry)
        return
    if kind is SPLIT:
        _split(r, settings, at)
        return
    name_node = settings.get("name")
    name = text_of(name_node) or _automatic(r, kind.name)
    place = name_node.span if name_node is not None else at
    if not _declare(r, name, place):
        return
    sources = _sources(r, kind, settings, at)
    shape: Shape | None = None
    attrs: dict[str, l0.Attr] = {}
    known = [None if s is None else r.out.shapes[s] for s in sources]
    before = len(r.c.sink.items)
    reader = Reader(kind.settings, settings, r.c)
    if None not in known:
        shapes = [s for s in known if s is not None]
        found = shaped(kind, reader, (sources[0] if sources else None) or "", shapes, at)
        if found is not None:
            shape, attrs = found[0], found[1] | init_of(settings.get("init"), kind.name, r.c)
    else:
        settings_of(reader)
    activation, function = _activation(r, settings, kind)
    if kind.formula is not None:
        numbers, function = _augment(r, name, settings.get(kind.formula))
        attrs |= numbers
    if shape is not None:
        shape = _expected(r, settings, name, shape)
    _carry(r, kind, sources, name, at)
    right = len(r.c.sink.items) == before
    _append(r, kind.name, name, sources, attrs, activation, function, shape, at, right)
    if shape is not None and right and settings.get("weights") is not None:
        _share(r, reader, settings.get("weights"))


def _carry(r: _Reader, kind: LayerKind, sources: list[str | None], name: str, at: Span) -> None:
    """A layer that moves whole numbers holds them."""
    known = [s for s in sources if s is not None]
    whole = next((r.out.whole[s] for s in known if s in r.out.whole), None)
    if kind.carries is not None and whole is not None:
        r.out.whole[name] = whole
        real = [s for s in known if s not in r.out.whole and r.out.shapes[s] is not None]
        check_alike(kind, [s for s in known if s in r.out.whole], real, whole.span, at, r.c)


def _declare(r: _Reader, name: str, place: Span) -> bool:
    """Declares the name of a layer; False when it is taken."""
    if name in RESERVED:
        message = f"`{name}` is a name that a training has for itself and cannot name a layer"
        r.c.sink.error("E0107", message, place, f"for example `{name}_layer`")
    if name in r.out.places:
        noun = "an input" if name in r.out.inputs else "a layer"
        related = declared_at(r.out.places[name], "it")
        r.c.sink.error("E0207", f"{noun} of the network is called `{name}` already", place, None, related)
        r.previous = f"{name}'"  # a layer of unknown shape, for its readers
        r.out.shapes[r.previous] = None
        return False
    r.out.places[name] = place
    return True


def _append(
    r: _Reader,
    kind: str,
    name: str,
    sources: list[str | None],
    attrs: dict[str, l0.Attr],
    activation: str | None,
    function: l0.FunctionDef | None,
    shape: Shape | None,
    at: Span,
    right: bool,
) -> None:
    r.out.shapes[name] = shape
    r.previous = name
    if shape is not None and right:
        inputs = tuple(s for s in sources if s is not None)
        ordered = tuple(sorted(attrs.items()))
        around = r.around
        r.out.layers.append(
            l0.Layer(kind, name, inputs, ordered, activation, function, shape, at, around.checkpoint, around.fuse)
        )


def _share(r: _Reader, settings: Reader, node: Node | None) -> None:
    """Lets the last layer have the trained arrays of an earlier one."""
    c, mine = r.c, r.out.layers[-1]
    if not isinstance(node, Scalar):
        return
    owner = next((x for x in r.out.layers[:-1] if x.name == node.text), None)
    if owner is None:
        if node.text in r.out.places and node.text != mine.name:
            if node.text in r.out.inputs:
                c.sink.error("E0201", f"`{node.text}` is an input of the network, which has no weights", node.span)
            return  # a layer that has an error
        comes = "comes later; weights are those of a layer before" if node.text in r.named else "does not exist"
        help = suggested(node.text, "before this one there are", [x.name for x in r.out.layers[:-1]])
        c.sink.error("E0201", f"the layer `{node.text}` {comes}", node.span, help)
        return
    theirs, own = (own_arrays(x, r.out.layers, r.out.inputs) for x in (owner, mine))
    matrices = bool(dict(mine.attrs).get("transposed"))
    both = [part for part in own if part in theirs and not (matrices and part.endswith("bias"))]
    if not both:
        message = f"`{mine.name}` ({mine.kind}) and `{owner.name}` ({owner.kind}) have no trained arrays in common"
        c.sink.error("E0501", message, node.span)
    for part in both:
        if theirs[part] != own[part]:
            message = f"`{owner.array(part)}` has the shape {shown(theirs[part])}; this layer needs {shown(own[part])}"
            turns = theirs[part] == own[part][::-1] and "transposed" in KIND[mine.kind].settings.by_name
            c.sink.error("E0501", message, node.span, "`transposed: true` takes it transposed" if turns else None)
            return
    init = settings.node.entry("init") if settings.node is not None else None
    if init is not None and any(not part.endswith("bias") for part in both):
        message = f"the weights of `{mine.name}` are those of `{owner.name}`, which says how they begin"
        c.sink.error("E0108", message, init.key.span, "leave `init` out here")
    attrs = (*mine.attrs, ("frozen", True)) if settings.flag("frozen") else mine.attrs
    shared = tuple((part, owner.array(part)) for part in both)
    r.out.layers[-1] = replace(mine, shared=shared, attrs=tuple(sorted(attrs)))


def _split(r: _Reader, settings: tree.Mapping, at: Span) -> None:
    """A layer of kind `slice` for each part."""
    sources = _sources(r, SPLIT, settings, at)
    source = sources[0] if sources else None
    shape = r.out.shapes[source] if source is not None else None
    reader = Reader(SPLIT.settings, settings, r.c)
    found = None
    if shape is None:
        settings_of(reader)
    else:
        found = shaped(SPLIT, reader, source or "", [shape], at)
    start = 0
    for k, name in enumerate(n for n in items_of(settings.get("into")) if isinstance(n, Scalar)):
        if not _declare(r, name.text, name.span):
            continue
        _carry(r, SPLIT, sources, name.text, name.span)
        if found is None or shape is None:
            r.out.shapes[name.text] = None
            r.previous = name.text
            continue
        axis, sizes = found[1]["axis"], found[1]["sizes"]
        assert isinstance(axis, int) and isinstance(sizes, tuple)
        attrs: dict[str, l0.Attr] = {"axis": axis, "range": (start, start + sizes[k])}
        start += sizes[k]
        part = (*shape[:axis], sizes[k], *shape[axis + 1 :])
        _append(r, SLICE.name, name.text, [source], attrs, None, None, part, name.span, True)


def _formula(r: _Reader, entry: tree.Entry) -> None:
    """`y: a * sigmoid(b)`: a layer defined by an expression over layers, inputs and model parameters."""
    name, c = entry.name, r.c
    before = len(c.sink.items)
    wanted = Wanted(f"`{name}`", DIMENSIONLESS, random="random numbers are drawn in `augment` layers only")
    checked = check_expression(entry.value, r.out.scope(c), wanted, c.sink)
    sources = [] if checked is None else r.out.read_by(checked.expr)
    declared = _declare(r, name, entry.key.span)
    if not declared:
        return
    if checked is not None and not sources:
        help = "for example `{y: a * sigmoid(b)}`, where `a` and `b` are layers"
        c.sink.error("E0802", f"`{name}` reads no layer and no input", entry.value.span, help)
    shape = r.out.together(sources, f"`{name}`", entry.value.span, c) if sources else None
    attrs: dict[str, l0.Attr] = {}
    function: l0.FunctionDef | None = None
    if checked is not None:
        attrs, function = with_numbers(name, checked.expr, sources, entry.value.span, c)
    right = len(c.sink.items) == before
    _append(r, MAP.name, name, [*sources], attrs, None, function, shape, entry.key.span, right)


def with_numbers(
    name: str, body: Expr, sources: list[str], at: Span, c: Context
) -> tuple[dict[str, l0.Attr], l0.FunctionDef]:
    """A formula over x0, x1, ... (its sources) and attributes, which hold the values of model parameters."""
    args = {n: f"x{i}" for i, n in enumerate(sources)}
    attrs: dict[str, l0.Attr] = {}
    bindings: dict[str, Expr] = {n: Ref(a) for n, a in args.items()}
    for parameter in sorted(refs(body) & c.names.numbers.keys() - args.keys()):
        value = c.names.numbers[parameter]
        attrs[f"p_{parameter}"] = value if isinstance(value, bool) else float(value)
        column = Ref(f"p_{parameter}")
        bindings[parameter] = column.ne(0.0) if isinstance(value, bool) else column
    return attrs, l0.FunctionDef(name, (*args.values(), *attrs), substitute(body, bindings), at)


def _augment(r: _Reader, name: str, node: Node | None) -> tuple[dict[str, l0.Attr], l0.FunctionDef | None]:
    """The formula of an `augment` over its input."""
    c = r.c
    if node is None:
        return {}, None
    scope = c.names.scope.extended({"x": DIMENSIONLESS})
    checked = check_expression(node, scope, Wanted("`value`", DIMENSIONLESS, random=None), c.sink)
    if checked is None:
        return {}, None
    for count in sorted(COUNTS & calls(checked.expr)):
        c.sink.error("E0802", f"`{count}` is not drawn in layers", node.span, "`random`, `normal`, `exponential` are")
    return with_numbers(name, checked.expr, ["x"], node.span, c)


def _automatic(r: _Reader, kind: str) -> str:
    """`conv2d_1`, `conv2d_2`, ... over the unnamed layers of the kind."""
    while True:
        r.counts[kind] = r.counts.get(kind, 0) + 1
        name = f"{kind}_{r.counts[kind]}"
        if name not in r.named and name not in r.out.places:
            return name


def _sources(r: _Reader, kind: LayerKind, settings: tree.Mapping, at: Span) -> list[str | None]:
    """The sources of the layer; None for an invalid reference."""
    found = _inputs(r, kind, settings, at)
    beside = (settings.get(key) for key in kind.beside)
    return found + [_reference(r, item, kind, beside=True) for item in beside if isinstance(item, Scalar)]


def _inputs(r: _Reader, kind: LayerKind, settings: tree.Mapping, at: Span) -> list[str | None]:
    """The sources in `inputs`, or the default ones."""
    c, node = r.c, settings.get("inputs")
    if kind.sources == 0:
        return []
    if node is None:
        if r.previous is not None:
            return [r.previous if _fits(r, r.previous, kind, at) else None]
        dtypes = {n: i.dtype for n, i in r.out.inputs.items()}
        moves_whole = kind.carries is not None and "real" not in dtypes.values()
        wanted = "int32" if kind.integers or moves_whole else "real"
        real = [n for n, dtype in dtypes.items() if dtype == wanted]
        if len(real) == 1:
            return [real[0]]
        if r.out.inputs:
            which = " or ".join(f"`{n}`" for n in real) if real else "an input with real numbers"
            message = f"the first layer must say which input it reads: {which}"
            help = f"write `inputs: {real[0]}`" if real else None
            c.sink.error("E0103", message, at, help)
        return [None]
    out = [_reference(r, item, kind) if isinstance(item, Scalar) else None for item in items_of(node)]
    if kind.sources == 1 and len(out) != 1:
        help = "add layers with `- add: {inputs: [a, b]}`"
        message = f"{article(kind.name)} {kind.name} layer reads one input; here are {len(out)}"
        c.sink.error("E0106", message, node.span, help)
        return [None]
    return out


def _reference(r: _Reader, item: Scalar, kind: LayerKind, beside: bool = False) -> str | None:
    """A source layer or input; `beside`: one besides `inputs`, which may hold integers."""
    name, c = item.text, r.c
    if name in r.out.shapes:
        return name if beside or _fits(r, name, kind, item.span) else None
    known = [place for place in r.out.places if place in r.out.shapes]
    if name in r.out.places:
        help = suggested("", "before this one there are", known)
        c.sink.error("E0201", f"a layer does not read itself; `{name}` is this one", item.span, help)
        return None
    if name in r.named:
        message = f"the layer `{name}` comes later; a layer reads layers before it"
        c.sink.error("E0201", message, item.span, None, (Related("it stands here", r.named[name]),))
        return None
    help = suggested(name, "before this one there are", known)
    c.sink.error("E0201", f"there is no layer or network input `{name}`", item.span, help)
    return None


def _fits(r: _Reader, name: str, kind: LayerKind, at: Span) -> bool:
    """Whether layers of a kind read what `name` holds, whole numbers or real ones; E0501 where they do not."""
    whole = r.out.whole.get(name)
    if kind.integers and whole is None and r.out.shapes[name] is not None:
        message = f"{article(kind.name)} {kind.name} layer reads whole numbers; `{name}` holds real ones"
        r.c.sink.error("E0501", message, at, "declare an input with `dtype: int32`")
        return False
    if whole is not None and not kind.integers and kind.carries is None:
        reading, moving = ([f"`{k.name}`" for k in KINDS if part(k)] for part in (_reads_whole, _moves_whole))
        help = f"{' and '.join(reading)} read them, {', '.join(moving[:-1])} and {moving[-1]} move them"
        message = f"`{name}` holds whole numbers; {article(kind.name)} {kind.name} layer reads real ones"
        r.c.sink.error("E0501", message, at, help, declared_at(whole.span))
        return False
    return True


def _reads_whole(kind: LayerKind) -> bool:
    return bool(kind.integers)


def _moves_whole(kind: LayerKind) -> bool:
    return kind.carries is not None


def _expected(r: _Reader, settings: tree.Mapping, name: str, shape: Shape) -> Shape:
    """E0502 where `expect` is another shape; continues with the expected one."""
    expect = mapping(settings.get("expect"))
    node = expect.get("shape") if expect is not None else None
    wanted = _shape(node, r.c, "`expect`") if node is not None else None
    if wanted is None or wanted == shape or node is None:
        return shape
    message = f"the output of `{name}` has the shape {shown(shape)}, not {shown(wanted)}"
    r.c.sink.error("E0502", message, node.span, f"write `expect: {{shape: {shown(shape)}}}`")
    return wanted


def _activation(r: _Reader, settings: tree.Mapping, kind: LayerKind) -> tuple[str | None, l0.FunctionDef | None]:
    node = None if kind.activation is None else settings.get(kind.activation)
    if not isinstance(node, Scalar):
        return None, None
    name = node.text
    if name in r.functions.known:
        function = r.functions.known[name]
        if function is None:
            return name, None
        code, help = "E0802", None
        if len(function.args) != 1:
            code, message = "E0304", f"an activation takes one argument; `{name}` takes {len(function.args)}"
        elif function.args[0] not in refs(function.body):
            message = f"`{name}` gives the same for every `{function.args[0]}`; an activation must depend on it"
        elif any(called_table(f) for f in calls(function.body)):
            message = f"`{name}` reads a lookup table, which a network of layers cannot"
            help = "write it as an expression of its argument"
        else:
            return name, r.functions.closed(name)
        r.c.sink.error(code, message, node.span, help, declared_at(function.span, "the function"))
        return None, None
    if name in ACTIVATIONS:
        return name, None
    help = f"`{_OTHER_NAMES[name]}` is the same" if name in _OTHER_NAMES else None
    if name in ("softmax", "log_softmax"):
        help = f"it works along an axis: write a layer `- {name}: {{}}` (a loss takes the scores before it)"
    if name.lower() in ("linear", "none", "identity"):
        help = "leave it out: a layer without one is linear"
    help = help or did_you_mean(name, (*r.functions.known, *ACTIVATIONS))
    if help is None:
        help = allowed("activations are", ACTIVATIONS) + f", or write it: `functions: {{{name}(x): ...}}`"
    r.c.sink.error("E0201", f"there is no activation or function `{name}`", node.span, help)
    return None, None


_OTHER_NAMES = {"swish": "silu", "hardswish": "hard_swish", "hardtanh": "hard_tanh", "logistic": "sigmoid"}


def has_weights(layer: l0.Layer) -> bool:
    """Whether a layer has trained arrays."""
    return KIND[layer.kind].trained(layer)


def how_to_say_untrained(layer: l0.Layer) -> str:
    return f"say so, `groups: [{{of: {layer.name}, frozen: true}}]`, or give it weights (`weights`, `init`)"


def check_use(
    network: l0.Network,
    outputs: tuple[str, ...],
    read: tuple[str, ...],
    driving: tuple[str, ...],
    frozen: frozenset[str],
    c: Context,
) -> None:
    """Warn of layers and inputs that `outputs` do not depend on (`read`: inputs that the loss reads; `driving`: what
    drives populations), and of layers that no gradient reaches and that are not `frozen`; an error where no trained
    arrays remain."""
    layers = {layer.name: layer for layer in network.layers}
    trained = network.needed(outputs) | set(read)
    seen = trained | network.needed(driving)
    for item in network.inputs:
        if item.name not in seen:
            c.sink.warning("W0003", f"nothing reads the input `{item.name}`", item.span)
    for layer in network.layers:
        if layer.name not in seen and not any(layer.name in other.inputs for other in network.layers):
            c.sink.warning("W0003", f"nothing reads the layer `{layer.name}`", layer.span)
    learning = network.needed(outputs, frozenset(k.name for k in KINDS if k.stops))
    owned = {array for layer in network.layers if layer.name in learning for _, array in layer.shared}
    if outputs and not any(has_weights(layers[n]) for n in learning if n in layers):
        stopped = any(has_weights(layers[n]) for n in trained if n in layers)
        of = "layers with weights through `stop_gradient` alone" if stopped else "no layer that has weights"
        message = f"there is nothing to train: `{outputs[0]}` depends on {of}"
        help = None if stopped else "for example `- dense: {units: 10}`"
        c.sink.error("E0103", message, layers[outputs[0]].span, help)
        return
    for layer in network.layers:
        own = any(array.startswith(f"{layer.name}.") for array in owned)
        if layer.name in trained - learning - frozen and has_weights(layer) and not own and not layer.shared:
            message = f"`{layer.name}` is not trained: it acts through `stop_gradient`, where gradients stop"
            c.sink.warning("W0006", message, layer.span, how_to_say_untrained(layer))
