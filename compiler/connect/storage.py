"""Storages of connections, and the one table of what each of them can hold: STORAGES.

Assumes: rules (compiler/connect) and families of level 0.
Guarantees: frontend, verifier, passes, estimates of memory and docs/connectivity.md read the same table: what a family
asks of a storage (Need), and why a storage refuses it (Refusal). `auto` is chosen from the table, too.
Does not: find places in the file (frontend/build/projections/storage.py), or make arrays (passes/relations).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.connect import ConnectRule, Form, rule_of
from compiler.expr.ast import refs, substitute
from compiler.expr.inline import named
from compiler.expr.simplify import has_random
from compiler.ir.level2.synapse_values import COUNTED, has_sums


class Need(Enum):
    """What a family may ask of its storage, in the order in which a lack of it is reported; the value: in words."""

    NOT_ALL = "a rule that leaves pairs out"
    NOT_DIAGONAL = "a rule that is not one to one"
    NO_KERNEL = "a rule that is no convolution"
    KERNEL = "weights of a kernel"
    FOLLOWS = "pairs that follow from positions"
    TOGETHER = "connections that are drawn for all sources together"
    GIVEN = "given pairs"
    MULTAPSES = "pairs that are connected several times"
    NUMBER = "a number of connections that is drawn at once"
    TWICE = "a given pair that stands twice"
    PARTS = "parts of populations"
    REWIRED = "synapses that are rewired"
    SUMS = "sums over synapses"
    DRAWS = "synapses that draw numbers"
    DRAWS_UNORDERED = "synapses that draw numbers, of `fixed_outdegree`"
    STATES = "a state of each synapse"
    KERNEL_STATES = "states that events of phases alone change, alike at all positions"
    AT_TARGETS = "statements at events of targets"
    WEIGHTS = "a weight of each synapse"
    DRAWN_WEIGHTS = "weights without a synapse model that are drawn"
    DELAYS = "a delay of each synapse"
    BACK_DELAYS = "a back delay of each synapse"
    PARAMS = "a parameter of each synapse"


@dataclass(frozen=True)
class Asked:
    """What is to be stored: a rule, and what is known of the family that has it. `multapses`: a pair may be connected
    several times; `pairs`: those of the user."""

    rule: ConnectRule
    multapses: bool = False
    pairs: Sequence[tuple[int, int]] = ()
    synapse: l0.SynapseDef | None = None
    members: Sequence[l0.Member] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a storage cannot hold something, and what to write instead. Both may name `{rule}`, `{asked}` (the storage
    in the file), `{synapse}` and `{why}` (what the need says of itself)."""

    message: str
    help: str
    code: str = "E0611"


class Choice(Enum):
    """What is possible, but not chosen for `auto`."""

    ASKED = "where asked for"


Cell = Refusal | Choice


@dataclass(frozen=True)
class Storage:
    """`holds`: in words; `cells`: what is refused, or not chosen unasked; all else is held. `by_target`: synapses of a
    target are found without a look at all; `instead`: what the name means for rules of a form; `written`: a name of the
    language."""

    name: str
    holds: str
    cells: Mapping[Need, Cell] = field(default_factory=dict, hash=False)
    by_target: bool = True
    instead: Mapping[Form, str] = field(default_factory=dict, hash=False)
    written: bool = True


# ------------------------------------------------------------------------------------------ the table

_SPARSE: Final = "use `sparse` or `auto`"
_STORE: Final = "use `storage: sparse`"


def _rule(why: str, help: str = _SPARSE) -> Refusal:
    return Refusal(f"`{{rule}}` cannot be stored as `{{asked}}`: {why}", help)


def _own(what: str) -> Refusal:
    message = f"connections stored as `{{asked}}` have nothing of their own, but {what} is one for each"
    return Refusal(message, "use `storage: sparse`, or one value for all")


