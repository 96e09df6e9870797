"""Elementwise ONNX operators, as `activation`, `add`, `multiply` and `map` layers.

Assumes: values of layers/shared/onnx/importer.py.
Guarantees: scalars become literals in formulas. Arrays added after a product become its bias, those of a whole
sequence trained positions; others become the scale or shift of a batch norm with mean 0 and variance 1, over channels;
any other constant operand of a computed tensor is a `learned` layer, the same for every sample.
Does not: handle operators with windows or axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from compiler.interchange.onnx.import_attention import biased
from compiler.layers.elementwise import broadcast
from compiler.layers.shared.context import HIDDEN
from compiler.layers.shared.onnx.importer import Array, Computed, Importer, Repeated, Setting, Sized, refused
from compiler.layers.shared.onnx.inputs import held, ranked

_NAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Softsign": "softsign",
        "HardSwish": "hard_swish", "Mish": "mish",
    }
)  # fmt: skip
_UNARY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Abs": "abs({x})", "Neg": "-{x}", "Exp": "exp({x})", "Log": "log({x})", "Sqrt": "sqrt({x})",
        "Reciprocal": "1.0 / {x}", "Erf": "erf({x})", "Sin": "sin({x})", "Cos": "cos({x})", "Tan": "tan({x})",
        "Asin": "asin({x})", "Acos": "acos({x})", "Atan": "atan({x})", "Sinh": "sinh({x})", "Cosh": "cosh({x})",
        "Asinh": "log(abs({x}) + sqrt({x} * {x} + 1.0)) * float(sign({x}))",
        "Acosh": "log({x} + sqrt({x} * {x} - 1.0))", "Atanh": "0.5 * log((1.0 + {x}) / (1.0 - {x}))",
        "Floor": "float(floor({x}))", "Ceil": "float(ceil({x}))", "Round": "float(round({x}))",
        "Sign": "float(sign({x}))",
    }
)  # fmt: skip
_WITH_NUMBERS: Final[Mapping[str, tuple[str, Mapping[str, float]]]] = MappingProxyType(
    {
        "LeakyRelu": ("{x} if {x} > 0 else {alpha} * {x}", {"alpha": 0.01}),
        "Elu": ("{x} if {x} > 0 else {alpha} * expm1({x})", {"alpha": 1.0}),
        "Selu": ("{gamma} * ({x} if {x} > 0 else {alpha} * expm1({x}))",
                 {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}),
        "Celu": ("max(0.0, {x}) + min(0.0, {alpha} * expm1({x} / {alpha}))", {"alpha": 1.0}),
        "ThresholdedRelu": ("{x} if {x} > {alpha} else 0.0", {"alpha": 1.0}),
        "HardSigmoid": ("clip({alpha} * {x} + {beta}, 0.0, 1.0)", {"alpha": 0.2, "beta": 0.5}),
        "Swish": ("{x} * sigmoid({alpha} * {x})", {"alpha": 1.0}),
        "Shrink": ("{x} - {bias} if {x} > {lambd} else ({x} + {bias} if {x} < -{lambd} else 0.0)",
                   {"bias": 0.0, "lambd": 0.5}),
    }
)  # fmt: skip
_BINARY: Final[Mapping[str, str]] = MappingProxyType(
    {"Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}", "Pow": "{0} ** {1}"}
)
_LAYERS: Final[Mapping[str, str]] = MappingProxyType({"Add": "add", "Sum": "add", "Mul": "multiply"})
_MANY: Final[Mapping[str, str]] = MappingProxyType({"Sum": " + ", "Max": "max", "Min": "min", "Mean": " + "})
_COMPARED: Final[Mapping[str, str]] = MappingProxyType(
    {"Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">=", "Equal": "=="}
)
_LOGIC: Final[Mapping[str, str]] = MappingProxyType(
    {"And": "{0} * {1}", "Or": "max({0}, {1})", "Xor": "abs({0} - {1})", "Not": "1.0 - {0}"}
)
_OF_INTEGERS: Final = frozenset(("Abs", "Add", "Max", "Min", "Mul", "Neg", "Sign", "Sub", "Sum", "Where"))
"""Operators with equal results for integers and for integer-valued reals."""
ELEMENTWISE: Final = frozenset(
    {*_NAMED, *_UNARY, *_WITH_NUMBERS, *_BINARY, *_MANY, *_COMPARED, *_LOGIC, "Where", "Gelu", "Clip", "PRelu"}
)


def import_elementwise(m: Importer, node: Any, ins: list[Any], attrs: Mapping[str, Any]) -> Computed | Repeated:
    """The layer of an elementwise operator. Raises RunError (E0918)."""
    ins, full = _aligned(m, node, ins)
    computed = [v for v in ins if isinstance(v, Computed)]
    logic, choice, compares = node.op_type in _LOGIC, node.op_type == "Where", node.op_type in _COMPARED
    counted = any(v.whole or v.counted for v in computed)
    if counted and not compares and node.op_type not in _OF_INTEGERS:
        raise refused(node, "it computes with whole numbers")
    ins = [m.real(v) if isinstance(v, Computed) else v for v in ins]
    if any(isinstance(v, Computed) and v.truth != (logic or (choice and k == 0)) for k, v in enumerate(ins)):
        raise refused(node, "it mixes truth values and numbers")
    made = replace(_made(m, node, ins, attrs), counted=counted and not compares, truth=logic or compares)
    made = made.at(computed[0])
    _note_mask(m, node, ins, made)
    return made if full is None or full == made.shape else Repeated(made, full)


def _note_mask(m: Importer, node: Any, ins: list[Any], made: Computed) -> None:
    """Records the Boolean mask, where `made` is 0 where seen and minus infinity elsewhere."""
    if node.op_type == "Where" and isinstance(ins[0], Computed):
        numbers = tuple(float(v.reshape(-1)[0]) if isinstance(v, np.ndarray) and v.size == 1 else 1.0 for v in ins[1:])
        if numbers == (0.0, -np.inf):
            m.masks[made.name] = ins[0]
        elif numbers == (-np.inf, 0.0):
            m.masks[made.name] = m.formula(f"{made.name}_seen", f"1.0 - {ins[0].name}", ins[0].shape, True).at(ins[0])
    elif node.op_type == "Add" and made.name not in {v.name for v in ins if isinstance(v, Computed)}:
        parts = [_seen_by(m, node, v, made) for v in ins]
        if parts[0] is not None and parts[1] is not None:
            text = f"{parts[0].name} * {parts[1].name}"
            m.masks[made.name] = m.formula(f"{made.name}_seen", text, made.shape, True).at(made)


def _seen_by(m: Importer, node: Any, value: Any, like: Computed) -> Computed | None:
    if isinstance(value, Computed):
        return m.mask_of(value)
    hidden = np.isneginf(value)
    return held(m, node, ~hidden, like) if hidden.any() and not np.any(value[~hidden]) else None


def _aligned(m: Importer, node: Any, ins: list[Any]) -> tuple[list[Any], tuple[int, ...] | None]:
    """The inputs with equal rank and batch axis, without deferred broadcasts; the broadcast shape of a sample, if
    there is any. Raises RunError (E0918)."""
    if any(isinstance(v, Sized) for v in ins):
        raise refused(node, "it computes with the size of the batch")
    sources = [v.source if isinstance(v, Repeated) else v for v in ins]
    computed = [v for v in sources if isinstance(v, Computed)]
    rank = max(*(v.rank for v in computed), *(v.ndim for v in sources if isinstance(v, np.ndarray)), 0)
    full: list[tuple[int, ...]] = []
    for k, v in enumerate(ins):
        if isinstance(v, Computed | Repeated):
            more = rank - sources[k].rank
            sources[k] = ranked(m, sources[k], rank)
            full.append((1,) * more + v.shape)
    computed = [v for v in sources if isinstance(v, Computed)]
    if len({v.lead for v in computed}) > 1:
        raise refused(node, "its inputs have their batches at different axes")
    if len({(v.before, v.after, v.own) for v in computed}) > 1:
        raise refused(node, "its inputs have different axes joined with the batch")
    return sources, broadcast(full) if any(isinstance(v, Repeated) for v in ins) else None


def _beside(m: Importer, node: Any, array: Array, computed: list[Computed]) -> Computed | Array:
    """A constant among computed tensors: a scalar, also where all elements are equal and broadcast nothing, or a layer
    that holds it. Raises RunError (E0918)."""
    if array.size == 1:
        return array
    x, shape = computed[0], broadcast([c.shape for c in computed])
    if shape is not None and array.ndim <= x.rank and np.all(array == array.flat[0]):
        extents = (1,) * (x.rank - array.ndim) + array.shape
        own = (*extents[: x.lead], *(1 for _ in x.own), *extents[x.lead + 1 :])
        if all(e in (1, s) for e, s in zip(own, shape, strict=True)) and extents[x.lead] in (1, m.batch):
            return array.reshape(-1)[:1]
    return held(m, node, array, x)


def _made(m: Importer, node: Any, ins: list[Any], attrs: Mapping[str, Any]) -> Computed:
    op, hint = node.op_type, str(node.output[0])
    if op in _BINARY or op in _MANY or op in _COMPARED or op in _LOGIC or op in ("PRelu", "Where"):
        return _several(m, node, ins)
    x = ins[0]
    if not isinstance(x, Computed):
        raise refused(node, "what it is applied to is a constant")
    if op in _NAMED:
        return m.layer("activation", hint, [x], {"function": _NAMED[op]}, x.shape)
    if op == "Gelu":
        function = "gelu_tanh" if attrs.get("approximate", "none") == "tanh" else "gelu"
        return m.layer("activation", hint, [x], {"function": function}, x.shape)
    if op == "Clip":
        return _clip(m, node, x, ins, attrs)
    if op in _UNARY:
        return m.formula(hint, _UNARY[op].format(x=x.name), x.shape)
    text, defaults = _WITH_NUMBERS[op]
    numbers = {k: _number(attrs.get(k, v)) for k, v in defaults.items()}
    return m.formula(hint, text.format(x=x.name, **numbers), x.shape)


def _number(value: Any) -> str:
    """A literal of a formula, with the digits of its precision."""
    if np.isneginf(value):
        return f"({HIDDEN!r})"
    text = str(np.float32(value)) if not isinstance(value, np.float64) else repr(float(value))
    text = text if "." in text or "e" in text else f"{text}.0"
    return f"({text})" if text.startswith("-") else text


def _clip(m: Importer, node: Any, x: Computed, ins: list[Any], attrs: Mapping[str, Any]) -> Computed:
    low, high = (attrs.get("min"), attrs.get("max")) if m.opset < 11 else (*ins[1:3], None, None)[:2]
    if any(isinstance(v, Computed) or (v is not None and np.size(v) != 1) for v in (low, high)):
        raise refused(node, "its bounds are computed")
    text = x.name
    if low is not None and np.isfinite(low):
        text = f"max({text}, {_number(np.asarray(low).reshape(-1)[0])})"
    if high is not None and np.isfinite(high):
        text = f"min({text}, {_number(np.asarray(high).reshape(-1)[0])})"
    return x if text == x.name else m.formula(str(node.output[0]), text, x.shape)


def _several(m: Importer, node: Any, ins: list[Any]) -> Computed:
    """Operators over several tensors, with broadcasting."""
    op, hint = node.op_type, str(node.output[0])
    computed = [i for i in ins if isinstance(i, Computed)]
    large = [a for i in ins if not isinstance(i, Computed) and (a := np.asarray(i)).size != 1]
    if len(computed) == len(large) == 1 and len(ins) == 2:
        found = _with_array(m, node, ins, computed[0], large[0])
        if found is not None:
            return found
    ins = [i if isinstance(i, Computed) or np.size(i) == 1 else held(m, node, np.asarray(i), computed[0]) for i in ins]
    computed = [i for i in ins if isinstance(i, Computed)]
    shape = broadcast([c.shape for c in computed])
    if shape is None:
        raise refused(node, "its inputs have shapes that do not go together")
    if len(computed) == len(ins) > 1 and op in _LAYERS and all(c.shape == shape for c in computed):
        return m.layer(_LAYERS[op], hint, computed, {}, shape)
    if op in _MANY and len(ins) == 1:
        return computed[0]
    texts = [i.name if isinstance(i, Computed) else _number(np.asarray(i).reshape(-1)[0]) for i in ins]
    made = m.formula(hint, _text(op, texts), shape)
    if op == "Mul" and len(computed) == 1:
        number = next(i for i in ins if not isinstance(i, Computed))
        m.factors[made.name] = (computed[0], float(np.asarray(number).reshape(-1)[0]))
    return made


def _text(op: str, texts: list[str]) -> str:
    """The formula of an operator over several tensors, as which `texts` stand."""
    if op == "PRelu":
        return f"{texts[0]} if {texts[0]} > 0 else {texts[1]} * {texts[0]}"
    if op == "Where":
        return f"{texts[1]} if {texts[0]} > 0.5 else {texts[2]}"
    if op in _COMPARED:
        return f"1.0 if {texts[0]} {_COMPARED[op]} {texts[1]} else 0.0"
    if op in _LOGIC or op in _BINARY:
        return (_LOGIC.get(op) or _BINARY[op]).format(*texts)
    if op in ("Max", "Min"):
        return f"{_MANY[op]}({', '.join(texts)})"
    return f"({' + '.join(texts)}) / {float(len(texts))}" if op == "Mean" else " + ".join(texts)


def _with_array(m: Importer, node: Any, ins: list[Any], x: Computed, array: Array) -> Computed | None:
    """One computed tensor and one constant array, as a layer that trains the array; None where there is none."""
    op, hint = node.op_type, str(node.output[0])
    after = isinstance(ins[0], Computed)
    if op == "Add":
        taken = bias_of(m, x, array) or biased(m, hint, x, array)
        if taken is not None:
            return taken
    if x.batch:
        return None
    slopes = array.reshape(-1) if array.size == 1 else _of_channels(array, x)
    if op == "PRelu" and after and slopes is not None:
        own: dict[str, Setting] = {"channels": True} if slopes.size > 1 else {}
        return m.layer("prelu", hint, [x], own, x.shape, {"weight": slopes})
    if op == "PRelu" and after:
        below = scaled(m, node, m.formula(f"{hint}_below", f"min({x.name}, 0.0)", x.shape), array)
        return m.formula(hint, f"max({x.name}, 0.0) + {below.name}", x.shape)
    if op == "Add" and len(x.shape) == 2 and array.shape in (x.shape, (1, *x.shape)):
        table = array.reshape(x.shape)
        return m.layer("positions", hint, [x], {"encoding": "trained"}, x.shape, {"weight": table})
    if op not in _AFFINE or (not after and op == "Div") or _of_channels(array, x) is None:
        return None
    one = np.ones_like(array)
    scale, shift = (-one, array) if op == "Sub" and not after else _AFFINE[op](array, one)
    return scaled(m, node, x, scale, shift)


def scaled(m: Importer, node: Any, x: Computed, scale: Array, shift: Array | None = None) -> Computed:
    """x * scale + shift, with broadcast arrays of one shape. Raises RunError (E0918)."""
    hint, y = str(node.output[0]), x
    shift = np.zeros_like(scale) if shift is None else shift
    values = [_of_channels(a, x) for a in (scale, shift)]
    if values[0] is None:  # every element of a sample becomes a channel
        try:
            values = [np.broadcast_to(a, (1, *x.shape)).reshape(-1) for a in (scale, shift)]
        except ValueError:
            raise refused(node, "its inputs have shapes that do not go together") from None
        y = m.reshape(f"{hint}_flat", x, (math.prod(x.shape),))
    assert values[0] is not None and values[1] is not None
    one, zero = np.ones(values[0].shape), np.zeros(values[0].shape)
    weights = {"weight": values[0], "bias": values[1], "running_mean": zero, "running_var": one}
    # Epsilon small enough that 1 + epsilon is 1.
    y = m.layer("batch_norm", hint, [y], {"epsilon": 1e-30}, y.shape, weights)
    return m.reshape(f"{hint}_shaped", y, x.shape)


_AFFINE: Final[Mapping[str, Callable[[Array, Array], tuple[Array, Array]]]] = MappingProxyType(
    {
        "Add": lambda v, one: (one, v),
        "Sub": lambda v, one: (one, -v),
        "Mul": lambda v, one: (v, 0 * one),
        "Div": lambda v, one: (1.0 / v, 0 * one),
    }
)
"""(scale, shift) of an operator with an array v as its second operand."""


def _of_channels(array: Array, x: Computed) -> Array | None:
    """The array as one number per channel, if it has that form."""
    rank = len(x.shape) + 1
    if array.ndim > rank or not x.shape:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if shape[0] != 1 or shape[1] != x.shape[0] or any(e != 1 for e in shape[2:]):
        return None
    return array.reshape(-1)


def bias_of(m: Importer, x: Computed, array: Array) -> Computed | None:
    """The preceding layer, with the array as its bias, if it supports one and has no other reader."""
    layer = m.made(x.name)
    names = [n for n, v in m.values.items() if isinstance(v, Computed) and v.name == x.name]
    if layer is None or layer.settings.get("bias") is not False or any(m.uses.get(n, 0) > 1 for n in names):
        return None
    if any(x.name in other.reads for other in m.layers):
        return None
    if layer.kind == "dense":
        units, last = x.shape[-1], x.lead < x.rank - 1
        fits = last and array.shape[-1:] == (units,) and array.size == units and array.ndim <= x.rank
    else:
        fits = not x.batch and layer.kind.startswith("conv") and _of_channels(array, x) is not None
    if not fits:
        return None
    del layer.settings["bias"]
    m.weights[f"{x.name}.bias"] = array.reshape(-1)
    return x
