"""Follow a page literally, from top to bottom, in an empty folder.

    python -m scripts.follow docs/tutorials/first-network.md            in a temporary folder
    python -m scripts.follow --fresh docs/tutorials/*.md                from a clone with an environment of its own

What a block does depends on its language:

yaml, python    with a first line `# NAME.yaml`: it is written to that file, with `# NAME.yaml, at its end` added
python          without a name: it runs; all such blocks of a page share their variables
sh              is run by `bash -e`
text            after one of these: lines that the block before has printed, among others, in this order. `...` is any
                text, numbers may differ by a twentieth, and a block whose output shows `error[` has to fail.
console         is only shown

Assumes: `netloom` can be imported by this Python.
Guarantees: raises Wrong with the line of the page at the first block that fails or prints something else.
Does not: install anything, without --fresh.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w.-]+\.(?:yaml|py|csv))(, at its end)?\n")
PARTS = re.compile(r"(\.\.\.|(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|\s+)")
TOLERANCE = 0.05


class Wrong(Exception):
    """A page is wrong: where, and how."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page; `line` is that of its first line, from 1."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)


def follow(page: Path, folder: Path) -> None:
    """Do what the page says in `folder`, which becomes the working directory."""
    os.chdir(folder)
    os.environ.setdefault("MPLBACKEND", "agg")
    variables: dict[str, Any] = {"__name__": "page"}
    code, printed, asked = 0, "", None
    for block in [*blocks(page), Block("end", "", 0)]:
        if block.language == "text":
            _compare(page, block, printed)
            if "error[" in block.text and code:
                code = 0
            continue
        if code:
            raise Wrong(f"{page}:{asked.line if asked else 0}: ended with {code}\n{printed}")
        named = NAMED.match(block.text)
        if named and block.language in ("yaml", "python"):
            with (folder / named[1]).open("a" if named[2] else "w", encoding="utf-8") as file:
                file.write(block.text)
        elif block.language == "sh":
            code, printed = _shell(block.text, folder)
        elif block.language == "python":
            printed = _python(page, block, variables)
        asked = block


def _shell(text: str, folder: Path) -> tuple[int, str]:
    paths = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env={**os.environ, **paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def _python(page: Path, block: Block, variables: dict[str, Any]) -> str:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), variables)
    except Exception as error:
        raise Wrong(f"{page}:{block.line}: {type(error).__name__}: {error}") from error
    return printed.getvalue()


def _compare(page: Path, block: Block, printed: str) -> None:
    """Every line of the block is a line that was printed, in order."""
    left = printed.splitlines()
    for k, line in enumerate(block.text.splitlines()):
        if line.strip() in ("", "..."):
            continue
        found = next((n for n, other in enumerate(left) if alike(line, other)), None)
        if found is None:
            raise Wrong(f"{page}:{block.line + k}: was not printed (after the lines before it):\n{line}\n--\n{printed}")
        left = left[found + 1 :]


def alike(shown: str, printed: str) -> bool:
    """Whether a line of a page stands for one that was printed."""
    pattern, numbers = "", []
    for part in PARTS.split(shown.strip()):
        if part == "...":
            pattern += ".*?"
        elif part.isspace():
            pattern += r"\s+"
        elif PARTS.fullmatch(part):
            pattern += r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
            numbers.append(float(part))
        else:
            pattern += re.escape(part)
    found = re.fullmatch(pattern, printed.strip())
    return found is not None and all(
        abs(float(other) - number) <= TOLERANCE * abs(number)
        for number, other in zip(numbers, found.groups(), strict=True)
    )


def fresh(folder: Path) -> Path:
    """The Python of a new environment with what a clone of this checkout installs."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "clone")], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ".[plot]"]
    subprocess.run(install, cwd=folder / "clone", check=True)
    return python


def main(arguments: list[str]) -> int:
    """Follow each page."""
    pages = [Path(a).resolve() for a in arguments if a != "--fresh"]
    with tempfile.TemporaryDirectory(prefix="netloom-follow-") as name:
        if "--fresh" in arguments:
            python = fresh(Path(name))
            own = [str(Path(name) / "clone" / page.relative_to(ROOT)) for page in pages]
            inner = [str(python), "-m", "scripts.follow", *own]
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            environment["NETLOOM_CACHE"] = f"{name}/cache"
            # the scripts of the clone, but the package that was installed
            (Path(name) / "scripts").symlink_to(Path(name) / "clone" / "scripts")
            return subprocess.run(inner, cwd=name, env=environment, check=False).returncode
        for k, page in enumerate(pages):
            folder = Path(name) / str(k)
            folder.mkdir()
            try:
                follow(page, folder)
            except Wrong as error:
                print(error, file=sys.stderr)
                return 1
            print(f"{page.name}: followed")
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
