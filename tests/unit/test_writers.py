"""Single writer: only compiler/core/disk.py opens files for writing, creates folders or renames."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WRITING = {
    "write_text", "write_bytes", "mkdir", "makedirs", "mkdtemp", "mkstemp", "NamedTemporaryFile", "rename", "replace",
    "copyfile", "copy", "copy2", "copytree", "move", "savefig", "save", "savez", "savetxt", "tofile", "File", "open",
    "touch", "symlink", "link", "getpid",
}  # fmt: skip
OURS = {
    "compiler/core/disk.py": {"open", "mkdir", "replace", "rename", "getpid", "link"},
    "compiler/cli/__main__.py": {"open"},  # /dev/null
    "compiler/cli/app.py": {"open"},  # likewise
    "compiler/runtime/artifacts/run_folder.py": {"write_bytes", "rename"},  # inside of `writing`; of a Scratch
    "compiler/runtime/artifacts/build_folder.py": {"rename"},
    "compiler/runtime/record/growing.py": {"File"},  # inside of `recording`
    "compiler/runtime/record/continued.py": {"File"},  # of copies that are cut
    "compiler/runtime/record/superblock.py": {"open"},  # likewise
    "compiler/runtime/inference/predict.py": {"savez"},  # into a stream of new_file, as the plots
    "compiler/runtime/plots/style.py": {"savefig"},
    "compiler/runtime/common/signals.py": {"getpid"},
    "compiler/frontend/schema/json_schema.py": {"mkdir", "write_text"},  # written by developers into a checkout
}


def _writes(call: ast.Call) -> str | None:
    """The name of a call that writes."""
    match call.func:
        case ast.Attribute(value, name):
            base = ast.unparse(value)
        case ast.Name(name):
            base = ""
        case _:
            return None
    if name not in WRITING:
        return None
    words = [a.value for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Constant)]
    if name in ("open", "File"):
        modes = [w for w in words if isinstance(w, str) and set(w) <= set("rwaxb+t") and w]
        return name if any(set(m) & set("wax+") for m in modes) or base == "os" else None
    if name == "replace" and base != "os":
        return None  # of a string, or a dataclass
    if name in ("copy", "save", "link") and base not in ("shutil", "np", "os"):
        return None
    # disk.py's own functions, imported by name
    return None if base == "" else name


def test_everything_is_written_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for package in ("compiler", "backends"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and (name := _writes(node)) is not None:
                    found.setdefault(str(path.relative_to(ROOT)), set()).add(name)
    assert {p: n - OURS.get(p, set()) for p, n in found.items() if n - OURS.get(p, set())} == {}
    assert set(OURS) <= set(found)