_PARTS: Final = Refusal(
    "connections of parts are stored one by one, but the storage here is `{storage}`",
    "use `storage: sparse` or leave it out",
)
_REWIRED: Final = Refusal(
    "synapses that are rewired are stored one by one, but the storage here is `{storage}`",
    "use `storage: sparse` or leave it out",
    "E0802",
)
_SUMS: Final = Refusal(
    "connections stored as `{asked}` are not found by their targets, but `{synapse}` sums over them", _STORE
)
_DRAWS: Final = Refusal("connections stored as `{asked}` have no number, by which `{synapse}` could draw", _STORE)
_STATES: Final = Refusal(
    "connections stored as `{asked}` share the elements of a kernel, but states of `{synapse}` are one for each"
    " synapse: {why}",
    _STORE,
)
_TOGETHER: Final = "{why}, so those of one source cannot be found again at its spikes"
_NO_KERNEL: Final = _rule("only convolutions are Toeplitz matrices", f"`conv2d` and `avg_pool2d` can; here, {_SPARSE}")

_ONE_BY_ONE: Final[Mapping[Need, Cell]] = {Need.PARTS: _PARTS, Need.REWIRED: _REWIRED}
_FROM_SOURCES: Final[Mapping[Need, Cell]] = {
    **_ONE_BY_ONE,
    Need.SUMS: _SUMS,
    Need.DELAYS: _own("the delay"),
    Need.BACK_DELAYS: _own("the back delay"),
}
_NOTHING_OWN: Final[Mapping[Need, Cell]] = {
    **_FROM_SOURCES,
    Need.STATES: _own("the synapse `{synapse}`"),
    Need.KERNEL_STATES: _own("the synapse `{synapse}`"),
    Need.WEIGHTS: _own("the weight"),
    Need.PARAMS: _own("a parameter of the synapse"),
}

STORAGES: Final[Mapping[str, Storage]] = MappingProxyType(
    {
        s.name: s
        for s in (
            Storage(
                "dense",
                "nothing but values",
                {
                    Need.NOT_ALL: _rule("`dense` holds every pair of neurons, and this rule leaves some out"),
                    **_ONE_BY_ONE,
                },
            ),
            Storage(
                "one_to_one",
                "nothing but values",
                {Need.NOT_DIAGONAL: _rule("its pairs are not those of equal numbers"), **_ONE_BY_ONE},
                written=False,
            ),
            Storage(
                "toeplitz",
                "the kernel",
                {
                    Need.NO_KERNEL: _NO_KERNEL,
                    **_FROM_SOURCES,
                    Need.DRAWS: _DRAWS,
                    Need.DRAWS_UNORDERED: _DRAWS,
                    Need.STATES: _STATES,
                    Need.KERNEL_STATES: Choice.ASKED,
                    Need.AT_TARGETS: Choice.ASKED,
                },
                by_target=False,
            ),
            Storage("sparse", "4 bytes a connection, and its own values"),
            Storage(
                "bitmask",
                "one bit a pair; one weight, or by place, and one delay for all",
                {
                    Need.KERNEL: _rule(
                        "a bit for each pair has no place for the kernel's weights",
                        "use `toeplitz`, `sparse` or `auto`",
                    ),
                    Need.MULTAPSES: _rule("one bit cannot hold a pair that is connected several times"),
                    Need.NUMBER: _rule("bits are drawn pair by pair, and this rule draws a number of them"),
                    Need.TWICE: _rule("a pair stands twice, and one bit cannot hold it"),
                    **_NOTHING_OWN,
                    Need.DRAWS: _DRAWS,
                    Need.DRAWS_UNORDERED: _DRAWS,
                    Need.DRAWN_WEIGHTS: _own("the weight"),
                },
                by_target=False,
            ),
            Storage(
                "procedural",
                "nothing: drawn again at every spike",
                {
                    Need.FOLLOWS: _rule("its pairs follow from positions, and are not drawn"),
                    Need.TOGETHER: _rule(_TOGETHER, f"{_SPARSE}; `fixed_outdegree` can"),
                    Need.GIVEN: _rule(_TOGETHER),
                    **_NOTHING_OWN,
                    Need.DRAWS_UNORDERED: _DRAWS,
                },
                by_target=False,
                instead={Form.WINDOWS: "toeplitz", Form.ALL: "dense", Form.DIAGONAL: "auto"},
            ),
        )
    }
)
"""In the order in which `auto` takes the first that holds everything unasked; `sparse` does."""


