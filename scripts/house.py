"""The structure of the code, measured from its imports: rooms, floors, cycles, and the picture of docs/architecture.md.

    python -m scripts.house              a table of all folders
    python -m scripts.house --picture    docs/architecture.svg, again

Assumes: absolute imports, as the project writes them; imports inside functions and under TYPE_CHECKING count.
Guarantees: a folder's rooms are its direct children, files and folders; a room stands one floor above the highest room
that it imports. The same text for the same code.
Does not: import the code that it measures.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("netloom", "compiler", "backends")
PICTURE = ROOT / "docs" / "architecture.svg"

SAYS: Mapping[str, str] = {
    "core": "spans, diagnostics, the cache",
    "expr": "expressions: parse, types, units, derivatives",
    "ir": "the levels of the IR, and their text",
    "verify": "the legality of each level",
    "connect": "each connectivity rule: keys, numbers, sizes",
    "losses": "each loss and metric: keys, nodes, numbers",
    "layers": "each kind of layer: keys, shape, lowering, ONNX",
    "files": "arrays, images and tables on disk",
    "strategies": "how a contraction may be computed",
    "frontend": "YAML to a model (level 0)",
    "passes": "a model to a merged program (level 2)",
    "layout": "memory plan, tables as bytes",
    "tune": "measuring strategies, lock files",
    "runtime": "builds, runs, records, results",
    "interchange": "ONNX in and out",
    "cli": "the command `netloom`",
    "netloom": "the Python package: models, runs, fits",
}


def files() -> list[str]:
    """The Python files of both packages, from the root of the checkout."""
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f for f in listed.stdout.split() if f.endswith(".py")]


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """By file, the files that it imports."""
    modules = {f.removesuffix(".py").removesuffix("/__init__").replace("/", "."): f for f in files()}

    def file_of(name: str) -> str | None:
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return modules.get(name)

    found: dict[str, frozenset[str]] = {}
    for f in files():
        names: set[str] = set()
        for node in ast.walk(ast.parse((ROOT / f).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{a.name}" for a in node.names}
        found[f] = frozenset(x for n in names if (x := file_of(n)) is not None and x != f)
    return found


@dataclass(frozen=True)
class Folder:
    """`rooms`: direct children that import something or are imported, with the rooms that each imports; `floors`: the
    floor of each room, from 1; `cycles`: rooms that import each other in a loop; `modules`: .py files beside each
    other, the face too."""

    path: str
    rooms: Mapping[str, frozenset[str]]
    floors: Mapping[str, int]
    cycles: tuple[frozenset[str], ...]
    modules: int

    @property
    def height(self) -> int:
        """The longest chain of imports among the rooms."""
        return max(self.floors.values(), default=0)


def folders() -> list[str]:
    """Every folder with Python files in it or below."""
    return sorted({p.as_posix() for f in files() for p in Path(f).parents if p.as_posix() != "."})


def folder(path: str) -> Folder:
    """The rooms of one folder; its __init__.py, a face, is none."""

    def room(f: str) -> str:
        name, slash, _ = f.removeprefix(f"{path}/").partition("/")
        return name + slash

    inside = [f for f in files() if f.startswith(f"{path}/")]
    rooms: dict[str, set[str]] = {room(f): set() for f in inside if room(f) != "__init__.py"}
    for f in inside:
        for other in imports()[f]:
            if other.startswith(f"{path}/") and room(f) in rooms and room(other) in rooms and room(f) != room(other):
                rooms[room(f)].add(room(other))
    cycles = _cycles(rooms)
    return Folder(
        path,
        {name: frozenset(seen) for name, seen in rooms.items()},
        _floors(rooms, cycles),
        cycles,
        len({f for f in inside if "/" not in f.removeprefix(f"{path}/")}),
    )


def _reached(rooms: Mapping[str, Iterable[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for other in rooms[left.pop()]:
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def _cycles(rooms: Mapping[str, Iterable[str]]) -> tuple[frozenset[str], ...]:
    reached = {name: _reached(rooms, name) for name in rooms}
    loops = {frozenset(b for b in reached[a] if a in reached[b]) for a in rooms if a in reached[a]}
    return tuple(sorted(loops, key=sorted))


def _floors(rooms: Mapping[str, Iterable[str]], cycles: Iterable[frozenset[str]]) -> dict[str, int]:
    together = {name: loop for loop in cycles for name in loop}
    found: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in found:
            group = together.get(name, frozenset({name}))
            below = [floor(other) for one in group for other in rooms[one] if other not in group]
            found.update(dict.fromkeys(group, 1 + max(below, default=0)))
        return found[name]

    for name in rooms:
        floor(name)
    return found


# ------------------------------------------------------------------------------------------ the picture

WIDE, HIGH, GAP, LEFT = 208, 56, 16, 24


def picture() -> str:
    """The folders of the compiler and the backends as an SVG: each stands above all that it imports."""
    house = folder("compiler")
    names = [n for n in house.rooms if n.endswith("/")]
    rows: dict[int, list[str]] = {}
    for name in sorted(names):
        rows.setdefault(house.floors[name], []).append(name)
    top, widest = max(rows), max(len(r) for r in rows.values())
    width = 2 * LEFT + (widest + 1) * (WIDE + GAP)
    height = 2 * LEFT + top * (HIGH + 2 * GAP)
    place: dict[str, tuple[int, int]] = {}
    for floor, row in rows.items():
        for k, name in enumerate(row):
            place[name] = (LEFT + k * (WIDE + GAP), LEFT + (top - floor) * (HIGH + 2 * GAP))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        "<title>compiler/ and backends/: each folder stands above all that it imports</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for name in names:
        for other in sorted(house.rooms[name] & set(names)):
            (x, y), (u, v) = place[name], place[other]
            a, b = x + WIDE // 2, u + WIDE // 2
            ends = f"M{a},{y + HIGH} C{a},{y + HIGH + 40} {b},{v - 40} {b},{v}"
            lines.append(f'<path d="{ends}" fill="none" stroke="#c8ccd2"/>')
    counted = {n: sum(f.startswith(f"compiler/{n}") for f in files()) for n in names}
    for name in names:
        lines += _room(*place[name], f"compiler/{name}", SAYS.get(name.rstrip("/"), ""), counted[name])
    x = LEFT + widest * (WIDE + GAP)
    for k, (name, says) in enumerate(
        (
            ("cuda/", "CUDA text, NVRTC, PyCUDA"),
            ("cpu/", "C text, the C compiler, ctypes"),
            ("opencl/", "OpenCL C text, PyOpenCL"),
            ("reference/", "numpy, the oracle of all"),
            ("c_family/", "what C, CUDA and OpenCL share"),
        )
    ):
        count = sum(f.startswith(f"backends/{name}") for f in files())
        lines += _room(x, LEFT + (k + 1) * (HIGH + 2 * GAP), f"backends/{name}", says, count)
    return "\n".join([*lines, "</svg>", ""])


def _room(x: int, y: int, name: str, says: str, count: int) -> list[str]:
    return [
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="4" fill="#f4f6f9" stroke="#5b6675"/>',
        f'<text x="{x + 10}" y="{y + 21}" font-size="14" font-weight="bold">{escape(name)}</text>',
        f'<text x="{x + WIDE - 10}" y="{y + 21}" font-size="11" text-anchor="end" fill="#5b6675">{count} files</text>',
        f'<text x="{x + 10}" y="{y + 41}" font-size="11" fill="#333">{escape(says)}</text>',
    ]


def main(arguments: list[str]) -> None:
    if arguments == ["--picture"]:
        PICTURE.write_text(picture(), encoding="utf-8", newline="\n")
        return
    for path in folders():
        measured = folder(path)
        loops = "".join(f"  cycle: {', '.join(sorted(loop))}" for loop in measured.cycles)
        print(f"{path}: {len(measured.rooms)} rooms, {measured.modules} modules, {measured.height} floors{loops}")


if __name__ == "__main__":
    main(sys.argv[1:])
