"""`classes:` on members of collections: shared settings.

Assumes: `use` has been expanded in the classes themselves.
Guarantees: classes apply in the order listed by a member; later ones override earlier ones, the member's own settings
override all. The list of classes is kept on the member, for `from: exc` and the like.
Does not: report a class of a population without a declaration: it is a tag.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.core.diagnostics import Sink, did_you_mean
from compiler.core.source import Origin
from compiler.expr.keys.kinds import Kind
from compiler.frontend.resolve.merge import merge
from compiler.frontend.resolve.use import Uses
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence, kind_of, with_origin, without


@dataclass
class Classes:
    """The classes of a model, and those of other files (`lib.yaml#name`). Their settings are copied once per span that
    refers to them. `tags`: whether members may name classes that are not declared."""

    declared: Mapping | None
    kind: Kind | None
    sink: Sink
    uses: Uses
    tags: bool
    _copies: dict[tuple[str, int, int], Mapping | None] = field(default_factory=dict, repr=False)

    def apply(self, member: Mapping) -> Mapping:
        """`member` with the settings of its classes as defaults of its own."""
        names = member.get("classes")
        if names is None:
            return member
        if not isinstance(names, Sequence):
            message = f"`classes` must be a list, not {kind_of(names)}"
            self.sink.error("E0102", message, names.span, "write `classes: [name]`")
            return without(member, "classes")
        below: Mapping | None = None
        for item in names.items:
            settings = self._settings(item)
            if settings is not None:
                below = settings if below is None else merge(below, settings, self.kind, self.sink)
        return member if below is None else merge(below, member, self.kind, self.sink)

    def _settings(self, item: Node) -> Mapping | None:
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            message = f"a class is named by a string, not {kind_of(item)}"
            self.sink.error("E0102", message, item.span)
            return None
        key = (item.text, item.span.start, id(item.span.file))
        if key not in self._copies:
            found: Node | None = self.declared.get(item.text) if self.declared is not None else None
            if found is None and "#" in item.text:
                found = self.uses.used(self.uses.model, "classes", item)
            elif found is None and not self.tags:
                known = () if self.declared is None else tuple(e.name for e in self.declared.entries)
                help = did_you_mean(item.text, known) or "declare it in `classes`"
                self.sink.error("E0201", f"there is no class `{item.text}`", item.span, help)
            copy: Node | None = None
            if isinstance(found, Mapping):
                settings = without(found, "description", "use")
                copy = with_origin(settings, Origin("class", f"class {item.text}", item.span))
            self._copies[key] = copy if isinstance(copy, Mapping) else None
        return self._copies[key]


def names_are_templates(member: Mapping) -> bool:
    """Whether the list of classes depends on a loop variable, as in `classes: ["area{i}"]`."""
    names = member.get("classes")
    return isinstance(names, Sequence) and any(isinstance(i, Scalar) and "{" in i.text for i in names.items)
