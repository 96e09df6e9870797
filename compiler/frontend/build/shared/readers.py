"""Typed values of the keys of a block: type, default, bounds and dimension are those of the language's description.

Assumes: a validated block (or none, where it is absent), and the scope of its expressions.
Guarantees: numbers in canonical units, within bounds; an absent key has its `Field.default`, or None; an error is one
diagnostic at its span, and None.
Does not: interpret keys, or resolve names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import compiler.frontend.build.shared.values as values
from compiler.core.source import Span
from compiler.expr.keys.kinds import Block, Json, Kind, Later, ListOf, MapOf, OneKey, OneOf, Value
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence

K = TypeVar("K")


def integer(
    kind: Kind, node: Node, c: values.Context, what: str, names: values.Names | None = None, high: int | None = None
) -> int | None:
    """An integer of `kind`; an expression may evaluate to 4.0. `high`: a tighter bound that depends on other keys."""
    v, value = value_of(kind), values.number(node, c, what, DIMENSIONLESS, names)
    if value is None:
        return None
    if isinstance(value, float):
        if not value.is_integer():
            shown = "" if isinstance(node, Scalar) and node.text == f"{value:g}" else f"; it is {value:g}"
            help = "use `round(...)`" if shown else None
            c.sink.error("E0102", f"{what} must be a whole number{shown}", node.span, help)
            return None
        value = int(value)
    low, high = -v.largest if v.low is None else int(v.low), v.largest if high is None else high
    if not low <= value <= high:
        bound = f"at least {low:,}" if value < low else f"at most {high:,}"
        c.sink.error("E0106", f"{what} must be {bound}; it is {values.number_of(value)}", node.span)
        return None
    return value


def real(
    kind: Kind,
    node: Node,
    c: values.Context,
    what: str,
    names: values.Names | None = None,
    dimension: Dimension | None = None,
) -> float | None:
    """A finite real of `kind` in canonical units; `dimension`: where the model determines it, not the kind."""
    v = value_of(kind)
    of = v.dimension or dimension
    value = values.number(node, c, what, of, names)
    problem = None if value is None else values.out_of_bounds(value, v.low, v.high, above=v.above, below=v.below)
    if value is None or problem is None:
        return None if value is None else float(value)
    it = values.shown(value, of or DIMENSIONLESS)
    c.sink.error("E0106", f"{what} must be {problem}; it is {it}", node.span)
    return None


def in_steps(
    kind: Kind,
    node: Node,
    c: values.Context,
    what: str,
    step: values.Step | None,
    names: values.Names | None = None,
    high: int = values.EXACT,
) -> int | None:
    """A time of `kind` as a number of steps, at most `high`; None without a step (the time itself is still checked)."""
    v = value_of(kind)
    time = values.number(node, c, what, v.dimension if step is None else TIME, names)
    if step is None or time is None:
        return None
    return values.steps_of(time, node.span, c.sink, what, step, low=int(v.above), high=high)


def value_of(kind: Kind) -> Value:
    """The description of a number in `kind`: itself, that of an item, or that among alternatives."""
    return part(kind, Value)


def part(kind: Kind, wanted: type[K]) -> K:
    """The outermost description of an alternative in `kind`."""
    if isinstance(kind, wanted):
        return kind
    found = next((k for k in _parts(kind) if isinstance(k, wanted)), None)
    assert found is not None, f"no {wanted.__name__} in {kind}"
    return found


def _parts(kind: Kind) -> Iterator[Kind]:
    """A kind, its alternatives, the items of a list and the values of a collection, outermost first."""
    yield kind
    match kind:
        case OneOf(kinds):
            for k in kinds:
                yield from _parts(k)
        case ListOf(item) | MapOf(_, item):
            yield from _parts(item)
        case Later():
            yield from _parts(kind.resolve())


def default_of(default: Json) -> float:
    """A default, a number or a quantity, in canonical units."""
    if isinstance(default, str):
        found = values.quantity(default)
        assert found is not None, default
        return float(found[0])
    assert isinstance(default, int | float), default
    return float(default)


@dataclass(frozen=True)
class Reader:
    """A block of the file (`node`; None: absent) with its description `kind`. `names`: the scope of its expressions,
    if not the context's."""

    kind: Block
    node: tree.Mapping | None
    c: values.Context
    names: values.Names | None = None

    def __contains__(self, key: str) -> bool:
        """Whether the language has the key here."""
        return key in self.kind.by_name

    @property
    def span(self) -> Span:
        assert self.node is not None
        return self.node.span

    def entry(self, key: str) -> tree.Entry | None:
        """The entry of a key of the block; None where it is absent."""
        assert key in self.kind.by_name, f"no key `{key}` in {self.kind.noun}"
        return None if self.node is None else self.node.entry(key)

    def get(self, key: str) -> Node | None:
        """The value of a key of the block; None where it is absent."""
        entry = self.entry(key)
        return None if entry is None else entry.value

    def of(self, key: str) -> Kind:
        """The kind of the value of a key."""
        return self.kind.by_name[key].kind

    def default(self, key: str) -> Json:
        return self.kind.by_name[key].default

    def integer(
        self, key: str, absent: int | None = None, *, high: int | None = None, what: str | None = None
    ) -> int | None:
        """`absent`: the default of a key where it depends on the model; `high`: a bound that does."""
        node, default = self.get(key), self.default(key)
        if node is not None:
            return integer(self.of(key), node, self.c, what or f"`{key}`", self.names, high)
        return absent if default is None else int(default_of(default))

    def real(self, key: str, absent: float | None = None, dimension: Dimension | None = None) -> float | None:
        """In canonical units; `absent` as in `integer`."""
        node, default = self.get(key), self.default(key)
        if node is not None:
            return real(self.of(key), node, self.c, f"`{key}`", self.names, dimension)
        return absent if default is None else default_of(default)

    def steps(
        self, key: str, step: values.Step | None, what: str | None = None, high: int = values.EXACT
    ) -> int | None:
        """A time as a number of steps, at most `high`; None without a step."""
        node, default = self.get(key), self.default(key)
        if node is not None:
            return in_steps(self.of(key), node, self.c, what or f"`{key}`", step, self.names, high)
        return None if default is None or step is None else round(default_of(default) / step.dt)

    def integers(self, key: str, what: str | None = None) -> tuple[int, ...] | None:
        """A list of integers; None where it is absent."""
        return self._items(key, integer, what)

    def reals(self, key: str, what: str | None = None) -> tuple[float, ...] | None:
        """A list of reals in canonical units; None where it is absent."""
        return self._items(key, real, what)

    def _items(self, key: str, read: Callable[..., K | None], what: str | None) -> tuple[K, ...] | None:
        node = self.get(key)
        if not isinstance(node, Sequence):
            return None
        kind = part(self.of(key), ListOf)
        found = [read(kind, i, self.c, what or f"`{key}`", self.names) for i in node.items]
        return None if None in found else tuple(v for v in found if v is not None)

    def each(self, key: str, rank: int) -> tuple[int, ...] | None:
        """`3` or `[3, 5]`: an integer for each of `rank` dimensions."""
        node = self.get(key)
        if not isinstance(node, Sequence):
            one = self.integer(key)
            return None if one is None else (one,) * rank
        found = self.integers(key)
        if found is not None and len(found) != rank:
            message = f"`{key}` has {len(found)} numbers, but there are {rank} dimensions"
            self.c.sink.error("E0501", message, node.span)
            return None
        return found

    def flag(self, key: str) -> bool:
        node = self.get(key)
        given = node.value if isinstance(node, Scalar) else None
        return given if isinstance(given, bool) else bool(self.default(key))

    def word(self, key: str) -> str:
        """A word of a choice, or other text; "" where it is absent without a default."""
        node = self.get(key)
        return node.text if isinstance(node, Scalar) else str(self.default(key) or "")

    def block(self, key: str) -> Reader:
        return Reader(part(self.of(key), Block), values.mapping(self.get(key)), self.c, self.names)

    def blocks(self, key: str) -> Iterator[Reader]:
        """The blocks of a list; a single block is a list of one."""
        return blocks(self.of(key), self.get(key), self.c, self.names)

    def chosen(self, key: str) -> tuple[str, Reader, Span] | None:
        """The alternative of a one-key map (or a bare name): name, its block, span of the name."""
        return chosen(part(self.of(key), OneKey), self.get(key), self.c, self.names)


