"""plugins: strategies of other packages, by the entry point `netloom.strategies`.

    [project.entry-points."netloom.strategies"]
    blocked = "a_package.blocked:STRATEGY"

Assumes: each entry point is a Strategy (compiler/strategies/strategy.py) with a `target` and its `template`, or a
sequence of them.
Guarantees: no rule takes them: `netloom tune` measures them beside the others, and a lock file names them, so that
installing a package changes no result. What is no strategy, or cannot be imported, is an error (E0946) that names the
package.
Does not: check what they compute (compiler/tune/measure.py does).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from compiler.core.diagnostics import RunError
from compiler.strategies.strategy import PRODUCTS, Strategy

GROUP: Final = "netloom.strategies"
TARGETS: Final = ("cpu",)
"""Whose kernels may be templates of other packages."""


@cache
def installed() -> tuple[Strategy, ...]:
    """The strategies of installed packages, by name. Raises RunError (E0946)."""
    found: dict[str, Strategy] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
        for strategy in _loaded(entry):
            if strategy.name in found:
                raise _refused(entry, f"another one is called `{strategy.name}`, too")
            found[strategy.name] = strategy
    return tuple(found[name] for name in sorted(found))


def _loaded(entry: EntryPoint) -> Iterable[Strategy]:
    try:
        value = entry.load()
    except Exception as error:  # any module of another package
        raise _refused(entry, f"{type(error).__name__}: {error}") from error
    for strategy in (value,) if isinstance(value, Strategy) else value if isinstance(value, (tuple, list)) else (None,):
        if not isinstance(strategy, Strategy):
            raise _refused(entry, "it is neither a Strategy nor a tuple of them")
        if not strategy.name.isidentifier() or not strategy.template:
            raise _refused(entry, "a strategy has a name that is an identifier, and the text of a template")
        if strategy.target not in TARGETS:
            raise _refused(entry, f"its target is `{strategy.target}`, and templates are of {', '.join(TARGETS)}")
        if strategy.products not in PRODUCTS:
            raise _refused(entry, f"its `products` is none of {', '.join(PRODUCTS)}")
        yield strategy


def _refused(entry: EntryPoint, why: str) -> RunError:
    package = f" of the package `{entry.dist.name}`" if entry.dist is not None else ""
    return RunError(
        "E0946",
        f"the strategy `{entry.name}`{package} cannot be used: {why}",
        "uninstall the package, or another version of it",
    )
