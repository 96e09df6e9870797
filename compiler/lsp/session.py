"""The documents of one session with an editor: their texts, and the newest analysis of each.

Assumes: a server (compiler/lsp/server.py) that says what changes and shows what is found; its event loop.
Guarantees: after a change the newest text is analysed, in a thread, and again every open document that reads the
changed file; an analysis of an older text is stopped or thrown away. An error of the analysis itself is shown to the
client and ends nothing.
Does not: speak the protocol.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Final

from compiler.core.resources import library_path
from compiler.core.source import SourceFile
from compiler.frontend.resolve.use import LibraryFinder
from compiler.lsp.analysis import Analysis, Stopped, analyse
from compiler.lsp.facts import Facts
from compiler.lsp.outline import outline
from compiler.lsp.scope import Scope
from compiler.lsp.texts import Texts

QUIET: Final = 0.002
LONGEST_WAIT: Final = 0.2
"""Seconds without a change before an analysis begins: QUIET, or while changes follow each other faster than analyses
end, as long as one takes, at most LONGEST_WAIT."""


@dataclass
class _Work:
    """The analysis of a document that waits or runs. `took`: seconds of the last one that ended; `changed`:
    when the last change came."""

    stop: Event = field(default_factory=Event)
    task: asyncio.Task[None] | None = None
    took: float = 0.0
    changed: float = 0.0


@dataclass
class Session:
    """`found` is called with each new analysis, `failed` with an error of the analysis itself."""

    found: Callable[[Analysis], None]
    failed: Callable[[Path, Exception], None]
    texts: Texts = field(default_factory=Texts)
    library: LibraryFinder = field(default_factory=LibraryFinder)
    analyses: dict[Path, Analysis] = field(default_factory=dict)
    _facts: dict[Path, Facts] = field(default_factory=dict, repr=False)
    _work: dict[Path, _Work] = field(default_factory=dict, repr=False)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def change(self, path: Path, text: str) -> None:
        """The document at `path` is open and has this text."""
        self.texts.buffers[path.resolve()] = text
        self.again(path)

    def close(self, path: Path) -> None:
        """The document is closed: what others read is the file on the disk."""
        self.texts.buffers.pop(path.resolve(), None)
        self.analyses.pop(path.resolve(), None)
        self._facts.pop(path.resolve(), None)
        work = self._work.pop(path.resolve(), None)
        if work is not None:
            work.stop.set()
        self.again(path)

    def text(self, path: Path) -> str:
        """The text of an open document."""
        return self.texts.buffers.get(path.resolve(), "")

    def scope(self, path: Path) -> tuple[Scope, SourceFile]:
        """The names of an open document as its text is now, and that text."""
        root = self.texts.tree(path) or outline(SourceFile(str(path), ""))
        library = replace(self.library, read=self.texts.read)
        return Scope(root, path, library), root.span.file

    def again(self, path: Path) -> None:
        """Analyse what is open and reads the file at `path`. Who reads files of data is not known: all may."""
        changed = path.resolve()
        if changed.is_relative_to(library_path().resolve()):
            self.library = LibraryFinder()
        for other in self.texts.buffers:
            known = self.analyses.get(other)
            reads = known is None or changed in known.read or changed.suffix not in (".yaml", ".yml")
            if other == changed or reads:
                self._schedule(other)

    def _schedule(self, path: Path) -> None:
        work = self._work.setdefault(path, _Work())
        work.stop.set()
        work.stop = Event()
        now = time.monotonic()
        busy = now - work.changed < work.took
        work.changed = now
        wait = min(max(work.took, QUIET), LONGEST_WAIT) if busy else QUIET
        work.task = asyncio.get_running_loop().create_task(self._analyse(path, work, work.stop, wait))

    async def _analyse(self, path: Path, work: _Work, stop: Event, wait: float) -> None:
        await asyncio.sleep(wait)
        async with self._one:
            if stop.is_set():
                return
            began = time.perf_counter()
            try:
                analysis = await asyncio.to_thread(analyse, path, self.texts, self.library, stop)
            except Stopped:
                return
            except Exception as error:
                self.failed(path, error)
                return
            work.took = time.perf_counter() - began
        if not stop.is_set():
            self.analyses[path] = analysis
            self.found(analysis)

    async def facts(self, path: Path) -> Facts | None:
        """What is known of the model of an open document as its text is now; None where it has mistakes."""
        analysis = await self.settled(path)
        model = None if analysis is None else analysis.loaded.model
        if model is None or analysis is None:
            return None
        known = self._facts.get(path.resolve())
        if known is None or known.model is not model:
            known = self._facts[path.resolve()] = Facts(model)
        return known

    async def settled(self, path: Path) -> Analysis | None:
        """The analysis of the newest text of an open document, once it is there; None where there is none."""
        work = self._work.get(path.resolve())
        while work is not None and work.task is not None and not work.task.done():
            await asyncio.wait([work.task])
        return self.analyses.get(path.resolve())
