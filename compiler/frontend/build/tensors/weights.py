"""`network: {weights: file.safetensors}`: the source file of the weights.

Assumes: the network's block.
Guarantees: the file exists; its path is absolute.
Does not: read it: names and shapes of weights are known once the network is lowered
(compiler/runtime/artifacts/safetensors.py compares them).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.frontend.build.shared.data_files import locate
from compiler.frontend.build.shared.values import Context
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar


def read_weights(block: tree.Mapping, c: Context) -> l0.FromFile | None:
    """The file of a network's `weights`; None without the key, where others replace it, or (E0701) where it does not
    exist."""
    node = block.get("weights")
    if not isinstance(node, Scalar) or "weights" in c.unread:
        return None
    path = locate(node, c)
    return None if path is None else l0.FromFile(str(path), None, span=node.span)
