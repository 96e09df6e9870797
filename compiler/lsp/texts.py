"""The texts of files as an editor shows them: open buffers over the files of the disk.

Assumes: absolute, resolved paths.
Guarantees: what is not open is read from the disk as the compiler reads it.
Does not: watch the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compiler.core.diagnostics import Sink
from compiler.core.source import SourceFile
from compiler.frontend.yaml.tree import Mapping
from compiler.frontend.yaml.yaml12 import read_source
from compiler.lsp.outline import outline

MOST: Final = 1000
"""Files that are looked through for references."""


@dataclass
class Texts:
    """`buffers`: the texts of open files, which may be unsaved."""

    buffers: dict[Path, str] = field(default_factory=dict)
    _trees: dict[Path, tuple[str, Mapping]] = field(default_factory=dict, repr=False)

    def read(self, path: Path, sink: Sink, shown: str) -> SourceFile | None:
        """As `read_source`, of an open buffer where there is one."""
        text = self.buffers.get(path.resolve())
        return read_source(path, sink, shown) if text is None else SourceFile(shown, text)

    def reader(self, seen: set[Path]) -> Callable[[Path, Sink, str], SourceFile | None]:
        """`read`, which adds the files that it is asked for to `seen`."""

        def read(path: Path, sink: Sink, shown: str) -> SourceFile | None:
            seen.add(path.resolve())
            return self.read(path, sink, shown)

        return read

    def tree(self, path: Path) -> Mapping | None:
        """The outline of a file, with its absolute path in the spans; None where it cannot be read. Asking again for
        an unchanged text gives the same object."""
        source = self.read(path, Sink(), str(path))
        if source is None:
            return None
        known = self._trees.get(path)
        if known is None or known[0] != source.text:
            known = self._trees[path] = (source.text, outline(source))
        return known[1]

    def beside(self, path: Path) -> Iterable[Path]:
        """The YAML files of the folder of `path` and of those below it, at most MOST of them, and the open ones."""
        found = dict.fromkeys(self.buffers)
        for folder, inner, files in os.walk(path.parent):
            inner[:] = sorted(f for f in inner if not f.startswith((".", "node_modules")))
            found |= dict.fromkeys(Path(folder, f).resolve() for f in sorted(files) if f.endswith((".yaml", ".yml")))
            if len(found) > MOST:
                break
        return found
