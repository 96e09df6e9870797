"""Statements of kernels, what they read, and their lines of text.

Assumes: expressions of backends/kernel_ir/tree.py.
Guarantees: `names_of` is the set of all names that statements declare, read, call or store to, without a look at text;
`lines_of` prints statements for every target alike and decides nothing: the kind of a loop, and whether a body stands
in braces, are fields. It marks where lines may be broken (layout.py).
Does not: change statements (the passes of the backends do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Final

from backends.kernel_ir.expr import ONE, Operand, code
from backends.kernel_ir.layout import Line, broken, remark
from backends.kernel_ir.tree import BODY, MARK, NONE, Code, Index, Place, Printed, Select, deeper, plain, rebuilt
from backends.kernel_ir.types import Type, Typed, typed
from compiler.core.source import NOWHERE, Span


class Kind(Enum):
    """How the iterations of a loop are carried out. Those over the points of a nest (`LANE`: over its lanes) are
    independent but for additions to shared elements; a pass of the target chooses how, before they are printed."""

    SERIAL = auto()
    POINTS = auto()
    LANE = auto()
    LANES = auto()
    """As lanes of vectors."""
    KEPT = auto()
    """One by one; compilers do not unroll it."""
    KEPT_LANES = auto()
    """As lanes of one vector."""
    ONCE = auto()
    """Mostly one in a thread: compilers do not unroll it."""
    UNROLLED = auto()
    FOUR = auto()
    """Four at a time."""
    THREADS = auto()
    """By the threads of all blocks of a row, `by` neighbours by each: neighbours by neighbours."""
    ROUNDS = auto()
    """So where `test`, in a first round; in a second one, of what is left, one by one."""
    BLOCKS = auto()
    """By the blocks of a row: some neighbours by each, one by one."""
    GROUPS = auto()
    """By groups of threads of these blocks."""
    SHARED = auto()
    """By such groups, or each by several blocks."""
    COLUMNS = auto()
    """By the threads of blocks that share them: `by` neighbours by each, and no more than one time."""
    TOGETHER = auto()
    """By the threads of a block, `by` neighbours by each."""
    TURNS = auto()
    """By the threads of all blocks of a row in turn."""
    WARPS = auto()
    """By their warps in turn."""
    EVENTS = auto()
    """By groups of warps, which share each: as many as their number leaves free. `first`: what a thread has of them."""


_BEFORE: Final = {
    Kind.SERIAL: "",
    Kind.LANES: "NL_IVDEP ",
    Kind.KEPT: "NL_UNROLL(1) ",
    Kind.KEPT_LANES: "NL_IVDEP NL_UNROLL(1) ",
    Kind.ONCE: "#pragma unroll 1",
    Kind.UNROLLED: "#pragma unroll",
    Kind.FOUR: "#pragma unroll 4",
}
"""What stands before a loop."""


class Style(Enum):
    """Where a body stands: in braces, without them (in the line of its head, if it is one line and no loop), or from
    that line on."""

    BRACES = 1
    NEXT = 2
    BESIDE = 3


@dataclass(frozen=True)
class Stmt:
    """A statement: one of the classes below. `TREES`: fields that hold expressions, which may be given as their texts,
    as may its `type`; `INSIDE`: fields that hold statements."""

    TREES: ClassVar[tuple[str, ...]] = ()
    INSIDE: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for field_ in self.TREES:
            x = getattr(self, field_)
            if x is not None and not isinstance(x, Code):
                object.__setattr__(self, field_, code(x))
        if isinstance(kind := getattr(self, "type", None), str):
            object.__setattr__(self, "type", typed(kind))

    @property
    def bodies(self) -> Iterable[Sequence[Stmt]]:
        """The statements inside it."""
        return [getattr(self, x) for x in self.INSIDE]

    @property
    def own_names(self) -> Iterable[frozenset[str]]:
        """Those of no field of it."""
        return ()

    def put(self, out: list[Line], depth: int) -> None:
        raise NotImplementedError

    @cached_property
    def mentions(self) -> frozenset[str]:
        """All names in the statement, and in those inside it."""
        own = [x.names for field_ in self.TREES if (x := getattr(self, field_)) is not None]
        inside = [x.mentions for body in self.bodies for x in body]
        return NONE.union(*self.own_names, *own, *inside)


@dataclass(frozen=True)
class Let(Stmt):
    """The declaration of a variable. Without a value it is no constant. `beside`: declarations in the same line, whose
    types are the same. `aligned`: bytes that its address is a multiple of."""

    type: Typed
    name: Code
    value: Operand | None = None
    const: bool = True
    span: Span = NOWHERE
    note: str = ""
    beside: Sequence[Let] = ()
    aligned: int = 0
    TREES: ClassVar = ("value",)
    INSIDE: ClassVar = ("beside",)

    @property
    def own_names(self) -> Iterable[frozenset[str]]:
        return typed(self.type).names, self.name.names

    @property
    def declared(self) -> str:
        """The name, and its value."""
        return plain(self._declared)

    @property
    def _declared(self) -> str:
        name = f"{self.name} __attribute__((aligned({self.aligned})))" if self.aligned else self.name.text
        return name if self.value is None else f"{name} = {MARK}{_outer(self.value)}"

    @property
    def typed(self) -> str:
        """The type, up to the name."""
        const = "const " if self.const and self.value is not None else ""
        return f"{const}{self.type}{'' if str(self.type)[-1] in '*&' else ' '}"

    @property
    def held(self) -> Code:
        """The variable or the array."""
        return self.name.array if isinstance(self.name, Index) else self.name

    @property
    def declares(self) -> Type:
        """The type of the variable."""
        found = typed(self.typed)
        return found.array if isinstance(self.name, Index) else found

    def put(self, out: list[Line], depth: int) -> None:
        beside = "".join([f", {MARK}{MARK}{x.declared}" for x in self.beside])
        first = self.declared if beside else self._declared
        out.append(Line(f"{self.typed}{first}{beside};", depth, self.span, self.note))


@dataclass(frozen=True)
class Set(Stmt):
    """A store to a variable or an element."""

    target: Code
    value: Operand
    op: str = "="
    span: Span = NOWHERE
    TREES: ClassVar = ("target", "value")

    @property
    def marked(self) -> str:
        target = _inner(self.target)
        once = self.op == "+=" and self.value == ONE
        return f"{target}++" if once else f"{target} {self.op} {MARK}{_outer(self.value)}"

    def put(self, out: list[Line], depth: int) -> None:
        out.append(Line(f"{self.marked};", depth, self.span))


@dataclass(frozen=True)
class Do(Stmt):
    """An expression for its effect."""

    code: Operand
    span: Span = NOWHERE
    note: str = ""
    TREES: ClassVar = ("code",)

    def put(self, out: list[Line], depth: int) -> None:
        out.append(Line(f"{_outer(self.code)};", depth, self.span, self.note))


@dataclass(frozen=True)
class Leave(Stmt):
    """`return`, `continue` or `break`."""

    how: str
    value: Operand | None = None
    note: str = ""
    TREES: ClassVar = ("value",)

    def put(self, out: list[Line], depth: int) -> None:
        text = self.how if self.value is None else f"{self.how} {_outer(self.value)}"
        out.append(Line(f"{text};", depth, note=self.note))


@dataclass(frozen=True)
class Text(Stmt):
    """A line as it is: a comment, the head of a function."""

    text: str
    names: frozenset[str] = NONE

    @property
    def own_names(self) -> Iterable[frozenset[str]]:
        return (self.names,)

    def put(self, out: list[Line], depth: int) -> None:
        out.append(Line(self.text, depth))


@dataclass(frozen=True)
class Remark(Stmt):
    """A comment, in as many lines as it takes."""

    text: str

    def put(self, out: list[Line], depth: int) -> None:
        out += remark(self.text, depth)


@dataclass(frozen=True)
class For(Stmt):
    """A loop over `var` from `first` (None: from what it is) by `by` (None: the body changes it) to `end`, or while
    `test`. `then`: what is done with each step."""

    var: Code
    first: Operand | None
    end: Operand | None
    body: Sequence[Stmt]
    by: Operand | None = 1
    type: Typed = "nl_i64"
    kind: Kind = Kind.SERIAL
    style: Style = Style.BRACES
    note: str = ""
    test: Operand | None = None
    op: str = "+="
    then: Sequence[Set] = ()
    TREES: ClassVar = ("first", "end", "by", "test")
    INSIDE: ClassVar = ("body", "then")

    @property
    def own_names(self) -> Iterable[frozenset[str]]:
        return typed(self.type).names, self.var.names

    def put(self, out: list[Line], depth: int) -> None:
        start = "" if self.first is None else f"{self.type} {self.var} = {_inner(self.first)}"
        test = f"{self.var} < {_inner(self.end)}" if self.test is None else _inner(self.test)
        own = () if self.by is None else (Set(self.var, self.by, self.op),)
        steps = ", ".join([plain(x.marked) for x in (*own, *self.then)])
        head = f"{_before(out, self.kind, depth)}for ({start}; {MARK}{test};{steps and f' {MARK}{steps}'})"
        _headed(out, head, self.body, self.style, self.note, depth)


@dataclass(frozen=True)
class While(Stmt):
    """A loop; `late`: whose test comes after its body."""

    test: Operand
    body: Sequence[Stmt]
    kind: Kind = Kind.SERIAL
    style: Style = Style.BRACES
    late: bool = False
    TREES: ClassVar = ("test",)
    INSIDE: ClassVar = ("body",)

    def put(self, out: list[Line], depth: int) -> None:
        head = f"{_before(out, self.kind, depth)}while ({_outer(self.test)})"
        first, last = ("do", f"}} {head};") if self.late else (head, "}")
        _headed(out, first, self.body, self.style, "", depth, last)


@dataclass(frozen=True)
class If(Stmt):
    test: Operand
    then: Sequence[Stmt]
    orelse: Sequence[Stmt] = ()
    style: Style = Style.BRACES
    note: str = ""
    TREES: ClassVar = ("test",)
    INSIDE: ClassVar = ("then", "orelse")

    def put(self, out: list[Line], depth: int) -> None:
        last = "} else {" if self.orelse else "}"
        _headed(out, f"if ({_outer(self.test)})", self.then, self.style, self.note, depth, last)
        if self.orelse and self.style is Style.BRACES:
            out += marked_lines(self.orelse, depth + 1)
            out.append(Line("}", depth))
        elif self.orelse:
            _headed(out, "else", self.orelse, self.style, "", depth)


@dataclass(frozen=True)
class Block(Stmt):
    """Statements in braces: a scope, or (`head`) a function or what a macro of that name makes of them; `last` ends
    it."""

    head: str
    body: Sequence[Stmt]
    last: str = "}"
    note: str = ""
    INSIDE: ClassVar = ("body",)

    def put(self, out: list[Line], depth: int) -> None:
        _headed(out, self.head, self.body, Style.BRACES, self.note, depth, self.last)


def _given(params: Sequence[Let]) -> str:
    return f", {MARK}{MARK}".join(f"{x.typed}{x.name}".strip() for x in params)


@dataclass(frozen=True)
class Definition(Stmt):
    """A function of the file: what stands before its parameters, and these; or (none) a macro's call that gives
    them."""

    head: str
    params: Sequence[Let]
    body: Sequence[Stmt]
    INSIDE: ClassVar = ("params", "body")

    def put(self, out: list[Line], depth: int) -> None:
        head = f"{self.head}({_given(self.params)})" if self.params else self.head
        _headed(out, head, self.body, Style.BRACES, "", depth)


@dataclass(frozen=True)
class Struct(Stmt):
    """A structure with these fields, called `head`; `value`: as the type of the constant `name`, or of arrays of it."""

    head: str
    fields: Sequence[Let]
    name: Code | None = None
    value: Code | None = None
    TREES: ClassVar = ("name", "value")
    INSIDE: ClassVar = ("fields",)

    def put(self, out: list[Line], depth: int) -> None:
        value = "" if self.value is None else f" = {_outer(self.value)}"
        last = f"{'' if self.name is None else f' {self.name}'}{value};"
        _headed(out, self.head, self.fields, Style.BRACES, "", depth, "}" + last)


@dataclass(frozen=True)
class Closure(Stmt):
    """A function that reads the variables around it."""

    name: str
    params: Sequence[Let]
    body: Sequence[Stmt]
    result: str = ""
    INSIDE: ClassVar = ("params", "body")

    def put(self, out: list[Line], depth: int) -> None:
        given = f"({_given(self.params)})" if self.params else ""
        head = f"const auto {self.name} = [&]{given}{self.result and f' -> {self.result}'}"
        _headed(out, head, self.body, Style.BRACES, "", depth, "};")


_EACH: Final = frozenset({"nl_each"})


@dataclass(frozen=True)
class Each(Stmt):
    """An unrolled loop as a call of nl_each: `var` counts `many` times in a function that may return."""

    var: Code
    many: int
    body: Sequence[Stmt]
    style: Style = Style.BRACES
    INSIDE: ClassVar = ("body",)

    @property
    def own_names(self) -> Iterable[frozenset[str]]:
        return _EACH, self.var.names

    def put(self, out: list[Line], depth: int) -> None:
        head = f"nl_each<{self.many}>([&](int {self.var}) {{"
        inner = marked_lines(self.body, depth + 1)
        if self.style is Style.BESIDE:
            out.append(Line(f"{head} {' '.join(x.text for x in inner)} }});", depth))
        else:
            out += [Line(head, depth), *inner, Line("});", depth)]


@dataclass(frozen=True)
class Frame(Stmt):
    """The text of a skeleton and the names that it printed. `holes`: what stands in place of a line, by its text."""

    text: str
    names: frozenset[str]
    holes: Mapping[str, Sequence[Stmt]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def own_names(self) -> Iterable[frozenset[str]]:
        return (self.names,)

    @property
    def bodies(self) -> Iterable[Sequence[Stmt]]:
        return self.holes.values()

    def put(self, out: list[Line], depth: int) -> None:
        for text in self.text.splitlines():
            here, inner = text.strip(), (len(text) - len(text.lstrip())) // 4
            if here in self.holes:
                out += marked_lines(self.holes[here], depth + inner)
            elif MARK in here or BODY in here:
                out.append(Line(here, depth + inner))
            else:
                out.append(Line(text.rstrip(), depth) if here else Line(""))


def constants(type: str, **values: Operand) -> Let:
    """Declarations of constants that are called as they are here, in one line."""
    first, *others = (Let(type, code(name), value) for name, value in values.items())
    return replace(first, beside=others)


def when(test: Operand, statement: Stmt) -> If:
    """A statement under a condition, in one line."""
    return If(test, (statement,), style=Style.BESIDE)


def walk(statements: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, and those inside them."""
    for s in statements:
        yield s
        for body in s.bodies:
            yield from walk(body)


