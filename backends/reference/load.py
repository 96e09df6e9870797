"""The reference backend: memory for a program, and the execution of its phases.

Assumes: a legal Program or Merged; constants in physical layout.
Guarantees: an Instance after backends/protocol.py with every array as a separate numpy vector (no shared memory, so
that faults of memory planning elsewhere show), of float32 where a program for another target stores bf16. Denormals
are kept.
Does not: compile; what it makes is the text of the templates.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Artifact, BackendError, Capabilities, Instance
from backends.reference.evaluate import rounded
from backends.reference.interpret import Item, bind_row, phases, run_step
from backends.reference.row import Row
from compiler.core.disk import write_text
from compiler.ir.space import DType
from compiler.ir.text import print_ir

INIT_PHASES = ("count", "scan", "fill", "init")


class ReferenceInstance(Instance):
    """A program with its memory: `read`, `write` and `run` after backends.protocol.Instance."""

    def __init__(self, program: l2.Program | l2.Merged, seed: int) -> None:
        self._program, self._seed = program, seed
        self._phases = phases(program)
        self._declared = {a.name: a for a in program.arrays}
        self._arrays: dict[str, AnyArray] = {}
        self._sizes: dict[str, int] = {}
        self._bound: dict[tuple[int, int, int], Row] = {}
        for array in program.arrays:
            if array.size_from is None:
                self._allocate(array, array.physical_size)
        for phase in INIT_PHASES:
            if phase == "fill":
                self._size_arrays()
            if phase in self._phases:
                run_step(self._phases[phase], self._bind, 0)
        self._bound.clear()

    def _allocate(self, array: l2.Array, size: int) -> None:
        if array.within:  # declared after its whole
            self._arrays[array.name] = self._arrays[array.within][array.first : array.first + size]
            return
        memory: AnyArray = np.zeros(size, np.dtype(array.dtype.computed.numpy))
        contents = self._program.constants.get(array.name)
        if contents is not None:
            memory[:] = contents.reshape(-1)
        self._arrays[array.name] = memory

    def _size_arrays(self) -> None:
        """Allocate the arrays whose length is the last element of their row pointers."""
        for array in self._program.arrays:
            if array.size_from is not None:
                size = int(self._arrays[array.size_from][-1])
                self._sizes[array.name] = self._sizes[array.size_from] = size
                self._allocate(array, size)

    def _bind(self, item: Item, index: int) -> Row:
        key = (id(item.code), index, item.at)
        if key not in self._bound:
            self._bound[key] = bind_row(
                item.code,
                item.rows,
                index,
                self._program.precision,
                partial(self._memory, item.at),
                self._seed,
                self._sizes,
            )
        return self._bound[key]

    def _memory(self, step: int, name: str) -> AnyArray:
        """An array, in a step of a loop."""
        a = self._declared[name]
        if not a.by_step:
            return self._arrays[name]
        return self._arrays[a.within][a.first_at(step) :][: a.physical_size]

    def read(self, name: str) -> AnyArray:
        """A copy of an array's contents, flat, in physical layout. Raises KeyError."""
        return self._arrays[name].copy()

    def write(self, name: str, values: AnyArray) -> None:
        """Replace an array's contents. Raises KeyError, and ValueError for another number of
        elements."""
        flat = np.asarray(values).reshape(-1)
        if flat.size != self._arrays[name].size:
            raise ValueError(f"{name} holds {self._arrays[name].size} elements, not {flat.size}")
        self._arrays[name][:] = rounded(flat) if self._declared[name].dtype is DType.BF16 else flat

    def run(self, phase: str, first_step: int, steps: int) -> int:
        """Run steps first_step .. first_step + steps - 1 of a phase; returns how many ran."""
        if phase not in self._phases:
            raise BackendError("E0901", f"the program has no phase `{phase}`", exit_code=70)
        for done in range(steps):
            if run_step(self._phases[phase], self._bind, first_step + done):
                return done + 1
        return steps

    def close(self) -> None:
        self._arrays.clear()
        self._bound.clear()


class ReferenceBackend:
    """Interprets merged programs; `emit` is the text form of the templates."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("reference", 0, True, frozenset())

    def emit(self, program: l2.Merged) -> str:
        return "\n\n".join(print_ir(t) for t in program.templates) + "\n"

    def compile(self, program: l2.Merged, options: Mapping[str, str]) -> Artifact:
        """Nothing is compiled, and no file loaded."""
        text = self.emit(program)
        key = sha256(text.encode()).hexdigest()
        return Artifact(text, Path(os.devnull), key, False, f"numpy {np.__version__}", (), 0.0)

    def build(self, program: l2.Merged, folder: Path, options: Mapping[str, str]) -> Artifact:
        made = self.compile(program, options)
        path = folder / "program.ir"
        write_text(path, made.text, "the text of a build")
        return replace(made, binary=path)

    def load(self, artifact: Artifact, program: l2.Merged, seed: int) -> ReferenceInstance:
        return ReferenceInstance(program, seed)


def instantiate(program: l2.Program | l2.Merged, seed: int = 0) -> ReferenceInstance:
    """Allocate, connect and initialise a program for interpretation."""
    return ReferenceInstance(program, seed)
