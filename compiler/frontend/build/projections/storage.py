"""`storage`: the storage format of the connections of a family.

Assumes: a validated block of a connect rule.
Guarantees: the result is a storage of level 0 that is compatible with the rule, with the connections' values and with
their statements; anything else is an error with the reason.
Does not: choose (`auto` is kept).
"""

from __future__ import annotations

from collections.abc import Iterable

import compiler.ir.level0.model as l0
from compiler.connect import ConnectRule, Form
from compiler.connect.storage import UNSTORED, draws, kernel_fault, numbers, sums_over
from compiler.frontend.build.projections.pairs import Pairs
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.values import Context
from compiler.frontend.yaml.tree import Node, Scalar


def read_storage(rule: ConnectRule, r: Reader) -> str:
    """The storage that a rule's block asks for, `auto` without one or after an error."""
    node, asked = r.get("storage"), r.word("storage")
    if node is None:
        return asked
    problem, help = _problem(rule, asked, r)
    if problem is not None:
        r.c.sink.error("E0611", f"`{rule.keys.name}` cannot be stored as `{asked}`: {problem}", node.span, help)
        return "auto"
    return rule.implied_storage(asked)


def _problem(rule: ConnectRule, asked: str, r: Reader) -> tuple[str | None, str | None]:
    """Why the storage is incompatible with the rule, and what to write instead."""
    sparse = "use `sparse` or `auto`"
    if asked == "toeplitz" and rule.form is not Form.WINDOWS:
        return "only convolutions are Toeplitz matrices", "`conv2d` and `avg_pool2d` can; here, " + sparse
    if asked == "dense" and rule.form is not Form.ALL:
        return "`dense` holds every pair of neurons, and this rule leaves some out", sparse
    if asked == "procedural" and rule.held:
        why = f"{rule.held}, so those of one source cannot be found again at its spikes"
        return why, sparse + ("; `fixed_outdegree` can" if rule.form is Form.DRAWN else "")
    if asked == "bitmask":
        if rule.form is Form.WINDOWS:
            return "a bit for each pair has no place for the kernel's weights", "use `toeplitz`, `sparse` or `auto`"
        if rule.repeats:
            if r.flag("multapses"):
                return "one bit cannot hold a pair that is connected several times", sparse
            return "bits are drawn pair by pair, and this rule draws a number of them", sparse
    return None, None


def check_bits(storage: str, pairs: Pairs, r: Reader) -> None:
    """E0611 for a duplicate pair in a list with bitmap storage."""
    node = r.get("storage")
    if storage != "bitmask" or node is None or len(set(pairs.pairs)) == len(pairs.pairs):
        return
    message = "`pairs` cannot be stored as `bitmask`: a pair stands twice, and one bit cannot hold it"
    r.c.sink.error("E0611", message, node.span, "use `sparse` or `auto`")


def _unfit(
    synapse: l0.SynapseDef, rule: ConnectRule, storage: str, asked: str, members: Iterable[l0.Member]
) -> str | None:
    """What a synapse does that the storage cannot serve: it sums over synapses, draws without a number, or has states
    that are not those of a kernel."""
    if sums_over(synapse):
        return f"connections stored as `{asked}` are not found by their targets, but `{synapse.name}` sums over them"
    if draws(synapse) and not numbers(rule, storage):
        return f"connections stored as `{asked}` have no number, by which `{synapse.name}` could draw"
    fault = kernel_fault(synapse) if synapse.state and storage == "toeplitz" else None
    if synapse.state and storage == "toeplitz" and fault is None:
        drawn = any(isinstance(v, l0.Distribution | l0.Placed) for m in members for _, v in m.init)
        fault = "what they begin with is drawn, or follows from places" if drawn else None
    if fault is None:
        return None
    shared = f"connections stored as `{asked}` share the elements of a kernel"
    return f"{shared}, but states of `{synapse.name}` are one for each synapse: {fault}"


def check_values(
    rule: ConnectRule,
    storage: str,
    members: Iterable[l0.Member],
    synapse: l0.SynapseDef | None,
    given: tuple[Node | None, ...],
    c: Context,
) -> None:
    """E0611 for per-connection values, and for statements that need more than the storage has. `given`: the weight, the
    delay, the synapse, the storage and the back delay in the file."""
    if storage not in UNSTORED:
        return
    weight, delay, model, written, back_delay = given
    asked = written.text if isinstance(written, Scalar) else storage
    found: tuple[str, Node | None] | None = None
    if synapse is not None:
        wrong = _unfit(synapse, rule, storage, asked, members)
        if wrong is not None:
            c.sink.error("E0611", wrong, None if model is None else model.span, "use `storage: sparse`")
            return
        if synapse.state and storage != "toeplitz":
            found = f"the synapse `{synapse.name}`", model
    again = storage == "procedural" and synapse is None and rule.ordered
    for m in members:
        drawn = again and isinstance(m.weight, l0.Distribution)  # regenerated, as the connections are
        if storage != "toeplitz" and not (isinstance(m.weight, l0.Const | l0.Placed) or drawn):
            found = found or ("the weight", weight)
        for what, each, node in (("the delay", m.delays, delay), ("the back delay", m.back_delays, back_delay)):
            found = found or (None if each is None else (what, node))
        if storage != "toeplitz" and any(not isinstance(v, l0.Const | l0.Placed) for _, v in m.params):
            found = found or ("a parameter of the synapse", model)
    if found is not None:
        message = f"connections stored as `{asked}` have nothing of their own, but {found[0]} is one for each"
        help = "use `storage: sparse`, or one value for all"
        c.sink.error("E0611", message, None if found[1] is None else found[1].span, help)
