"""The vocabulary in which the language is described: the kinds of values in a model file.

Assumes: nothing of the language itself; the sibling modules compose it from these descriptions.
Guarantees: frozen data, no behaviour beyond lookups. Every consumer (validator, JSON Schema, reference docs) reads the
same objects, so that they cannot disagree.
Does not: inspect a document.

Words used throughout: a *block* is a map with fixed keys; a *collection* is a map from names that
the user chooses; a *one-key map* chooses among alternatives (`{uniform: {low: 0, high: 1}}`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from types import MappingProxyType

from compiler.expr.units import DIMENSIONLESS, Dimension

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

NAME = r"[A-Za-z][A-Za-z0-9_]*"
"""A name; anchored by whoever uses it. Kept to what Python's `re` and ECMA 262 read alike."""

EXTENSION = r"^x-"
"""Keys under which a user may keep anything, in every block."""


@dataclass(frozen=True)
class Text:
    """Any string; `what` says what it is ("a description")."""

    what: str = "a text"
    example: str = "some text"


@dataclass(frozen=True)
class Flag:
    """`true` or `false`."""


@dataclass(frozen=True)
class Constant:
    """Exactly this literal."""

    value: int


@dataclass(frozen=True)
class Value:
    """A number, a quantity with a unit, or an expression over params.

    `what` is what it measures ("a time"), `dimension` its dimension (None: any); `integer` requires an integer of
    `bits` bits beside its sign. `low`/`high` bound it, in canonical units: a literal is checked at once, an expression
    when it is evaluated. `above` and `below` make them exclusive. `negative`: what helps where it is negative.
    """

    what: str = "a number"
    example: str = "1.5"
    integer: bool = False
    low: float | None = None
    high: float | None = None
    above: bool = False
    below: bool = False
    dimension: Dimension | None = DIMENSIONLESS
    bits: int = 31
    negative: str | None = None

    @property
    def largest(self) -> int:
        """The largest integer."""
        return (1 << self.bits) - 1 if self.high is None else int(self.high)


@dataclass(frozen=True)
class Expression:
    """An expression over the names in scope."""

    example: str = "v > v_thresh"


@dataclass(frozen=True)
class Statement:
    """One assignment, or a call of `deliver`."""

    example: str = "v = v_reset"


@dataclass(frozen=True)
class Name:
    """A name that the user gives to something."""

    example: str = "my_name"


@dataclass(frozen=True)
class Reference:
    """The name of something defined elsewhere.

    `to` is what it refers to ("population"); `pattern` is the form (anchored); `known` lists the built-in ones, which
    editors offer.
    """

    to: str
    example: str
    pattern: str = rf"^{NAME}$"
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pattern:
    """A string of a given form (anchored regular expression)."""

    what: str
    pattern: str
    example: str


@dataclass(frozen=True)
class Option:
    """One word of a Choice, with what it means."""

    value: str
    doc: str
    supported: bool = True


@dataclass(frozen=True)
class Choice:
    """One word out of several; `noun` is what is chosen ("integration method"). `elsewhere`: words of other languages
    -> those of this one."""

    noun: str
    options: tuple[Option, ...]
    elsewhere: Mapping[str, str] = dataclass_field(default_factory=dict, hash=False)

    @cached_property
    def by_value(self) -> Mapping[str, Option]:
        return {o.value: o for o in self.options}


@dataclass(frozen=True)
class ListOf:
    """A list; `low`/`high` bound its length."""

    item: Kind
    low: int = 0
    high: int | None = None
    example: str | None = None


@dataclass(frozen=True)
class MapOf:
    """A collection: keys of the form `key`, all values of one kind. `noun` is what a member is
    called."""

    noun: str
    value: Kind
    key: str = rf"^{NAME}$"
    key_example: str = "my_name"
    low: int = 0
    example: str | None = None


