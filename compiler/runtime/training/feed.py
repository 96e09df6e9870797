"""Feeds the phases of a training: the order of the samples and, where these do not fit into memory, the samples of the
next batches.

Assumes: `<phase>.order` as compiler/passes/kernels/lower_feeds.py reads it; windows as
compiler/passes/layers/load_data.py makes them.
Guarantees: a phase reads the same samples as with all of them in memory, so that results are bitwise equal; the next
rows are prefetched into one buffer beside the window while the program works on it.
Does not: choose the order (compiler/runtime/training/data.py), run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.core.diagnostics import RunError
from compiler.files.array_rows import Rows
from compiler.files.data_source import open_samples
from compiler.files.sample_checks import NOT_FINITE, BadSample, sample_checks
from compiler.ir.space import Role
from compiler.runtime.training.data import Indices, as_batches

_READ: Final = 1 << 22
"""Bytes of samples that are read at once."""


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError("E0910", f"the samples cannot be read: {reason}") from None


class Feed:
    """`begin` a phase, then run as many batches as are `ready`. Samples that do not fit into memory are checked as they
    are read. Closing ends the thread that reads."""

    def __init__(
        self, instance: Instance, program: l2.Merged, network: l0.Network, train: l0.Train, cache: Path
    ) -> None:
        self._instance, self._batch = instance, train.batch
        self._checks = sample_checks(network, {name: f"data.{a}" for name, a, _ in train.data.arrays}, train)
        self._arrays: Mapping[str, l2.Array] = {a.name: a for a in program.arrays}
        arrays = {f"data.{a}": a for _, a, _ in train.data.arrays}
        first = self._arrays[next(iter(arrays))]
        self._window = (first.shape[0] - 1) // self._batch  # in batches
        self._rows: dict[str, Rows] = {}
        self._parts: dict[str, AnyArray] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._next: tuple[int, Future[None]] | None = None
        self._held: int | None = None
        self._order: Indices = np.zeros(0, np.int32)
        self.examples = first.shape[0]
        """How many samples there are."""
        if first.role is not Role.DATA:
            return
        for name, array in arrays.items():
            with _reading():
                self._rows[name] = open_samples(train.data, array, cache)
            self._parts[name] = np.zeros(self._arrays[name].shape, self._arrays[name].dtype.numpy)
        self._take(np.zeros(1, np.int32), 0)
        self._pool = ThreadPoolExecutor(1, "samples")
        self.examples = self._rows[first.name].shape[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def begin(self, phase: str, order: Indices) -> None:
        """The samples of a phase, batch after batch."""
        self._settle()
        self._order, self._held = order, None
        places = order
        if self._rows:
            places = (1 + np.arange(len(order)) % (self._window * self._batch)).astype(np.int32)
        array = self._arrays[f"{phase}.order"]
        self._instance.write(array.name, as_batches(places, self._batch, array.shape).reshape(-1))

    def ready(self, batch: int) -> int:
        """Makes the samples of a batch (from 0) available; returns the batch up to which they are. Raises RunError
        (E0910) where they cannot be read."""
        batches = -(-len(self._order) // self._batch)
        if not self._rows:
            return batches
        part = batch // self._window
        if part != self._held:
            if self._next is None or self._next[0] != part:
                self._settle()
                self._read(part)
            self._settle()
            for name, values in self._parts.items():
                self._instance.write(name, values.reshape(-1))
            self._held = part
            if (part + 1) * self._window < batches:
                self._read(part + 1)
        return min((part + 1) * self._window, batches)

    def _read(self, part: int) -> None:
        """Start to prefetch the rows of a part of the order."""
        assert self._pool is not None
        rows = self._window * self._batch
        self._next = (part, self._pool.submit(self._take, self._order[part * rows : (part + 1) * rows], 1))

    def _take(self, chosen: Indices, first: int) -> None:
        """Samples into the rows from `first` on, in the program's types. Raises RunError (E0926) for a number that
        cannot be used."""
        bad: BadSample | None = None
        real: list[str] = []
        for name, rows in self._rows.items():
            held = self._parts[name]
            step = max(_READ // max(held[0].nbytes, 1), 1)
            for k in range(0, len(chosen), step):
                some = chosen[k : k + step]
                with _reading(), np.errstate(over="ignore"):
                    values = rows.take(some)
                    held[first + k : first + k + len(some)] = values.reshape(len(some), -1)
                bad = bad or self._checks.integers(name, values, some)
                real += [name] * (k == 0 and values.dtype.kind == "f")
        taken = {name: held[first : first + len(chosen)] for name, held in self._parts.items()}
        bad = bad or self._checks.reals(taken, real, chosen)
        if bad is not None:
            code, help = ("E0917", None) if bad.range else ("E0926", NOT_FINITE)
            raise RunError(code, bad.message.replace("`data.", "`"), help, exit_code=1)

    def _settle(self) -> None:
        """Wait for the prefetch."""
        if self._next is not None:
            _, future = self._next
            self._next = None
            future.result()
