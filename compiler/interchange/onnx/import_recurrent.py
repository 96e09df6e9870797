"""RNN, GRU and LSTM of ONNX as recurrent layers.

Assumes: values of onnx_import.py.
Guarantees: states that begin at zero, all steps of every sample, the functions of the layers; anything else is refused
(E0918). The reverse direction is the second half of a bidirectional layer, whose first half has weights of zero.
Does not: give the last memory of an LSTM, which no layer does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from compiler.layers.shared.onnx.importer import Array, Computed, Importer, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, cut, data, hint_of, joined
from compiler.layers.recurrent import ONNX_GATES

_FUNCTIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def import_recurrent(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> list[Computed]:
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
        last = joined(m, f"{hint}_last", halves, 1)
    return [states, replace(m.reshape(f"{hint}_last", last, (ways, units)), batch=0 if first else 1)]


def _bias(ins: list[Any]) -> Any:
    return ins[3] if len(ins) > 3 else None


def _checked(m: Importer, node: Any, ins: list[Any], attrs: Attrs, steps: int) -> tuple[list[str], str]:
    """Functions and direction of an operator that a layer can be. Raises RunError (E0918)."""
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
    for k, what in ((5, "state does not begin at zero"), (6, "memory does not begin at zero"), (7, "gates see memory")):
        if len(ins) > k and ins[k] is not None and np.any(constant(node, ins, k)):
            raise refused(node, f"its {what}")
    return functions, direction


def _weights(node: Any, ins: list[Any], kind: str, units: int, reverse: bool, apart: bool) -> dict[str, Array]:
    """The weights of the layer by their names. Both biases of a gate are one, but for the candidate of a GRU that
    resets after the product (`apart`)."""
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