@dataclass(frozen=True)
class Field:
    """One key of a block. `doc` is the hover text; its first sentence stands alone. `example`: by default that of its
    kind."""

    name: str
    kind: Kind
    doc: str
    required: bool = False
    default: Json = None
    example: str | None = None
    supported: bool = True

    def __post_init__(self) -> None:
        if self.example is None and (value := _example(self.kind, self.default)):
            object.__setattr__(self, "example", f"{self.name}: {value}")


@dataclass(frozen=True)
class Block:
    """A map with fixed keys; no others but `x-...` are allowed.

    `one_of`: groups of mutually exclusive keys of which one is required; `at_least_one`: keys of which some are
    required. `needs`: (key, others) pairs: `key` requires `others`. `elsewhere`: words that users of other tools try
    first, with their replacement. With one of the keys `open_with` present, required keys may be missing: they come
    from elsewhere. `title`: its name in the schema, by default `noun`; `example`: by default that of the required keys.
    """

    noun: str
    fields: tuple[Field, ...]
    doc: str = ""
    title: str | None = None
    one_of: tuple[tuple[str, ...], ...] = ()
    at_least_one: tuple[str, ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    elsewhere: Mapping[str, str] = dataclass_field(default_factory=dict, hash=False)
    open_with: tuple[str, ...] = ()
    example: str | None = None

    def __post_init__(self) -> None:
        if self.title is None:
            object.__setattr__(self, "title", self.noun.replace(" ", "_"))
        if self.example is None:
            required = ", ".join(f.example for f in self.fields if f.required and f.example)
            object.__setattr__(self, "example", f"{{{required}}}")

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {f.name: f for f in self.fields}

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields if f.required)

    @cached_property
    def ruled(self) -> bool:
        """Whether some keys require or exclude each other."""
        return bool(self.required or self.one_of or self.at_least_one or self.needs)


@dataclass(frozen=True)
class Alternative:
    """One key of a one-key map and the kind of its value. `example`: by default that of its kind."""

    name: str
    kind: Kind
    doc: str
    supported: bool = True
    example: str | None = None

    def __post_init__(self) -> None:
        if self.example is None and (value := _example(self.kind, None)):
            object.__setattr__(self, "example", f"{{{self.name}: {value}}}")


@dataclass(frozen=True)
class OneKey:
    """A map with exactly one key, which chooses the alternative; `noun` is what is chosen
    ("layer").

    `own`: further keys (names) are allowed, with values of this kind: the user's own definitions. `bare`: the
    alternative's name alone, without a map, is allowed too (where nothing is required).
    """

    noun: str
    alternatives: tuple[Alternative, ...]
    title: str | None = None
    doc: str = ""
    own: Kind | None = None
    bare: bool = False
    elsewhere: Mapping[str, str] = dataclass_field(default_factory=dict, hash=False)

    @cached_property
    def by_name(self) -> Mapping[str, Alternative]:
        return {a.name: a for a in self.alternatives}


@dataclass(frozen=True)
class OneOf:
    """Any of several kinds that differ in form: scalars, a list, blocks with different keys.

    At most one alternative is a list. Of the maps, the one whose keys fit is chosen; so alternative maps must be
    distinguishable by their keys alone.
    """

    kinds: tuple[Kind, ...]

    @cached_property
    def scalars(self) -> tuple[Kind, ...]:
        return tuple(k for k in self.kinds if isinstance(k, ScalarKind))


@dataclass(frozen=True, eq=False)
class Later:
    """A kind that is defined further on, by name: the only way to write a recursive one."""

    title: str
    resolve: Callable[[], Kind]


ScalarKind = Text | Flag | Constant | Value | Expression | Statement | Name | Reference | Pattern | Choice
Kind = ScalarKind | ListOf | MapOf | Block | OneKey | OneOf | Later


def required(name: str, kind: Kind, doc: str, example: str | None = None) -> Field:
    """A key that a block cannot be without."""
    return Field(name, kind, doc, required=True, example=example)


def switch(name: str, doc: str, default: bool = False) -> Field:
    """A key that is `true` or `false`."""
    return Field(name, Flag(), doc, default=default)


