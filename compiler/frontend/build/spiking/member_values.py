"""`values:` of a family: per-member numbers.

Assumes: the family's sources and targets.
Guarantees: every member has a value, all of one dimension; exceptions apply in order, the last one wins. Does not:
evaluate expressions that use the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compiler.core.diagnostics import Related
from compiler.core.source import Span
from compiler.expr.units import DIMENSIONLESS, Dimension, describe
from compiler.frontend.build.shared.data_files import numbers_of
from compiler.frontend.build.shared.initial_values import from_file
from compiler.frontend.build.shared.values import Context, listed, mapping, number_and_dimension
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.select import select, unknown_population
from compiler.frontend.schema.wording import count, quoted
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Entry, Node, Scalar


@dataclass
class MemberValue:
    """A number per member of a family, by source, target or pair, or by member (`each`) where ends go one by one."""

    dimension: Dimension | None = None
    by_source: dict[str, float | int] = field(default_factory=dict)
    by_target: dict[str, float | int] = field(default_factory=dict)
    by_pair: dict[str, dict[str, float | int]] = field(default_factory=dict)  # by source, then by target
    each: tuple[float | int, ...] = ()

    def row(self, source: str, number: int = 0) -> Callable[[str], float | int | None]:
        """The values of the members with one source, that of a number, by their targets; None after an error."""
        if self.each:
            return lambda target: self.each[number]
        given, common = self.by_pair.get(source, {}), self.by_source.get(source)
        if common is None and not self.by_target:
            return given.get

        def of(target: str) -> float | int | None:
            found = given.get(target, common)
            return self.by_target.get(target) if found is None else found

        return of


def member_values(
    block: tree.Mapping,
    sources: tuple[str, ...] | None,
    targets: tuple[str, ...] | None,
    populations: Populations,
    c: Context,
) -> dict[str, MemberValue]:
    """The named values of one family."""
    out: dict[str, MemberValue] = {}
    for entry in block.entries:
        if entry.name in ("n_from", "n_to", "t", "dt"):
            message = f"`{entry.name}` has a meaning of its own and cannot name a value"
            c.sink.error("E0107", message, entry.key.span)
            continue
        out[entry.name] = _Reader(entry, sources, targets, populations, c).read()
    return out


def counted(number: int, noun: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{number:,} {count(noun, number)}"


@dataclass
class _Reader:
    entry: Entry
    sources: tuple[str, ...] | None
    targets: tuple[str, ...] | None
    populations: Populations
    c: Context
    value: MemberValue = field(default_factory=MemberValue)
    first: Span | None = None
    wrong: bool = False

    @property
    def name(self) -> str:
        return self.entry.name

    def read(self) -> MemberValue:
        block = mapping(self.entry.value)
        if block is None:
            return self.value
        for side, members in (("source", self.sources), ("target", self.targets)):
            node = block.get(f"by_{side}")
            if node is not None and members is not None:
                table = self.value.by_source if side == "source" else self.value.by_target
                table.update(self.one_side(node, side, members))
        node = block.get("by_pair")
        if node is not None and self.sources is not None and self.targets is not None:
            self.pairs(node, self.sources, self.targets)
        for item in listed(block.get("except")):
            self.exception(item)
        if self.value.dimension is None and not self.wrong and None not in (self.sources, self.targets):
            self.value.dimension = DIMENSIONLESS
        return self.value

    def number(self, node: Node) -> float | int | None:
        """One number, of the same dimension as the others."""
        found = number_and_dimension(node, self.c, f"each value of `{self.name}`", None)
        if found is None:
            self.wrong = True
            return None
        value, dimension = found
        if dimension is not None:
            if self.value.dimension is None:
                self.value.dimension, self.first = dimension, node.span
            elif dimension != self.value.dimension:
                if self.wrong:
                    return None  # one error is reported, not one per value
                self.wrong = True
                message = (
                    f"the values of `{self.name}` have one dimension: this is {describe(dimension)}, "
                    f"the first is {describe(self.value.dimension)}"
                )
                related = () if self.first is None else (Related("the first one", self.first),)
                self.c.sink.error("E0401", message, node.span, None, related)
                return None
        return value

    def one_side(self, node: Node, side: str, members: tuple[str, ...]) -> dict[str, float | int]:
        out: dict[str, float | int] = {}
        match node:
            case tree.Sequence(items=items):
                if len(items) != len(members):
                    self.wrong_count(counted(len(members), side), counted(len(items), "value"), node)
                    return out
                for member, item in zip(members, items, strict=True):
                    value = self.number(item)
                    if value is not None:
                        out[member] = value
            case tree.Mapping() if node.get("file") is not None:
                table = self.array(node, (len(members),))
                if table is not None:
                    out.update(zip(members, table, strict=True))
            case tree.Mapping(entries=entries):
                out = self.by_name(entries, side, members, node.span)
        return out

    def by_name(
        self, entries: tuple[Entry, ...], side: str, members: tuple[str, ...], span: Span
    ) -> dict[str, float | int]:
        """A value by population or class; a population's own wins, then the last class."""
        own: dict[str, float | int] = {}
        by_class: dict[str, float | int] = {}
        broken = False
        for entry in entries:
            is_population = entry.name in self.populations.places
            if not is_population and entry.name not in self.populations.classes:
                unknown_population(entry.key, self.populations, self.c)
                broken = True
                continue
            value = self.number(entry.value)
            if value is None:
                broken = True
            elif is_population:
                own[entry.name] = value
            else:
                by_class.update(dict.fromkeys(self.populations.classes[entry.name], value))
        out = {m: v for m in members if (v := own.get(m, by_class.get(m))) is not None}
        missing = [m for m in members if m not in out]
        if missing and not broken:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            message = f"`{self.name}` has no value for the {side} `{missing[0]}`{more}"
            own_classes = [k for k, names in self.populations.classes.items() if missing[0] in names]
            help = f"add `{missing[0]}: ...`"
            if own_classes:
                help += f" or one of its classes, {quoted(own_classes, 'or')}"
            self.c.sink.error("E0103", message, span, help)
            self.wrong = True
        return out

    def pairs(self, node: Node, sources: tuple[str, ...], targets: tuple[str, ...]) -> None:
        shape = f"{counted(len(targets), 'row')} (targets) of {counted(len(sources), 'value')} (sources)"
        values: list[Any] = []  # None after an error
        if isinstance(node, tree.Sequence):
            if len(node.items) != len(targets):
                self.wrong_count(shape, counted(len(node.items), "row"), node)
                return
            for row in node.items:
                items = listed(row)
                if len(items) != len(sources):
                    self.wrong_count(shape, f"a row of {counted(len(items), 'value')}", row)
                    return
                values += [self.number(i) for i in items]
        elif isinstance(node, tree.Mapping):
            found = self.array(node, (len(targets), len(sources)))
            if found is None:
                return
            values += found
        for i, source in enumerate(sources if values else ()):
            own = dict(zip(targets, values[i :: len(sources)], strict=True))
            own = own if None not in own.values() else {t: v for t, v in own.items() if v is not None}
            self.value.by_pair.setdefault(source, {}).update(own)

    def array(self, node: tree.Mapping, shape: tuple[int, ...]) -> list[float] | None:
        found = from_file(node, self.c, f"`{self.name}`")
        self.wrong = self.wrong or found is None
        if found is None:
            return None
        data = numbers_of(found, node.span, self.c)
        if data is None:
            return None
        if data.shape != shape:
            message = f"`{self.name}` needs an array of shape {list(shape)}; this has {list(data.shape)}"
            self.c.sink.error("E0703", message, node.span)
            return None
        self.value.dimension = DIMENSIONLESS
        flat: list[float] = data.ravel().tolist()
        return flat

    def wrong_count(self, needed: str, given: str, node: Node) -> None:
        self.wrong = True
        message = f"`{self.name}` needs {needed}, not {given}"
        self.c.sink.error("E0106", message, node.span)

    def exception(self, item: Node) -> None:
        block = mapping(item)
        if block is None:
            return
        chosen: list[tuple[str, ...]] = []
        for key, members in (("from", self.sources), ("to", self.targets)):
            node = block.get(key)
            names = members if node is None else select(node, self.populations, self.c)
            if names is None or members is None:
                return
            outside = [n for n in names if n not in members]
            if outside and isinstance(node, Scalar | tree.Sequence):
                message = f"`{outside[0]}` is not among the members of this family"
                self.c.sink.error("E0201", message, node.span)
                return
            chosen.append(tuple(names))
        node = block.get("value")
        value = None if node is None else self.number(node)
        if value is not None:
            for source in chosen[0]:
                for target in chosen[1]:
                    self.value.by_pair.setdefault(source, {})[target] = value
