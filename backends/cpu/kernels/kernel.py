"""The C function of one template: loads of the columns, and the loop over the rows of a launch.

Assumes: a kernel that backends/c_family/access.py has opened.
Guarantees: a column is loaded only where its name is used.
Does not: print loops (nest.py) or files (backends/cpu/emit/emit.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backends.c_family.access import Kernel, columns, mentioned
from backends.c_family.skeletons import Skeletons
from backends.kernel_ir.stmt import Block, Stmt
from compiler.strategies.plugins import installed


def _of_others() -> dict[str, str]:
    """The templates of strategies of other packages."""
    return {f"strategy_{s.name}.c.j2": s.template for s in installed() if s.target == "cpu"}


SKELETONS: Final = Skeletons("backends.cpu", _of_others)


def opened(k: Kernel, body: Sequence[Stmt]) -> list[Stmt]:
    """The kernel's function around its statements, with the rows [lo, hi) and `step` in scope."""
    return [Block(f"NL_KERNEL({k.function})", body)]


def function(k: Kernel, body: Sequence[Stmt], early: Sequence[Stmt] = ()) -> list[Stmt]:
    """The kernel's function: `body` once per row of [lo, hi). `early` runs first, with its own columns, and may
    `continue` before the others are loaded."""
    first = mentioned(k, early)
    rest = mentioned(k, body) - first
    return opened(k, [Block(f"NL_ROWS({k.row_type})", [*columns(k, first), *early, *columns(k, rest), *body])])
