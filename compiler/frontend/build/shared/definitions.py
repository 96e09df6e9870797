"""Name resolution of definitions: the block that `lif`, `library/neurons/lif` or `cells.yaml#lif` refers to.

Assumes: a resolved root; the library as resolve_use reads it.
Guarantees: one reference gives one block, always the same object, so that results can be memoized by identity; an
unresolved reference is an error at each of its spans.
Does not: build.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from compiler.core.diagnostics import ModelError, Sink, did_you_mean
from compiler.core.source import Span
from compiler.expr.keys.kinds import Kind
from compiler.frontend.resolve.parts import flattened
from compiler.frontend.resolve.use import Uses
from compiler.frontend.schema.other_simulators import in_library
from compiler.frontend.schema.validate import validate_kind
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Entry, Scalar


def place_of(name: str, block: tree.Mapping) -> Span:
    """The span of the definition `name` of another file: its key, if it can be found."""
    file = block.span.file
    key = re.search(rf"^[ ]+({re.escape(name)})[ ]*:", file.text, re.MULTILINE)
    return block.span if key is None else Span(file, key.start(1), key.end(1), block.span.via)


@dataclass
class Definitions:
    """The definitions of one collection ("neurons" or "optimizers") visible to a model."""

    collection: str
    noun: str
    kind: Kind
    root: tree.Mapping
    uses: Uses
    sink: Sink
    bare_library: bool  # a library definition may be referred to by its bare name
    _found: dict[str, tree.Mapping | None] = field(default_factory=dict, repr=False)

    def own(self) -> tuple[Entry, ...]:
        """The file's own definitions."""
        blocks = self.root.get(self.collection)
        return blocks.entries if isinstance(blocks, tree.Mapping) else ()

    def find(self, reference: Scalar) -> tree.Mapping | None:
        """The block that `reference` refers to; None with an error."""
        text = reference.text
        if text in self._found and self._found[text] is not None:
            return self._found[text]
        blocks = self.root.get(self.collection)
        found: tree.Mapping | None = None
        if isinstance(blocks, tree.Mapping) and text in blocks:
            own = blocks.get(text)
            found = own if isinstance(own, tree.Mapping) else None
        elif "#" in text:
            found = self._from_file(reference)
        else:
            found = self._from_library(reference)
        self._found[text] = found
        return found

    def name_of(self, reference: Scalar) -> str:
        """The name of the definition: the last part of its reference."""
        return reference.text.rpartition("#")[2].rpartition("/")[2]

    def _from_file(self, reference: Scalar) -> tree.Mapping | None:
        name = self.name_of(reference)
        before = len(self.sink.items)
        found = self.uses.used(self.uses.model, self.collection, reference)
        if found is None or len(self.sink.items) > before:
            return None
        validate_kind(self.kind, found, self.sink, name)
        found = flattened(found, self.sink)
        return None if len(self.sink.items) > before else found

    def _from_library(self, reference: Scalar) -> tree.Mapping | None:
        text, collection = reference.text, self.collection
        prefix = f"library/{collection}/"
        names = self.uses.library.names(collection)
        name = text.removeprefix(prefix)
        if text.startswith(prefix) or (self.bare_library and "/" not in text):
            try:
                found = self.uses.library.find(collection, name) if name in names else None
            except ModelError as broken:
                self.sink.items.extend(broken.diagnostics)
                return None
            if found is not None:
                return flattened(found, self.sink)
        own = [e.name for e in self.own()]
        known = [*own, *((n if self.bare_library else prefix + n) for n in names)]
        other = in_library(collection, name)
        help = None if other is None else f"write `{other}`"
        help = help or did_you_mean(text, [*known, *(prefix + n for n in names)]) or did_you_mean(name, known)
        if help is None and own:
            help = allowed(f"the {collection} of this file are", own)
        if help is None:
            help = allowed("the library has", (prefix + n for n in names))
        self.sink.error("E0201", f"there is no {self.noun} `{text}`", reference.span, help)
        return None
