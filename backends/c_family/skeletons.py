"""The jinja2 skeletons of a backend: its templates/*.j2, and those of this folder that backends share.

Assumes: the files are package data of the backend's package.
Guarantees: an undefined name in a skeleton is an error, never an empty string; trailing newlines are kept. Skeletons
are compiled once, beside the package's own bytecode, where that can be written. Of a skeleton of statements (`frame`)
names of ours and of what a rule declares are symbols: those that were printed are data, and others may stand for them.
Helpers of a file that no kernel needs are left out (`needed`).
Does not: depend on kernels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import (
    BytecodeCache,
    ChoiceLoader,
    DictLoader,
    Environment,
    FileSystemBytecodeCache,
    PackageLoader,
    StrictUndefined,
    pass_context,
)
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.runtime import Context

from backends.kernel_ir.stmt import Frame, Stmt
from backends.kernel_ir.tree import MARK, Code, deeper

_SHARED: Final = "backends.c_family"
_CALLED: Final = ("variable_begin", "name", "lparen", "string", "rparen", "variable_end")
_OWN_TEXT: Final = """
    rest_below blocks_below skip lane pool pool_a k turn found first second n word i j a b sum d before c target targets
    x_i y_i c_i x_j y_j c_j places many hit hits holds xs ys cs x y z t probability rounds each drawn_a"""
OWN: Final = frozenset(_OWN_TEXT.split())
"""What the skeletons of rules call their own variables."""
_WORD: Final = re.compile(rf"\b((?:nl_|NL_|__)\w+|double|step|{'|'.join(sorted(OWN))})\b")


class Symbols(Extension):
    """A symbol in the text of a skeleton is `{{ word("it") }}`."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type != "data":
                yield token
                continue
            for n, part in enumerate(_WORD.split(token.value)):
                kinds = zip(_CALLED, ("{{", "word", "(", part, ")", "}}"), strict=True) if n % 2 else (("data", part),)
                yield from (Token(token.lineno, kind, text) for kind, text in kinds if text)


@pass_context
def _noted(context: Context, value: Any) -> Any:
    """What is printed, with its names noted, and marks where lines may be broken."""
    if not isinstance(value, Code):
        return value
    context["printed"].update(value.names)
    return value.marked(deeper(deeper(MARK)))


def frame(
    env: Environment,
    file: str,
    names: Mapping[str, Any],
    holes: Mapping[str, Sequence[Stmt]] = MappingProxyType({}),
    own: Callable[[str], Code] | None = None,
) -> Frame:
    """A skeleton of statements, the first that there is of files with a comma between them. `holes`: what stands in
    place of its lines; `own`: what its identifiers are called."""
    printed = set[str]()
    text = env.select_template(file.split(",")).render(names, **noting(printed, own))
    return Frame(text.strip("\n"), frozenset(printed), holes)


def noting(printed: set[str], own: Callable[[str], Code] | None = None) -> dict[str, Any]:
    """What a skeleton of statements reads beside its arguments: names go to `printed`."""

    def word(text: str) -> str:
        found = own(text).text if own else text
        printed.add(found)
        return found

    return {"printed": printed, "word": word}


@dataclass(frozen=True)
class _Helpers:
    """Definitions with an empty line between them: their texts, the names in each, and by name the number of the one
    that defines it."""

    texts: tuple[str, ...]
    names: tuple[frozenset[str], ...]
    of: Mapping[str, int]


_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_NAME: Final = re.compile(r"\b(?:nl_|NL_)\w+")
_TITLE: Final = "/* ====", "/* ----"


@lru_cache(maxsize=64)
def _helpers(text: str) -> _Helpers:
    """A name is defined where it first stands in a line that is not indented; of a macro that is its own alone."""
    texts = [""]
    for part in text.strip("\n").split("\n\n"):
        inside = texts[-1].count("/*") > texts[-1].count("*/")
        texts[-1:] = [f"{texts[-1]}\n\n{part}"] if inside else [texts[-1], part.strip("\n")]
    of, names = dict[str, int](), list[frozenset[str]]()
    for number, part in enumerate(texts):
        bare = _COMMENT.sub("", part)
        names.append(frozenset(_NAME.findall(bare)))
        for line in bare.split("\n"):
            found = [] if line.startswith(" ") else _NAME.findall(line)
            for name in found[:1] if line.startswith("#define") else found:
                of.setdefault(name, number)
    return _Helpers(tuple(texts), tuple(names), of)


def needed(text: str, words: Iterable[str], *more: str) -> str:
    """The definitions of names, with all that these name, and what defines nothing; titles of what is left."""
    helpers, todo, found = _helpers(text), [*words, *more], list[str]()
    kept = {n for n, names in enumerate(helpers.names) if not names}
    while todo:
        number = helpers.of.get(todo.pop())
        if number is not None and number not in kept:
            kept.add(number)
            todo += helpers.names[number]
    for number in sorted(kept):
        if found and found[-1].startswith(_TITLE) and helpers.texts[number].startswith(_TITLE):
            found.pop()
        found.append(helpers.texts[number])
    return "\n\n".join(found[:-1] if found[-1].startswith(_TITLE) else found).strip("\n") + "\n"


@cache
def skeletons(package: str, others: Callable[[], Mapping[str, str]] = dict, statements: bool = False) -> Environment:
    """One environment for all skeletons of a package, its own first: blocks on separate lines leave no empty lines.
    `others`: texts by name, of other packages. `statements`: for `frame`."""
    more: dict[str, Any] = {"extensions": [Symbols], "finalize": _noted} if statements else {}
    env = Environment(
        loader=ChoiceLoader([*(PackageLoader(p, "templates") for p in (package, _SHARED)), DictLoader(others())]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=_compiled(package, "symbols" if statements else "jinja2"),
        **more,
    )
    env.filters["needed"] = needed
    return env


@dataclass(frozen=True)
class Skeletons:
    """Those of a backend's package. `others`: texts by name, of other packages."""

    package: str
    others: Callable[[], Mapping[str, str]] = dict

    def statements(self) -> Environment:
        """For `frame`."""
        return skeletons(self.package, self.others, True)

    def render(self, file: str, **names: Any) -> str:
        return skeletons(self.package).get_template(file).render(**names)


def _compiled(package: str, kind: str) -> BytecodeCache | None:
    """The cache of compiled skeletons; jinja2 checks them against the text and its own version."""
    folder = Path(str(files(package))) / "__pycache__"
    return FileSystemBytecodeCache(str(folder), f"__{kind}_%s.cache") if os.access(folder, os.W_OK) else None
