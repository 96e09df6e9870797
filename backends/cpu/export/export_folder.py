"""export_folder: a build folder that compiles with `make` and runs without Python.

Assumes: the text and artifact of the same program.
Guarantees: <name>.c, netloom.h, main.c, Makefile, <name>.bin (tables, launches, initial values; the layout is described
in main.c), lib<name>.so and manifest.json, which names every array, kernel, table and phase. No connecting here: main.c
places arrays of random size, as backends/cpu/run/load.py does.
Does not: hold results or checkpoints.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.cpu.emit.emit import Emitted
from backends.cpu.kernels.kernel import SKELETONS
from backends.cpu.run.load import Words, launch_lists, scratch_bytes
from backends.cpu.run.loops import loops_of
from backends.kernel_ir.descriptor import Compiled
from backends.manifest import manifest
from backends.protocol import Artifact
from compiler.core.disk import copy_file, new_file, write_text
from compiler.ir.space import DType, Role
from compiler.layout.plan_memory import Placement, place
from compiler.layout.write_tables import ROLE_NUMBER, placed_at, with_columns, write_tables

CODE: Final = "generated code"
MAGIC: Final = int.from_bytes(b"NETLOOM1", "little")
PRINTED: Final = {DType.F32: 0, DType.F64: 1, DType.I32: 2, DType.I64: 3}
MOST_PRINTED: Final = 16  # elements of an array that main.c prints after a run


def write_folder(folder: Path, program: l2.Merged, emitted: Emitted, artifact: Artifact, seed: int) -> None:
    """Write the whole build folder; streams are keyed by `seed`. Raises RunError (E0930)."""
    name = program.name
    placement = place(program, {})
    tables = write_tables(program, placement, seed, {})
    phases = [p.name for p in program.phases]
    runs = next((p for p in ("step", "eval", "train") if p in phases), phases[-1] if phases else "")
    write_text(folder / f"{name}.c", emitted.text, CODE)
    write_text(folder / "netloom.h", emitted.header, CODE)
    main = SKELETONS.render(
        "main.c.j2", name=name, phases=phases, phase=runs, magic=f"{MAGIC}LL", loops=program.has_loops
    )
    write_text(folder / "main.c", main, CODE)
    flags = " ".join(f for f in artifact.flags if f not in ("-fPIC", "-shared"))
    write_text(folder / "Makefile", SKELETONS.render("Makefile.j2", name=name, flags=flags), CODE)
    with new_file(folder / f"{name}.bin", "the tables of a build") as file:
        _write_data(file, program, placement, tables, artifact.kernels)
    text = manifest(program, placement, artifact, seed, "cpu")
    write_text(folder / "manifest.json", text, "the manifest of a build")
    copy_file(artifact.binary, folder / f"lib{name}.so", "compiled code")


# ----------------------------------------------------------------------------------------- data file


def _words(file: IO[bytes], *values: int) -> None:
    file.write(struct.pack(f"<{len(values)}q", *values))


def _text(file: IO[bytes], text: str) -> None:
    data = text.encode()
    _words(file, len(data))
    file.write(data + bytes(-len(data) % 8))


def _write_data(
    file: IO[bytes], program: l2.Merged, placement: Placement, tables: tuple[Words, ...], kernels: Compiled
) -> None:
    arrays = {a.name: a for a in program.arrays}
    _words(file, MAGIC, *(placement.arena_bytes.get(r, 0) for r in Role))
    _words(file, scratch_bytes(program, tables))
    read = [with_columns(t, k.columns) for t, k in zip(tables, kernels, strict=True)]
    for table in read:
        _words(file, *table.shape)
        file.write(table.tobytes())
    for launches in launch_lists(program):
        _words(file, len(launches))
        file.write(launches.tobytes())
    if program.has_loops:
        for x in loops_of(program, read, kernels):
            _words(file, len(x.loops), len(x.moves))
            file.write(x.loops.tobytes() + x.moves.tobytes())
    late = [a for a in program.arrays if a.size_from is not None]
    _words(file, len(late))
    for a in late:
        pointers = arrays[a.size_from or ""]
        _words(file, ROLE_NUMBER[a.role], a.dtype.bytes, placed_at(pointers, placement), pointers.physical_size)
    patches = _patches(program, {a.name: i for i, a in enumerate(late)}, late, kernels)
    _words(file, len(patches))
    file.write(patches.tobytes())
    given = [n for n in program.constants if n in placement.offsets]
    _words(file, len(given))
    for name in given:
        values = np.ascontiguousarray(program.constants[name], np.dtype(arrays[name].dtype.numpy)).tobytes()
        _words(file, placed_at(arrays[name], placement), len(values))
        file.write(values + bytes(-len(values) % 8))
    _write_results(file, program, placement, arrays)


def _patches(
    program: l2.Merged, number: dict[str, int], late: list[l2.Array], kernels: Compiled
) -> npt.NDArray[np.int64]:
    """Cells of tables that hold the address (0) or the size (1) of an array that is placed after connecting: kernel,
    cell, number of the array, which."""
    first = {a.size_from: i for i, a in reversed(list(enumerate(late)))}
    sized: dict[str, int] = {a.name: i for i, a in enumerate(late)}
    sized |= {n: i for n, i in first.items() if n is not None}
    found = [np.zeros((0, 4), np.int64)]
    for kernel, (template, rows) in enumerate(zip(program.templates, program.tables, strict=True)):
        read = kernels[kernel].columns
        width = len(read)
        for column, formal in enumerate(template.formals[n] for n in read):
            what = isinstance(formal, l2.ScalarFormal)
            values = rows.scalars[formal.name] if what else ()
            if isinstance(values, np.ndarray):
                continue
            sizes = (sized.get(v.array, -1) if isinstance(v, l2.SizeOf) else -1 for v in values)
            names = sizes if what else (number.get(n, -1) for n in rows.arrays[formal.name])
            late_one = np.fromiter(names, np.int64, rows.count)
            (at,) = np.nonzero(late_one >= 0)
            cells = (np.full_like(at, kernel), at * width + column, late_one[at], np.full_like(at, what))
            found.append(np.stack(cells, axis=1))
    return np.concatenate(found)


def _formals(template: l2.Template) -> tuple[str, str] | None:
    """(count, slots) of the formals with which a template emits events."""
    body = template.body
    names = {f.name for f in template.formals}
    if isinstance(body, l2.EmitScheduled):
        return ("count" if "count" in names else "spike_count"), "slots"
    if isinstance(body, l2.Nest):
        for s in body.prologue:
            if isinstance(s, l2.Emit):
                return s.count, s.slots
    return None


def _write_results(file: IO[bytes], program: l2.Merged, placement: Placement, arrays: dict[str, l2.Array]) -> None:
    events: list[tuple[l2.Array, int, str]] = []
    used: list[l2.Array] = []
    for template, rows in zip(program.templates, program.tables, strict=True):
        if names := _formals(template):
            slots = rows.scalars[names[1]]
            for row, bound in enumerate(rows.arrays[names[0]]):
                label = rows.paths[row] if row < len(rows.paths) else bound
                value = slots[row]
                assert isinstance(value, int | float | np.integer | np.floating)
                events.append((arrays[bound], int(value), label))
        if isinstance(template.body, l2.RecordEvents | l2.RecordTrace):
            used += [arrays[n] for n in rows.arrays["used"]]
    _words(file, len(events))
    for array, count, label in events:
        _words(file, placed_at(array, placement), count)
        _text(file, label)
    _words(file, len(used))
    _words(file, *(placed_at(a, placement) for a in used))
    counters = {a.name for a in used}
    results = [
        a
        for a in program.arrays
        if a.role is Role.RECORD
        and 0 < a.physical_size <= MOST_PRINTED
        and a.dtype in PRINTED
        and a.name not in counters
    ]
    _words(file, len(results))
    for a in results:
        _words(file, placed_at(a, placement), PRINTED[a.dtype], a.physical_size)
        _text(file, a.name)
