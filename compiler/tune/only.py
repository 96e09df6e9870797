"""only: the contractions and strategies of a model that are meant by `--only`.

Assumes: compiler/tune/wishes.py.
Guarantees: the choice of the rules is always measured, as what the others are compared with. What fits no contraction
of the model, or no strategy that there is, is refused by the name of the part.
Does not: change what is locked for other contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from compiler.core.names import listed
from compiler.strategies import every as strategies
from compiler.strategies.choice import Choice
from compiler.strategies.exchange import KINDS
from compiler.strategies.forks import Fork
from compiler.tune.sites import Site, workspace_of
from compiler.tune.wishes import Only, refused

Fits = Callable[[str, str], bool]
"""Whether a pattern fits a name."""


def selected(
    only: Only, found: Iterable[Site], workspace: int | None = None, forks: Sequence[Fork] = ()
) -> tuple[Site, ...]:
    """The sites that are meant, with the candidates that are meant and that take `workspace` bytes at most; without
    those that have no alternative then. Raises RunError (E0912) for a pattern that fits nothing, no fork either."""
    every = tuple(found)
    _every_one_fits(only.places, [*(s.path for s in every), *(f.path for f in forks)], "contraction", _place)
    known = {s.name for s in strategies()} | {name_of(None), *(kind.rstrip("_") for kind in KINDS)}
    here = {name_of(w) for s in every for w in s.ways}
    names = [*sorted(here), *sorted(known - here)]
    ways = {w for f in forks for w in f.ways} - {*names}
    _every_one_fits(only.strategies, [*names, *sorted(ways)], "strategy", _strategy)
    if not any(_fits(only.strategies, name, _strategy) for name in names):
        return ()  # forks alone are meant
    kept = (_restricted(s, only, workspace) for s in every if _fits(only.places, s.path, _place))
    return tuple(s for s in kept if len(s.ways) > 1)


def selected_forks(only: Only, forks: Iterable[Fork]) -> tuple[Fork, ...]:
    """The forks that are meant, by their paths and ways."""
    meant = (f for f in forks if _fits(only.places, f.path, _place))
    return tuple(f for f in meant if any(_fits(only.strategies, way, _strategy) for way in f.ways))


def name_of(way: Choice | None) -> str:
    """The strategy of a candidate."""
    return "nest" if way is None else way.strategy


def _restricted(site: Site, only: Only, workspace: int | None) -> Site:
    """The first candidate, the rule's, stays; and so does the nest, which needs no memory, as the last."""
    first, *others = site.ways
    kept = [w for w in others if w is None or _fits(only.strategies, name_of(w), _strategy)]
    if workspace is not None:
        kept = [w for w in kept if workspace_of(w) <= workspace]
        first = first if workspace_of(first) <= workspace else kept.pop(0)
    return replace(site, ways=(first, *kept))


def _place(pattern: str, path: str) -> bool:
    """`conv1`, `conv*`, `train/*`: the path, the path without its phase, or its layer."""
    inside = path.partition("/")[2]
    return any(fnmatchcase(text, pattern) for text in (path, inside, inside.partition(".")[0]))


def _strategy(pattern: str, name: str) -> bool:
    """`winograd`, `lanes_conv`, `*_rows`: words of the name, or a pattern of it."""
    return fnmatchcase(name, pattern) or f"_{pattern}_" in f"_{name}_"


def _fits(patterns: Sequence[str], name: str, fits: Fits) -> bool:
    return not patterns or any(fits(p, name) for p in patterns)


def _every_one_fits(patterns: Sequence[str], names: Sequence[str], what: str, fits: Fits) -> None:
    for pattern in patterns:
        if not any(fits(pattern, name) for name in names):
            help = f"there is {listed(names, 12)}" if names else None
            raise refused(f"`--only`: no {what} fits `{pattern}`", help)
