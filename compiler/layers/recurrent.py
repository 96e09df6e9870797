"""Recurrent layers over inputs of (batch, steps, features).

Assumes: steps are the first axis of a sample.
Guarantees: each direction is one Scan; what the input adds to the gates is a product over the rows of all steps. ONNX:
full-length sequences, the activations of the layers; anything else is an error (E0918). A reverse layer is imported as
the second half of a bidirectional layer, whose first half has zero weights. A masked step leaves the state as it is,
in both directions.
Does not: return the final cell state of an LSTM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.layers.shared.context as context
from compiler.core.diagnostics import RunError
from compiler.expr.ast import Cond, Num
from compiler.expr.keys.kinds import Alternative, Field, choice, instead, required, switch
from compiler.expr.keys.values import POSITIVE
from compiler.ir.level1.builder import GraphBuilder, identity
from compiler.ir.space import along
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import BIAS, LAYER_REFERENCE, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always, shown, steps_and_features
from compiler.layers.shared.onnx.graph import Reals, Writer
from compiler.layers.shared.onnx.importer import Array, Computed, Importer, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, cut, data, hint_of
from compiler.layers.shared.onnx.inputs import joined as joined_parts

_UNITS = required("units", POSITIVE, "The number of elements of the state.", example="units: 64")
_SEQUENCE = (
    switch("sequence", "Whether the output has the state of every step; without it, of the last one only."),
    switch("bidirectional", "Whether a second one runs from the end to the beginning; both outputs are joined."),
    BIAS,
    Field(
        "mask",
        LAYER_REFERENCE,
        "A layer or network input of the shape [steps] that says which steps there are: one where it is 0 leaves the "
        "state as it is, in both directions, so that the last state is that after a sequence's own last step, whatever "
        "number stands in the input after it. With `sequence`, the output repeats the state.",
        example="mask: valid",
    ),
    Field(
        "initial",
        LAYER_REFERENCE,
        "A layer or network input with the state before the first step, such as the last one of an encoder; without "
        "it, 0. Its shape is [units]; with `bidirectional` [2 * units], of both directions as the output has them.",
        example="initial: encoded",
    ),
    INIT,
)
_CELL_WORDS = instead(
    "`units`: hidden_size size",
    "`sequence`: return_sequences",
    "`mask`: sequence_length lengths",
    "`initial`: initial_state h0 hx",
    "`initial_memory`: c0",
    "`repeat: {times: ..., layers: [...]}`: num_layers",
)


def _shape(p: Place, x: Shape, *beside: Shape) -> Result:
    steps_and_features(p, x)
    features = p.integer("units") * (2 if p.values["bidirectional"] else 1)
    given = [key for key in l0.BESIDE if key in p.values]
    for key, found in zip(given, beside, strict=True):
        if key == "mask" and found != x[:1]:
            raise Misfit(
                f"the shape of a mask is {shown(x[:1])} here, one number a step, not {shown(found)}", None, key
            )
        if key != "mask" and found != (features,):
            help = "a `dense` layer of so many units makes it fit"
            raise Misfit(f"the shape of `{key}` is {shown((features,))} here, not {shown(found)}", help, key)
    own = [key for key in ("function", "reset") if key in p.values]
    shape = (x[0], features) if p.values["sequence"] else (features,)
    return shape, p.attrs("units", "sequence", "bidirectional", "bias", *own) | dict.fromkeys(given, True)


# ------------------------------------------------------------------------------------------ lowering


def recurrent(c: context.Context, layer: l0.Layer, x: l1.Tensor, *others: l1.Tensor) -> l1.Tensor:
    """rnn (Elman 1990), gru (Cho et al. 2014, with the reset before the candidate's product, or after it as in PyTorch)
    or lstm (Hochreiter & Schmidhuber 1997, with forget gates): the last state, or all of them."""
    batch, steps, features = x.shape
    rows = l1.Tensor(f"{layer.name}.rows", (steps * batch, features), "real", True)
    c.graph.add(l1.StepsFirst(rows, x.name, steps, span=layer.span))
    beside = dict(zip((key for key in l0.BESIDE if context.flag(layer, key)), others, strict=True))
    there = None
    if "mask" in beside:
        there = l1.Tensor(f"{layer.name}.there", (steps * batch,), "real", True)
        c.graph.add(l1.StepsFirst(there, beside.pop("mask").name, steps, span=layer.span))
    ways = [_one_way(c, layer, rows, steps, "", there, beside)]
    if context.flag(layer, "bidirectional"):
        ways.append(_one_way(c, layer, rows, steps, "backward.", there, beside))
    y = context.joined(c, f"{layer.name}.directions", ways, 1, layer)
    if not context.flag(layer, "sequence"):
        return y
    out = l1.Tensor(f"{layer.name}.all", (batch, steps, y.shape[1]), "real", True)
    return c.graph.add(l1.StepsFirst(out, y.name, steps, True, layer.span))


GATES = {"rnn": ("state",), "gru": ("reset", "update", "candidate"), "lstm": ("input", "forget", "cell", "output")}


def _one_way(
    c: context.Context,
    layer: l0.Layer,
    rows: l1.Tensor,
    steps: int,
    way: str,
    there: l1.Tensor | None,
    initial: Mapping[str, l1.Tensor],
) -> l1.Tensor:
    """The rows of the states of all steps, or the last state. `there`: 0 for each row whose step is masked; `initial`:
    what a layer begins with, for both ways side by side."""
    units, batch = context.whole(layer, "units"), rows.shape[0] // steps
    name = f"{layer.name}.{way}at"

    def tensor(part: str, samples: int = batch) -> l1.Tensor:
        return l1.Tensor(part, (samples, units), "real", True)

    sums = [context.linear(c, layer, rows, units, f"{way}{gate}") for gate in GATES[layer.kind]]
    given = tuple(l1.Given(tensor(f"{name}.{g}.given"), y.name) for g, y in zip(GATES[layer.kind], sums, strict=True))
    before = [tensor(f"{name}.{part}.before") for part in ("h", "memory")[: 1 + (layer.kind == "lstm")]]
    starts: list[l1.Tensor] = []
    for key in ("initial", "initial_memory")[: len(before)]:
        if key in initial:
            at = units if way else 0
            starts.append(context.sliced(c, f"{layer.name}.{way}{key}", initial[key], 1, at, at + units, layer))
        else:
            zero = f"{layer.name}.{way}start"
            made = c.graph.tensors.get(zero)
            starts.append(made or c.graph.map(zero, Num(0.0), (), like=tensor(""), span=layer.span))
    body = GraphBuilder()
    after = _step(c, layer, body, way, [g.part for g in given], before)
    if there is not None:
        given += (l1.Given(l1.Tensor(f"{name}.there", (batch,), "real", True), there.name),)
        after = [_kept(body, given[-1].part, x, y, layer) for x, y in zip(before, after, strict=True)]
    last = None if context.flag(layer, "sequence") else tensor(f"{layer.name}.{way}last")
    carried = tuple(
        l1.Carried(x, start.name, y.name, last if k == 0 else None)
        for k, (x, y, start) in enumerate(zip(before, after, starts, strict=True))
    )
    stacked = () if last else (l1.Stacked(tensor(f"{layer.name}.{way}states", rows.shape[0]), after[0].name),)
    nodes = tuple(n for n in body.nodes if isinstance(n, l1.Map | l1.Contract | l1.Reindex))
    return c.graph.add(l1.Scan(name, steps, carried, given, stacked, nodes, bool(way), layer.span))


def _kept(g: GraphBuilder, there: l1.Tensor, before: l1.Tensor, after: l1.Tensor, layer: l0.Layer) -> l1.Tensor:
    """The state after a step, or before it where the step is masked."""
    body = Cond(context.X2.ne(0.0), context.X0, context.X1)
    return g.map(f"{after.name}.kept", body, (identity(after), identity(before), (there, (0,))), span=layer.span)


def _carried(c: context.Context, layer: l0.Layer, g: GraphBuilder, name: str, part: str, h: l1.Tensor) -> l1.Tensor:
    """The product of the previous state with the trained array of a gate."""
    units = h.shape[1]
    w = context.weight(
        c, f"{layer.name}.{part}.recurrent", (units, units), "uniform", context.glorot(units, units), layer
    )
    return g.contract(
        name,
        (("n", h.shape[0]), ("o", units), ("k", units)),
        (along("n"), along("o")),
        ((h, (along("n"), along("k"))), (w, (along("o"), along("k")))),
        context.PRODUCT,
        span=layer.span,
    )


def _step(
    c: context.Context, layer: l0.Layer, g: GraphBuilder, way: str, given: list[l1.Tensor], before: list[l1.Tensor]
) -> list[l1.Tensor]:
    """Hidden (and cell) state after one step, whose nodes are added to `g`. `given`: the input's contribution to each
    gate."""
    span, name = layer.span, f"{layer.name}.{way}at"
    gates, h = GATES[layer.kind], before[0]
    reset_first = layer.kind == "gru" and layer.attr("reset") == "before"
    both = context.X0 + context.X1

    def product(k: int, state: l1.Tensor) -> l1.Tensor:
        return _carried(c, layer, g, f"{name}.{gates[k]}.carried", f"{way}{gates[k]}", state)

    carried = [product(k, h) for k in range(len(gates) - reset_first)]

    def gate(k: int, func: str) -> l1.Tensor:
        label = f"{name}.{gates[k]}"
        return g.map(label, context.call(func, both), (identity(carried[k]), identity(given[k])), span=span)

    if layer.kind == "rnn":
        function = layer.attr("function")
        assert isinstance(function, str)
        return [gate(0, function)]
    if layer.kind == "gru":
        reset, update = gate(0, "sigmoid"), gate(1, "sigmoid")
        if reset_first:
            carried.append(
                product(2, g.map(f"{name}.left", context.PRODUCT, (identity(reset), identity(h)), span=span))
            )
            candidate = gate(2, "tanh")
        else:
            candidate = _after_product(c, layer, g, way, (given[2], reset, carried[2]))
        mixed = (1.0 - context.X0) * context.X1 + context.X0 * context.X2
        return [g.map(f"{name}.h", mixed, (identity(update), identity(candidate), identity(h)), span=span)]
    enter, forget, cell, out = gate(0, "sigmoid"), gate(1, "sigmoid"), gate(2, "tanh"), gate(3, "sigmoid")
    kept = context.X0 * context.X1 + context.X2 * context.X3
    operands_4 = (identity(forget), identity(before[1]), identity(enter), identity(cell))
    memory = g.map(f"{name}.memory", kept, operands_4, span=span)
    body = context.X0 * context.call("tanh", context.X1)
    return [g.map(f"{name}.h", body, (identity(out), identity(memory)), span=span), memory]


def _after_product(
    c: context.Context, layer: l0.Layer, g: GraphBuilder, way: str, parts: tuple[l1.Tensor, l1.Tensor, l1.Tensor]
) -> l1.Tensor:
    """The candidate of a gru with the reset after the product. `parts`: the input's contribution, the reset gate, and
    the product of the state."""
    given, reset, inner = parts
    name = f"{layer.name}.{way}at.candidate"
    if layer.attr("bias"):
        bias = context.weight(c, f"{layer.name}.{way}candidate.recurrent_bias", (inner.shape[1],), "zeros", (), layer)
        inner = g.map(f"{name}.biased", context.X0 + context.X1, (identity(inner), (bias, (1,))), span=layer.span)
    body = context.call("tanh", context.X0 + context.X1 * context.X2)
    return g.map(name, body, (identity(given), identity(reset), identity(inner)), span=layer.span)


# ---------------------------------------------------------------------------------------------- ONNX

ONNX_GATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"rnn": ("state",), "gru": ("update", "reset", "candidate"), "lstm": ("input", "output", "forget", "cell")}
)
"""The gates of recurrent layers in ONNX's order."""
_STARTS: Final = ("initial", "initial_memory")
"""The keys of what a layer begins with, as ONNX's inputs 5 and 6 have it."""
_FUNCTIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def _write(w: Writer, layer: l0.Layer) -> str:
    if context.flag(layer, "mask"):
        message = f"the layer `{layer.name}` has a `mask`, which the operator {layer.kind.upper()} has not"
        raise RunError(
            "E0918", message, "leave out the `mask` for a file of sequences that are all of full length", layer.span
        )
    g, units = w.graph, layer.attr("units")
    assert isinstance(units, int)
    gates, op = ONNX_GATES[layer.kind], layer.kind.upper()
    ways = ("", "backward.") if layer.attr("bidirectional") else ("",)

    def stacked(part: str, missing: float | None = None) -> Reals:
        return np.stack([
            np.concatenate([w.values(layer, f"{way}{gate}.{part}") for gate in gates]) for way in ways
        ])  # fmt: skip

    x = g.node("Transpose", [w.source(layer)], f"{layer.name}/steps", {"perm": [1, 0, 2]})
    ins = [
        x,
        g.weight(f"{layer.name}.weight", stacked("weight")),
        g.weight(f"{layer.name}.recurrent", stacked("recurrent")),
    ]
    after = layer.kind == "gru" and layer.attr("reset") == "after"
    if layer.attr("bias"):
        second = np.zeros((len(ways), len(gates) * units))
        if after:
            for k, way in enumerate(ways):
                second[k, 2 * units :] = w.values(layer, f"{way}candidate.recurrent_bias")
        ins.append(g.weight(f"{layer.name}.bias", np.concatenate([stacked("bias"), second], 1)))
    for key in [key for key in _STARTS if context.flag(layer, key)]:
        own = w.real(layer, [k for k in ("", *l0.BESIDE) if not k or context.flag(layer, k)].index(key))
        own = g.reshape(own, (len(ways), units), f"{layer.name}/{key}/ways")
        own = g.node("Transpose", [own], f"{layer.name}/{key}", {"perm": [1, 0, 2]})
        ins += [*("" for _ in range(5 + _STARTS.index(key) - len(ins))), own]
    attrs: dict[str, object] = {
        "hidden_size": units, "direction": "bidirectional" if len(ways) == 2 else "forward",
    }  # fmt: skip
    if after:
        attrs["linear_before_reset"] = 1
    if layer.kind == "rnn":
        attrs["activations"] = [str(layer.attr("function")).capitalize()] * len(ways)
    if layer.attr("sequence"):
        y = g.node(op, ins, f"{layer.name}/all", attrs)
        y = g.node("Transpose", [y], f"{layer.name}/batch", {"perm": [2, 0, 1, 3]})
    else:
        y = g.node(op, ins, f"{layer.name}/last", attrs, outputs=2)
        y = g.node("Transpose", [y], f"{layer.name}/batch", {"perm": [1, 0, 2]})
    return g.reshape(y, layer.shape, layer.name)


def _read(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> list[Computed]:
    """All states, (steps, directions, units) of a sample, and the last ones. Raises RunError (E0918)."""
    kind, first = node.op_type.lower(), int(attrs.get("layout", 0))
    x = data(node, ins, moved=True)
    if len(x.shape) != 2 or x.own or x.batch == first:
        raise refused(node, "its input is not (steps, batch, features), or with the layout 1 (batch, steps, features)")
    functions, direction = _checked(m, node, ins, attrs, x.shape[0])
    units, steps = int(attrs["hidden_size"]), x.shape[0]
    reverse, both = direction == "reverse", direction != "forward"
    after = bool(attrs.get("linear_before_reset", 0))
    parts = _weights(node, ins, kind, units, reverse, kind == "gru" and after)
    sequence = m.uses.get(node.output[0], 0) > 0
    settings: dict[str, Setting] = {"units": units, "bias": _bias(ins) is not None}
    settings |= {"function": functions[0].lower()} if kind == "rnn" else {}
    settings |= {"reset": "before"} if kind == "gru" and not after else {}
    settings |= {n: True for n, v in (("sequence", sequence), ("bidirectional", both)) if v}
    settings |= _starts(m, node, ins, units, direction)
    size = 2 * units if both else units
    hint = hint_of(node) or str(node.output[1])
    made = m.layer(kind, hint, [x], settings, (steps, size) if sequence else (size,), parts)
    if reverse:
        made = cut(m, f"{hint}_reverse", made, len(made.shape) - 1, units, size)
    ways = 2 if direction == "bidirectional" else 1
    states, last = made, made
    if sequence:
        states = replace(m.reshape(hint, made, (steps, ways, units)), batch=0 if first else 2)
        ends = [(steps - 1, 0), (0, units)] if ways == 2 else [(0 if reverse else steps - 1, 0)]
        steps_ = [cut(m, f"{hint}_step", made, 0, at, at + 1) for at, _ in ends]
        halves = [cut(m, f"{hint}_way", s, 1, u, u + units) for s, (_, u) in zip(steps_, ends, strict=True)]
        last = joined_parts(m, f"{hint}_last", halves, 1)
    return [states, replace(m.reshape(f"{hint}_last", last, (ways, units)), batch=0 if first else 1)]


def _bias(ins: list[Any]) -> Any:
    return ins[3] if len(ins) > 3 else None


def _checked(m: Importer, node: Any, ins: list[Any], attrs: Attrs, steps: int) -> tuple[list[str], str]:
    """Activations and direction of an operator that a layer can express. Raises RunError (E0918)."""
    direction = attrs.get("direction", "forward")
    ways = 2 if direction == "bidirectional" else 1
    given = attrs.get("activations", _FUNCTIONS[node.op_type] * ways)
    functions = [f.decode() if isinstance(f, bytes) else str(f) for f in given]
    known = [_FUNCTIONS[node.op_type] * ways] + ([["Relu"] * ways] if node.op_type == "RNN" else [])
    if functions not in known:
        raise refused(node, f"its functions are {', '.join(functions)}")
    if "clip" in attrs or attrs.get("input_forget", 0):
        raise refused(node, "it clips, or its forget gate is the input gate")
    if len(ins) > 4 and ins[4] is not None and np.any(constant(node, ins, 4) != steps):
        raise refused(node, "its samples have different numbers of steps")
    if len(ins) > 7 and ins[7] is not None and np.any(constant(node, ins, 7)):
        raise refused(node, "its gates see memory")
    return functions, direction


def _starts(m: Importer, node: Any, ins: list[Any], units: int, direction: str) -> dict[str, Setting]:
    """What the layer begins with, by its keys; constants must be zero. Raises RunError (E0918)."""
    found: dict[str, Setting] = {}
    ways = 2 if direction == "bidirectional" else 1
    for k, key in enumerate(_STARTS, 5):
        if len(ins) <= k or ins[k] is None:
            continue
        if not isinstance(ins[k], Computed):
            if np.any(constant(node, ins, k)):
                raise refused(node, "it begins with constants that are not zero")
            continue
        x = data(node, ins, k, moved=True)
        if x.own or x.shape != (ways, units) or direction == "reverse":
            raise refused(node, "what it begins with is not (directions, batch, units)")
        found[key] = m.reshape(f"{hint_of(node)}_{key}", x, (ways * units,)).name
    return found


def _weights(node: Any, ins: list[Any], kind: str, units: int, reverse: bool, apart: bool) -> dict[str, Array]:
    """The weights of the layer by their names. Both biases of a gate are summed, except for the candidate of a GRU
    that resets after the product (`apart`)."""
    w, r = constant(node, ins, 1), constant(node, ins, 2)
    gates = ONNX_GATES[kind]
    b = constant(node, ins, 3, np.zeros((len(w), 2 * len(gates) * units), w.dtype))
    if reverse:
        w, r, b = (np.concatenate([np.zeros_like(a), a]) for a in (w, r, b))
    out: dict[str, Array] = {}
    for way, lead in enumerate(("", "backward.")[: len(w)]):
        for k, gate in enumerate(gates):
            rows = slice(k * units, (k + 1) * units)
            out[f"{lead}{gate}.weight"], out[f"{lead}{gate}.recurrent"] = w[way, rows], r[way, rows]
            if _bias(ins) is None:
                continue
            of_input, of_state = b[way, rows], b[way, len(gates) * units :][rows]
            kept = apart and gate == "candidate"
            if kept:
                out[f"{lead}candidate.recurrent_bias"] = of_state
            out[f"{lead}{gate}.bias"] = of_input if kept else of_input + of_state
    return out


def _kind(keys: Alternative) -> LayerKind:
    read = {keys.name.upper(): _read}
    return LayerKind(keys, _shape, recurrent, _write, read, trained=always, matrices=True)


RNN = _kind(
    layer(
        "rnn",
        "A recurrent layer over the steps of a sequence: h = f(W x + U h + b).",
        _UNITS,
        Field(
            "function",
            choice("function", tanh="Between -1 and 1.", relu="max(x, 0)."),
            "The function f, applied to every element of the state.",
            default="tanh",
        ),
        *_SEQUENCE,
        trained=True,
        elsewhere=_CELL_WORDS | {"activation": "`function`"},
    )
)
GRU = _kind(
    layer(
        "gru",
        "Gated recurrent units over the steps of a sequence (Cho et al. 2014).",
        _UNITS,
        Field(
            "reset",
            choice(
                "place of the reset",
                after="tanh(W x + b + r (U h + c)), as in cuDNN, PyTorch and Keras.",
                before="tanh(W x + U (r h) + b), as published (Cho et al. 2014, eq. 8) and ONNX's default.",
            ),
            "Whether the reset gate r scales the state h after its product with U in the candidate, or before it.",
            default="after",
        ),
        *_SEQUENCE,
        trained=True,
        elsewhere=_CELL_WORDS | {"reset_after": "`reset`", "linear_before_reset": "`reset`"},
    )
)
LSTM = _kind(
    layer(
        "lstm",
        "Long short-term memory over the steps of a sequence (Hochreiter & Schmidhuber 1997; with forget gates).",
        _UNITS,
        *_SEQUENCE,
        Field(
            "initial_memory",
            LAYER_REFERENCE,
            "A layer or network input with the memory before the first step, of the shape of `initial`; without it, 0.",
            example="initial_memory: thought",
        ),
        trained=True,
        elsewhere=_CELL_WORDS,
    )
)
