"""The git commit of a model's folder.

Assumes: the layout of a .git folder, or of the file in its place in a worktree.
Guarantees: no process is started; None where there is no repository, or it cannot be read.
Does not: say whether files were changed since.
"""

from __future__ import annotations

from pathlib import Path


def git_commit(folder: Path) -> str | None:
    """The commit that is checked out where `folder` is."""
    try:
        for place in (folder.resolve(), *folder.resolve().parents):
            if (place / ".git").exists():
                return _commit(_git_folder(place / ".git"))
    except (OSError, ValueError):
        pass
    return None


def _git_folder(path: Path) -> Path:
    if path.is_dir():
        return path
    return (path.parent / path.read_text(encoding="utf-8").partition("gitdir:")[2].strip()).resolve()


def _commit(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.partition("ref:")[2].strip()
    common = git / "commondir"
    shared = (git / common.read_text(encoding="utf-8").strip()).resolve() if common.is_file() else git
    for place in (git, shared):
        if (place / name).is_file():
            return (place / name).read_text(encoding="utf-8").strip() or None
    packed = shared / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
