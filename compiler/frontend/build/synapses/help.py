"""Specific help with errors in synapses: syntax of other simulators, and missing units.

Assumes: the diagnostics of a definition that has been built.
Guarantees: codes and spans are kept; only messages and help change.
Does not: detect errors.
"""

from __future__ import annotations

import re
from dataclasses import replace

from compiler.core.diagnostics import Diagnostic, Sink, declared_at
from compiler.frontend.build.shared.random_help import WORD, words_of
from compiler.frontend.build.shared.values import mapping
from compiler.frontend.build.synapses.statements import SynapseDraft

_SUFFIXED = re.compile(r"unknown name `(\w+?)_(pre|post)`")
_UNKNOWN = re.compile(r"unknown name `(pre|post)\.([\w.]+)`")
_AUGMENTED = re.compile(r"`(\w+?)(?:_(pre|post))?` has no value yet")
_BARE = re.compile(r"unknown name `(\w+)`")
_WITHOUT_UNIT = re.compile(r"what is delivered.* is .*\[(\S+)\], but .* is a number without a unit")


def explain(sink: Sink, before: int, d: SynapseDraft) -> None:
    """Specific help with the syntax of other simulators, and where a unit is missing in the delivered value."""
    for i in range(before, len(sink.items)):
        found = sink.items[i]
        if found.code == "E0302":
            sink.items[i] = _explained(found, d)
        elif found.code == "E0401":
            without_unit = _WITHOUT_UNIT.match(found.message)
            name = None if without_unit is None else _without_unit(found, d)
            if without_unit is not None and name is not None:
                key = "params" if name in d.params else "init"
                example = f"{key}: {{{name}: 1 {without_unit[1]}}}"
                sink.items[i] = replace(found, help=f"give `{name}` its unit in the projection: `{example}`")


def _without_unit(found: Diagnostic, d: SynapseDraft) -> str | None:
    """The first name in the delivered value that is declared without a unit; the parameter that determines its initial
    value, if any."""
    if found.span is None:
        return None
    own = {**d.params, **d.states}
    bare = [n for n, dimension in own.items() if dimension is not None and dimension.dimensionless]
    words = WORD.findall(found.span.file.text[found.span.start : found.span.end])
    name = next((w for w in words if w in bare), None)
    if name is None or name in d.params:
        return name
    block = mapping(d.node.get("state"))
    init = None if block is None else block.get(name)
    words_of_init = set[str]() if init is None else words_of(init)
    return next((p for p in d.params if p in bare and p in words_of_init), name)


def _explained(found: Diagnostic, d: SynapseDraft) -> Diagnostic:
    if found.message.startswith("unknown name `xi"):
        draw = "`update` may draw its sum over a step, `sqrt(dt) * normal()`"
        return replace(found, help=f"white noise in synapses is not supported yet; {draw}")
    suffixed, unknown = _SUFFIXED.match(found.message), _UNKNOWN.match(found.message)
    if suffixed is not None:
        name, end = suffixed[1], suffixed[2]
        return replace(found, help=f"write `{end}.{name}` for a variable of the {side_of(end)} neuron")
    augmented = _AUGMENTED.match(found.message)
    if augmented is not None:
        end = augmented[2] or "post"
        what = f"`deliver(..., {end}.{augmented[1]})`"
        return replace(found, help=f"to add to an input of the {side_of(end)} neuron, write {what}")
    if unknown is None:
        bare = _BARE.match(found.message)
        return found if bare is None or found.help is not None else replace(found, help=_of_an_end(bare[1], d))
    end, name = unknown[1], unknown[2]
    neuron = d.ends.of(end)
    if name in d.traces[end]:
        return replace(found, help=f"inside of `{end}` it is called `{name}`")
    if neuron is None:
        help = f"a `{end}` block reads its own variables and the synapse's parameters"
        return replace(found, help=help)
    message = f"the {side_of(end)} neuron `{neuron.name}` has no `{name}`"
    other = "post" if end == "pre" else "pre"
    if name in d.traces[other]:
        found = replace(found, help=f"`{name}` is a variable of `{other}`: write `{other}.{name}`")
    return replace(found, message=message, related=(*found.related, *declared_at(neuron.span, "the neuron")))


def _of_an_end(name: str, d: SynapseDraft) -> str:
    """Where `name`, without a dot, may be meant to be of an end."""
    ends = [end for end in ("pre", "post") if name in d.traces[end]] or ["pre", "post"]
    return f"variables of neurons are written with their end: {' or '.join(f'`{end}.{name}`' for end in ends)}"


def side_of(end: str) -> str:
    return "source" if end == "pre" else "target"
