"""What the weights of a network begin with: a file, for all layers or for a part of them.

Assumes: the layers of the network are built.
Guarantees: a named layer exists and has weights of its own; something is left that the file gives.
Does not: open the file (compiler/runtime/artifacts/safetensors.py does).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.frontend.build.shared.data_files import locate
from compiler.frontend.build.shared.values import Context, items_of
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Mapping, Scalar
from compiler.layers import KIND
from compiler.layers.shared.context import arrays_of


def build_initial_weights(block: tree.Mapping, layers: list[l0.Layer], inputs: dict[str, l0.TensorInput], c: Context
) -> l0.InitialWeights | None:  # fmt: skip
    """A network's `weights`; None without the key, where others replace it, and after an error (E0201, E0501; E0701
    where the file does not exist)."""
    node = block.get("weights")
    if node is None or "weights" in c.unread:
        return None
    file = node.get("file") if isinstance(node, Mapping) else node
    if not isinstance(file, Scalar):
        return None
    path = locate(file, c)
    part = _part(node, layers, inputs, c) if isinstance(node, Mapping) else None
    return None if path is None else l0.InitialWeights(l0.FromFile(str(path), None, span=file.span), part)


def own_arrays(
    layer: l0.Layer, layers: list[l0.Layer], inputs: dict[str, l0.TensorInput]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all arrays that a layer trains or averages if it shares none, by the part of their names."""
    made = {x.name: x for x in layers}
    sources = [inputs.get(n) or l0.TensorInput(n, made[n].shape, "real") for n in layer.inputs]
    return arrays_of(KIND[layer.kind].lower, layer, sources)


def _own(layer: l0.Layer, layers: list[l0.Layer], inputs: dict[str, l0.TensorInput]) -> set[str]:
    return own_arrays(layer, layers, inputs).keys() - dict(layer.shared).keys()


def _part(
    node: tree.Mapping, layers: list[l0.Layer], inputs: dict[str, l0.TensorInput], c: Context
) -> tuple[str, ...] | None:
    """The layers whose weights the file gives."""
    made = {x.name: x for x in layers}
    key = "only" if "only" in node else "except"
    at = node.get(key)
    items = [at] if isinstance(at, Scalar) else [n for n in items_of(at) if isinstance(n, Scalar)]
    named = []
    before = len(c.sink.items)
    for item in items:
        layer = made.get(item.text)
        if layer is None:
            known = [x.name for x in layers if KIND[x.kind].trained(x)]
            help = suggested(item.text, "layers with weights are", known)
            c.sink.error("E0201", f"the layer `{item.text}` does not exist", item.span, help)
        elif not _own(layer, layers, inputs):
            owners = ", ".join(sorted({f"`{name.split('.', 1)[0]}`" for _, name in layer.shared}))
            help = f"name {owners}, whose weights it shares" if owners else "leave it out"
            c.sink.error("E0501", f"the layer `{item.text}` has no weights of its own", item.span, help)
        named.append(item.text)
    given = tuple(x.name for x in layers if (x.name in named) == (key == "only"))
    if at is not None and not c.sink.failed(before) and not any(_own(made[n], layers, inputs) for n in given):
        c.sink.error("E0501", "no layer is left whose weights the file gives", at.span, "leave `weights` out")
    return given
