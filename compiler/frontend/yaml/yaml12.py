"""From the text of one YAML file to a located tree (compiler/frontend/yaml/tree.py).

Assumes: PyYAML, with libyaml where available (without, loading is about 20 times slower).
Guarantees: strict YAML 1.2 core scalars, string keys, no duplicate keys, no tags, no merge keys, one document;
nesting, aliases and size are bounded, so that every input ends in bounded time, with a tree or diagnostics; every node
has a span that counts characters of the file's text.
Does not: depend on the language's keys. An alias gives the identical node, not a copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from compiler.core.diagnostics import Diagnostic, Related, Sink, did_you_mean
from compiler.core.gc_pause import no_garbage_collection
from compiler.core.source import SourceFile, Span
from compiler.files.guard import regular
from compiler.frontend.yaml import core_schema
from compiler.frontend.yaml.core_schema import Unreadable, Value
from compiler.frontend.yaml.errors import MAX_DEPTH, explain_syntax_error, refused_characters
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_KEPT: Final = 1 << 16
"""Characters of the largest text whose tree is kept."""
MAX_ALIASED_NODES: Final = 1_000_000

_TUPLE: Final = re.compile(r"\([\d.,\s-]*\)", re.ASCII)
_CLOSED: Final = re.compile(r"\([^(){}\[\]]*\)")
_LOADER: Final = yaml.CLoader if yaml.__with_libyaml__ else yaml.Loader


def load_file(path: Path, sink: Sink, shown: str | None = None) -> Node | None:
    """The tree of the file at `path`, or None with errors in `sink`; `shown`: its name in messages."""
    name = shown if shown is not None else str(path)
    source = read_source(path, sink, name)
    return None if source is None else load_text(source, sink)


def _near(path: Path, shown: str) -> str | None:
    """The probably intended file of the same folder."""
    try:
        beside = [p.name for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml")]
    except OSError:
        return f"there is no folder `{shown.rpartition('/')[0]}`"
    near = did_you_mean(path.name, beside)
    folder = shown.rpartition("/")[0]
    return near if near is None or not folder else near.replace("mean `", f"mean `{folder}/", 1)


def read_source(path: Path, sink: Sink, shown: str) -> SourceFile | None:
    """The decoded text of the file at `path`, or None with an error in `sink`. What is no UTF-8 in `shown` is
    escaped."""
    shown = shown.encode(errors="backslashreplace").decode()
    here = Span(SourceFile(shown, ""), 0, 0)
    try:
        regular(path)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        sink.error("E0002", f"there is no file `{shown}`", None, _near(path, shown))
        return None
    except IsADirectoryError:
        sink.error("E0002", f"`{shown}` is a directory, not a file", None)
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        sink.error("E0002", f"cannot read `{shown}`: {reason}", None)
        return None
    if len(data) > MAX_BYTES:
        _too_large(here, sink)
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        help = "save the file as UTF-8"
        sink.error("E0005", "the file is encoded as UTF-16, not as UTF-8", here, help)
        return None
    try:
        return SourceFile(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        # The text is shown with invalid bytes replaced; all before the first one is unchanged.
        text = data.decode("utf-8", errors="replace")
        at = len(data[: error.start].decode("utf-8"))
        sink.error(
            "E0004",
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not valid UTF-8",
            Span(SourceFile(shown, text), at, at + 1),
            "save the file as UTF-8",
        )
        return None


def load_text(file: SourceFile, sink: Sink) -> Node | None:
    """The tree of a file's text; None when its syntax is broken or it is empty.

    Recoverable errors (a duplicate key, a tag, ...) are also added to `sink`, but the tree is returned, so that later
    stages can report more in the same run. A text that is read again, by the next trial of a sweep or for the copy of
    the model beside the results, is not parsed again.
    """
    if len(file.text) > MAX_KEPT:
        return _loaded(file, sink)
    root, items = _kept(file.path, file.text)
    sink.items += items
    return root


@lru_cache(maxsize=4)
def _kept(path: str, text: str) -> tuple[Node | None, tuple[Diagnostic, ...]]:
    """The tree of a text, and what there is to say about it."""
    sink = Sink()
    return _loaded(SourceFile(path, text), sink), tuple(sink.items)


def _loaded(file: SourceFile, sink: Sink) -> Node | None:
    text = file.text
    if len(text) > MAX_BYTES:
        _too_large(Span(file, 0, 0), sink)
        return None
    if refused_characters(file, sink):
        return None
    if text.startswith("\ufeff"):
        sink.warning("W0001", "the file begins with a byte order mark", Span(file, 0, 1))
    with no_garbage_collection():
        try:
            root = _Builder(file, sink).build()
        except yaml.YAMLError as error:
            explain_syntax_error(error, file, sink)
            return None
        except _Stopped:
            return None
    if root is None or (isinstance(root, Scalar) and root.plain and root.value is None):
        help = "a model file begins with `language: 1`"
        sink.error("E0003", "the file is empty", Span(file, 0, 0), help)
        return None
    return root


def _too_large(span: Span, sink: Sink) -> None:
    limit = MAX_BYTES // (1024 * 1024)
    help = "keep large arrays in .npy, .npz or .csv files and name them in the model"
    sink.error("E0015", f"the file is larger than {limit} MiB", span, help)


class _Stopped(Exception):
    """Loading is aborted; the reason is in the sink."""


@dataclass(slots=True)
class _Anchored:
    """The target of aliases. `node` is None while the node is still open."""

    start: int
    node: Node | None = None
    size: int = 1  # its number of nodes, aliases expanded
    height: int = 0  # levels of nesting in it


@dataclass(slots=True)
class _Frame:
    """A collection that is still open."""

    start: int
    is_map: bool
    flow: bool
    anchor: _Anchored | None
    first: int  # value of the node counter when it was opened
    out: list[Any] = field(default_factory=list)  # entries of a mapping, nodes of a list
    key: Scalar | None = None  # read, its value is pending
    height: int = 1
    open_paren: Scalar | None = None  # the item of a flow collection before a comma in `f(a, b)`


class _Builder:
    """Consumes parser events with an explicit stack: no recursion for any nesting."""

    def __init__(self, file: SourceFile, sink: Sink) -> None:
        self.file = file
        self.sink = sink
        # libyaml does not count a byte order mark; an empty line in its place keeps offsets right.
        self.text = "\n" + file.text[1:] if file.text.startswith("\ufeff") else file.text
        self.anchors: dict[str, _Anchored] = {}
        self.stack: list[_Frame] = []
        self.root: Node | None = None
        self.documents = 0
        self.count = 0  # nodes so far, aliases expanded
        self.aliased = 0  # of these, nodes that came from aliases
        # Of each plain text: the text, so that equal ones share a string, its value, and whether
        # it needs a closer look.
        self.values: dict[str, tuple[str, Value, bool]] = {}

    def build(self) -> Node | None:
        """The root node, or None when there is no document."""
        frame: _Frame | None = None
        # Events are what their class says, but the stubs know neither that nor that marks are
        # always there.
        event: Any
        for event in yaml.parse(self.text, Loader=_LOADER):
            kind = type(event)
            if kind is ScalarEvent:
                self._scalar(event, frame)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                frame = self._close(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                frame = self._open(event, kind is MappingStartEvent)
            elif kind is AliasEvent:
                self._alias(event, frame)
            elif kind is DocumentStartEvent:
                self._document(event)
        return self.root

    def _scalar(self, event: Any, frame: _Frame | None) -> None:
        """Hot path of millions of scalars: the common case uses local names, without further calls."""
        file = self.file
        self.count += 1
        written = event.value
        span = Span(file, event.start_mark.index, event.end_mark.index)
        if event.style:  # quoted or a block scalar
            if event.style in "|>":
                span = Span(file, span.start, span.start + len(file.text[span.start : span.end].rstrip()))
            node = Scalar(written, written, False, span)
            odd = False
        else:
            known = self.values.get(written)
            if known is None:
                known = self.values[written] = self._plain(written)
            node = Scalar(known[1], known[0], True, span)
            odd = known[2]
        if event.tag is not None or event.anchor is not None:
            self._properties(event, node)
        if frame is None:
            self.root = node
        elif frame.is_map:
            key = frame.key
            if key is not None:
                frame.out.append(Entry(key, node))
                frame.key = None
            else:
                frame.key = node
                if node.plain and (node.value.__class__ is not str or written == "<<"):
                    self._bad_key(node)
        else:
            frame.out.append(node)
        if odd:
            self._odd(frame, node)

    def _close(self, event: Any) -> _Frame | None:
        """End the innermost collection; returns the one around it."""
        stack = self.stack
        frame = stack.pop()
        out = frame.out
        end = event.end_mark.index if frame.flow else _end_of(frame)
        span = Span(self.file, frame.start, end)
        done: Node
        if frame.is_map:
            done = Mapping(tuple(out), span)
            if len({e.key.text for e in out}) != len(out):
                done = self._without_duplicates(done)
        else:
            done = Sequence(tuple(out), span)
        anchor, height = frame.anchor, frame.height
        if anchor is not None:
            anchor.node, anchor.height = done, height
            anchor.size = self.count - frame.first + 1
        if not stack:
            self.root = done
            return None
        frame = stack[-1]
        if height >= frame.height:
            frame.height = height + 1
        if frame.is_map and frame.key is not None:
            frame.out.append(Entry(frame.key, done))
            frame.key = None
        else:
            self._place(frame, done)
        return frame

    def _span(self, event: Any) -> Span:
        return Span(self.file, event.start_mark.index, event.end_mark.index)

    def _properties(self, event: Any, node: Scalar) -> None:
        if event.tag is not None:
            self._tag(event.tag, node.span)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(node.span.start, node)

    def _open(self, event: Any, is_map: bool) -> _Frame:
        start = event.start_mark.index
        if len(self.stack) >= MAX_DEPTH:
            self._too_deep(start)
        self.count += 1
        anchor = None
        if event.anchor is not None:
            anchor = self.anchors[event.anchor] = _Anchored(start)
        if event.tag is not None:
            self._tag(event.tag, self._span(event))
        frame = _Frame(start, is_map, event.flow_style, anchor, self.count)
        self.stack.append(frame)
        return frame

    def _place(self, frame: _Frame, node: Node) -> None:
        """Attach a finished collection, or the target of an alias, to its parent."""
        if not frame.is_map:
            frame.out.append(node)
        elif frame.key is not None:
            frame.out.append(Entry(frame.key, node))
            frame.key = None
        else:
            what = "a mapping" if isinstance(node, Mapping) else "a list"
            help = None
            if isinstance(node, Mapping) and self.file.text[node.span.start] == "{":
                help = "a value that begins with `{` must be in quotes"
            self.sink.error("E0009", f"{what} cannot be a key", node.span, help)
            written = self.file.text[node.span.start : node.span.end]
            frame.key = Scalar(written, written, False, node.span)

    def _alias(self, event: Any, frame: _Frame | None) -> None:
        span = self._span(event)
        name: str = event.anchor
        anchored = self.anchors.get(name)
        if anchored is None:
            help = "a value that begins with `*` must be in quotes"
            self.sink.error("E0018", f"there is no anchor `&{name}` before this alias", span, help)
            raise _Stopped
        if anchored.node is None:
            at = Span(self.file, anchored.start, anchored.start + 1 + len(name))
            related = (Related("the anchor is here", at),)
            self.sink.error("E0017", f"`*{name}` stands inside of `&{name}`", span, None, related)
            raise _Stopped
        self.count += anchored.size
        self.aliased += anchored.size
        if self.aliased > MAX_ALIASED_NODES:
            self.sink.error(
                "E0016",
                f"aliases expand to more than {MAX_ALIASED_NODES:,} nodes",
                span,
                "use `classes`, `use` or `for` to say a thing many times",
            )
            raise _Stopped
        if len(self.stack) + anchored.height > MAX_DEPTH:
            self._too_deep(span.start)
        if frame is not None:  # an alias at the root names nothing, so there is a frame
            frame.height = max(frame.height, anchored.height + 1)
            if frame.is_map and frame.key is None:
                self.sink.error("E0009", "an alias cannot be a key", span)
                frame.key = Scalar(f"*{name}", f"*{name}", False, span)
            else:
                self._place(frame, anchored.node)

    def _document(self, event: Any) -> None:
        self.documents += 1
        span = self._span(event)
        if self.documents > 1:
            help = "put each model in a file of its own; `use` takes parts from other files"
            self.sink.error("E0012", "a second document begins here", span, help)
            raise _Stopped
        if event.version is not None and tuple(event.version) != (1, 2):
            major, minor = event.version
            message = f"the file asks for YAML {major}.{minor}; models are YAML 1.2"
            self.sink.error("E0013", message, self._directive("%YAML", span), "delete this line")
        if event.tags:
            message = "tag directives are not part of the language"
            self.sink.error("E0013", message, self._directive("%TAG", span), "delete this line")

    def _directive(self, word: str, span: Span) -> Span:
        at = self.file.text.find(word, 0, span.end)
        if at < 0:
            return span
        line = self.file.position(at)[0]
        return Span(self.file, at, at + len(self.file.line(line)))

    def _tag(self, tag: str, span: Span) -> None:
        written = self.file.text[span.start : span.end]
        at = written.find("!")
        word = written[at:].split(None, 1)[0] if at >= 0 else ""
        place = Span(self.file, span.start + at, span.start + at + len(word)) if word else span
        message = f"tags such as `{word or tag}` are not part of the language"
        help = "delete it, or put the value in quotes if `!` is part of it"
        self.sink.error("E0011", message, place, help)

    def _bad_key(self, node: Scalar) -> None:
        if node.text == "<<":
            help = "use `classes` or `use` to share settings"
            message = "merge keys are not part of YAML 1.2"
            self.sink.error("E0010", message, node.span, help)
        elif node.text == "":
            help = "a value that begins with `:` must be in quotes"
            self.sink.error("E0009", "there is no key before this `:`", node.span, help)
        elif self._inside_of_parentheses():
            pass  # E0028 is reported where they close
        else:
            what = {bool: "a truth value", int: "a number", float: "a number"}
            kind = what.get(type(node.value), "null")
            help = f'keys are strings: write "{node.text}" in quotes, or another name'
            message = f"the key `{node.text}` is {kind}, not a string"
            self.sink.error("E0009", message, node.span, help)

    def _inside_of_parentheses(self) -> bool:
        """Whether `(1, 2)` is in a mapping, whose later numbers look like keys."""
        opened = self.stack[-1].open_paren if self.stack else None
        return opened is not None and _CLOSED.match(self.file.text, opened.span.start) is not None

    @staticmethod
    def _plain(text: str) -> tuple[str, Value, bool]:
        value = core_schema.resolve(text)
        if isinstance(value, Unreadable):
            return text, 0, True
        return text, value, "(" in text or ")" in text

    def _odd(self, frame: _Frame | None, node: Scalar) -> None:
        """A number that cannot be represented, or a text with parentheses."""
        if isinstance(node.value, str):
            self._parentheses(frame, node)
            return
        shown = node.text if len(node.text) <= 30 else node.text[:27] + "..."
        help = "put it in quotes if it is not meant as a number"
        self.sink.error("E0019", f"the number `{shown}` is out of range", node.span, help)

    def _too_deep(self, start: int) -> None:
        span = Span(self.file, start, min(start + 1, len(self.file.text)))
        self.sink.error("E0014", f"nesting is deeper than {MAX_DEPTH} levels", span)
        raise _Stopped

    def _without_duplicates(self, node: Mapping) -> Mapping:
        first: dict[str, Entry] = {}
        for entry in node.entries:
            earlier = first.setdefault(entry.key.text, entry)
            if earlier is not entry:
                message = f"duplicate key `{entry.key.text}`"
                self.sink.error("E0008", message, entry.key.span, None, (Related("first here", earlier.key.span),))
        return Mapping(tuple(first.values()), node.span)

    def _parentheses(self, frame: _Frame | None, node: Scalar) -> None:
        """Find `[w = clip(w, 0, 1)]`: in a flow collection a comma ends an item, even there."""
        if frame is None or not frame.flow or not node.plain:
            return
        balance = node.text.count("(") - node.text.count(")")
        if balance > 0:
            frame.open_paren = node
        elif balance < 0 and frame.open_paren is not None:
            span = Span(self.file, frame.open_paren.span.start, node.span.end)
            frame.open_paren = None
            where = "{...}" if frame.is_map else "[...]"
            help = "put the expression in quotes, or write the block form with one item per line"
            text = self.file.text[span.start : span.end]
            if _TUPLE.fullmatch(text) is not None:
                help = f"write a list: `[{text[1:-1].strip()}]`"
            message = f"a comma inside of parentheses ends an item of `{where}`"
            self.sink.error("E0028", message, span, help)


def _end_of(frame: _Frame) -> int:
    """The end of a block collection: that of its last node (the parser adds white space)."""
    if not frame.out:
        return frame.start
    last: Entry | Node = frame.out[-1]
    return last.value.span.end if isinstance(last, Entry) else last.span.end
