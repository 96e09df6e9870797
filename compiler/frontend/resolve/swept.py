"""`sweep`: every value against the parameter that it is for.

Assumes: a validated tree; the values of `--set`.
Guarantees: names are of parameters (E0204); each value has the type (E0206), the dimension (E0401), and lies within the
bounds or is among the choices (E0205) of its parameter, each error at the value. Where a value or a bound reads
another parameter that is swept, every combination of the two is checked, up to MOST.
Does not: make trials (compiler/sweep/plan.py); check values that are drawn where a bound reads a swept parameter.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Settings
from dataclasses import dataclass
from typing import Final

from compiler.core.diagnostics import Diagnostic, Sink, did_you_mean
from compiler.core.source import Span
from compiler.frontend.resolve.choices import choose
from compiler.frontend.resolve.params import resolve_param, resolve_params
from compiler.frontend.resolve.values import ParamValue
from compiler.frontend.schema.wording import allowed, suggested
from compiler.frontend.yaml import core_schema
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence

TRIALS: Final = ("grid", "list", "random", "search")
"""The keys that say what the trials are."""
MOST: Final = 10_000
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
QUANTITY: Final = re.compile(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(\S.*)?")


_Combined = Callable[[list[str]], Iterator[dict[str, Scalar]]]
"""From names to the settings of these parameters in every trial."""


def full_form(node: Mapping) -> Mapping:
    """`sweep: {n: [1, 2]}`, which is short for a grid, as a grid."""
    if any(key in node for key in (*TRIALS, "seeds")):
        return node
    return Mapping((Entry(Scalar("grid", "grid", True, node.span), node),), node.span)


def check_sweep(root: Mapping, settings: Settings[str, str], sink: Sink) -> None:
    """Errors of the values in `sweep`, with `settings` for the parameters that are not swept."""
    block = root.get("sweep")
    if not isinstance(block, Mapping):
        return
    block = full_form(block)
    kinds = [e for e in block.entries if e.name in TRIALS]
    for second in kinds[1:]:
        message = f"`{kinds[0].name}` and `{second.name}` cannot stand together in `sweep`"
        sink.error("E0108", message, second.key.span, "keep one of them")
    seeds = block.entry("seeds")
    if seeds is not None and "search" in block:
        help = "leave it out, and run the best values in a `grid` with `seeds`"
        sink.error("E0802", "a `search` runs each trial with the model's own seed", seeds.key.span, help)
    quiet = Sink()
    numeric, rest = choose(root, settings, quiet)
    params = resolve_params(numeric.get("params"), rest, quiet)
    if not quiet.failed():  # otherwise those are told
        checker = _Checker(root.get("params"), numeric.get("params"), rest, params, sink)
        for kind in kinds:
            checker.check(kind)


@dataclass(frozen=True)
class _Checker:
    """`declared`: all parameters; `numeric`: those that are no words, with their values `params`."""

    declared: Node | None
    numeric: Node | None
    settings: Settings[str, str]
    params: dict[str, ParamValue]
    sink: Sink

    def check(self, kind: Entry) -> None:
        node = kind.value
        if kind.name == "list" and isinstance(node, Sequence):
            trials = [{e.name: _plain(e.value) for e in t.entries} for t in node.items if isinstance(t, Mapping)]
            entries = [e for t in node.items if isinstance(t, Mapping) for e in t.entries]
            values: dict[str, list[Scalar]] = {}
            for entry in self._known(entries):
                values.setdefault(entry.name, []).append(_plain(entry.value))
            self._values(values, lambda names: ({n: t[n] for n in names if n in t} for t in trials))
        elif kind.name == "grid" and isinstance(node, Mapping):
            grid = {e.name: [_plain(i) for i in e.value.items] for e in self._known(node.entries)
                    if isinstance(e.value, Sequence)}  # fmt: skip
            self._values(grid, lambda names: _product({n: grid[n] for n in names}))
        elif isinstance(node, Mapping) and isinstance(drawn := node.get("values"), Mapping):
            known = [e for e in self._known(drawn.entries) if isinstance(e.value, Mapping) and e.value.entries]
            for entry in known:
                assert isinstance(entry.value, Mapping)
                self._drawn(entry.name, entry.value.entries[0], {e.name: [] for e in known})

    def _known(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries whose keys are parameters; E0204 for the others."""
        known = tuple(self.declared.keys()) if isinstance(self.declared, Mapping) else ()
        for entry in entries:
            if entry.name in known:
                yield entry
                continue
            listed = allowed("the model has", known) if known else "only what `params` declares can be swept"
            help = did_you_mean(entry.name, known) or listed
            self.sink.error("E0204", f"`sweep`: there is no parameter `{entry.name}`", entry.key.span, help)

    def _choices(self, name: str) -> list[str] | None:
        """The words that a parameter may be; None for a number."""
        block = self.declared.get(name) if isinstance(self.declared, Mapping) else None
        listed = block.get("choices") if isinstance(block, Mapping) and name not in self.params else None
        return [i.text for i in listed.items if isinstance(i, Scalar)] if isinstance(listed, Sequence) else None

    def _values(self, values: Settings[str, list[Scalar]], combined: _Combined) -> None:
        for name, scalars in values.items():
            words = self._choices(name)
            others = [] if words is not None else self._read_by(name, values)
            if words is not None:
                for scalar in scalars:
                    self._word(name, scalar, words)
            elif others:
                self._together(name, combined([name, *others]))
            else:
                for scalar in scalars:
                    self._one(name, scalar)

    def _word(self, name: str, scalar: Scalar, words: list[str]) -> None:
        if scalar.text not in words:
            help = suggested(scalar.text, "choices are", words)
            self.sink.error("E0205", f"`{name}` of `sweep` is `{scalar.text}`", scalar.span, help)

    def _one(self, name: str, scalar: Scalar, bounded: bool = True) -> bool:
        """Check a value by itself, with its bounds where these are known; False after an error."""
        assert isinstance(self.numeric, Mapping)
        before = dict(itertools.takewhile(lambda p: p[0] != name, self.params.items()))
        entry = self.numeric.entry(name)
        assert entry is not None
        inner = Sink()
        resolve_param(entry.key, entry.value, {name: scalar}, before, inner)
        wrong = [d for d in inner.items if bounded or d.code != "E0205"]
        self.sink.items += wrong
        return not wrong

    def _together(self, name: str, combinations: Iterator[dict[str, Scalar]]) -> None:
        """Check the value of `name` in combinations with the parameters that it depends on; each error once."""
        told: set[tuple[int, str]] = set()
        for settings in itertools.islice(combinations, MOST):
            if name not in settings:
                continue
            inner = Sink()
            resolve_params(self.numeric, {**self.settings, **settings}, inner)
            for d in inner.items:
                if _within(d, settings[name].span) and (key := (settings[name].span.start, d.code)) not in told:
                    told.add(key)
                    self.sink.items.append(d)

    def _read_by(self, name: str, swept: Settings[str, list[Scalar]]) -> list[str]:
        """The other swept parameters that the value or the bounds of `name` depend on."""
        assert isinstance(self.numeric, Mapping)
        found: set[str] = set()
        todo = [name]
        while todo:
            at = todo.pop()
            texts = [s.text for s in swept.get(at, ())] + _texts(self.numeric.get(at))
            for word in {w for t in texts for w in _WORD.findall(t)} & self.params.keys() - found:
                found.add(word)
                todo.append(word)
        return [n for n in swept if n in found and n != name]

    # ------------------------------------------------------------------------------------- what is drawn

    def _drawn(self, name: str, rule: Entry, swept: Settings[str, list[Scalar]]) -> None:
        """Check a distribution: its ends, and whether it gives values of the parameter's type."""
        words = self._choices(name)
        bounded = words is not None or not self._read_by(name, swept)
        if rule.name == "choice" and isinstance(rule.value, Sequence):
            for item in rule.value.items:
                if words is not None:
                    self._word(name, _plain(item), words)
                else:
                    self._one(name, _plain(item), bounded)
            return
        kind = "choice" if words is not None else self.params[name].kind
        wanted = "integers" if kind == "int" else "choice"
        if kind in ("choice", "bool") or (kind == "int" and rule.name != "integers"):
            what = {"choice": "a word", "bool": "true or false", "int": "a whole number"}[kind]
            message = f"parameter `{name}` is {what}, and `{rule.name}` draws {_DRAWS[rule.name]}"
            self.sink.error("E0206", message, rule.key.span, f"use `{wanted}`")
        elif isinstance(rule.value, Mapping):
            self._ends(name, rule, bounded)

    def _ends(self, name: str, rule: Entry, bounded: bool) -> None:
        assert isinstance(rule.value, Mapping)
        low, high = (_plain(rule.value.get(end)) for end in ("low", "high"))
        written = [QUANTITY.fullmatch(end.text) for end in (low, high)]
        for end, found in zip((low, high), written, strict=True):
            if found is None or not _number(found[1]):
                message = f"`{name}` is drawn between two numbers, not `{end.text}`"
                self.sink.error("E0102", message, end.span, "write a number, with a unit where the parameter has one")
                return
        good = [self._one(name, end, bounded) for end in (low, high)]
        if written[0] is None or written[1] is None or not all(good):
            return
        first, last, units = float(written[0][1]), float(written[1][1]), [w[2] for w in written if w is not None]
        if units[0] != units[1]:
            help = f"write both in {units[0] or units[1]}"
            self.sink.error("E0106", f"`low` and `high` of `{name}` are in different units", high.span, help)
        elif not first <= last:
            self.sink.error("E0106", f"`high` of `{name}` is less than its `low`", high.span, "give the smaller first")
        elif rule.name == "log_uniform" and first <= 0:
            self.sink.error("E0106", f"`low` of `{name}` is {low.text}, which has no logarithm", low.span)
        elif rule.name == "integers":
            for end, number, unit in zip((low, high), (first, last), units, strict=True):
                if unit or not number.is_integer():
                    help = "use `uniform` for other numbers"
                    self.sink.error("E0106", f"`integers` go from one whole number to another, not `{end.text}`",
                                    end.span, help)  # fmt: skip


def _plain(node: Node | None) -> Scalar:
    """A scalar as `--set` would read it, whether or not it stands in quotes."""
    assert isinstance(node, Scalar)
    value = core_schema.resolve(node.text)
    return Scalar(node.text if isinstance(value, core_schema.Unreadable) else value, node.text, True, node.span)


def _product(values: Settings[str, list[Scalar]]) -> Iterator[dict[str, Scalar]]:
    return (dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))


def _number(text: str) -> bool:
    return isinstance(core_schema.resolve(text), int | float)


def _texts(node: Node | None) -> list[str]:
    """The texts that say the value and the bounds of a parameter."""
    if isinstance(node, Mapping):
        return [e.value.text for e in node.entries if e.name in ("value", "min", "max") and isinstance(e.value, Scalar)]
    return [node.text] if isinstance(node, Scalar) else []


def _within(d: Diagnostic, span: Span) -> bool:
    return d.span is not None and d.span.file is span.file and span.start <= d.span.start and d.span.end <= span.end


_DRAWS: Final = {
    "uniform": "any number between its ends",
    "log_uniform": "any number between its ends",
    "integers": "numbers",
}
