"""Texts with damage: every request has an answer, whatever the text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from compiler.core.resources import library_path
from compiler.core.source import SourceFile
from compiler.frontend.load import load_model
from compiler.frontend.resolve.use import LibraryFinder
from compiler.lsp.completion import complete
from compiler.lsp.facts import Facts, hints
from compiler.lsp.hover import Under, hover
from compiler.lsp.outline import cursor
from compiler.lsp.scope import Scope
from compiler.lsp.symbols import Symbols
from compiler.lsp.texts import Texts

MODELS = Path(__file__).parents[2] / "models"


def ask_everything(path: Path, text: str, at: int, facts: Facts) -> None:
    texts = Texts({path: text})
    root = texts.tree(path)
    assert root is not None
    symbols = Symbols(texts, library_path().resolve())
    scope = Scope(root, path, LibraryFinder(read=texts.read))
    found = cursor(SourceFile(str(path), text), at)
    if found is not None:
        complete(found, text, at, scope)
    named = symbols.at(path, at)
    if named is not None:
        symbols.declaration(named.symbol)
        symbols.refusal(named.symbol, "x")
    for known in (None, facts):
        hover(Under(at, root, named, None if named is None else texts.tree(named.symbol.file), known))
    list(hints(facts, root))


@pytest.mark.parametrize("name", ["cuba", "stdp", "resnet20", "transformer", "microcircuit", "pooled_inhibition"])
def test_every_answer(name: str) -> None:
    path = (MODELS / f"{name}.yaml").resolve()
    good, draw = path.read_text(encoding="utf-8"), random.Random(1)
    facts = Facts(load_model(path))
    for _ in range(12):
        text = good
        for _ in range(draw.randrange(3)):
            begin = draw.randrange(len(text))
            inserted = draw.choice(["", "{", "[", "]", "}", ":", "- ", "\n", "'", '"', "|\n", "#", "a: ", " "])
            text = text[:begin] + inserted + text[begin + draw.randrange(12) :]
        ask_everything(path, text, draw.randrange(len(text) + 1), facts)
