"""Which part of the language stands where: from a path in a tree to the kinds of values that may stand there.

Assumes: the language (compiler/frontend/language); a tree, complete or not.
Guarantees: of kinds that differ by their keys, those that the keys which are there fit best.
Does not: check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler.expr.keys.kinds import Alternative, Block, Field, Kind, Later, ListOf, MapOf, OneKey, OneOf
from compiler.frontend.language import ROOT
from compiler.frontend.resolve.merge import child_kind
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence
from compiler.lsp.outline import Path, Step


def flat(kinds: Iterable[Kind | None]) -> Iterator[Kind]:
    """The kinds without choices among them."""
    for kind in kinds:
        match kind:
            case None:
                continue
            case Later():
                yield from flat((kind.resolve(),))
            case OneOf():
                yield from flat(kind.kinds)
            case _:
                yield kind


def kinds_at(path: Path, root: Node) -> tuple[Kind, ...]:
    """What may stand at `path` in the tree `root` of a model file."""
    kinds: tuple[Kind, ...] = (ROOT,)
    node: Node | None = root
    for step in path:
        kinds = below(kinds, node, step)
        node = child(node, step)
    return tuple(_fitting(kinds, node))


def below(kinds: tuple[Kind, ...], node: Node | None, step: Step) -> tuple[Kind, ...]:
    """What may stand under a key or an index of `node`, which is of one of `kinds`."""
    return tuple(flat(_child(k, step) for k in _fitting(kinds, node)))


@dataclass(frozen=True)
class Visited:
    """One node of a tree: its path, its key if it stands under one, and what it may be."""

    path: Path
    key: Scalar | None
    node: Node
    kinds: tuple[Kind, ...]


def walk(root: Mapping) -> Iterator[Visited]:
    """All nodes of a model file, in its order."""
    stack = [Visited((), None, root, (ROOT,))]
    while stack:
        at = stack.pop()
        yield at
        inner: list[tuple[Step, Scalar | None, Node]]
        match at.node:
            case Mapping(entries=entries):
                inner = [(e.name, e.key, e.value) for e in entries]
            case Sequence(items=items):
                inner = [(i, None, item) for i, item in enumerate(items)]
            case _:
                continue
        stack += [Visited((*at.path, s), k, n, below(at.kinds, at.node, s)) for s, k, n in reversed(inner)]


def child(node: Node | None, step: Step) -> Node | None:
    """What stands under a key or an index."""
    match node, step:
        case Mapping(), str():
            return node.get(step)
        case Sequence(), int():
            return node.items[step] if 0 <= step < len(node.items) else None
        case _:
            return None


def node_at(path: Path, root: Node | None) -> Node | None:
    for step in path:
        root = child(root, step)
    return root


def keys_of(node: Node | None) -> tuple[str, ...]:
    return tuple(e.name for e in node.entries) if isinstance(node, Mapping) else ()


def texts_of(node: Node | None) -> tuple[str, ...]:
    """The texts of a scalar or of the scalars of a list."""
    match node:
        case Scalar(value=str(text)):
            return (text,)
        case Sequence(items=items):
            return tuple(i.text for i in items if isinstance(i, Scalar))
        case _:
            return ()


def field_of(path: Path, root: Node) -> Field | Alternative | None:
    """What the language says of the last key of `path`; None of a name that the user chose."""
    if not path or not isinstance(path[-1], str):
        return None
    for kind in kinds_at(path[:-1], root):
        if isinstance(kind, Block | OneKey):
            found = kind.by_name.get(path[-1])
            if found is not None:
                return found
    return None


def path_to(offset: int, root: Node) -> tuple[Path, Scalar | None, bool]:
    """The path to the innermost node at a character offset, the scalar there, and whether it is the last key of the
    path."""
    path: list[Step] = []
    node: Node | None = root
    while True:
        inner: tuple[Step, Node] | None = None
        match node:
            case Mapping(entries=entries):
                for e in entries:
                    if e.key.span.start <= offset <= e.key.span.end:
                        return (*path, e.name), e.key, True
                    if e.value.span.start <= offset <= e.value.span.end and e.value.span.end:
                        inner = (e.name, e.value)
            case Sequence(items=items):
                for i, item in enumerate(items):
                    if item.span.start <= offset <= item.span.end:
                        inner = (i, item)
            case _:
                return tuple(path), node, False
        if inner is None:
            return tuple(path), None, False
        path.append(inner[0])
        node = inner[1]


def _child(kind: Kind, step: Step) -> Kind | None:
    if isinstance(step, int):
        return kind.item if isinstance(kind, ListOf) else None
    return child_kind(kind, step)


def _fitting(kinds: tuple[Kind, ...], node: Node | None) -> Iterable[Kind]:
    """Those of several kinds that the keys of a map fit best, if it has any."""
    found = tuple(flat(kinds))
    if not isinstance(node, Mapping) or len(found) < 2:
        return found
    keys = [e.name for e in node.entries]
    scores = [sum(k in kind.by_name for k in keys) if isinstance(kind, Block | OneKey) else 0 for kind in found]
    best = max(scores)
    if best == 0:
        return found
    return [k for k, s in zip(found, scores, strict=True) if s == best and isinstance(k, Block | OneKey | MapOf)]
