"""permissions: the strategies whose products are as exact as a model requires.

Assumes: each strategy says what it needs (compiler/strategies/strategy.py).
Guarantees: one that rounds factors, or that is a library of another maker, is taken only where `numerics: {products:
...}` permits it.
Does not: know what a target can do.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.ir.level2.target import Capabilities
from compiler.strategies import every, spread_rnn
from compiler.strategies.cuda import fused_attention
from compiler.strategies.strategy import PRODUCTS


def permitted(capabilities: Capabilities, numerics: l0.Numerics) -> Capabilities:
    """The target restricted to strategies whose products are as exact as the model requires."""
    most = PRODUCTS.index(numerics.products)
    named = [(s.name, s.products) for s in every()]
    named += [(w.name, w.products) for w in fused_attention.WAYS] + [(w.name, w.products) for w in spread_rnn.WAYS]
    out = {name for name, products in named if PRODUCTS.index(products) > most}
    return replace(capabilities, strategies=capabilities.strategies - out)
