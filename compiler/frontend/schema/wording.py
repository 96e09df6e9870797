"""Wording of the validator's messages: lists of names, actual values, suggestions.

Assumes: the located tree.
Guarantees: pure functions of text; nothing is reported here.
Does not: detect errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Mapping as Words

from compiler.core.diagnostics import did_you_mean, letters_of
from compiler.core.source import Span
from compiler.expr.keys.kinds import plural
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence

MANY = 12
"""The number of names that a message lists."""


def found(node: Node) -> str:
    match node:
        case Mapping():
            return "a map" if node.entries else "an empty map"
        case Sequence():
            return "a list"
        case Scalar(value=bool(), text=text):
            return f"`{text}`"
        case Scalar(value=str(), text=text):
            if not text.strip():
                return "an empty text"
            return f"the text `{text if len(text) <= 40 else text[:37] + '...'}`"
        case _:
            return f"the number {node.text}"


def elsewhere(words: Words[str, str], key: str) -> str | None:
    """The equivalent in this language of the word `key` of another, ignoring case and `_`."""
    target = words.get(key) or next((t for w, t in words.items() if letters_of(w) == letters_of(key)), None)
    return None if target is None else f"write {target}"


def allowed(lead: str, known: Iterable[str]) -> str:
    names = list(known)
    shown = quoted(names[:MANY], "and" if len(names) <= MANY else ",")
    return f"{lead} {shown}" + (", ..." if len(names) > MANY else "")


def suggested(word: str, lead: str, known: Collection[str], otherwise: str | None = None) -> str | None:
    """The nearest name of `known`; else all of them, after `lead`, or `otherwise` where there are none."""
    return did_you_mean(word, known) or (allowed(lead, known) if known else otherwise)


def quoted(words: Iterable[str], last: str) -> str:
    return joined([f"`{w}`" for w in words], last)


def joined(parts: list[str], last: str) -> str:
    if len(parts) < 2:
        return "".join(parts)
    if last == ",":
        return ", ".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def count(noun: str, count: int) -> str:
    return noun if count == 1 else plural(noun)


def for_example(example: str | None) -> str | None:
    return None if example is None else f"for example `{example}`"


def taken_word(name: str, noun: str, at: Span) -> tuple[str, Span, str]:
    """Message, place and help where a word of the expression language (`in`, `lambda`) is to be a name of a `noun`."""
    message = f"`{name}` is a word of the expression language and cannot name {noun}"
    return message, at, f"choose another name, such as `{name}_`"
