"""Selection of populations by `exc`, `[exc, inh]`, `all` or a class.

Assumes: the names of all populations and classes are known.
Guarantees: each population at most once, in the order of first mention; `all` and classes use the order of
`populations`.
Does not: build anything.
"""

from __future__ import annotations

from compiler.core.diagnostics import Related, did_you_mean
from compiler.frontend.build.shared.values import Context, items_of
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml.tree import Node, Scalar


def select(node: Node | None, populations: Populations, c: Context) -> tuple[str, ...] | None:
    """The populations selected by `node`; None after an error."""
    found: dict[str, None] = {}
    wrong = node is None
    for item in items_of(node):
        names = select_one(item, populations, c) if isinstance(item, Scalar) else None
        if names is None:
            wrong = True
        else:
            found.update(dict.fromkeys(names))
    return None if wrong else tuple(found)


def select_one(item: Scalar, populations: Populations, c: Context) -> tuple[str, ...] | None:
    """The populations that one name means; None after an error."""
    text = item.text
    if text == "all":
        return tuple(populations.names)
    members = populations.classes.get(text)
    if text in populations.places:
        if members is not None and set(members) != {text}:
            message = f"`{text}` is a population and a class; which one is meant?"
            related = (Related("the population is declared here", populations.places[text]),)
            c.sink.error("E0212", message, item.span, "give one of them another name", related)
            return None
        return (text,)
    if members is not None:
        return tuple(members)
    unknown_population(item, populations, c)
    return None


def unknown_population(item: Scalar, populations: Populations, c: Context) -> None:
    """E0201 for a name that is neither a population nor a class."""
    known = [*populations.names, *populations.classes]
    help = did_you_mean(item.text, known)
    if help is None:
        help = allowed("the populations are", populations.names) if populations.names else None
    c.sink.error("E0201", f"there is no population `{item.text}`", item.span, help)