def entry(
    noun: str,
    name: str,
    doc: str,
    *fields: Field,
    title: str | None = None,
    example: str | None = None,
    at_least_one: tuple[str, ...] = (),
    one_of: tuple[tuple[str, ...], ...] = (),
    needs: tuple[tuple[str, tuple[str, ...]], ...] = (),
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> Alternative:
    """An alternative that is a block; `example`: of its block."""
    title = title or f"{noun}_{name}"
    block = Block(noun, fields, "", title, one_of, at_least_one, needs, elsewhere, example=example)
    return Alternative(name, block, doc)


def choice(noun: str, elsewhere: Mapping[str, str] = MappingProxyType({}), /, **docs: str) -> Choice:
    """One word out of several, from `word="what it means"`."""
    return Choice(noun, tuple(Option(word, doc) for word, doc in docs.items()), elsewhere)


def instead(*lines: str) -> dict[str, str]:
    """`elsewhere` from lines such as "`delay`: lag latency": what to write here, and what users of other tools try."""
    found = (line.rpartition(": ") for line in lines)
    return {word: here for here, _, words in found for word in words.split()}


def _example(kind: Kind, default: Json) -> str | None:
    """A value of a kind that is not the default."""
    match kind:
        case Flag():
            return "false" if default is True else "true"
        case Choice(_, words):
            return next((w.value for w in words if w.value != default), None)
        case OneOf(kinds):
            return next((found for k in kinds if (found := _example(k, default))), None)
        case Constant() | OneKey() | Later():
            return None
        case _:
            return kind.example


def article(word: str) -> str:
    """ "a" or "an", as the word asks for."""
    return "an" if word[:1].lower() in "aeio" else "a"


def describe(kind: Kind) -> str:
    """The expected value, for a message: "a time such as `20 ms`"."""
    match kind:
        case ListOf(item, _, _, example):
            what = describe_items(item)
            return f"a list of {what}" + (f" such as `{example}`" if example else "")
        case MapOf(noun, _, _, _, _, example):
            return f"a map of {plural(noun)}" + (f" such as `{example}`" if example else "")
        case Block(example=example):
            return "a map" + (f" such as `{example}`" if example and example != "{}" else "")
        case OneKey(noun, alternatives):
            first = alternatives[0]
            return f"{article(noun)} {noun} such as `{first.example or '{' + first.name + ': ...}'}`"
        case OneOf(kinds):
            return " or ".join(describe(k) for k in kinds)
        case Later(_, resolve):
            return describe(resolve())
        case _:
            return _describe_scalar(kind)


def _describe_scalar(kind: ScalarKind) -> str:
    match kind:
        case Text(what, example) | Pattern(what, _, example) | Value(what, example):
            return f"{what} such as `{example}`"
        case Flag():
            return "`true` or `false`"
        case Constant(value):
            return f"`{value}`"
        case Expression(example):
            return f"an expression such as `{example}`"
        case Statement(example):
            return f"an assignment such as `{example}`"
        case Name(example):
            return f"a name such as `{example}`"
        case Reference(to, example):
            return f"the name of {article(to)} {to} such as `{example}`"
        case Choice(noun, words):
            return f"{article(noun)} {noun} such as `{words[0].value}`"


def describe_items(item: Kind) -> str:
    """What the items of a list are, in the plural."""
    match item:
        case Text(what) | Pattern(what) | Value(what):
            return " or ".join(plural(w.removeprefix("a ").removeprefix("an ")) for w in what.split(" or "))
        case Expression():
            return "expressions"
        case Statement():
            return "assignments"
        case Name():
            return "names"
        case Reference(to):
            return f"names of {plural(to)}"
        case Choice(noun) | Block(noun) | OneKey(noun):
            return plural(noun)
        case ListOf(inner):
            return f"lists of {describe_items(inner)}"
        case OneOf((Statement(), *_)):
            return "assignments"
        case Later(_, resolve):
            return describe_items(resolve())
        case _:
            return "values"


def plural(noun: str) -> str:
    """The plural of a noun as the language's own words form it."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith(("s", "ch", "sh", "x")):
        return noun if noun.endswith("ics") else noun + "es"
    return noun + "s"
