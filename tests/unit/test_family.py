"""Families of projections: what is done for one of them does not depend on how many others there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from compiler.frontend.build.spiking.family import Family


class Many(dict[str, Any]):
    """Populations that may be looked up, not gone through."""

    def __iter__(self) -> Any:
        raise AssertionError("all populations are gone through for one projection")

    keys = values = items = __iter__


def test_members_look_at_their_own_populations_alone() -> None:
    built = Many(a=SimpleNamespace(size=2), b=SimpleNamespace(size=3))
    populations: Any = SimpleNamespace(built=built)
    context: Any = SimpleNamespace(between=lambda: None)
    family = Family("p", context, populations, SimpleNamespace(), {})  # type: ignore[arg-type]
    found = list(family.members(("a",), ("a", "b")))
    assert found == [("a", "a", {"n_from": 2, "n_to": 2}), ("a", "b", {"n_from": 2, "n_to": 3})]