def changed(statements: Iterable[Stmt], change: Callable[[Stmt], Stmt]) -> list[Stmt]:
    """Statements with what `change` gives for each, the inner ones first. Frames stay as they are."""
    found = []
    for s in statements:
        inside = {x: changed(body, change) for x in s.INSIDE if (body := getattr(s, x))}
        same = all(a is b for x, body in inside.items() for a, b in zip(getattr(s, x), body, strict=True))
        found.append(change(s if same else replace(s, **inside)))
    return found


def trees(statements: Iterable[Stmt]) -> Iterator[Code]:
    """All expressions of statements, and of those inside them."""
    return (tree for s in walk(statements) for x in s.TREES if (tree := getattr(s, x)) is not None)


def moved(
    statements: Iterable[Stmt], places: Mapping[str, Code], guards: Mapping[str, Code] = MappingProxyType({})
) -> list[Stmt]:
    """Statements whose elements of these formals are at other places; `guards`: what reads test instead."""

    def other(x: Code) -> Code | None:
        match x:
            case Place(formal=formal):
                return places.get(formal)
            case Select(then=Place(formal=formal) as place, orelse=fill) if formal in guards:
                return Select(guards[formal], places.get(formal, place), fill)
        return None

    return rewritten(statements, other)


def rewritten(statements: Iterable[Stmt], other: Callable[[Code], Code | None]) -> list[Stmt]:
    """Statements with what `other` gives for an expression in its place; None: it stays."""

    def one(s: Stmt) -> Stmt:
        return replace(s, **{x: rebuilt(tree, other) for x in s.TREES if (tree := getattr(s, x)) is not None})

    return changed(statements, one)


