"""docs/reference.md: every key of the language, from the same source as the validator and the schema.

    python -m scripts.reference_docs

Assumes: compiler/frontend/language.
Guarantees: every block, field, choice, default, example and function of the language occurs once in the text; links
are valid.
Does not: explain how to build a model (that is for hand-written pages).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import compiler.expr.keys.kinds as spec
from compiler.expr.functions import FUNCTIONS
from compiler.frontend.language import ROOT

COMMITTED = Path(__file__).parents[1] / "docs" / "reference.md"
"""Path of the reference in a checkout."""

_INTRODUCTION = """\
# Language reference

Every key that may stand in a model file. This page is generated from the definition of the
language (`compiler/frontend/language`); `python -m scripts.reference_docs` writes it again.

A file is one YAML 1.2 document. Every block is closed: an unknown key is an error; free fields may
stand in any block under names that begin with `x-`. Names are letters, digits and `_`, and begin
with a letter.

What may stand where:

* **value**: a number, a quantity with a unit (`20 ms`, `-65 mV`), or an expression over `params`
  (`2 * width`). A *time*, a *rate* and so on are values of that dimension.
* **expression**: arithmetic, comparisons, `and`, `or`, `not`, `a if c else b`, and calls of known
  [functions](#called) and of the file's `functions`.
* **assignment**: `name = expression`.
* **one-key map**: a map with exactly one key, which chooses among alternatives:
  `{uniform: {low: 0, high: 1}}`.

*Required* keys have no default. Keys and alternatives that are marked *not supported yet* belong to
the language, but this version of the compiler refuses them.
"""


_OF_SYNAPSES = (
    "| `delayed(pre.v)`, `delayed(post.v)` | what a state or an input of the source was `delay` ago, of the target "
    "`back_delay` ago: in step k and with a delay of d steps what `pre.v` is in step k - d, at first its initial "
    "value |",
    "| `sum_post(x)`, `sum_pre(x)`, `sum_instances(x)`, `sum_kernel(x)` | the sum of x over the projection's synapses "
    "onto the same target, from the same source, over the same synapse in all instances, over those of a `conv2d` with "
    "the same element of the kernel; `mean_`, `max_` and `min_` too, and `first_kernel`; in `update` and `on` |",
)
"""Rows of the table of functions for those that are not numeric."""


@dataclass
class _Page:
    """The text so far, and the titles of the blocks with a section."""

    lines: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)


def render() -> str:
    """The text of docs/reference.md."""
    page = _Page([_INTRODUCTION])
    page.lines += ["## The file", "", *_table(ROOT), ""]
    page.done.add("model")
    for f in ROOT.fields:
        parts = [k for k in _titled(f.kind) if _title(k) not in page.done]
        if parts:
            page.lines += [f"## `{f.name}`", "", _sentence(f), "", *_example(f.example)]
            for kind in parts:
                _section(kind, page)
    page.lines += _functions()
    return "\n".join(page.lines).rstrip() + "\n"


def _functions() -> list[str]:
    """The functions of expressions."""
    out = ['## <a id="called"></a>Functions of expressions', "", "| function | what it is |", "| --- | --- |"]
    for f in FUNCTIONS.values():
        more = ", ..." if f.most is None else ""
        out.append(f"| `{f.name}({', '.join(f.parameters)}{more})` | {f.doc} |")
    return [*out, "", "In synapses only:", "", "| function | what it is |", "| --- | --- |", *_OF_SYNAPSES, ""]


def _section(kind: spec.Kind, page: _Page) -> None:
    """The section of a titled kind, and of reachable ones without a section yet."""
    title = _title(kind)
    if title in page.done:
        return
    page.done.add(title)
    match kind:
        case spec.Block():
            page.lines += [f'### <a id="{title}"></a>{_heading(kind)}', ""]
            if kind.doc:
                page.lines += [kind.doc, ""]
            page.lines += [*_table(kind), *_rules(kind), ""]
            inner = [k for f in kind.fields for k in _titled(f.kind)]
        case spec.OneKey(noun, alternatives):
            page.lines += [f'### <a id="{title}"></a>{_capital(noun)}: a choice', "", kind.doc, ""]
            page.lines += ["| key | what it is | example |", "| --- | --- | --- |"]
            page.lines += [_row(a) for a in alternatives]
            if kind.own is not None:
                page.lines.append(f"| *a name* | One of the file's own {spec.plural(noun)}. | |")
            page.lines.append("")
            inner = [k for a in alternatives for k in _titled(a.kind)]
        case _:
            return
    for k in inner:
        _section(k, page)


def _heading(kind: spec.Block) -> str:
    for prefix in ("layer_", "record_", "plot_", "expect_", "connect_"):
        if kind.title is not None and kind.title.startswith(prefix):
            return f"{_capital(kind.noun)} `{kind.title.removeprefix(prefix)}`"
    return f"{_capital(kind.noun)} `{kind.title}`" if _is_key(kind) else _capital(kind.noun)


def _is_key(kind: spec.Block) -> bool:
    """Whether the title says more than the noun."""
    return kind.noun in ("connectivity", "loss")


def _table(kind: spec.Block) -> list[str]:
    if not kind.fields:
        return ["No keys: write `{}`."]
    lines = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for f in kind.fields:
        if f.required:
            default = "*required*"
        else:
            default = "" if f.default is None else f"`{json.dumps(f.default).strip(chr(34))}`"
        meaning = _sentence(f)
        if f.example:
            meaning += f"<br>`{f.example}`"
        lines.append(f"| `{f.name}` | {_words(f.kind)} | {default} | {_cell(meaning)} |")
    return lines


def _rules(kind: spec.Block) -> list[str]:
    rules = [f"Exactly one of {_quoted(g)} stands." for g in kind.one_of]
    if kind.at_least_one:
        rules.append(f"At least one of {_quoted(kind.at_least_one)} stands.")
    rules += [f"`{key}` needs {_quoted(others)}." for key, others in kind.needs]
    if kind.open_with and (kind.required or kind.one_of):
        rules.append(f"With {_quoted(kind.open_with)}, required keys may come from there.")
    return ["", " ".join(rules)] if rules else []


def _row(a: spec.Alternative) -> str:
    name = f"`{a.name}`"
    if isinstance(a.kind, spec.Block) and a.kind.title is not None:
        name = f"[`{a.name}`](#{a.kind.title})"
    doc = a.doc + ("" if a.supported else " *Not supported yet.*")
    return f"| {name} | {_cell(doc)} | {_code(a.example)} |"


def _sentence(f: spec.Field) -> str:
    doc = f.doc + ("" if f.supported else " *Not supported yet.*")
    for choice in _choices(f.kind):
        words = "; ".join(
            f"`{o.value}`: {o.doc.rstrip('.')}{'' if o.supported else ', not supported yet'}" for o in choice.options
        )
        doc += f" ({words}.)"
    return doc


def _words(kind: spec.Kind) -> str:
    """A short description of the kind, with links."""
    match kind:
        case spec.ListOf(item):
            return f"list of: {_words(item)}"
        case spec.MapOf(noun, value, _, example):
            return f"map from names (`{example}`) to: {_words(value)}"
        case spec.Block(noun, title=title) | spec.OneKey(noun, title=title):
            return noun if title is None else f"[{noun}](#{title})"
        case spec.OneOf((spec.ListOf(spec.OneOf((spec.Statement(), spec.MapOf("part"), *_))), *_)):
            return "list of: assignment, or [part](control.md#reuse)"
        case spec.OneOf(kinds):
            return "; or ".join(_words(k) for k in kinds)
        case spec.Later(_, resolve):
            return _words(resolve())
        case _:
            return _scalar_words(kind)


def _scalar_words(kind: spec.ScalarKind) -> str:
    match kind:
        case spec.Text(what) | spec.Pattern(what):
            return what
        case spec.Flag():
            return "`true` or `false`"
        case spec.Constant(value):
            return f"`{value}`"
        case spec.Value(what):
            return what + _bounds(kind)
        case spec.Expression():
            return "expression"
        case spec.Statement():
            return "assignment"
        case spec.Name():
            return "name"
        case spec.Reference(to):
            return f"name of {spec.article(to)} {to}"
        case spec.Choice(_, words):
            return ", ".join(f"`{o.value}`" for o in words)


def _bounds(kind: spec.Value) -> str:
    if kind.low is not None and kind.high is not None:
        return "" if kind.what.endswith(f"{kind.high:g}") else f" ({kind.low:g} to {kind.high:g})"
    if kind.low is not None:
        return f" (above {kind.low:g})" if kind.above else f" (from {kind.low:g})"
    return "" if kind.high is None else f" (up to {kind.high:g})"


def _titled(kind: spec.Kind) -> list[spec.Kind]:
    """The titled blocks and one-key maps directly in `kind`."""
    match kind:
        case spec.Block(title=str()) | spec.OneKey(title=str()):
            return [kind]
        case spec.ListOf(item):
            return _titled(item)
        case spec.MapOf(_, value):
            return _titled(value)
        case spec.OneOf(kinds):
            return [t for k in kinds for t in _titled(k)]
        case spec.Later(_, resolve):
            return _titled(resolve())
        case _:
            return []


def _choices(kind: spec.Kind) -> list[spec.Choice]:
    match kind:
        case spec.Choice():
            return [kind]
        case spec.ListOf(item):
            return _choices(item)
        case spec.OneOf(kinds):
            return [c for k in kinds for c in _choices(k)]
        case _:
            return []


def _title(kind: spec.Kind) -> str:
    return (kind.title or "") if isinstance(kind, spec.Block | spec.OneKey) else ""


def _example(example: str | None) -> list[str]:
    return ["```yaml", example, "```", ""] if example else []


def _code(example: str | None) -> str:
    return "" if example is None else _cell(f"`{example}`")


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{w}`" for w in words)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def main() -> None:
    """Write the committed file again."""
    COMMITTED.parent.mkdir(exist_ok=True)
    COMMITTED.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"wrote {COMMITTED}\n")


if __name__ == "__main__":
    main()
