"""The product of two layers' outputs as matrices.

Assumes: inputs of (batch, ...).
Guarantees: one contraction; leading axes are broadcast as in NumPy and PyTorch, without copies.
Does not: have weights (`dense` has).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import Field, choice
from compiler.ir.space import Affine, along
from compiler.layers.elementwise import broadcast
from compiler.layers.shared.context import PRODUCT, X0, Context, reshape
from compiler.layers.shared.keys import layer, several
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, shown
from compiler.layers.shared.onnx.graph import Writer

_AXES = {
    "none": (("i", "k"), ("k", "j")),
    "first": (("k", "i"), ("k", "j")),
    "second": (("i", "k"), ("j", "k")),
    "both": (("k", "i"), ("j", "k")),
}
"""The last axes of the factors; a list has `k` only, over which products are added."""


def _matrix(x: Shape, axes: tuple[str, str]) -> dict[str, int]:
    """The extents of the last axes by name."""
    return {"k": x[0]} if len(x) == 1 else dict(zip(axes, x[-2:], strict=True))


def _shape(p: Place, a: Shape, b: Shape) -> Result:
    word = str(p.values["transposed"])
    for x, axes, plain, of in zip((a, b), _AXES[word], _AXES["none"], ("first", "second"), strict=True):
        if not x:
            message = f"a matmul layer multiplies matrices or lists; its {of} input is a single number"
            raise Misfit(message, "`- map: {y: a * b}` multiplies by a number", "inputs")
        if len(x) == 1 and axes != plain:
            raise Misfit(f"the {of} input is a list, of the shape {shown(x)}, and not transposed", None, "transposed")
    one, two = (_matrix(x, axes) for x, axes in zip((a, b), _AXES[word], strict=True))
    if one["k"] != two["k"]:
        message = f"rows of {one['k']} elements are multiplied by columns of {two['k']}"
        raise Misfit(message, f"the shapes are {shown(a)} and {shown(b)}{_fitting(a, b)}", "inputs")
    leading = broadcast((a[:-2], b[:-2]))
    if leading is None:
        message = f"the axes before the last two of {shown(a)} and {shown(b)} do not go together"
        raise Misfit(message, "counted from the last one on, two axes have one extent, or one of them 1", "inputs")
    sides = tuple(x[name] for x, name in ((one, "i"), (two, "j")) if name in x)
    return (*leading, *sides), {} if word == "none" else {"transposed": word}


def _fitting(a: Shape, b: Shape) -> str:
    """What makes the shapes fit, if a transpose does."""
    for word in ("second", "first", "both", "none"):
        one, two = _AXES[word]
        if min(len(a), len(b)) > 1 and _matrix(a, one)["k"] == _matrix(b, two)["k"]:
            return f"; `transposed: {word}` makes them fit"
    return ""


def _axes(layer: l0.Layer) -> tuple[tuple[str, str], tuple[str, str]]:
    return _AXES[str(dict(layer.attrs).get("transposed", "none"))]


def matmul(c: Context, layer: l0.Layer, a: l1.Tensor, b: l1.Tensor) -> l1.Tensor:
    """Sums over `k`. A factor is not read along leading axes that it has once, nor along the batch if it is learned."""
    leading = layer.shape[: max(len(a.shape), len(b.shape), 3) - 3]
    outer = [("n", a.shape[0]), *((f"b{k}", extent) for k, extent in enumerate(leading))]
    matrices: dict[str, int] = {}
    operands: list[tuple[l1.Tensor, list[Affine]]] = []
    for x, axes, of in zip((a, b), _axes(layer), ("first", "second"), strict=True):
        matrix = _matrix(x.shape[1:], axes)
        ahead = x.shape[1 : len(x.shape) - len(matrix)]
        each = [(dim, e) for (dim, whole), e in zip(outer[len(outer) - len(ahead) :], ahead, strict=True) if e == whole]
        shape = (x.shape[0], *(e for _, e in each), *matrix.values())
        same = _of_all(c, x) if not operands or operands[0][0].batched else None
        x, batch = (x, shape[:1]) if same is None else (same, ())
        source = reshape(c, f"{layer.name}.{of}", x, (*batch, *shape[1:]), layer)
        operands.append((source, [along(d) for d in (*("n" for _ in batch), *(dim for dim, _ in each), *matrix)]))
        matrices |= matrix
    dims = (*outer, *((name, matrices[name]) for name in ("i", "j", "k") if name in matrices))
    out = [along(name) for name, _ in dims if name != "k"]
    return c.graph.contract(f"{layer.name}.y", dims, out, operands, PRODUCT, span=layer.span)


def _of_all(c: Context, x: l1.Tensor) -> l1.Tensor | None:
    """The array whose elements every sample of `x` has, as those of `learned`."""
    made = c.graph.made[x.name]
    alike = isinstance(made, l1.Map) and made.body == X0 and made.maps == (tuple(range(1, len(x.shape))),)
    return c.graph.tensors[made.ins[0]] if alike and isinstance(made, l1.Map) else None


def _write(w: Writer, layer: l0.Layer) -> str:
    """Matrices of one rank, as the batch is the first axis of both."""
    rank, ins = max(len(w.shape(layer, k)) for k in (0, 1)), []
    for k, (axes, plain) in enumerate(zip(_axes(layer), _AXES["none"], strict=True)):
        x, shape = w.source(layer, k), w.shape(layer, k)
        of = f"{layer.name}/{('first', 'second')[k]}"
        if axes != plain:
            order = [*range(len(shape) - 1), len(shape), len(shape) - 1]
            x, shape = w.graph.node("Transpose", [x], f"{of}/turned", {"perm": order}), (*shape[:-2], *shape[:-3:-1])
        matrix = shape if len(shape) > 1 else (1, *shape) if k == 0 else (*shape, 1)
        full = (*(1 for _ in range(rank - len(matrix))), *matrix)
        ins.append(x if full == w.shape(layer, k) or full == shape else w.graph.reshape(x, full, f"{of}/matrix"))
    y = w.graph.node("MatMul", ins, layer.name)
    return y if len(layer.shape) == max(rank, 2) else w.graph.reshape(y, layer.shape, f"{layer.name}/list")


MATMUL = LayerKind(
    layer(
        "matmul",
        "The product of two layers as matrices, of each sample for itself: the last two axes are rows and columns, "
        "axes before them are many matrices, broadcast as in NumPy and PyTorch. A list is a row as the first factor, a "
        "column as the second, and the result is without its axis.",
        Field(
            "transposed",
            choice(
                "factor",
                {"true": "`second`", "a": "`first`", "b": "`second`", "left": "`first`", "right": "`second`"},
                none="Neither.",
                first="The first: its columns are multiplied.",
                second="The second: its rows are multiplied, as are keys of attention by queries.",
                both="Both.",
            ),
            "Which factors are transposed, in their last two axes.",
            default="none",
            example="transposed: second",
        ),
        inputs=several("The two factors.", high=2),
        elsewhere={
            **dict.fromkeys(("transpose_a", "adjoint_a", "transA"), "`transposed: first`"),
            **dict.fromkeys(("transpose_b", "adjoint_b", "transB", "transpose"), "`transposed: second`"),
        },
        example="{inputs: [a, b]}",
    ),
    _shape,
    matmul,
    _write,
)
