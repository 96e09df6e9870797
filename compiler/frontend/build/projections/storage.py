"""`storage`: the storage format of the connections of a family.

Assumes: a validated block of a connect rule.
Guarantees: the result is a storage of level 0 that is compatible with the rule, with the connections' values and with
their statements; anything else is an error with the reason, at its place.
Does not: know what storages hold (compiler/connect/storage.py), or choose (`auto` is kept).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from compiler.connect import ConnectRule
from compiler.connect.storage import OF_RULES, Asked, Need, implied, refused
from compiler.core.diagnostics import Sink
from compiler.core.source import Span
from compiler.frontend.build.projections.pairs import Pairs
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.yaml.tree import Node, Scalar

_KEYS: Final[Mapping[Need, str]] = MappingProxyType(
    {Need.WEIGHTS: "weight", Need.DRAWN_WEIGHTS: "weight", Need.DELAYS: "delay", Need.BACK_DELAYS: "back_delay"}
)
"""The key whose value has a need of `OF_VALUES`, if not `synapse`."""
OF_VALUES: Final = tuple(n for n in Need if n not in (*OF_RULES, Need.PARTS, Need.REWIRED))
"""Needs of the values and statements of a family."""


def read_storage(rule: ConnectRule, r: Reader) -> str:
    """The storage that a rule's block asks for, `auto` without one or after an error."""
    node, asked = r.get("storage"), r.word("storage")
    if node is None:
        return asked
    means = implied(rule, asked)
    a = Asked(rule, multapses=rule.repeats and r.flag("multapses"))
    return means if means != asked or not report(asked, a, OF_RULES, node.span, r.c.sink) else "auto"


def check_bits(storage: str, rule: ConnectRule, pairs: Pairs, r: Reader) -> None:
    """E0611 for a duplicate pair in a list with bitmap storage."""
    node = r.get("storage")
    if node is not None:
        report(storage, Asked(rule, pairs=pairs.pairs), (Need.TWICE,), node.span, r.c.sink)


def report(storage: str, a: Asked, needs: Collection[Need], at: Span, sink: Sink) -> bool:
    """Whether the storage refuses one of the `needs` of a family, which is then an error at `at`."""
    found = refused(storage, a, needs)
    if found is not None:
        sink.error(found.code, found.message, at, found.help)
    return found is not None


def check_values(storage: str, a: Asked, given: Mapping[str, Node | None], sink: Sink) -> None:
    """E0611 for per-connection values, and for statements that need more than the storage has. `given`: `weight`,
    `delay`, `synapse`, `storage` and `back_delay` in the file."""
    written = given["storage"]
    found = refused(storage, a, OF_VALUES, written.text if isinstance(written, Scalar) else storage)
    if found is not None:
        node = given[_KEYS.get(found.need, "synapse")]
        sink.error(found.code, found.message, None if node is None else node.span, found.help)
