"""Legality of level 1: projections.

Assumes: the family is legal at level 0.
Guarantees: every breach is named.
  storage   one that can hold what the family asks for (compiler/connect/storage.py)
  shared    of convolutions alone
  known     a delivery that reads params, `dt` and params of the model, of synapses that do nothing else
Does not: repeat level 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import compiler.ir.level1.projections as l1
from compiler.connect import Form, rule_of
from compiler.connect.storage import STORAGES, asked_by, refused
from compiler.core.symbols import symbol
from compiler.expr.ast import refs


def projection_violations(p: l1.StoredProjection) -> Iterator[str]:
    """Every breach of the spec by a projection."""
    if p.storage not in STORAGES:
        yield f"the storage is `{p.storage}`"
        return
    wrong = refused(p.storage, asked_by(p.family))
    if wrong is not None:
        yield wrong.message
    if p.shared and rule_of(p.family).form is not Form.WINDOWS:
        yield f"synapses of `{p.family.rule}` share elements of a kernel"
    if p.known is not None:
        s = p.family.statements
        names = {symbol(x.name) for x in s.params} if p.family.synapse is not None else {"weight"}
        read = refs(p.known) - {"dt", *names, *map(symbol, s.model_params)}
        yield from (f"what is delivered reads `{name}`" for name in sorted(read))
        if s.state or len(s.actions) > 1:
            yield f"the synapse `{s.name}` does more than deliver"