# ------------------------------------------------------------------------------------------ needs


def kernel_fault(synapse: l0.SynapseDef) -> str | None:
    """Why the states of a synapse cannot be those of the elements of a kernel, which its synapses share; None where
    they can: events of phases alone change them, in the same way at all positions."""
    states = {x.name for x in synapse.state}
    at_spikes = (*synapse.update, *synapse.on_pre, *synapse.on_post, *(a for e in synapse.events for a in e.actions))
    if synapse.dynamics or any(isinstance(a, l0.Set) and a.target in states for a in at_spikes):
        return "they change beside events of phases"
    for handler in synapse.on:
        if not any(isinstance(a, l0.Set) and a.target in states for a in handler.actions):
            continue
        if not all(isinstance(a, l0.Set) for a in handler.actions):
            return f"`{handler.phase}.{handler.event}` does more than change them"
        inner = named(synapse.lets)
        values = [substitute(value, inner) for value in l0.values_of(handler.actions)]
        read = set[str]().union(*(refs(value) for value in values))
        own = {n for n in read if n.partition(".")[0] in ("pre", "post") or n in COUNTED}
        if own or any(has_sums(value) for value in values):
            return f"what changes them at `{handler.phase}.{handler.event}` differs from synapse to synapse"
    return None


def _states_fault(a: Asked) -> str | None:
    """Why states are one for each synapse; None where there are none, or where a kernel's elements have them."""
    if a.synapse is None or not a.synapse.state:
        return None
    if a.rule.form is not Form.WINDOWS:
        return "there is no kernel"
    fault = kernel_fault(a.synapse)
    if fault is None and any(isinstance(v, l0.Distribution | l0.Placed) for m in a.members for _, v in m.init):
        return "what they begin with is drawn, or follows from places"
    return fault


def _kernel_states(a: Asked) -> bool:
    return a.synapse is not None and bool(a.synapse.state) and _states_fault(a) is None


def _at_targets(a: Asked) -> bool:
    s = a.synapse
    return s is not None and (bool(s.on_post) or any(e.end == "post" and e.actions for e in s.events))


def _draws(a: Asked) -> bool:
    return a.synapse is not None and any(has_random(e) for e in a.synapse.values)


def _one_for_all(value: l0.Value) -> bool:
    return isinstance(value, l0.Const | l0.Placed)


def _redrawn(weight: l0.Value, a: Asked) -> bool:
    """Whether a weight may be drawn again at every event, by the number of its synapse."""
    return a.synapse is None and a.rule.ordered and isinstance(weight, l0.Distribution)


def _own_weights(a: Asked) -> bool:
    return any(not _one_for_all(m.weight) and not _redrawn(m.weight, a) for m in a.members)


def _own_params(a: Asked) -> bool:
    return any(not _one_for_all(v) for m in a.members for _, v in m.params)


