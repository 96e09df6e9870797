"""Rules that connect the same pairs whatever their numbers: `all_to_all` and `one_to_one`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.connect.drawing import PLACE, SKIP, SOURCE, Numbered, past
from compiler.connect.keys import AUTAPSES, rule
from compiler.connect.rule import Args, ConnectRule, Ends, Form, Misfit, Place
from compiler.expr.ast import Bool, Cond, Num, Ref
from compiler.expr.keys.kinds import switch

_NOT_ITSELF = switch(
    "autapses",
    "Whether a population connects to itself, so that each of its neurons has an autapse. With `false` a projection "
    "between several populations leaves these pairs of populations out.",
    True,
)


def _one_size(p: Place) -> Args | None:
    n, m = p.source.size, p.target.size
    if p.hole:
        return None
    if n != m:
        message = (
            f"`one_to_one` needs populations of one size: `{p.source.name}` has {n:,}, `{p.target.name}` has {m:,}"
        )
        raise Misfit("E0604", message, places=(p.source, p.target))
    return ()


def _bits(bits: npt.NDArray[np.bool_], e: Ends) -> npt.NDArray[np.bool_]:
    if e.hole:
        np.fill_diagonal(bits, False)
    return bits


ALL_TO_ALL = ConnectRule(
    rule("all_to_all", "Every source neuron to every target neuron.", AUTAPSES),
    Form.ALL,
    lambda e: e.pairs,
    columns=("autapses", "same"),
    drawing=Numbered("i", Ref("n_pre"), Ref("n_post") - SKIP, SOURCE, past(PLACE, SOURCE)),
    bits=lambda e: _bits(np.ones((e.pre.size, e.post.size), np.bool_), e),
    each=Bool(True),
    synonyms={"dense": "`all_to_all: {}`", "full": "`all_to_all: {}`"},
)

ONE_TO_ONE = ConnectRule(
    rule("one_to_one", "Neuron i to neuron i; both populations have one size.", _NOT_ITSELF),
    Form.DIAGONAL,
    lambda e: min(e.pre.size, e.post.size),
    _one_size,
    drawing=Numbered("i", Cond(Ref("n_pre") < Ref("n_post"), Ref("n_pre"), Ref("n_post")), Num(1), SOURCE, SOURCE),
    bits=lambda e: _bits(np.eye(e.pre.size, e.post.size, dtype=np.bool_), e),
)