def used(statements: Sequence[Stmt]) -> list[Stmt]:
    """Statements without declarations of what no statement behind them names; all values are without effects."""
    found, names = list[Stmt](), set[str]()
    for s in reversed(statements):
        if isinstance(s, Let):
            kept = [x for x in (replace(s, beside=()), *s.beside) if not x.held.names.isdisjoint(names)]
            if not kept:
                continue
            s = s if len(kept) > len(s.beside) else replace(kept[0], beside=kept[1:])
        elif inside := [x for x in s.INSIDE if x in ("body", "orelse") or (x == "then" and isinstance(s, If))]:
            s = replace(s, **{x: used(getattr(s, x)) for x in inside})
        names |= s.mentions
        found.append(s)
    return found[::-1]


def names_of(statements: Iterable[Stmt]) -> frozenset[str]:
    return NONE.union(*(s.mentions for s in statements))


# ------------------------------------------------------------------------------------------- printing


def lines_of(statements: Iterable[Stmt]) -> list[Line]:
    """The lines of statements, none of which is too long."""
    return [line for x in marked_lines(statements) for line in broken(x)]


def marked_lines(statements: Iterable[Stmt], depth: int = 0) -> list[Line]:
    """Those with marks, where lines may be broken, and with their notes apart."""
    out: list[Line] = []
    for s in statements:
        s.put(out, depth)
    return out


