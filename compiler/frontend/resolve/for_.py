"""`for:` on blocks of named collections: many entries from one.

    r{i}:                            # the key is a template for the names
      for: {i: 0..n - 1}             # several variables: all combinations, the last fastest
      from: p{i}
      to: p{(i + 1) % n}             # in names, an expression in braces
      delay: 0.1 ms * (1 + i % 20)   # in expressions, a variable is a number

Assumes: parameters have values.
Guarantees: names are unique; one block has at most MAX_COPIES copies.
Does not: instantiate the templates (templates.py), or change blocks without `for`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Params
from typing import Final

import numpy as np

from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Origin, Span
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.resolve.classes import names_are_templates
from compiler.frontend.resolve.templates import Loop, Templates, Variable, outward, written
from compiler.frontend.resolve.values import ParamValue, exact_span, value_of, whole_number
from compiler.frontend.yaml.tree import Entry, Mapping, Scalar, Sequence, kind_of, without

MAX_COPIES: Final = 100_000

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def expand_for(
    blocks: Mapping,
    params: Params[str, ParamValue],
    sink: Sink,
    finish: Callable[[Mapping], Mapping] = lambda block: block,
) -> Mapping:
    """`blocks`, a named collection, with every entry that has a `for` replaced by its copies.

    `finish` is applied to copies whose classes depend on the loop (the others have been merged already).
    """
    if not any(_loop_entry(e) for e in blocks.entries):
        return blocks
    out: list[Entry] = []
    for entry in blocks.entries:
        if _loop_entry(entry) is None:
            out.append(entry)
        else:
            copies = _copies(entry, params, sink)
            if isinstance(entry.value, Mapping) and names_are_templates(entry.value):
                copies = [Entry(c.key, finish(c.value)) if isinstance(c.value, Mapping) else c for c in copies]
            out.extend(copies)
    return Mapping(tuple(_unique(out, sink)), blocks.span)


def _loop_entry(entry: Entry) -> Entry | None:
    return entry.value.entry("for") if isinstance(entry.value, Mapping) else None


def _unique(entries: Iterable[Entry], sink: Sink) -> Iterable[Entry]:
    first: dict[str, Entry] = {}
    told: set[tuple[int, int]] = set()
    for entry in entries:
        earlier = first.setdefault(entry.key.text, entry)
        place = (entry.key.span.start, earlier.key.span.start)
        if earlier is not entry and place not in told:
            told.add(place)  # one error gives as many duplicate names as there are copies
            help = "use every loop variable in the key, as in `p{i}`"
            message = f"two entries are called `{entry.key.text}`"
            sink.error("E0207", message, entry.key.span, help, (Related("the other one is here", earlier.key.span),))
    return first.values()


def _copies(entry: Entry, params: Params[str, ParamValue], sink: Sink) -> list[Entry]:
    block = entry.value
    assert isinstance(block, Mapping)
    clause = block.entry("for")
    assert clause is not None
    loop = _read_loop(clause, params, sink)
    if loop is None:
        return []
    templates = Templates(loop, params, sink)
    key = templates.names(entry.key) if "{" in entry.key.text else None
    if key is None:
        if "{" not in entry.key.text and loop.count != 1:
            word = loop.variables[0].name
            help = f'put the variable into the key, as in `"{entry.key.text}{{{word}}}"`'
            message = f"all copies of `{entry.key.text}` would have the same name"
            sink.error("E0207", message, entry.key.span, help)
            return []
        if "{" in entry.key.text:
            return []
        key = [entry.key.text] * loop.count
    wrong = next((name for name in key if not _NAME.match(name)), None)
    if wrong is not None:
        help = "names are letters, digits and `_`, and begin with a letter"
        sink.error("E0107", f"`{entry.key.text}` gives the name `{wrong}`", entry.key.span, help)
        return []
    body = without(block, "for")
    build = templates.compile(body)
    at, file = entry.key.span, entry.key.span.file
    out: list[Entry] = []
    for k in range(loop.count):
        origin = Origin("for", loop.label(k), clause.key.span)
        here = Span(file, at.start, at.end, outward(at.via, origin))
        name = key[k]
        value = build(k, origin) if build is not None else _located(body, origin)
        out.append(Entry(Scalar(name, name, True, here), value))
    return out


def _located(block: Mapping, origin: Origin) -> Mapping:
    span = block.span
    return Mapping(block.entries, Span(span.file, span.start, span.end, outward(span.via, origin)))


# ------------------------------------------------------------------------------------ the clause


def _read_loop(clause: Entry, params: Params[str, ParamValue], sink: Sink) -> Loop | None:
    block = clause.value
    if not isinstance(block, Mapping) or not block.entries:
        help = "write `for: {i: 0..9}`"
        sink.error("E0208", f"`for` needs a loop variable, not {kind_of(block)}", block.span, help)
        return None
    singles: list[Variable] = []
    for entry in block.entries:
        name = entry.name
        if not _NAME.match(name):
            sink.error("E0107", f"`{name}` is not a good name for a variable", entry.key.span)
            return None
        if name in params:
            message = f"the loop variable `{name}` has the name of a parameter"
            related = (Related("the parameter is here", params[name].span),)
            sink.error("E0107", message, entry.key.span, "choose another name", related)
            return None
        found = _values(entry, params, sink)
        if found is None:
            return None
        singles.append(found)
    count = math.prod(len(v.texts) for v in singles)
    if count > MAX_COPIES:
        message = f"`for` makes {count:,} copies; at most {MAX_COPIES:,} are allowed"
        sink.error("E0208", message, block.span)
        return None
    if len(singles) == 1:
        return Loop(count, tuple(singles), clause.key.span)
    grid = list(itertools.product(*(range(len(v.texts)) for v in singles)))
    columns = []
    for position, v in enumerate(singles):
        picks = [row[position] for row in grid]
        values = None if v.numbers is None else v.numbers[picks]
        columns.append(Variable(v.name, [v.texts[p] for p in picks], values, v.dimension))
    return Loop(count, tuple(columns), clause.key.span)


def _values(entry: Entry, params: Params[str, ParamValue], sink: Sink) -> Variable | None:
    node, name = entry.value, entry.name
    if isinstance(node, Sequence):
        return _listed(name, node, params, sink)
    if isinstance(node, Scalar):
        if isinstance(node.value, str) and ".." in node.text:
            ends = _ends(node, params, sink)
        else:
            high = whole_number(node, params, sink, f"the number of `{name}`", 0, MAX_COPIES)
            ends = None if high is None else (0, high - 1)
        if ends is None:
            return None
        low, high = ends
        if high < low - 1:
            message = f"the range from {low} to {high} runs backwards"
            sink.error("E0208", message, node.span)
            return None
        if high - low >= MAX_COPIES:
            message = f"the range has {high - low + 1:,} values; at most {MAX_COPIES:,} are allowed"
            sink.error("E0208", message, node.span)
            return None
        values = np.arange(low, high + 1, dtype=np.int64)
        return Variable(name, [str(v) for v in values.tolist()], values)
    help = "write a range `0..9`, a number or a list"
    sink.error("E0208", f"`{name}` cannot run over {kind_of(node)}", node.span, help)
    return None


def _ends(node: Scalar, params: Params[str, ParamValue], sink: Sink) -> tuple[int, int] | None:
    """Both ends of `a..b`, inclusive."""
    low_text, _, high_text = node.text.partition("..")
    span, exact = exact_span(node)
    found: list[int] = []
    at = 0
    for text, word in ((low_text, "first"), (high_text, "last")):
        stripped = text.strip()
        begin = span.start + at + len(text) - len(text.lstrip())
        part = Span(span.file, begin, begin + len(stripped), span.via) if exact else span
        if not stripped:
            sink.error("E0208", f"the {word} value of the range is missing", node.span)
            return None
        bound = 1 << 53
        what = f"the {word} value"
        end = whole_number(Scalar(stripped, stripped, True, part), params, sink, what, -bound, bound)
        if end is None:
            return None
        found.append(end)
        at = len(low_text) + 2
    return found[0], found[1]


def _listed(name: str, node: Sequence, params: Params[str, ParamValue], sink: Sink) -> Variable | None:
    """`[1, 2, 5]`, `[1 ms, 2 ms]` or `[V1, V2]`: all numbers of one dimension, or all names."""
    items = [i for i in node.items if isinstance(i, Scalar) and i.value is not None]
    if len(items) != len(node.items) or not items:
        help = "write a list of numbers or of names"
        sink.error("E0208", f"`{name}` cannot run over this list", node.span, help)
        return None
    if all(isinstance(i.value, str) and _NAME.match(i.text) and i.text not in params for i in items):
        return Variable(name, [i.text for i in items], None)
    found = [value_of(i, params, sink, f"a value of `{name}`") for i in items]
    values = [f for f in found if f is not None]
    if len(values) != len(found):
        return None
    dimensions = {f.dimension for f in values if f.dimension is not None}
    if len(dimensions) > 1:
        sink.error("E0401", f"the values of `{name}` have different dimensions", node.span)
        return None
    dimension = next(iter(dimensions), DIMENSIONLESS)
    column = np.array([f.value for f in values])
    if column.dtype.kind not in "if":
        sink.error("E0208", f"the values of `{name}` must be numbers", node.span)
        return None
    return Variable(name, [written(v, dimension) for v in column.tolist()], column, dimension)
