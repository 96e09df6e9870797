"""Rules with a fixed number of connections: of each target, of each source, or of both populations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compiler.connect.drawing import DRAWN, SKIP, SOURCE, TARGET, Numbered, past
from compiler.connect.keys import AUTAPSES, FLAGS, MULTAPSES, rule
from compiler.connect.rule import Args, ConnectRule, Ends, Form, Misfit, Place
from compiler.expr.ast import Num, Ref
from compiler.expr.keys.kinds import Field, required
from compiler.expr.keys.values import COUNT

_NUMBERS = {"n": "`number`", "N": "`number`", "total": "`number`", "count": "`number`"}
_DEGREES = {"indegree": "`number`", "outdegree": "`number`", "k": "`number`"}
_COLUMNS = ("number", "multapses", "autapses", "same")
_N_PRE, _N_POST, _NUMBER = Ref("n_pre"), Ref("n_post"), Ref("number")
_A, _B = DRAWN

Pool = Callable[[Place], tuple[int, str]]
"""How many partners there are to draw from, and a sentence that says so."""


def _number(doc: str, bits: int = COUNT.bits) -> Field:
    doc += " `n_from` and `n_to` are the sizes of the two populations."
    example = "number: 10000" if bits > COUNT.bits else "number: 100"
    return required("number", replace(COUNT, bits=bits), doc, example=example)


def _within(pool: Pool) -> Callable[[Place], Args | None]:
    """The arguments, where `number` partners can be drawn."""

    def arguments(p: Place) -> Args | None:
        n, (size, sentence) = p.values["number"], pool(p)
        if n > 0 and size == 0:
            message = f"`{p.source.name}` has one neuron, which has no other to connect to"
            raise Misfit("E0604", message, "leave `autapses: false` out", "number")
        if n > size and not p.values["multapses"]:
            message = f"`number` is {n:,}, but {sentence}, and `multapses: false` takes each at most once"
            raise Misfit("E0106", message, "a smaller number, or `multapses: true`", "number", (p.source, p.target))
        return tuple(p.values.items())

    return arguments


def _sources(p: Place) -> tuple[int, str]:
    size, other = p.source.size - p.hole, " but itself" if p.hole else ""
    return size, f"each neuron of `{p.target.name}` has {size:,} possible sources in `{p.source.name}`{other}"


def _targets(p: Place) -> tuple[int, str]:
    size, other = p.target.size - p.hole, " but itself" if p.hole else ""
    return size, f"each neuron of `{p.source.name}` has {size:,} possible targets in `{p.target.name}`{other}"


def _all_pairs(p: Place) -> tuple[int, str]:
    size, other = (p.target.size - p.hole) * p.source.size, " without autapses" if p.hole else ""
    return size, f"there are {size:,} pairs of neurons of `{p.source.name}` and `{p.target.name}`{other}"


def _degree(name: str, of: str, word: str, pool: Pool, count: Callable[[Ends], float]) -> ConnectRule:
    """`fixed_indegree` and `fixed_outdegree`."""
    keys = rule(
        name,
        f"A fixed number of {word} connections of every {of} neuron, whose partners are drawn uniformly.",
        _number(f"The number of connections of each {of} neuron."),
        MULTAPSES,
        AUTAPSES,
        elsewhere=_NUMBERS | FLAGS | _DEGREES,
    )
    return ConnectRule(keys, Form.DRAWN, count, _within(pool), _COLUMNS, amount="number")


FIXED_INDEGREE = replace(
    _degree("fixed_indegree", "target", "incoming", _sources, lambda e: int(e.args["number"]) * e.post.size),
    drawing=Numbered("j", _N_POST, _NUMBER, past(_A, TARGET), TARGET, (_N_PRE - SKIP,)),
    held="its connections are drawn target by target",
    synonyms=dict.fromkeys(("indegree", "fixed_number_pre"), "`fixed_indegree: {number: ...}`"),
)

FIXED_OUTDEGREE = replace(
    _degree("fixed_outdegree", "source", "outgoing", _targets, lambda e: int(e.args["number"]) * e.pre.size),
    drawing=Numbered("i", _N_PRE, _NUMBER, SOURCE, past(_A, SOURCE), (_N_POST - SKIP,)),
    ordered=False,
    synonyms=dict.fromkeys(("outdegree", "fixed_number_post"), "`fixed_outdegree: {number: ...}`"),
)

FIXED_TOTAL = ConnectRule(
    rule(
        "fixed_total",
        "A fixed number of connections, whose pairs are drawn uniformly. By default with replacement: a pair may "
        "be connected several times, a neuron with itself too.",
        _number("The number of connections.", 53),
        MULTAPSES,
        AUTAPSES,
        elsewhere=_NUMBERS | FLAGS,
    ),
    Form.DRAWN,
    lambda e: e.args["number"],
    _within(_all_pairs),
    _COLUMNS,
    drawing=Numbered("", Num(1), _NUMBER, _A, past(_B, _A), (_N_PRE, _N_POST - SKIP)),
    amount="number",
    held="its connections are drawn for all sources together",
    synonyms={"fixed_total_number": "`fixed_total: {number: ...}`"},
)
