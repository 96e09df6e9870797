"""The bill of a model before anything large is made: what it needs in memory and on disk, and what there is.

Assumes: compiler/passes/relations/expected_sizes.py, compiler/layout/plan_memory.py, recorded.py and room.py beside
this module.
Guarantees: `refuse` raises E0905 for what surely does not fit, with the largest parts; `warnings` gives W0005 for what
takes more than half of the room, or will not fit if it goes as expected.
Does not: read data, connect or allocate.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Backend
from compiler.core.diagnostics import Diagnostic, RunError, Severity
from compiler.core.disk import bytes_text
from compiler.core.source import NOWHERE, Span
from compiler.layout.plan_memory import place
from compiler.passes.relations.expected_sizes import Part, expected_sizes, least_bytes
from compiler.runtime.common.options import Options
from compiler.runtime.resources.recorded import SPIKE_RATE, Sized, written_by
from compiler.runtime.resources.room import Room, device_room, disk_room, memory_room

NAMED: Final = 3
"""Parts that a message names."""
LISTED: Final = 40
"""Parts that a bill lists."""

HELP: Final = {
    "memory": "a smaller model, or fewer recorded members; `netloom show --memory` lists all arrays",
    "on disk": "record fewer members or less often, or give another `--runs-dir`",
}


_DEVICES: Final = {"cuda": "memory of the GPU", "opencl": "memory of the device"}
"""Targets with memory of their own."""


@dataclass(frozen=True)
class Need:
    """What a run needs of one kind ("memory", what _DEVICES names, "on disk"), and what there is (None: not known).
    `parts`: the LISTED largest, and all that are not sure, largest first; `bytes` may be less than their sum, where
    parts share their place."""

    kind: str
    bytes: int
    parts: tuple[Part, ...]
    room: Room | None

    @property
    def sure(self) -> int:
        """Bytes that are needed whatever the run does."""
        return self.bytes - sum(p.bytes for p in self.parts if not p.sure)


def least_needs(model: l0.Model, options: Options) -> tuple[Need, ...]:
    """What is known of a model before it is lowered: the least memory, and what is recorded."""
    parts = tuple(least_bytes(model))
    room = device_room(options.target, options.device or 0)
    kind = _DEVICES.get(options.target, "memory")
    memory = memory_room() if options.target not in _DEVICES else room
    return Need(kind, sum(p.bytes for p in parts), parts, memory), _on_disk(model, options)


def needs_of(model: l0.Model, merged: l2.Merged, backend: Backend, options: Options) -> tuple[Need, ...]:
    """The whole bill of a lowered model."""
    sizes = expected_sizes(model, merged)
    return (*memory_needs(merged, sizes, backend, options), _on_disk(model, options, (merged, sizes)))


def bytes_of(array: l2.Array, sizes: Mapping[str, int]) -> int:
    """`sizes`: elements of the arrays whose number is drawn."""
    return (array.physical_size if array.size_from is None else sizes.get(array.name, 0)) * array.dtype.bytes


def memory_needs(merged: l2.Merged, sizes: Mapping[str, int], backend: Backend, options: Options) -> tuple[Need, ...]:
    """What a program needs of memory. `sizes`: as of `bytes_of`."""
    arrays = [(-bytes_of(a, sizes), a.name, a) for a in merged.arrays]
    parts = []
    for less, name, a in heapq.nsmallest(LISTED, arrays):
        note = f"{sizes[name]:,} expected" if name in sizes else "x".join(map(str, a.shape))
        parts.append(Part(name, -less, note, a.span))
    constants = sum(v.nbytes for v in merged.constants.values())
    # placing takes a while, and tells only by how much arrays that share memory take less
    unshared = -sum(less for less, _, _ in arrays)
    on_device = options.target in _DEVICES
    room = device_room(options.target, options.device or 0) if on_device else memory_room()
    arenas = unshared
    if room is not None and unshared + constants > room.bytes // 2:
        arenas = sum(place(merged, sizes, backend.capabilities.apart).arena_bytes.values())
    host = Part("constants, as the host holds them", constants)
    if not on_device:
        beside = _workspace(merged)
        whole = tuple(sorted((*parts, host, beside), key=lambda p: (-p.bytes, p.what)))
        return (Need("memory", arenas + constants + beside.bytes, whole, room),)
    device = Need(_DEVICES[options.target], arenas, tuple(parts), room)
    return Need("memory", constants, (host,), memory_room()), device


def _workspace(merged: l2.Merged) -> Part:
    """What the contractions of a program take beside the arrays, one after the other: that of the largest."""
    most, path = 0, ""
    for t in merged.templates:
        if isinstance(t.body, l2.Contract) and t.body.scratch is not None:
            rows = merged.tables[t.index]
            for number, taken in enumerate(rows.scalars[t.body.scratch]):
                if int(str(taken)) > most:
                    most, path = int(str(taken)), rows.paths[number] if rows.paths else t.name
    return Part("workspace of contractions", most, f"`{path}`" if path else "")


def refuse_memory(merged: l2.Merged, backend: Backend, options: Options) -> None:
    """Raises RunError (E0905) where a network that is used (predict, evaluate), which records nothing, does not fit."""
    refuse(memory_needs(merged, {}, backend, options))


def _on_disk(model: l0.Model, options: Options, lowered: Sized | None = None) -> Need:
    parts = tuple(written_by(model, lowered))
    folder = options.out if options.out is not None else options.runs_dir
    return Need("on disk", sum(p.bytes for p in parts), parts, disk_room(Path(folder)))


def refuse(needs: Sequence[Need]) -> None:
    """Raises RunError (E0905) for the first need that surely does not fit."""
    for need in needs:
        if need.room is None or need.sure <= need.room.bytes:
            continue
        named = [p for p in need.parts if p.sure and p.bytes][:NAMED]
        lines = "\n".join(f"{p.what}: {_part(p)}{_line(p.span)}" for p in named)
        message = f"{_sentence(need, need.sure)}\n{lines}" if lines else _sentence(need, need.sure)
        raise RunError("E0905", message, HELP.get(need.kind, HELP["memory"]))


def warnings(needs: Sequence[Need]) -> tuple[Diagnostic, ...]:
    """W0005 for every need that takes more than half of what there is, at the place of its largest part."""
    out = []
    for need in needs:
        if need.room is None or need.bytes <= need.room.bytes // 2:
            continue
        largest = next((p for p in need.parts if p.span is not NOWHERE), None)
        named = ", ".join(f"{p.what} ({_part(p)})" for p in need.parts[:NAMED] if p.bytes)
        text = _sentence(need, need.bytes, "" if need.sure == need.bytes else f" (with spikes at {SPIKE_RATE:g} Hz)")
        span = None if largest is None else largest.span
        out.append(Diagnostic("W0005", text, span, f"the largest: {named}", (), Severity.WARNING))
    return tuple(out)


def bill_text(needs: Sequence[Need]) -> str:
    """ "1.2 GB of memory, 53.6 MB on disk"."""
    return ", ".join(f"{bytes_text(n.bytes)} {n.kind if n.kind == 'on disk' else f'of {n.kind}'}" for n in needs)


def large(needs: Sequence[Need], share: int) -> bool:
    """Whether anything takes more than 1 / `share` of what there is."""
    return any(n.room is not None and n.bytes > n.room.bytes // share for n in needs)


def _sentence(need: Need, count: int, guess: str = "") -> str:
    assert need.room is not None
    there = bytes_text(need.room.bytes)
    if need.kind == "on disk":
        return f"a run writes {bytes_text(count)}{guess}; {there} are free on {need.room.what}"
    return f"the model needs {bytes_text(count)} of {need.kind}; {need.room.what} has {there}"


def _part(part: Part) -> str:
    return bytes_text(part.bytes) + (f", {part.note}" if part.note else "")


def _line(span: Span) -> str:
    return "" if span is NOWHERE or not span.file.text else f" (line {span.line})"
