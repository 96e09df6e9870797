"""Trees of texts that are being written: the loader's where it reads them, and a cursor's place in all."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.core.diagnostics import Sink
from compiler.core.source import SourceFile
from compiler.frontend.yaml.tree import Mapping, Scalar, to_plain
from compiler.frontend.yaml.yaml12 import load_text
from compiler.lsp.outline import cursor, outline
from compiler.lsp.places import walk

MODELS = sorted((Path(__file__).parents[2] / "models").rglob("*.yaml"))


def without_long_texts(plain: object) -> object:
    """Descriptions and statements over several lines are not joined."""
    match plain:
        case dict():
            return {k: without_long_texts(v) for k, v in plain.items() if k != "description"}
        case list():
            return [without_long_texts(v) for v in plain]
        case _:
            return plain


def places(root: Mapping) -> list[tuple[object, int, int]]:
    """Where the keys stand, and the values in flow style and of one line."""
    keys = [(at.path, at.key.span.start, at.key.span.end) for at in walk(root) if at.key is not None]
    scalars = [at for at in walk(root) if isinstance(at.node, Scalar) and at.path[-1] != "description"]
    text = root.span.file.text
    short = [at for at in scalars if "\n" not in text[at.node.span.start : at.node.span.end] and at.node.text]
    flow = [at for at in walk(root) if text[at.node.span.start : at.node.span.start + 1] in ("{", "[")]
    return keys + [(at.path, at.node.span.start, at.node.span.end) for at in (*short, *flow)]


GOOD = [(path, "\n") for path in MODELS] + [(path, "\r\n") for path in MODELS[:6]]


@pytest.mark.parametrize(("path", "end"), GOOD, ids=lambda x: getattr(x, "stem", repr(x)))
def test_the_tree_of_a_good_text_is_the_loaders(path: Path, end: str) -> None:
    file = SourceFile("m.yaml", path.read_text(encoding="utf-8").replace("\n", end))
    good = load_text(file, Sink())
    assert isinstance(good, Mapping)
    found = outline(file)
    assert without_long_texts(to_plain(found)) == without_long_texts(to_plain(good))
    assert places(found) == places(good)


CASES = {
    "": ((), "key", ""),
    "lan": ((), "key", "lan"),
    "language: 1\n": ((), "key", ""),
    "populations:\n  ": (("populations",), "either", ""),
    "populations:\n  exc:\n    si": (("populations", "exc"), "either", "si"),
    "populations:\n  exc:\n    size: 3\n    ne": (("populations", "exc"), "key", "ne"),
    "populations:\n  exc:\n    neuron: li": (("populations", "exc", "neuron"), "value", "li"),
    "populations:\n  exc:\n    neuron: ": (("populations", "exc", "neuron"), "value", ""),
    "populations: {exc: {ne": (("populations", "exc"), "key", "ne"),
    "populations: {exc: {size: 3, ": (("populations", "exc"), "key", ""),
    "populations: {exc: {neuron: ": (("populations", "exc", "neuron"), "value", ""),
    "populations: {exc: {neuron: library/ne": (("populations", "exc", "neuron"), "value", "library/ne"),
    "a: [": (("a", 0), "either", ""),
    "a: [x, y": (("a", 1), "either", "y"),
    "a: [x, ": (("a", 1), "either", ""),
    "a: [{b: 1}, {": (("a", 1), "key", ""),
    "a: [b: ": (("a", 0, "b"), "value", ""),
    "a: [b: [x, y": (("a", 0, "b", 1), "either", "y"),
    "a: [b: 1, ": (("a", 1), "either", ""),
    "layers:\n  - ": (("layers", 0), "either", ""),
    "layers:\n  - dense:\n      units: 3\n  - co": (("layers", 1), "either", "co"),
    "layers:\n- dense: {u": (("layers", 0, "dense"), "key", "u"),
    "layers:\n  - dense: {units: 1}\n  ": (("layers", 1), "item", ""),
    "a: {b: [1,\nc: {d: ": (("c", "d"), "value", ""),
    "a: {b: 1, # see\n    c": (("a",), "key", "c"),
    "a: {b: 1}\nx: 'q": (("x",), "value", "q"),
}


@pytest.mark.parametrize("text", ["a: [b: 1, c: [2, d: {e: 3}], f]\n", "a: {b: [c: x y, 'd': 2]}\n"])
def test_pairs_in_lists(text: str) -> None:
    file = SourceFile("m.yaml", text)
    good, found = load_text(file, Sink()), outline(file)
    assert isinstance(good, Mapping)
    assert to_plain(found) == to_plain(good)


@pytest.mark.parametrize("text", CASES)
def test_cursor(text: str) -> None:
    file = SourceFile("m.yaml", text + ("\nz: 1\n" if text and not text.endswith(("[", "{")) else ""))
    found = cursor(file, len(text))
    assert found is not None
    assert (found.path, found.mode, text[found.start :]) == CASES[text]


@pytest.mark.parametrize("text", ["# a", "a: 1 # b", "a: |\n  b", "a: {b: 1}  "])
def test_nothing_is_offered(text: str) -> None:
    assert cursor(SourceFile("m.yaml", text), len(text)) is None


def test_every_prefix_of_a_model_has_a_tree() -> None:
    for path in MODELS[:8]:
        text = path.read_text(encoding="utf-8")
        for at in range(0, len(text), 23):
            outline(SourceFile("m.yaml", text[:at]))
            cursor(SourceFile("m.yaml", text), at)