def text_of(statements: Sequence[Stmt], depth: int = 0) -> Code:
    """Statements as a part of a skeleton's text, from the middle of a line on."""
    text = "\n".join("    " * x.depth + x.noted for x in marked_lines(statements, depth))
    return Printed(text.lstrip(), names_of(statements))


def _outer(x: Operand) -> str:
    """An expression as a statement, or as the last part of one."""
    return x.marked(deeper(MARK)) if isinstance(x, Code) else str(x)


def _inner(x: Operand | None) -> str:
    """One that is a part."""
    return x.marked(deeper(deeper(MARK))) if isinstance(x, Code) else str(x)


def _headed(
    out: list[Line], head: str, body: Sequence[Stmt], style: Style, note: str, depth: int, last: str = "}"
) -> None:
    lines = marked_lines(body, depth if style is Style.BESIDE else depth + 1)
    if style is Style.BESIDE or (style is Style.NEXT and len(lines) == 1 and not isinstance(body[0], For)):
        first, *rest = lines
        out += [first._replace(text=f"{head}{BODY}{first.text}", depth=depth), *rest]
        return
    opened = f"{head} {{" if head else "{"
    out.append(Line(head, depth) if style is Style.NEXT else Line(opened, depth, note=note))
    out += lines
    if style is Style.BRACES:
        out.append(Line(last, depth))


def _before(out: list[Line], kind: Kind, depth: int) -> str:
    """What stands before the head of a loop, in its line or in one of its own."""
    text = _BEFORE[kind]
    if text.startswith("#"):
        out.append(Line(text, depth))
        return ""
    return text
