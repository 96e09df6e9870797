"""standalone: one C file and its header that compute a network's outputs, without allocation and without libraries.

Assumes: a merged program of a prediction (compiler/passes/pipeline/lower.py) and values for its weights.
Guarantees: <name>.c, <name>.h and, unless the weights are embedded, <name>.bin. `cc -O3 -c <name>.c` compiles it; the
results are those of the same program in the CPU backend, bit for bit with the same floating-point options. Only
<name>_predict and <name>_load have external linkage. The kernels are those of backends/cpu/emit/emit.py; tables and
sizes are data.
Does not: train, or run several predictions at once (memory is static).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.names import c_name
from backends.cpu.emit.emit import emit
from backends.cpu.kernels.kernel import SKELETONS
from backends.cpu.run.load import Words, launch_lists, scratch_bytes
from backends.cpu.run.loops import loops_of
from backends.kernel_ir.descriptor import Compiled
from compiler.core.disk import write_bytes
from compiler.ir.space import DType, Role
from compiler.layout.plan_memory import Placement, place
from compiler.layout.write_tables import ROLE_NUMBER, ROLE_SHIFT, with_columns, write_tables

Bytes = npt.NDArray[np.uint8]
Values = Mapping[str, npt.NDArray[Any]]

_TYPES = {DType.F32: "float", DType.F64: "double", DType.I32: "int"}


@dataclass(frozen=True)
class Port:
    """An input or output: its name, the array that holds it, and the shape of a sample."""

    name: str
    array: str
    shape: tuple[int, ...]


def write_standalone(
    folder: Path,
    name: str,
    program: l2.Merged,
    phases: tuple[str, str],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    batch: int,
    given: Values,
    weights: Values,
    embed: bool,
) -> list[Path]:
    """Write the files of network `name` into `folder`; returns them. `weights` (in logical shape, row-major) go into
    <name>.bin or, with `embed`, into the C file; `given` (as stored) always into the C file. `phases`: the one that
    runs once for given weights, if the program has it, and that of a prediction. Raises BackendError, RunError
    (E0930)."""
    placement = place(program, {})
    tables = write_tables(program, placement, 0, {})
    arrays = {a.name: a for a in program.arrays}
    images = {r: np.zeros(-(-placement.arena_bytes.get(r, 0) // 8) * 8 or 8, np.uint8) for r in Role}
    loaded: set[Role] = set()
    for contents, separate in ((program.constants, False), (given, False), (weights, True)):
        for array, values in contents.items():
            if array in placement.offsets:
                a = arrays[array]
                data = np.ascontiguousarray(values, np.dtype(a.dtype.numpy)).reshape(-1).view(np.uint8)
                images[a.role][placement.offsets[array] :][: len(data)] = data
                loaded |= {a.role} if separate else set()
    digest, names = _digest(program, placement), [p.name for p in program.phases]
    (once, phase), lists = phases, launch_lists(program)
    number = names.index(phase)
    taken = {name}
    ins = [_port(p, arrays[p.array], placement, taken, batch) for p in inputs]
    outs = [_port(p, arrays[p.array], placement, taken, 1) for p in outputs]
    binary = b"".join([digest, *(images[r].tobytes() for r in Role if r in loaded)])
    known: dict[str, object] = {
        "name": name,
        "guard": re.sub(r"\W", "_", name).upper(),
        "embed": embed,
        "batch": batch,
        "inputs": ins,
        "outputs": outs,
        "arguments": [
            *(f"const {p['type']} *{p['name']}" for p in ins),
            *(f"{p['type']} *{p['name']}" for p in outs),
        ],
        "roles": [_role(r, images[r], embed or r not in loaded, r in loaded and not embed) for r in Role],
        "scratch": -(-scratch_bytes(program, tables) // 8) + 8,
        "launches": lists[number].tolist(),
        "once": lists[names.index(once)].tolist() if once in names else [],
        "weight_bytes": len(binary),
        "digest": int.from_bytes(digest, "little"),
    }
    text = emit(program, "standalone.c.j2", partial(_with_tables, known, program, number, tables)).text
    files = {f"{name}.c": text.encode(), f"{name}.h": SKELETONS.render("standalone.h.j2", **known).encode()}
    if not embed:
        files[f"{name}.bin"] = binary
    for file, contents_ in files.items():
        write_bytes(folder / file, contents_, "a file of the network")
    return [folder / f for f in files]


def _with_tables(
    known: Mapping[str, object], program: l2.Merged, phase: int, tables: tuple[Words, ...], kernels: Compiled
) -> Mapping[str, object]:
    """What the skeleton is told, with the tables that these kernels read, and the loops of the phase."""
    read = [with_columns(t, k.columns) for t, k in zip(tables, kernels, strict=True)]
    loops = loops_of(program, read, kernels)[phase]
    return {
        **known,
        "tables": [_words(t.reshape(-1)) if t.size else "    0," for t in read],
        "loops": loops.loops.tolist(),
        "moves": loops.moves.tolist(),
    }


def _digest(program: l2.Merged, placement: Placement) -> bytes:
    """8 bytes that identify the layout of the arrays."""
    text = repr([(a.name, a.dtype, a.shape, a.role, placement.offsets.get(a.name)) for a in program.arrays])
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _port(p: Port, array: l2.Array, placement: Placement, taken: set[str], rows: int) -> dict[str, object]:
    """The skeletons' arguments for an input or output; its name in C (c_name) avoids those `taken`."""
    word = c_name(p.name)
    while word in taken:
        word += "_"
    taken.add(word)
    count = int(np.prod(p.shape, dtype=np.int64))
    return {
        "name": word,
        "type": _TYPES[array.dtype],
        "word": ROLE_NUMBER[array.role] << ROLE_SHIFT | placement.offsets[p.array],
        "count": rows * count,
        "shape": "".join(f"[{e}]" for e in p.shape),
        "lanes": array.layout.lanes if isinstance(array.layout, l2.Lanes) else 0,
    }


def _role(role: Role, image: Bytes, contained: bool, loaded: bool) -> dict[str, object]:
    """An arena: its words and, if `contained`, its contents."""
    words = image.view(np.uint64)
    return {
        "name": role.value,
        "words": len(words),
        "what": f"{image.size} bytes",
        "contents": _words(np.trim_zeros(words, "b")) if contained and words.any() else "",
        "loaded": loaded,
    }


def _words(values: npt.NDArray[np.uint64]) -> str:
    """Words as C constants, eight in a line."""
    texts = [f"{v:#x}ull," for v in values.tolist()]
    return "\n".join("    " + " ".join(texts[i : i + 8]) for i in range(0, len(texts), 8))