def blocks(kind: Kind, node: Node | None, c: values.Context, names: values.Names | None = None) -> Iterator[Reader]:
    """The blocks of a list; a single block is a list of one."""
    for item in values.items_of(node):
        if isinstance(item, tree.Mapping):
            yield Reader(part(kind, Block), item, c, names)


def members(kind: Kind, node: Node | None, c: values.Context) -> Iterator[tuple[str, Reader, Span]]:
    """The blocks of a collection, with their names. Other forms have been reported."""
    block = part(kind, Block)
    for entry in values.entries_of(node):
        if isinstance(entry.value, tree.Mapping):
            yield entry.name, Reader(block, entry.value, c), entry.key.span


def choices(kind: Kind, node: Node | None, c: values.Context) -> Iterator[tuple[str, Reader, Span]]:
    """The items of a list of one-key maps, as `chosen` returns them. Other forms have been reported."""
    for item in values.listed(node):
        found = chosen(part(kind, OneKey), item, c)
        if found is not None:
            yield found


def chosen(
    kind: OneKey, node: Node | None, c: values.Context, names: values.Names | None = None
) -> tuple[str, Reader, Span] | None:
    """The alternative of `kind` that `node` chooses; None where it is absent, malformed or no block."""
    if isinstance(node, Scalar):
        name, block, at = node.text, None, node.span
    elif isinstance(node, tree.Mapping) and len(node.entries) == 1:
        name, block, at = node.entries[0].name, values.mapping(node.entries[0].value), node.entries[0].key.span
    else:
        return None
    found = kind.by_name.get(name)
    if found is None or not isinstance(found.kind, Block):
        return None
    return name, Reader(found.kind, block, c, names), at
