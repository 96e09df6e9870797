"""The code of all other pages of docs/: models are checked, parts of models are held against the language, Python is
compiled, and commands have the options that they are shown with. (tests/unit/test_python_page.py runs the Python.)

A block of YAML with `language` is a model; a first line `# NAME.yaml` gives it a name for the blocks after it. A block
without is a part of one: what it refers to may be missing, nothing else. `<!-- in: network -->` above a block says
where it stands, when not in the file itself; `layers: [...]` are any layers.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

import netloom
from compiler.cli.app import app
from scripts.follow import NAMED, Block, blocks

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"reference.md", "ir.md"}
PAGES = [p for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in GENERATED] + [ROOT / "README.md"]
ABSENT = {"E0103", "E0201", "E0203", "E0204", "E0302"}
"""Diagnostics of a part of a model: something is missing, or a name or a file that it refers to."""


def place(page: Path, block: Block) -> str | None:
    """Where a block stands, as the comment above it says."""
    before = page.read_text("utf-8").splitlines()[block.line - 3 : block.line - 2]
    found = re.fullmatch(r"<!-- in: ([\w.]+) -->", before[0]) if before else None
    return found[1] if found else None


def whole(text: str, inside: str | None) -> str:
    """A file around a part of a model."""
    for name in reversed(inside.split(".") if inside else []):
        text = f"{name}:\n" + "".join(f"  {line}\n" for line in text.splitlines())
    return f"language: 1\n{text}\n"


def is_complete(text: str) -> bool:
    return re.search(r"^language:", text, re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_models(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language != "yaml" or not re.search(r"^[^#\n]", block.text, re.MULTILINE):
            continue
        where = f"{page.name}:{block.line}"
        if is_complete(block.text):
            named = NAMED.match(block.text)
            path = tmp_path / (named[1] if named else f"block_{block.line}.yaml")
            path.write_text(block.text, "utf-8")
            assert netloom.check(path) == [], where
            continue
        text = block.text.replace("layers: [...]", "layers: [{dense: {units: 1}}]")
        found = netloom.load(whole(text, place(page, block)), folder=tmp_path).check()
        wrong = [d for d in found if d.code not in ABSENT]
        assert not wrong, f"{where}: {wrong[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_python_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text, f"{page.name}:{block.line}")


def commands(page: Path) -> list[tuple[int, str]]:
    """The lines of a page that are commands of netloom, with their numbers."""
    found = []
    for k, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if match := re.match(r"(?:    |\$ )?(netloom [a-z].*)", line):
            found.append((k, match[1]))
    return found


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").glob("*/*.md"))], ids=lambda p: p.stem)
def test_commands_have_their_options(page: Path) -> None:
    group: Any = typer.main.get_command(app)
    for line, text in commands(page):
        name, *words = shlex.split(re.sub(r"\[(--\w+)\]", r"\1", text), comments=True)[1:]
        words = words[: next((k for k, w in enumerate(words) if w in ("|", ">", "&&", "||")), None)]
        command = group.commands.get(name)
        assert command is not None, f"{page.name}:{line}: {text}"
        context = command.make_context(name, [], resilient_parsing=True)
        command.make_parser(context).parse_args(list(words))
