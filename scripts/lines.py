"""Lines of compiler and backends per folder, at the review and now, with what was added since then counted apart.

    python -m scripts.lines [REVISION]

Assumes: a git checkout with its whole history. scripts/capabilities.toml names what was added, the commits that brought
it and the files that are nothing else; the commits that it does not name changed what stood.
Guarantees: Python, templates, C headers and Markdown are counted, blank lines and comments too. A line counts as added
if its file is one of those that are named, or if git's blame, through moves and copies, gives it to a commit that is
named: of these at most as many as the commit made the tree longer, so that what it rewrote stays with what stood.
Raises ValueError where more than an eighth of a named file stood at the review (a dozen lines of a short one), or no
line of it is of a commit of its entry; or where an entry lacks something, or names a commit that there is not.
Does not: compile anything, or tell what a line is worth.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("capabilities.toml")
FOLDERS = ("compiler", "backends")
ENDINGS = (".py", ".j2", ".h", ".md")
KINDS = ("capability", "speed")
SHORT = 8
"""Digits of a commit in the table."""
REVIEWED, ALIKE = 0.125, 12
"""Lines of the review in a file that is counted as added, at most: a part of them, or so many, as imports are alike."""


@dataclass(frozen=True)
class Added:
    """What one entry of the table names; `paths`: of files, or of folders with a slash at their end."""

    name: str
    kind: str
    commits: tuple[str, ...]
    paths: tuple[str, ...]

    def has(self, file: str) -> bool:
        return any(file == p or (p.endswith("/") and file.startswith(p)) for p in self.paths)


@dataclass(frozen=True)
class Table:
    """`review`: the commit of the review."""

    review: str
    added: tuple[Added, ...]

    def of_file(self, file: str) -> Added | None:
        return next((a for a in self.added if a.has(file)), None)

    def of_commit(self, commit: str) -> Added | None:
        return next((a for a in self.added if commit in a.commits), None)


def table(path: Path = TABLE) -> Table:
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    return Table(read["review"], tuple(_entry(a, k) for k, a in enumerate(read["added"], 1)))


def _entry(read: Mapping[str, Any], number: int) -> Added:
    missing = [key for key in ("name", "kind", "commits", "paths") if key not in read]
    if missing:
        raise ValueError(f"entry {number} of the table ({read.get('name', 'without a name')}) lacks `{missing[0]}`")
    return Added(read["name"], read["kind"], tuple(read["commits"]), tuple(read["paths"]))


# ------------------------------------------------------------------------------------------ what git knows


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, check=True).stdout.decode("utf-8", "replace")


def lines_of(root: Path, revision: str) -> dict[str, int]:
    """The lines of each file that counts."""
    names = git(root, "ls-tree", "-r", "--name-only", revision, *FOLDERS).splitlines()
    files = [n for n in names if n.endswith(ENDINGS)]
    asked = "".join(f"{revision}:{n}\n" for n in files).encode()
    ran = subprocess.run(["git", "cat-file", "--batch"], cwd=root, input=asked, capture_output=True, check=True).stdout
    found, at = {}, 0
    for name in files:
        end = ran.index(b"\n", at)
        size = int(ran[at:end].split()[2])
        found[name] = ran.count(b"\n", end + 1, end + 1 + size)
        at = end + 1 + size + 1
    return found


def origins(root: Path, review: str, revision: str, file: str) -> Counter[str]:
    """How many lines of a file each commit after the review wrote; those of the review and before it under ""."""
    said = git(root, "blame", "-w", "-M", "-C", "-s", f"--abbrev={SHORT}", f"{review}..{revision}", "--", file)
    return Counter("" if line.startswith("^") else line[:SHORT] for line in said.splitlines())


def growth(root: Path, commit: str, entry: str) -> int:
    """By how many lines a commit of an entry made the files that count longer."""
    try:
        said = git(root, "show", "--numstat", "--format=", "-w", "-M", commit, "--", *FOLDERS)
    except subprocess.CalledProcessError:
        raise ValueError(f"`{entry}` names the commit {commit}, which there is not") from None
    changed = (line.split("\t") for line in said.splitlines())
    return sum(int(more) - int(less) for more, less, name in changed if name.rstrip("}").endswith(ENDINGS))


# ------------------------------------------------------------------------------------------ counting


@dataclass(frozen=True)
class Counted:
    """Lines by file at the review and now; `whole`: of files that were added, and `parts`: added lines of others, by
    entry of the table and file."""

    before: Mapping[str, int]
    now: Mapping[str, int]
    whole: Mapping[tuple[Added, str], int]
    parts: Mapping[tuple[Added, str], int]


def counted(root: Path, named: Table, revision: str) -> Counted:
    now = lines_of(root, revision)
    with ThreadPoolExecutor() as pool:
        written = dict(zip(now, pool.map(lambda f: origins(root, named.review, revision, f), now), strict=True))
        commits = {c: a.name for a in named.added for c in a.commits}
        longer = dict(zip(commits, pool.map(lambda c: growth(root, *c), commits.items()), strict=True))
    whole: dict[tuple[Added, str], int] = {}
    lines: dict[str, list[tuple[str, int]]] = {}
    for file, by in written.items():
        added = named.of_file(file)
        if added is not None:
            _is_new(added, file, by)
            whole[added, file] = now[file]
        for commit in by.keys() & longer.keys():
            lines.setdefault(commit, []).append((file, by[commit]))
    parts: Counter[tuple[Added, str]] = Counter()
    for commit, found in lines.items():
        added = named.of_commit(commit)
        assert added is not None
        share = min(1.0, max(longer[commit], 0) / sum(n for _, n in found))
        for file, n in found:
            if named.of_file(file) is None:
                parts[added, file] += int(n * share)
    return Counted(lines_of(root, named.review), now, whole, parts)


def _is_new(added: Added, file: str, by: Mapping[str, int]) -> None:
    total = sum(by.values())
    if by.get("", 0) > max(ALIKE, REVIEWED * total):
        raise ValueError(f"{file} is not new: {by['']} of its {total} lines stood at the review")
    if total and by.keys().isdisjoint(added.commits):
        raise ValueError(f"{file}: no line of it is of a commit of `{added.name}`")


# ------------------------------------------------------------------------------------------ the report


def folder_of(file: str) -> str:
    """The folder below `compiler` or `backends`; these themselves for files beside the folders."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: 3 if parts[1:2] == ["frontend"] else 2])


