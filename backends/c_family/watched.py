"""What targets whose event counts stay on the device watch: lists of events, and record buffers.

Assumes: the host's tables (compiler/layout/write_tables.py).
Guarantees: the arrays by name, with the numbers of their rows.
Does not: look at contents.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Watched:
    """`rings`: (counts of events, slots) of lists, which a run begins with emptied ones; `buffers`: (counter, capacity,
    the most entries that a step adds, every how many steps) of record buffers."""

    rings: list[tuple[str, int]] = field(default_factory=list)
    buffers: list[tuple[str, int, int, int]] = field(default_factory=list)


def watched(program: l2.Merged, phase: l2.Phase, tables: tuple[Words, ...]) -> Watched:
    """What the launches of a phase emit to and record in."""
    out = Watched()
    for launch in phase.launches:
        template, rows = program.templates[launch.template], program.tables[launch.template]
        names = [f.name for f in template.formals]
        part = tables[launch.template][launch.lo : launch.hi]

        def column(name: str, names: list[str] = names, part: Words = part) -> list[int]:
            values: list[int] = part[:, names.index(name)].view(np.int64).tolist()
            return values

        def arrays(name: str, rows: l2.Rows = rows, at: l2.Launch = launch) -> tuple[str, ...]:
            return rows.arrays[name][at.lo : at.hi]

        match template.body:
            case l2.Nest(_, prologue):
                for s in prologue:
                    if isinstance(s, l2.Emit):
                        out.rings.extend(zip(arrays(s.count), column(s.slots), strict=True))
            case l2.EmitScheduled():
                count = "count" if "count" in names else "spike_count"
                out.rings.extend(zip(arrays(count), column("slots"), strict=True))
            case l2.RecordEvents():
                found = zip(arrays("used"), column("capacity"), column("n"), strict=True)
                out.buffers.extend((used, room, max(most, 1), launch.every) for used, room, most in found)
            case l2.RecordTrace():
                pairs = zip(arrays("used"), column("capacity"), strict=True)
                out.buffers.extend((used, room, 1, launch.every) for used, room in pairs)
    return out
