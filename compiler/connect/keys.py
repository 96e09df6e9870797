"""Keys common to several connectivity rules.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: a key has one meaning in all rules.
Does not: describe a rule (the modules beside this one do, one per family).
"""

from __future__ import annotations

from compiler.expr.keys.kinds import (
    Alternative,
    Field,
    ListOf,
    OneOf,
    Value,
    choice,
    entry,
    instead,
    switch,
)

AUTAPSES = switch(
    "autapses", "Whether a neuron may connect to itself, where source and target are one population.", True
)

MULTAPSES = switch(
    "multapses",
    "Whether a pair of neurons may be connected several times. With `false` partners are drawn without replacement.",
    True,
)

STORAGE = Field(
    "storage",
    choice(
        "storage",
        auto="The compiler chooses.",
        sparse="A list of targets for each source.",
        dense="Every pair, without a list: for `all_to_all`.",
        bitmask="One bit for each pair; all connections have one weight and one delay.",
        procedural="Drawn again at every spike, never stored.",
        toeplitz="The doubly blocked Toeplitz matrix of a convolution, never stored.",
    ),
    "How the connections are held: the network and its results are the same, memory and time differ.",
    default="auto",
)

FLAGS = instead("`autapses`: allow_autapses self allow_self", "`multapses`: allow_multapses replace")
"""What users of other tools write for them."""


def two(
    name: str, kind: Value, doc: str, default: int | None, example: str, both: str, *, required: bool = True
) -> Field:
    """One number for both rows and columns, or a pair, such as `both`."""
    number = OneOf((kind, ListOf(kind, low=2, high=2, example=both)))
    return Field(name, number, doc, required=required and default is None, default=default, example=example)


def rule(
    name: str,
    doc: str,
    *fields: Field,
    example: str | None = None,
    title: str | None = None,
    at_least_one: tuple[str, ...] = (),
    one_of: tuple[tuple[str, ...], ...] = (),
    needs: tuple[tuple[str, tuple[str, ...]], ...] = (),
    elsewhere: dict[str, str] | None = None,
) -> Alternative:
    """The keys of a rule. `example`: of its block; `title`: of its section in the reference."""
    words = FLAGS if elsewhere is None else elsewhere
    title, fields = title or name, (*fields, STORAGE)
    return entry(
        "connectivity",
        name,
        doc,
        *fields,
        title=title,
        example=example,
        at_least_one=at_least_one,
        one_of=one_of,
        needs=needs,
        elsewhere=words,
    )
