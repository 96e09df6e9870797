"""The interface of a backend: it prints, compiles, loads and runs a merged program; it makes no decisions about the
model.

Assumes: compiler.ir.level2.program.
Guarantees: the runner uses only this interface of a backend.
Does not: depend on YAML, models or files of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.errors import BackendError
from backends.kernel_ir.descriptor import Compiled
from compiler.ir.level2.target import Capabilities

__all__ = ["AnyArray", "Artifact", "Backend", "BackendError", "Capabilities", "Instance", "PlacedInstance"]

AnyArray = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Artifact:
    """A compiled text on disk. `compiled` is False when it came from the cache; seconds are CPU seconds. `beside`:
    files loaded with the binary. `kernels`: what loading knows of its code, by template."""

    text: str
    binary: Path
    key: str
    compiled: bool
    compiler: str
    flags: tuple[str, ...]
    compile_seconds: float
    beside: tuple[Path, ...] = ()
    kernels: Compiled = ()


class Instance(Protocol):
    """A loaded program with its memory. Arrays are addressed by name, in physical layout, flat. Those of a backend take
    over what is common here."""

    @property
    def measured(self) -> Mapping[str, str]:
        """Choices by measurement at run time: phase -> execution mode."""
        return {}

    def read(self, name: str) -> AnyArray:
        """A copy of an array's contents, flat, in physical layout. Raises KeyError."""
        ...

    def read_each(self, names: Iterable[str]) -> Iterator[tuple[str, AnyArray]]:
        """Names and contents of several arrays, in any order, to be read before the next call: in few transfers where
        they lie together. Raises KeyError."""
        return ((name, self.read(name)) for name in names)

    def write(self, name: str, values: AnyArray) -> None: ...

    def run(self, phase: str, first_step: int, steps: int) -> int:
        """Run steps first_step .. first_step + steps - 1; returns how many ran: fewer when a record buffer may be full
        (drain it and call again). After the requested number there is room for another step, or the next call runs
        0."""
        ...

    def uninterrupted(self, phase: str) -> Callable[[int, int], int] | None:
        """`run` of a phase for calls that are short, as one call of compiled code, in which no Python code can be
        interrupted; None where there is no such call, or another one still runs."""
        return None

    def close(self) -> None: ...


class PlacedInstance(Instance):
    """What instances share whose arrays lie at places in arenas. Sizes that depend on drawn connections are read back
    after the phases `count` and `scan`, and all arrays are placed again."""

    def __init__(self, program: l2.Merged) -> None:
        self.program = program
        self.sizes: dict[str, int] = {}
        """Of arrays of drawn connections, once they are known: then all are placed for the second time."""
        self._arrays = {a.name: a for a in program.arrays}
        self._phases = {p.name: i for i, p in enumerate(program.phases)}

    def _load(self, seed: int) -> None:
        self._place(seed)
        drawn = {a.name: a.size_from for a in self.program.arrays if a.size_from is not None}
        self._run_once(l2.CONNECT_PHASES)
        if drawn:
            ends = self._ends(set(drawn.values()))
            self.sizes = {**ends, **{name: ends[pointers] for name, pointers in drawn.items()}}
            self._place(seed)
        self._run_once(l2.INIT_PHASES)

    def _run_once(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._phases:
                self._once(name)

    def _place(self, seed: int) -> None:
        """Places all arrays for the sizes known so far, with constants and with what connecting has written."""
        raise NotImplementedError

    def _once(self, phase: str) -> None:
        """Runs a phase of loading."""
        raise NotImplementedError

    def _ends(self, names: Iterable[str]) -> dict[str, int]:
        """The last elements of arrays of row pointers."""
        raise NotImplementedError

    def _size(self, name: str) -> int:
        """Elements of an array. Raises KeyError."""
        array = self._arrays[name]
        return array.physical_size if array.size_from is None else self.sizes[name]

    def _flat(self, name: str, values: AnyArray) -> AnyArray:
        """Values for an array. Raises KeyError; ValueError for another number of elements."""
        flat = np.asarray(values).reshape(-1)
        if len(flat) != self._size(name):
            raise ValueError(f"`{name}` has {self._size(name)} elements, not {len(flat)}")
        return flat


class Backend(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    def emit(self, program: l2.Merged) -> str:
        """The whole text, a function of the templates alone: equal for any number and values of rows."""
        ...

    def compile(self, program: l2.Merged, options: Mapping[str, str]) -> Artifact:
        """Compile, or find in the cache; like the text, it depends on the templates and options alone."""
        ...

    def build(self, program: l2.Merged, folder: Path, options: Mapping[str, str]) -> Artifact:
        """Compile, and write a folder with everything that was made."""
        ...

    def load(self, artifact: Artifact, program: l2.Merged, seed: int) -> Instance:
        """Allocates, writes tables and constants, and runs the connecting and init phases."""
        ...
