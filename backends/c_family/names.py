"""Names of a model as identifiers of emitted text.

Assumes: nothing.
Guarantees: identifiers of one kernel are distinct, and none is a keyword or a name of ours.
Does not: print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from backends.kernel_ir.expr import name
from backends.kernel_ir.tree import Code
from compiler.core.symbols import printed


@lru_cache(maxsize=4096)
def c_name(name: str) -> str:
    """An identifier for a name of the model: `v` -> `v_`, `post.y` -> `post_y_`.

    It begins with a letter and ends with an underscore. No keyword, no macro or function of a header and no name of
    ours does both, so names of a model never collide with them.
    """
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{text}_" if text[:1].isalpha() and text.isascii() else f"x{text}_"


def operation(kernel: str) -> str:
    """What a kernel does, as a part of an identifier: `exc: neuron update (2)` -> `neuron_update`."""
    return re.sub(r"\W+", "_", kernel.rsplit(": ", 1)[-1].split("(")[0].strip(), flags=re.ASCII).strip("_").lower()


_OWN: Final = re.compile(r"[A-Za-z]\w*(?<!_)", re.ASCII)


class Namer:
    """The identifiers of one kernel, all distinct.

    Names from the model (also those derived by the compiler) end with an underscore: `v_` is a value, `v_p_` the base
    pointer of its array. The compiler's own names (dims, counters, buffers) do not: `i`, `slot`, `events`. `shown`: for
    some names the ones to show in their place.
    """

    def __init__(self, shown: Mapping[str, str] = MappingProxyType({})) -> None:
        self._shown = shown
        self._taken = {"ctx", "self", "rows", "last", "lo", "hi", "step", "real"}  # names around every body
        self._given: dict[str, Code] = {}

    def reserve(self, words: Iterable[str]) -> None:
        """Words that the compiler's own names must not be."""
        self._taken |= set(words)

    def __call__(self, name: str) -> Code:
        """The identifier of a name of the model (`a.b` and `a_b` stay apart)."""
        if name not in self._given:
            self._given[name] = self._free(c_name(self.shown(name))[:-1], "_")
        return self._given[name]

    def beside(self, name: str, word: str) -> Code:
        """A new identifier derived from a name of the model: `v`, "p" -> `v_p_`."""
        return self._free(c_name(self.shown(name)) + word, "_")

    def shown(self, name: str) -> str:
        """What the text says for a name of the model."""
        return self._shown.get(name) or printed(name)

    def own(self, name: str, word: str = "") -> Code:
        """The identifier of a compiler name that is fixed within a kernel: a dim, an accumulator. `word`: what the
        text calls it."""
        key = f"{name}#"
        if key not in self._given:
            self._given[key] = self.fresh(word or name)
        return self._given[key]

    def fresh(self, word: str) -> Code:
        """A new identifier for a compiler name."""
        assert _OWN.fullmatch(word), word
        return self._free(word, "")

    def _free(self, base: str, end: str) -> Code:
        text, number = base + end, 2
        while text in self._taken:
            text, number = f"{base}_{number}{end}", number + 1
        self._taken.add(text)
        return name(text)