def _summed(lines: Mapping[tuple[Added, str], int], kind: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for (added, file), n in lines.items():
        if added.kind == kind:
            found[folder_of(file)] += n
    return found


def report(of: Counted) -> Iterator[str]:
    """The table of folders, the sums, and the table of what was added."""
    before, now = Counter[str](), Counter[str]()
    for lines, to in ((of.before, before), (of.now, now)):
        for file, n in lines.items():
            to[folder_of(file)] += n
    both = {**of.whole, **of.parts}
    new = {kind: _summed(both, kind) for kind in KINDS}
    form = "{:32} {:>9} {:>9} {:>12} {:>9} {:>9}"
    yield form.format("folder", "review", "now", "capabilities", "speed", "stood")
    for name in sorted(before.keys() | now.keys()):
        more = [new[kind][name] for kind in KINDS]
        yield form.format(name, before[name], now[name], *more, now[name] - sum(more))
    total = [sum(new[kind].values()) for kind in KINDS]
    all_now = sum(now.values())
    yield form.format("all", sum(before.values()), all_now, *total, all_now - sum(total))
    yield ""
    yield from _of_entries(of)
    yield ""
    own = {kind: sum(n for (a, _), n in of.whole.items() if a.kind == kind) for kind in KINDS}
    yield f"of what stood: {all_now - sum(total)}; without the files alone that are new: {all_now - sum(own.values())}"


def _of_entries(of: Counted) -> Iterator[str]:
    form = "{:10} {:>9} {:>9}  {}"
    yield form.format("kind", "own files", "elsewhere", "what")
    entries = sorted({a for a, _ in (*of.whole, *of.parts)}, key=lambda a: (KINDS.index(a.kind), a.name))
    for added in entries:
        own, parts = (sum(n for (a, _), n in lines.items() if a == added) for lines in (of.whole, of.parts))
        yield form.format(added.kind, own, parts, added.name)


def main(arguments: Sequence[str]) -> None:
    try:
        print("\n".join(report(counted(ROOT, table(), arguments[0] if arguments else "HEAD"))))
    except ValueError as error:
        sys.exit(f"{TABLE.name}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
