"""Projections between parts of populations.

Assumes: the ends, the rule and the members of a family are known.
Guarantees: what cannot be drawn between parts is refused; of an expression rule, the condition says which neurons are
meant, and the members have all.
Does not: draw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.connect import Form
from compiler.connect.storage import Asked, Need
from compiler.core.source import Span
from compiler.expr.ast import Bool, Cond, Expr, Num, Ref, refs, substitute
from compiler.frontend.build.projections.connect import Connectivity
from compiler.frontend.build.projections.storage import report
from compiler.frontend.build.spiking.family import Family

Names = tuple[str, ...] | None
MOST_RUNS: Final = 64
"""Runs of indices in the condition of an expression rule."""


def check_parts(
    connection: Connectivity, synapse: l0.SynapseDef | None, members: list[l0.Member], family: Family, at: Span
) -> None:
    """E0611 and E0802 for what parts of populations cannot have."""
    rule, sink = connection.rule, family.c.sink
    some = next((m for m in members if m.parts != (None, None)), None)
    if some is None:
        return
    if rule.form in (Form.GIVEN, Form.WINDOWS):
        message = f"`{rule.keys.name}` says itself which neurons it connects, so that no part can be chosen"
        sink.error("E0802", message, at, "name whole populations")
    elif (
        not report(connection.storage, Asked(rule, members=members), (Need.PARTS,), connection.span, sink)
        and synapse is not None
        and synapse.rewired is not None
    ):
        message = f"`{synapse.name}` forms synapses with any neuron of a population, so that no part can be chosen"
        sink.error("E0802", message, at, "give the part a population of its own")
    for m in members:
        if m.source != m.target or dict(m.args).get("autapses", 1) or rule.expression:
            continue
        if _have_common(m.parts):
            message = f"parts of `{m.source}` have neurons in common, which `autapses: false` cannot tell apart"
            help = "use `rule: {when: i != j}` in an entry of its own, or parts that are equal or distinct"
            sink.error("E0802", message, at, help)
            return


def have_common(sources: Names, targets: Names, family: Family) -> bool:
    """Whether source and target are different parts of one population, with neurons in common."""
    if sources is None or sources != targets or len(sources) != 1:
        return False
    return _have_common(family.parts(sources[0], sources[0]))


def _have_common(parts: tuple[l0.Subset | None, l0.Subset | None]) -> bool:
    """Whether parts of one population (None: all of it) differ, and have neurons in common."""
    one, two = parts
    return one != two and (one is None or two is None or one.overlaps(two))


def within_parts(
    connection: Connectivity, sources: Names, targets: Names, family: Family, at: Span
) -> Connectivity | None:
    """The connectivity of an expression rule under the condition that `i` and `j` are in the parts; None on errors."""
    parts = (*family.parts_from.values(), *family.parts_to.values())
    if connection.probability is None or not parts:
        return connection
    ends = ((sources, family.parts_from), (targets, family.parts_to))
    several = any(found and len(names or ()) > 1 for names, found in ends)
    if several or sum(len(p.runs) for p in parts) > MOST_RUNS:
        what = (
            "one of several populations has a part"
            if several
            else f"the part has more than {MOST_RUNS} runs of indices"
        )
        message = f"{what}, for which an expression cannot decide"
        help = "write an entry for each of them" if several else "write the condition as `when`, with `x_i` or `x_j`"
        family.c.sink.error("E0802", message, at, help)
        return None
    inside: Expr = Bool(True)
    sizes: dict[str, Expr] = {}
    for index, end, found in (("i", "from", family.parts_from), ("j", "to", family.parts_to)):
        for part in found.values():
            one_of: Expr = Bool(False)
            for first, last in part.runs:
                one_of = one_of | ((Ref(index) >= first) & (Ref(index) <= last))
            inside = inside & one_of
            sizes[f"n_{end}"] = Num(part.size)
    p = substitute(connection.probability, {n: e for n, e in sizes.items() if n in refs(connection.probability)})
    return replace(connection, probability=inside & p if connection.condition else Cond(inside, p, Num(0.0)))
