"""`use: ...` in blocks of named collections, and the standard library.

Assumes: files as yaml12 loads them; each holds collections (`neurons`, `optimizers`, ...) of named
blocks.
Guarantees: a block with `use` becomes the used block overridden by the local settings; inherited nodes record the
`use`; a cycle of uses is an error. A file is read once.
Does not: check blocks against the language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compiler.core.diagnostics import Related, Sink, did_you_mean
from compiler.core.resources import library_path
from compiler.core.source import Origin, SourceFile, Span
from compiler.frontend.language import ROOT
from compiler.frontend.resolve.imports import File, qualified, referred_files
from compiler.frontend.resolve.merge import child_kind, merge
from compiler.frontend.schema.other_simulators import in_library
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, with_origin, with_values, without
from compiler.frontend.yaml.yaml12 import load_text, read_source

LIBRARY_KINDS: Final = ("neurons", "currents", "synapses", "optimizers")
MAX_CHAIN: Final = 100
COLLECTIONS: Final = (*LIBRARY_KINDS, "classes", "populations", "projections", "inputs", "phases")


@dataclass
class LibraryFinder:
    """The standard library, read lazily. Results are cached in the object. `read`: how files are read, its own and
    those that models name."""

    path: Path = field(default_factory=library_path)
    read: Callable[[Path, Sink, str], SourceFile | None] = read_source
    _blocks: dict[tuple[str, str], Mapping | None] = field(default_factory=dict, repr=False)

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of `kind` (one of LIBRARY_KINDS), sorted."""
        folder = self.path / kind
        if kind not in LIBRARY_KINDS or not folder.is_dir():
            return ()
        return tuple(sorted(p.stem for p in folder.glob("*.yaml")))

    def load(self, kind: str, name: str, sink: Sink) -> File | None:
        """The file of one definition, or None; errors are added to `sink` only when it cannot be read."""
        if name not in self.names(kind):
            return None
        shown = f"library/{kind}/"
        source = self.read(self.path / kind / f"{name}.yaml", sink, f"{shown}{name}.yaml")
        root = None if source is None else load_text(source, sink)
        return File(root, self.path / kind, shown) if isinstance(root, Mapping) else None

    def file(self, name: str) -> Path:
        """The path of a file of definitions of several kinds: `library/axon#super` is in axon.yaml."""
        return self.path / f"{name}.yaml"

    def find(self, kind: str, name: str) -> Mapping | None:
        """The block of one definition with its own uses resolved, or None when there is none.

        Asking again gives the same object. Raises ModelError when the library itself is broken.
        """
        key = (kind, name)
        if key not in self._blocks:
            self._blocks[key] = None  # a definition that uses itself is not found
            sink = Sink()
            file = self.load(kind, name, sink)
            block = None
            if file is not None:
                block = Uses(self, sink, file).block(file, kind, name)
            sink.check()
            self._blocks[key] = block
        return self._blocks[key]


