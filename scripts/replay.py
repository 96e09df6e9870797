"""Replay: what is emitted for models and constructs, and what the passes decided, beside those of another revision.

    python -m scripts.replay [MODEL ...] [--revision REV]

Assumes: a git checkout; both revisions have the commands `show --code` and `explain`.
Guarantees: a unified diff for each kernel that differs beyond comments and blank lines, one for the decisions, and a
table; exit status 1 where something differs or stands on one side alone. Nothing is compiled, no GPU is needed, and the
working tree is only read: the other revision is unpacked into a temporary folder.
Does not: see through renamed identifiers or kernels that changed their numbers.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("cpu", "cuda")
KINDS = {"code": ["show", "--code"], "decisions": ["explain", "--details", "all"]}

EMIT = """
import json, sys
from typer.testing import CliRunner
from compiler.cli.app import app
for model, target, kind, words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, [words[0], model, *words[1:], "--target", target])
    if done.exit_code == 2 and kind == "decisions":  # revisions without --details print all decisions
        done = CliRunner().invoke(app, [words[0], model, "--target", target])
    text = done.stdout if done.exit_code == 0 else None
    print(json.dumps([model, target, kind, text]), flush=True)
"""
"""Runs with the modules of one revision, on nothing but its command line."""

Key = tuple[str, str, str]
"""Model, target, and "code" or "decisions"."""


@dataclass(frozen=True)
class Compared:
    """`verdict`: equal, differs, new, gone, or refused on both; `diffs`: by kernel, without comments."""

    key: Key
    verdict: str
    diffs: Mapping[str, Sequence[str]]


def emitted(tree: Path, keys: Iterable[Key]) -> dict[Key, str | None]:
    """The texts that the compiler in `tree` makes; None: it refuses."""
    asked = [[model, target, kind, KINDS[kind]] for model, target, kind in keys]
    command = [sys.executable, "-c", EMIT, json.dumps(asked)]
    ran = subprocess.run(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return {(model, target, kind): text for model, target, kind, text in map(json.loads, ran.stdout.splitlines())}


_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|/\*.*?\*/|//[^\n]*""", re.DOTALL)


def code_lines(text: str) -> list[str]:
    """The lines of C or CUDA without comments and blank lines."""
    bare = _COMMENT.sub(lambda m: m[1] or " ", text)
    return [re.sub(r"(?<=\S)\s+", " ", line).rstrip() for line in bare.splitlines() if line.strip()]


_KERNEL = re.compile(r"\bk\d+_\w+")


def by_kernel(before: Sequence[str], after: Sequence[str]) -> dict[str, list[str]]:
    """Hunks of the difference, by the last kernel that is named above them."""
    found: dict[str, list[str]] = {}
    for line in difflib.unified_diff(before, after, "before", "after", lineterm=""):
        hunk = re.match(r"@@ -(\d+)", line)
        if hunk is not None:
            name = _above(before, int(hunk[1]) + 2)
        if not line.startswith(("--- ", "+++ ")):
            found.setdefault(name, []).append(line)
    return found


def _above(lines: Sequence[str], at: int) -> str:
    for line in reversed(lines[: at + 1]):
        named = _KERNEL.search(line)
        if named is not None and not line.startswith((" ", "\t")):
            return named[0]
    return "before the kernels"


def compared(key: Key, before: str | None, after: str | None) -> Compared:
    """Two texts of one model, target and kind."""
    if before is None or after is None:
        verdict = "refused on both" if before is after else "new" if before is None else "gone"
        return Compared(key, verdict, {})
    if key[2] == "decisions":
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
        diffs = {"decisions": lines} if lines else {}
    else:
        diffs = by_kernel(code_lines(before), code_lines(after))
    return Compared(key, "differs" if diffs else "equal", diffs)


def unpacked(revision: str, folder: Path) -> Path:
    """The tree of a revision in a folder. Raises CalledProcessError where git does not know it."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def report(results: Sequence[Compared]) -> Iterator[str]:
    """The lines of a replay: differences, then the table."""
    for x in results:
        for kernel, lines in x.diffs.items():
            yield from ("", f"==== {' '.join(x.key)}: {kernel}", *lines)
    yield ""
    width = max(len(x.key[0]) for x in results)
    for x in results:
        yield f"{x.key[0]:<{width}}  {x.key[1]:<5}  {x.key[2]:<10}  {x.verdict}"


def constructs(folder: Path) -> list[str]:
    """The files of the small models that the tests share, written below `folder`."""
    from tests.construct_runs import write_construct
    from tests.constructs import CONSTRUCTS

    found = []
    for name in CONSTRUCTS:
        place = folder / name.replace(" ", "_")
        place.mkdir(parents=True)
        found.append(str(write_construct(name, place, "float32", "reproducible")))
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare what is emitted with another revision.")
    parser.add_argument("models", nargs="*", help="paths of files (default: all of models/, and the tests' constructs)")
    parser.add_argument("--revision", default="main")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        tree, written = Path(name, "tree"), Path(name, "constructs")
        tree.mkdir()
        models = args.models or sorted(str(p.relative_to(ROOT)) for p in (ROOT / "models").glob("*.yaml"))
        models = models if args.models else [*models, *constructs(written)]
        keys = [(model, target, kind) for model in models for target in TARGETS for kind in KINDS]
        unpacked(args.revision, tree)
        with ThreadPoolExecutor() as pool:
            before, after = pool.map(lambda where: emitted(where, keys), (tree, ROOT))
        shown = {key: (key[0].removeprefix(f"{written}/").removesuffix("/model.yaml"), *key[1:]) for key in keys}
        results = [compared(shown[key], before.get(key), after.get(key)) for key in keys]
    print("\n".join(report(results)))
    return 1 if any(x.verdict not in ("equal", "refused on both") for x in results) else 0


if __name__ == "__main__":
    sys.exit(main())
