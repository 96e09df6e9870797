"""What shells complete: model files, runs, targets, names of parameters.

Assumes: typer's completion (`netloom --install-completion`).
Guarantees: nothing here raises for what a user has typed so far; no model is built.
Does not: complete options, which typer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer

Completer = Callable[[typer.Context, str], list[str]]


def _paths(incomplete: str, wanted: Callable[[Path], bool]) -> list[str]:
    """Folders, and what is wanted, whose path begins with `incomplete`."""
    folder, _, begin = incomplete.rpartition("/")
    place = Path(folder or ("/" if incomplete.startswith("/") else "."))
    try:
        found = sorted(p for p in place.iterdir() if p.name.startswith(begin) and (begin or p.name[0] != "."))
        shown = incomplete[: len(incomplete) - len(begin)]
        return [shown + p.name + ("" if wanted(p) else "/") for p in found if wanted(p) or p.is_dir()]
    except OSError:
        return []


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Files that end as models do, and folders."""
    return _paths(incomplete, lambda p: p.suffix in (".yaml", ".yml") and p.is_file())


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Run directories, those in `runs` first, and models."""
    own = [] if incomplete else [n for n in _paths("runs/", _is_run) if not n.endswith("/")]
    return own + _paths(incomplete, lambda p: _is_run(p) or (p.suffix in (".yaml", ".yml") and p.is_file()))


def targets(ctx: typer.Context, incomplete: str) -> list[str]:
    from backends.registry import TARGETS

    return _beginning(TARGETS, incomplete)


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """`name=` for each parameter of the model on the command line."""
    import yaml

    # Behind an option without its value, arguments are not assigned yet.
    words = [*(str(v) for v in ctx.params.values()), *ctx.args]
    path = next((w for w in words if w.endswith((".yaml", ".yml"))), "")
    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return []
    params = tree.get("params") if isinstance(tree, dict) else None
    return _beginning((f"{n}=" for n in params) if isinstance(params, dict) else (), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [n for n in names if n.startswith(incomplete)]


def among(names: tuple[str, ...]) -> Completer:
    """One of given words."""
    return lambda ctx, incomplete: _beginning(names, incomplete)


OF_OPTIONS: Final[Mapping[str, Completer]] = MappingProxyType(
    {"target": targets, "set": settings, "resume": runs, "weights": runs}
)
"""By the field of `Options`."""
