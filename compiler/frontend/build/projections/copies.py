"""Copies: the entries of one `for` block of `projections` that differ in ends and numbers alone, as one family.

Assumes: copies share the nodes of whatever names no loop variable (frontend/resolve/templates.py).
Guarantees: a member of the family has what the entry has that is built alone. Where something is not one number for
each entry there is no such family.
Does not: report mistakes; entries with one are built alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from compiler.core.source import Span
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.values import entries_of, plain_number
from compiler.frontend.build.spiking.member_values import MemberValue
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Entry, Node, Scalar

Named = tuple[str, Reader, Span]
ENDS: Final = ("from", "to")
_KEYS: Final = frozenset({*ENDS, "connect", "deliver", "delay", "description"})


@dataclass(frozen=True)
class Copies:
    """`block`: that of all entries, with names in place of the numbers that differ; `values`: of these names, the
    number of each entry; the ends of each entry."""

    block: tree.Mapping
    values: dict[str, MemberValue]
    sources: tuple[str, ...]
    targets: tuple[str, ...]


def alike(entries: Iterable[Named]) -> Iterator[list[Named]]:
    """The entries, those of one block together."""
    for _, group in groupby(entries, lambda x: (x[2].file.path, x[2].start)):
        yield list(group)


def copies_of(group: Sequence[Named], populations: Populations) -> Copies | None:
    """The entries of one block as one family; None where they have more than numbers of their own."""
    blocks = [r.node for _, r, _ in group if r.node is not None]
    if len(group) < 2 or not _KEYS.issuperset(blocks[0].keys()):
        return None
    ends = [tuple(n.text for b in blocks if isinstance(n := b.get(key), Scalar)) for key in ENDS]
    names = {*ends[0], *ends[1]}
    known = populations.built.keys() >= names and populations.classes.keys().isdisjoint(names)
    values: dict[str, MemberValue] = {}
    whole = _whole(blocks, values) if known and all(len(x) == len(group) for x in ends) else None
    return Copies(whole, values, *ends) if isinstance(whole, tree.Mapping) else None


def _whole(nodes: Sequence[Node], values: dict[str, MemberValue]) -> Node | None:
    """The node that stands for all; None where they differ in more than numbers of one dimension."""
    first = nodes[0]
    if all(n is first for n in nodes):
        return first
    if isinstance(first, Scalar):
        found = [x for n in nodes if (x := plain_number(n)) is not None]
        dimensions = {x[1] for x in found if x[1] is not None}
        if len(found) < len(nodes) or len(dimensions) != 1:
            return None
        name = f"copy.n{len(values)}"  # names of users have no dot
        values[name] = MemberValue(dimensions.pop(), each=tuple(x[0] for x in found))
        return Scalar(name, name, True, first.span)
    entries = [entries_of(n) for n in nodes]
    made: list[Entry] = []
    for column in zip(*entries, strict=False):
        key, value = column[0].key, column[0].value
        one = value if key.text in ENDS else _whole([e.value for e in column], values)
        if one is None or any(e.key is not key for e in column):
            return None
        made.append(Entry(key, one))
    return tree.Mapping(tuple(made), first.span) if all(len(e) == len(made) for e in entries) else None
