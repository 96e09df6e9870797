"""A tree of any text, however much of it is missing, and what a cursor in it stands at.

Assumes: the forms of YAML that models are written in: maps and lists in block and in flow style, quoted and plain
scalars, comments. Anchors, tags and several documents are read as text.
Guarantees: for every text a tree of what can be recognised, in linear time; a bracket that is not closed ends before
the next key at the indentation of its own line or less.
Does not: report mistakes (compiler/frontend/yaml does).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from compiler.core.source import SourceFile, Span
from compiler.frontend.yaml import core_schema
from compiler.frontend.yaml.core_schema import Unreadable
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence

Step = str | int
Path = tuple[Step, ...]

_KEY: Final = re.compile(
    r"""("[^"\n]*"|'[^'\n]*'|[^\s#\[\]{},&*!|>'"%@`-][^\n#]*?|-[^\s:][^\n#]*?)[ ]*:(?=[ \r\n]|\Z)"""
)
_FLOW_PLAIN: Final = re.compile(r"(?:[^\s,\[\]{}:#]|:(?![\s,\[\]{}]|\Z)|(?<!\s)#|[ \t]+(?=[^\s,\[\]{}:#]))+")
_NEXT: Final = re.compile(r"\n[\r\n]*([ ]*)(?:-[ ]|[^\s#\[\]{},][^\n#,{}\[\]]*:(?:[ \r\n]|\Z))")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#")


@dataclass
class _Open:
    """A collection under construction. `indent`: its column; -1 in flow style. `end`: behind the bracket that closes
    it. `bare`: the map of one pair that an item of a list in flow style is without braces, `[key: value]`."""

    is_map: bool
    indent: int
    start: int
    keys: list[Scalar] = field(default_factory=list)
    values: list[_Open | Scalar | None] = field(default_factory=list)
    end: int = 0
    bare: bool = False

    def put(self, value: _Open | Scalar) -> None:
        if self.values and self.values[-1] is None:
            self.values[-1] = value

    @property
    def step(self) -> Step:
        return self.keys[-1].text if self.is_map else len(self.values) - 1

    @property
    def pending(self) -> bool:
        return bool(self.values)


@dataclass(frozen=True)
class Cursor:
    """What stands at a cursor: at `path` in the tree a "key" of a map is written, a "value", "either" (the first key of
    a map, or a value), or an "item" of a list without its `-`. `start`: where the word begins that ends at the cursor.
    """

    path: Path
    mode: Literal["key", "value", "either", "item"]
    start: int
    flow: bool = False


class _Scanner:
    def __init__(self, file: SourceFile, end: int) -> None:
        self.file, self.text, self.end = file, file.text[:end], end
        self.root = _Open(True, 0, 0)
        self.blocks: list[_Open] = [self.root]
        self.flow: list[_Open] = []
        self.word: int | None = None  # the start of a plain value at the end of the text
        self.loose: tuple[int, int] | None = None  # column and start of a word that is no value of a key
        self.closed = False  # the end is in a comment, a text or behind a complete value

    def run(self) -> None:
        at = 0
        while at < len(self.text):
            at = self.line(at)
        if not self.text or self.text.endswith("\n"):
            self.loose = (0, len(self.text))

    def span(self, start: int, end: int) -> Span:
        return Span(self.file, start, end)

    def line(self, start: int) -> int:
        """Read the line at `start`, and those that its value takes; returns where the next one begins."""
        text = self.text
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        after = end + 1
        end -= text[start:end].endswith("\r")
        self.word, self.loose, self.closed = None, None, False
        at = start
        while at < end and text[at] == " ":
            at += 1
        if at == end or text[at] == "#" or text.startswith("---", at):
            self.loose, self.closed = (at - start, at), at < end
            return after
        while text[at] == "-" and (at + 1 == len(text) or text[at + 1] in " \r\n"):
            self.item(at - start, at)
            at += 1
            while at < end and text[at] == " ":
                at += 1
            if at == end:
                self.loose = (at - start, at)
                return after
        key = _KEY.match(text, at, end)
        if key is None:
            self.loose = (at - start, at)
            return self.value(at, end, at - start, after)
        self.key(at - start, key)
        at = key.end()
        while at < end and text[at] == " ":
            at += 1
        return self.value(at, end, self.blocks[-1].indent, after)

    def item(self, column: int, at: int) -> None:
        """Begin an item of a list."""
        while len(self.blocks) > 1 and self.blocks[-1].indent > column:
            self.blocks.pop()
        top = self.blocks[-1]
        if top.is_map:
            new = _Open(False, column, at)
            top.put(new)
            self.blocks.append(new)
            top = new
        top.values.append(None)

    def key(self, column: int, key: re.Match[str]) -> None:
        """Begin an entry of a map."""
        while len(self.blocks) > 1 and (
            self.blocks[-1].indent > column or (self.blocks[-1].indent == column and not self.blocks[-1].is_map)
        ):
            self.blocks.pop()
        top = self.blocks[-1]
        if top.indent != column and top.pending:
            new = _Open(True, column, key.start())
            top.put(new)
            self.blocks.append(new)
            top = new
        top.keys.append(self.scalar(*key.span(1)))
        top.values.append(None)

    def scalar(self, start: int, end: int) -> Scalar:
        written = self.text[start:end]
        if written[:1] in ("'", '"'):
            inner = written[1:-1] if len(written) > 1 and written[-1] == written[0] else written[1:]
            return Scalar(inner, inner, False, self.span(start, end))
        value = core_schema.resolve(written)
        return Scalar(written if isinstance(value, Unreadable) else value, written, True, self.span(start, end))

    def value(self, at: int, end: int, indent: int, after: int) -> int:
        """Read the value at `at` of a line; returns where the next one begins: `after`, or further on."""
        text, top = self.text, self.blocks[-1]
        if at == end:
            self.word = at
        elif text[at] == "#":
            self.closed = True
        elif text[at] in "{[":
            at = self.flow_value(at, indent)
            line_end = text.find("\n", at)
            if not self.flow:
                self.closed = True
            return len(text) if line_end < 0 or self.flow else line_end + 1
        elif text[at] in "|>":
            self.closed = True
            return self.block_text(after, indent)
        elif text[at] in "'\"":
            return self.quoted(at, top)
        else:
            comment = _COMMENT.search(text, at, end)
            stop = end if comment is None else comment.start()
            self.closed = comment is not None
            self.word = at
            if self.loose is None or not top.is_map:
                top.put(self.scalar(at, at + len(text[at:stop].rstrip())))
        return after

    def quoted(self, at: int, top: _Open) -> int:
        text = self.text
        close = text.find(text[at], at + 1)
        stop = len(text) if close < 0 else close + 1
        top.put(self.scalar(at, stop))
        self.word, self.closed = at + 1, close >= 0
        self.loose = None
        end = text.find("\n", stop)
        return len(text) if end < 0 else end + 1

    def block_text(self, at: int, indent: int) -> int:
        """Skip a block scalar: the lines that are indented further than `indent`."""
        text, start = self.text, at
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            line = text[at:end]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            at = end + 1
        self.blocks[-1].put(
            Scalar(text[start:at], text[start:at], False, self.span(min(start, len(text)), min(at, len(text))))
        )
        return at

    def flow_value(self, at: int, indent: int) -> int:
        """Read a value in flow style; returns where it ends. `self.flow` holds what the text leaves open."""
        text = self.text
        while at < len(text):
            c = text[at]
            self.word = self.word if c in " \t" else None
            if c in "{[":
                self.open(c == "{", at)
            elif c in "}]":
                self.end_pair()
                self.flow.pop().end = at + 1
                if not self.flow:
                    self.loose = None
                    return at + 1
            elif c == ",":
                self.comma()
            elif c == ":" and (self.flow[-1].is_map or self.begin_pair()):
                pass
            elif c == "\n":
                ahead = _NEXT.match(text, at)
                if ahead is not None and len(ahead[1]) <= indent:
                    self.flow.clear()
                    return at
            elif c == "#" and text[at - 1] in " \t\n":
                end = text.find("\n", at)
                self.closed = end < 0
                at = len(text) if end < 0 else end
                continue
            elif c not in " \t\r":
                at = self.flow_word(at)
                continue
            at += 1
        return at

    def open(self, is_map: bool, at: int) -> None:
        new = _Open(is_map, -1, at)
        if self.flow:
            self.slot().put(new)
        else:
            self.blocks[-1].put(new)
        self.flow.append(new)

    def slot(self) -> _Open:
        """The innermost flow collection, with a place for a value."""
        top = self.flow[-1]
        if not top.is_map and (not top.values or top.values[-1] is not None):
            top.values.append(None)
        return top

    def begin_pair(self) -> bool:
        """At a colon in a list: what stands before it becomes the key of a map of one pair."""
        top = self.flow[-1]
        key = top.values[-1] if top.values else None
        if not isinstance(key, Scalar):
            return False
        pair = _Open(True, -1, key.span.start, [key], [None], bare=True)
        top.values[-1] = pair
        self.flow.append(pair)
        return True

    def end_pair(self) -> None:
        if self.flow[-1].bare:
            self.flow.pop()

    def comma(self) -> None:
        self.end_pair()
        top = self.flow[-1]
        if top.is_map:
            top.keys.append(Scalar("", "", True, self.span(0, 0)))
        top.values.append(None)

    def flow_word(self, at: int) -> int:
        text, top = self.text, self.flow[-1]
        if text[at] in "'\"":
            close = text.find(text[at], at + 1)
            stop = len(text) if close < 0 else close + 1
            self.word = at + 1
        else:
            found = _FLOW_PLAIN.match(text, at)
            stop = at + 1 if found is None else found.end()
            self.word = at
        word = self.scalar(at, stop)
        if not top.is_map:
            self.slot().put(word)
        elif top.values and top.keys[-1].span.end and top.values[-1] is None and self.after_colon(at):
            top.put(word)
        elif top.keys and not top.keys[-1].span.end:
            top.keys[-1] = word
        else:
            top.keys.append(word)
            top.values.append(None)
        return stop

    def after_colon(self, at: int) -> bool:
        return self.text[:at].rstrip().endswith(":")

    def cursor(self) -> Cursor | None:
        """What stands at the end of the text."""
        whole = all(b.pending for b in self.blocks)  # no value without a key
        if self.closed or (self.flow and not whole):
            return None
        if self.flow:
            return self.in_flow()
        if self.loose is None:
            path = tuple(b.step for b in self.blocks) if whole else ()
            return Cursor(path, "value", self.word) if path and self.word is not None else None
        column, start = self.loose
        while len(self.blocks) > 1 and self.blocks[-1].indent > column:
            self.blocks.pop()
        top, outer = self.blocks[-1], tuple(b.step for b in self.blocks[:-1])
        if top.indent == column or not top.pending:
            mode: Literal["key", "item"] = "key" if top.is_map else "item"
            return Cursor(outer if top.is_map else (*outer, len(top.values)), mode, start)
        return Cursor((*outer, top.step), "either", start)

    def in_flow(self) -> Cursor:
        outer = (*(b.step for b in self.blocks), *(f.step for f in self.flow[:-1]))
        top, text = self.flow[-1], self.text
        start = len(text) if self.word is None else self.word
        if not top.is_map:
            filled = bool(top.values) and (top.values[-1] is None or self.word is not None)
            return Cursor((*outer, max(len(top.values) - filled, 0)), "either", start, True)
        if top.keys and top.keys[-1].span.end and self.after_colon(start - (text[start - 1] in "'\"")):
            return Cursor((*outer, top.step), "value", start, True)
        return Cursor(outer, "key", start, True)


def outline(file: SourceFile) -> Mapping:
    """The tree of a text, as far as it can be recognised."""
    scanner = _Scanner(file, len(file.text))
    scanner.run()
    root = _frozen(scanner.root, file)
    assert isinstance(root, Mapping)
    return root


def cursor(file: SourceFile, at: int) -> Cursor | None:
    """What stands at the character offset `at`; None in comments and behind complete values."""
    scanner = _Scanner(file, at)
    scanner.run()
    return scanner.cursor()


def _frozen(node: _Open | Scalar | None, file: SourceFile) -> Node:
    if node is None:
        return Scalar(None, "", True, Span(file, 0, 0))
    if isinstance(node, Scalar):
        return node
    values = [_frozen(v, file) for v in node.values]
    end = max((v.span.end for v in values), default=node.start)
    end = max(end, node.end, node.keys[-1].span.end if node.keys else 0)
    span = Span(file, node.start, end)
    if not node.is_map:
        return Sequence(tuple(values), span)
    entries = {k.text: Entry(k, v) for k, v in zip(node.keys, values, strict=True) if k.span.end}
    return Mapping(tuple(entries.values()), span)
