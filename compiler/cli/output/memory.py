"""`netloom show --memory`: the memory report (compiler/layout/memory_report.py) as text or JSON.

Assumes: a model that can be run.
Guarantees: every arena with its bytes; the largest arrays with the model path, and the arrays that share their memory.
Arrays of random size count with their expected size, and are named.
Does not: load the program or draw connections.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from compiler.cli.errors import Format
from compiler.cli.output.show import placed_arrays
from compiler.cli.output.table import table
from compiler.ir.space import Role
from compiler.layout.memory_report import Bill, Billed, memory_bill
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare

LARGEST = 20
"""Arrays that are listed."""


def show_memory(path: Path, options: Options, format: Format) -> None:
    """Print the memory report of a model for a target. Raises ModelError, BackendError, RunError."""
    prepared = prepare(path, options, Times())
    merged = prepared.lowered.merged
    placement, sizes = placed_arrays(prepared)
    bill = memory_bill(merged, placement, sizes)
    if format is Format.json:
        typer.echo(json.dumps(_as_json(bill, sizes), indent=2))
        return
    typer.echo(f"{prepared.model.name}, {options.target}")
    typer.echo("\narenas\n" + _arenas(bill))
    typer.echo("\nlargest arrays\n" + _arrays(bill))
    if bill.peaks:
        typer.echo("\nmost work memory in use\n" + _peaks(bill))
    if sizes:
        typer.echo(f"\nas expected, since their sizes are drawn when the network is connected: {len(sizes)} arrays\n"
                   + "\n".join(f"  {name}" for name in list(sizes)[:LARGEST]))  # fmt: skip


def _arenas(bill: Bill) -> str:
    changed = frozenset(bill.in_place)
    rows = []
    for role, size in bill.arenas.items():
        arrays = [b.array.name for b in bill.arrays if b.array.role is role and b.bytes is not None]
        if size:
            in_place = len(changed.intersection(arrays))
            without = bill.unshared if role is Role.WORK else size
            rows.append([str(role), str(len(arrays)), str(in_place or ""), f"{without:,}", f"{size:,}"])
    rows.append(["total", "", "", "", f"{bill.total:,}"])
    return table(["arena", "arrays", "changed in place", "bytes if none were shared", "bytes"], rows)


def _arrays(bill: Bill) -> str:
    rows = [
        [b.array.name, str(b.array.role), _shape(b), _shared(b), f"{b.bytes:,}"]
        for b in bill.arrays[:LARGEST]
        if b.bytes is not None
    ]
    return table(["array", "arena", "shape", "shares its memory with", "bytes"], rows, left=4)


def _shape(b: Billed) -> str:
    drawn = b.array.size_from is not None and b.bytes is not None
    return f"{(b.bytes or 0) // b.array.dtype.bytes} expected" if drawn else "x".join(map(str, b.array.shape))


def _shared(b: Billed) -> str:
    shown = ", ".join(b.shares[:2])
    return shown + (f" and {len(b.shares) - 2} more" if len(b.shares) > 2 else "")


def _peaks(bill: Bill) -> str:
    lines = []
    for p in bill.peaks:
        lines.append(f"  {p.phase}: {p.bytes:,} bytes in launch {p.launch} of {p.launches} ({p.path}), which holds")
        sizes = {b.array.name: b.bytes or 0 for b in bill.arrays}
        lines += [f"    {name} {sizes[name]:,}" for name in p.arrays[:5]]
        if len(p.arrays) > 5:
            lines.append(f"    and {len(p.arrays) - 5} more")
    return "\n".join(lines)


def _as_json(bill: Bill, expected: Mapping[str, int]) -> dict[str, object]:
    return {
        "arena_bytes": {str(r): n for r, n in bill.arenas.items()},
        "total_bytes": bill.total,
        "unshared_work_bytes": bill.unshared,
        "in_place": list(bill.in_place),
        "arrays": [
            {"name": b.array.name, "arena": str(b.array.role), "shape": list(b.array.shape), "bytes": b.bytes,
             "shares": list(b.shares), "expected": b.array.name in expected}
            for b in bill.arrays
        ],
        "peaks": [
            {"phase": p.phase, "launch": p.launch, "launches": p.launches, "path": p.path, "bytes": p.bytes,
             "arrays": list(p.arrays)}
            for p in bill.peaks
        ],
    }  # fmt: skip
