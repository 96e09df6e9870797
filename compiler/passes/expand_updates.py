"""expand_updates: the optimizer, written as text in the model, instantiated on every weight.

Assumes: statements over `param`, `gradient`, `step` (from 1), the optimizer's params and its state.
Guarantees: one Update per weight, all with the same statements, so that they become one kernel and one launch.
Does not: order or fuse them.
"""

from __future__ import annotations

from compiler.ir.graph import Tensor, Update
from compiler.ir.model import OptimizerDef
from compiler.passes.graph_builder import GraphBuilder


def expand_updates(g: GraphBuilder, optimizer: OptimizerDef, gradients: dict[str, Tensor]) -> None:
    """Appends an Update for each weight, in the order in which weights are defined."""
    for name in [n for n in g.tensors if n in gradients]:
        g.add(
            Update(
                name,
                gradients[name].name,
                optimizer.params,
                optimizer.state,
                optimizer.update,
                optimizer.span,
            )
        )