_ASKS: Final[Mapping[Need, Callable[[Asked], bool | str | None]]] = {
    Need.NOT_ALL: lambda a: a.rule.form is not Form.ALL,
    Need.NOT_DIAGONAL: lambda a: a.rule.form is not Form.DIAGONAL,
    Need.NO_KERNEL: lambda a: a.rule.form is not Form.WINDOWS,
    Need.KERNEL: lambda a: a.rule.form is Form.WINDOWS,
    Need.FOLLOWS: lambda a: a.rule.form in (Form.ALL, Form.DIAGONAL, Form.WINDOWS),
    Need.TOGETHER: lambda a: a.rule.form is Form.DRAWN and a.rule.held,
    Need.GIVEN: lambda a: a.rule.form is Form.GIVEN and a.rule.held,
    Need.MULTAPSES: lambda a: a.multapses,
    Need.NUMBER: lambda a: a.rule.repeats,
    Need.TWICE: lambda a: len(set(a.pairs)) < len(a.pairs),
    Need.PARTS: lambda a: any(m.parts != (None, None) for m in a.members),
    Need.REWIRED: lambda a: a.synapse is not None and a.synapse.rewired is not None,
    Need.SUMS: lambda a: a.synapse is not None and any(has_sums(e) for e in a.synapse.values),
    Need.DRAWS: _draws,
    Need.DRAWS_UNORDERED: lambda a: not a.rule.ordered and _draws(a),
    Need.STATES: _states_fault,
    Need.KERNEL_STATES: _kernel_states,
    Need.AT_TARGETS: _at_targets,
    Need.WEIGHTS: _own_weights,
    Need.DRAWN_WEIGHTS: lambda a: any(_redrawn(m.weight, a) for m in a.members),
    Need.DELAYS: lambda a: any(m.delays is not None for m in a.members),
    Need.BACK_DELAYS: lambda a: any(m.back_delays is not None for m in a.members),
    Need.PARAMS: _own_params,
}
"""Whether a family has a need, and why where that is said."""

OF_RULES: Final = tuple(Need)[: tuple(Need).index(Need.TWICE) + 1]
"""Needs that follow from the rule, its settings and its pairs."""


def asked_by(projection: l0.Projection) -> Asked:
    """What is to be stored of a family of level 0."""
    multapses = any(dict(m.args).get("multapses") for m in projection.members[:1])
    pairs = next((pairs for pairs in projection.pair_lists if len(set(pairs)) < len(pairs)), ())
    return Asked(rule_of(projection), multapses, pairs, projection.synapse, projection.members)


# ------------------------------------------------------------------------------------------ answers


@dataclass(frozen=True)
class Refused:
    """A need that a storage refuses, with the texts for this family."""

    need: Need
    code: str
    message: str
    help: str


def refused(
    storage: str, a: Asked, needs: Collection[Need] = tuple(Need), written: str | None = None
) -> Refused | None:
    """The first of the `needs` that a family has and the storage refuses. `written`: the storage in the file."""
    cells = {} if storage == "auto" else STORAGES[storage].cells
    for need in Need:
        cell = cells.get(need) if need in needs else None
        if isinstance(cell, Refusal) and (why := _ASKS[need](a)):
            synapse = "" if a.synapse is None else a.synapse.name
            words = {"rule": a.rule.keys.name, "asked": written or storage, "storage": storage, "synapse": synapse}
            message = cell.message.format(**words, why=why)
            return Refused(need, cell.code, message, cell.help)
    return None


def misfit(projection: l0.Projection) -> str | None:
    """What the storage of a family cannot hold; None where it can hold all."""
    found = refused(projection.storage, asked_by(projection))
    return None if found is None else found.message


def _chosen(storage: Storage, a: Asked) -> bool:
    """Whether `auto` may be this storage: it holds everything unasked."""
    return all(not _ASKS[need](a) for need in storage.cells)


def storage_of(projection: l0.Projection) -> str:
    """The storage of a family, `auto` decided: sparse | dense | one_to_one | bitmask | procedural | toeplitz."""
    if projection.storage != "auto":
        return projection.storage
    a = Asked(rule_of(projection), synapse=projection.synapse, members=projection.members)
    return next(s.name for s in STORAGES.values() if _chosen(s, a))


def shares_elements(projection: l0.Projection) -> bool:
    """Whether synapses are those of a convolution that have nothing but their element of the kernel."""
    rule = rule_of(projection)
    if rule.form is not Form.WINDOWS or projection.storage == "toeplitz":
        return rule.form is Form.WINDOWS
    return _chosen(STORAGES["toeplitz"], Asked(rule, synapse=projection.synapse, members=projection.members))


def implied(rule: ConnectRule, storage: str) -> str:
    """What the name of a storage means for a rule."""
    return storage if storage == "auto" else STORAGES[storage].instead.get(rule.form, storage)