@dataclass
class Uses:
    """Resolves the uses of one model. Files and blocks are read once and cached in the object."""

    library: LibraryFinder
    sink: Sink
    model: File
    _files: dict[Path, File | None] = field(default_factory=dict, repr=False)
    _done: dict[tuple[int, str, str], Mapping | None] = field(default_factory=dict, repr=False)
    _open: list[tuple[tuple[int, str, str], Span]] = field(default_factory=list, repr=False)

    def block(self, file: File, collection: str, name: str) -> Mapping | None:
        """The block `collection.name` of a file with all of its uses expanded."""
        key = (id(file), collection, name)
        if key in self._done:
            return self._done[key]
        blocks = file.root.get(collection)
        found = blocks.get(name) if isinstance(blocks, Mapping) else None
        block: Mapping | None = None
        if isinstance(found, Mapping):
            block = self._resolve(file, collection, key, found)
        self._done[key] = block
        return block

    def _resolve(self, file: File, collection: str, key: tuple[int, str, str], block: Mapping) -> Mapping | None:
        entry = block.entry("use")
        if entry is None:
            return block
        target = entry.value
        rest = without(block, "use")
        if not isinstance(target, Scalar) or not isinstance(target.value, str):
            help = "write `use: library/neurons/adex`"
            self.sink.error("E0203", "`use` needs the name of a definition", target.span, help)
            return rest
        if any(k == key for k, _ in self._open):
            begin = next(i for i, (k, _) in enumerate(self._open) if k == key)
            chain = self._open[begin:]
            self._done[key] = None
            related = tuple(Related("which is used here", at) for _, at in chain[1:])
            at = chain[0][1]
            self.sink.error("E0202", f"`{key[2]}` uses itself", at, None, related)
            return None
        if len(self._open) >= MAX_CHAIN:
            message = f"a chain of more than {MAX_CHAIN} uses"
            self.sink.error("E0202", message, target.span)
            return None
        self._open.append((key, target.span))
        try:
            copy = self.used(file, collection, target)
        finally:
            self._open.pop()
        return rest if copy is None else merge(copy, rest, child_kind(child_kind(ROOT, collection), ""), self.sink)

    def used(self, file: File, collection: str, target: Scalar) -> Mapping | None:
        """A copy of the block that `target`, a reference in `file`, refers to; None with an error."""
        found = self._target(file, collection, target)
        if found is None:
            return None
        copy = with_origin(found, Origin("use", f"use of {target.text}", target.span))
        assert isinstance(copy, Mapping)
        return copy

    def imported(self) -> tuple[File, ...]:
        """All files that the model may take definitions from, directly or through others; without errors."""
        found: dict[Path, File] = {}
        waiting = [self.model]
        own = self.model.folder / self.model.root.span.file.path.rpartition("/")[2]
        while waiting:
            last = waiting.pop()
            for name, of_library in sorted(referred_files(last.root.span.file.text)):
                path = self.library.file(name) if of_library else (last.folder / name).resolve()
                if path in found or path == own:
                    continue
                other = self._files.get(path) or self._read(path, _shown(last, name, of_library), Sink())
                if other is not None:
                    self._files[path] = found[path] = other
                    waiting.append(other)
        return tuple(found.values())

    def _target(self, file: File, collection: str, target: Scalar) -> Mapping | None:
        text = target.text
        if text.startswith("library/") and "#" in text:
            return self._from_file(file, collection, target)
        if text.startswith("library/"):
            return self._from_library(collection, target)
        if "#" in text:
            return self._from_file(file, collection, target)
        if "/" in text or text.endswith((".yaml", ".yml")):
            help = f"say which definition of the file: `{text}#name`"
            self.sink.error("E0203", f"`{text}` names a file only", target.span, help)
            return None
        return self._named(file, collection, text, target, "this file")

    def _from_library(self, collection: str, target: Scalar) -> Mapping | None:
        _, _, rest = target.text.partition("/")
        kind, _, name = rest.partition("/")
        if kind not in LIBRARY_KINDS:
            near = did_you_mean(kind, LIBRARY_KINDS)
            help = near or "the library has " + ", ".join(f"`library/{k}`" for k in LIBRARY_KINDS)
            self.sink.error("E0203", f"there is no `library/{kind}`", target.span, help)
            return None
        if kind != collection:
            message = f"`{target.text}` is none of the {collection}, it is one of the {kind}"
            self.sink.error("E0203", message, target.span)
            return None
        found = self.library.find(kind, name)
        if found is None:
            names = self.library.names(kind)
            other = in_library(kind, name)
            near = did_you_mean(name, names) if other is None else f"write `{other}`"
            help = near or f"`library/{kind}` has " + ", ".join(f"`{n}`" for n in names)
            message = f"`{name}` is not in `library/{kind}`"
            self.sink.error("E0203", message, target.span, help)
        return found

    def _from_file(self, file: File, collection: str, target: Scalar) -> Mapping | None:
        relative, _, name = target.text.partition("#")
        other = self._load(file, relative, target)
        if other is None:
            return None
        found = self._named(other, collection, name, target, f"`{relative}`")
        return None if found is None else qualified(found, other, relative)

    def _named(self, file: File, collection: str, name: str, target: Scalar, where: str) -> Mapping | None:
        blocks = file.root.get(collection)
        known = tuple(blocks.keys()) if isinstance(blocks, Mapping) else ()
        if name not in known:
            library = self.library.names(collection) if where == "this file" else ()
            if name in library:  # a bare name refers to the library where the file does not define it
                return self.library.find(collection, name)
            other = in_library(collection, name) if library else None
            help = f"write `{other}`" if other else did_you_mean(name, known) or did_you_mean(name, library)
            classes = file.root.get("classes")
            if collection == "projections" and isinstance(classes, Mapping) and name in classes:
                help = f"it is a class: write `classes: [{target.text}]`"
            elif help is None and known:
                help = "there are: " + ", ".join(f"`{n}`" for n in known[:10])
            message = f"{where} has no `{name}` in `{collection}`"
            self.sink.error("E0203", message, target.span, help)
            return None
        return self.block(file, collection, name)

    def _load(self, file: File, relative: str, target: Scalar) -> File | None:
        of_library = relative.startswith("library/")
        name = relative.removeprefix("library/") if of_library else relative
        path = self.library.file(name) if of_library else (file.folder / relative).resolve()
        if path in self._files:
            return self._files[path]
        before = len(self.sink.items)
        found = self._files[path] = self._read(path, _shown(file, name, of_library), self.sink)
        if found is None and len(self.sink.items) == before:
            self.sink.error("E0203", f"`{relative}` is no mapping", target.span)
        elif found is None and all(i.span is None for i in self.sink.items[before:]):
            # The file itself has no text to show: report it at the `use`.
            reason = self.sink.items.pop().message
            help = "paths count from the folder of the file in which they stand"
            self.sink.error("E0203", reason, target.span, help)
        return found

    def _read(self, path: Path, shown: str, sink: Sink) -> File | None:
        source = self.library.read(path, sink, shown)
        root = None if source is None else load_text(source, sink)
        folder = shown.rpartition("/")[0]
        return File(root, path.parent, f"{folder}/" if folder else "") if isinstance(root, Mapping) else None


def _shown(file: File, name: str, in_library: bool) -> str:
    return f"library/{name}.yaml" if in_library else f"{file.shown}{name}"


def resolve_uses(uses: Uses) -> Mapping:
    """The tree of a model file with every `use` in its collections expanded."""
    file = uses.model

    def resolved(collection: str, member: Entry) -> Node:
        if not isinstance(member.value, Mapping) or member.value.entry("use") is None:
            return member.value
        found = uses.block(file, collection, member.name)
        return without(member.value, "use") if found is None else found

    def expanded(entry: Entry) -> Node:
        if entry.name not in COLLECTIONS or not isinstance(entry.value, Mapping):
            return entry.value
        return with_values(entry.value, lambda member: resolved(entry.name, member))

    return with_values(file.root, expanded)
