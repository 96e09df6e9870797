"""pad_rows: factors of products are stored with space between their rows, where the copy engine needs it.

It fetches matrices whose rows begin at multiples of 16 bytes (compiler/strategies/cuda/stored_products.py): rows of
50,257 words of bf16 do not, in arrays of 50,264 columns they do. What lies between the rows is never read.

Assumes: gather form, after pack_windows; a target without lanes; reals are float32.
Guarantees: only the strides of tensors change (l1.Tensor.pitch), of those alone that Maps and Contracts of this graph
make, and read, and that the host does not: where products are faster so by estimate, by more than MARGIN.
Does not: pad weights, which are the host's (their rounded copies are not), or tensors that are reshaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Capabilities
from compiler.passes.program.decisions import Decision
from compiler.strategies import Choice, in_rows
from compiler.strategies.cuda import stored_products

NAME: Final = "pad_rows"
ROW: Final = MappingProxyType({"bf16": 8, "real": 4})
"""Elements of which a padded row has a multiple, 16 bytes, by the type of the tensor."""
MARGIN: Final = 0.8


def pad_rows(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], target: Capabilities
) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph with padded tensors, and a decision for each. `outputs`: tensors that the host reads."""
    tensors = l1.tensors_of(nodes)
    padded = {name: _padded(tensors[name]) for name in _free(nodes, outputs, tensors)}
    wanted, decisions = dict[str, l1.Tensor](), list[Decision]()
    for node in nodes:
        if isinstance(node, l1.Contract) and any(n in padded for n in node.ins):
            before, after = (in_rows(node, known, target) for known in (tensors, {**tensors, **padded}))
            if after is not None and _is_better(after, before):
                told = f" in place of {before.strategy}" if before is not None else ""
                why = f"{node.out.name} is computed by {after.strategy} so{told}"
                for name in sorted({*node.ins} & padded.keys() - wanted.keys()):
                    wanted[name] = padded[name]
                    decisions.append(Decision(NAME, name, f"rows of {padded[name].pitch}", why))
    made = (replace(n, out=wanted.get(n.out.name, n.out)) if isinstance(n, _MAKERS) else n for n in nodes)
    return tuple(made), tuple(decisions)


_MAKERS: Final = l1.Map | l1.Contract
_READERS: Final = l1.Map | l1.Contract | l1.Move


def _free(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], tensors: Mapping[str, l1.Tensor]) -> set[str]:
    """Tensors of bf16 whose rows begin anywhere, and whose strides are nobody's concern."""
    found = {n.out.name for n in nodes if isinstance(n, _MAKERS)} - {*outputs}
    found = {n for n in found if tensors[n].dtype in ROW and len(tensors[n].shape) > 1 and not tensors[n].windows}
    for node in nodes:
        if not isinstance(node, _READERS):
            found -= {*l1.operands(node)}
    return {n for n in found if tensors[n].shape[-1] % ROW[tensors[n].dtype]}


def _padded(tensor: l1.Tensor) -> l1.Tensor:
    row = ROW[tensor.dtype]
    return replace(tensor, pitch=-(-tensor.shape[-1] // row) * row)


def _is_better(after: Choice, before: Choice | None) -> bool:
    """Whether the copy engine can be had for the space: it is faster than what has no estimate."""
    if after.strategy not in stored_products.BYTES or before is None or before.strategy in stored_products.BYTES:
        return False
    return not before.microseconds or after.microseconds < MARGIN * before.microseconds
