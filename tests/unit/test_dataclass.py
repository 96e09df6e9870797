"""Classes of data are as those of the standard decorator."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from compiler.core.dataclass import dataclass

ROOT = Path(__file__).resolve().parents[2]

Make = Callable[[Callable[..., Any]], Any]


class Plain:
    """Documented."""

    a: int
    b: tuple[int, ...] = (1, 2)
    c: dict[str, int] = field(default_factory=dict)
    all: ClassVar[int] = 3


class Hidden:
    a: int
    b: int = field(default=0, compare=False)
    c: int = field(default=1, repr=False)
    d: int = field(default=2, hash=False)
    e: list[int] = field(default_factory=list, init=False, compare=False)
    f: int = field(default=5, kw_only=True)
    g: int = field(default=7, init=False)
    h: float = field(default=math.nan, kw_only=True)


class Own:
    a: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", self.a + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.a % 2 == other.a % 2

    def __repr__(self) -> str:
        return "own"


class Hashed:
    a: int

    def __hash__(self) -> int:
        return 7


OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"frozen": True, "eq": False},
    {"slots": True, "unsafe_hash": True},
    {"slots": True, "unsafe_hash": True, "repr": False},
    {"eq": False},
    {"frozen": True, "order": True},
    {"kw_only": True},
    {"frozen": True, "slots": True},
]


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


def told(decorate: Callable[..., Any], body: type, options: dict[str, bool]) -> list[Any]:
    """What can be seen of a class and its instances."""
    namespace = {k: v for k, v in vars(body).items() if k not in ("__dict__", "__weakref__")}
    namespace = {k: copy.copy(v) if isinstance(v, dataclasses.Field) else v for k, v in namespace.items()}
    cls = decorate(**options)(type(body.__name__, (), namespace))
    below = decorate(**options)(type("Below", (cls,), {"__annotations__": {"z": "int"}, "z": 4}))
    seen: list[Any] = [cls.__match_args__, below.__match_args__, [f.name for f in fields(below)]]
    for kind in (cls, below):
        one, same, other = (outcome(lambda x=x, kind=kind: kind(a=x)) for x in (1, 1, 2))
        seen += [outcome(lambda kind=kind: kind()), outcome(lambda kind=kind: kind(1, nothing=2)), repr(one)]
        seen += [one == same, one == other, one == 1, one != same, outcome(lambda o=one, s=same: hash(o) == hash(s))]
        seen += [outcome(lambda o=one: hash(o) and None), outcome(lambda o=one, s=other: o < s)]
        seen += [outcome(lambda o=one: setattr(o, "a", 9)), outcome(lambda o=one: delattr(o, "a"))]
        seen += [outcome(lambda o=one: setattr(o, "new", 9)), repr(outcome(lambda o=other: replace(o, a=5)))]
        seen += [repr(outcome(lambda o=other: dataclasses.asdict(o))), repr(copy.deepcopy(other))]
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(o) or "none")
@pytest.mark.parametrize("body", [Plain, Hidden, Own, Hashed])
def test_classes_are_as_those_of_the_standard(body: type, options: dict[str, bool]) -> None:
    seen = [outcome(lambda d=d: told(d, body, options)) for d in (dataclass, dataclasses.dataclass)]  # type: ignore[misc]
    without = [re.sub("0x[0-9a-f]+", "", repr(s)) for s in seen]
    assert without[0] == without[1]


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any = None


def test_instances_go_to_other_processes_and_print_cycles() -> None:
    pair = Pair(1, [Pair(2)])
    assert pickle.loads(pickle.dumps(pair)) == pair and hash(Pair(1)) == hash(Pair(1, None))
    pair.second.append(pair)
    assert repr(pair) == "Pair(first=1, second=[Pair(first=2, second=None), ...])"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        pair.first = 2  # type: ignore[misc]


def test_methods_that_nothing_calls_are_not_made() -> None:
    @dataclass(frozen=True)
    class Once:
        a: int

    before = Once.__eq__, Once.__hash__
    assert Once(1) == Once(1) and len({Once(1), Once(1)}) == 1
    after = Once.__eq__, Once.__hash__
    assert before[0] is not after[0] and before[1] is not after[1]
    assert Once(1) != Once(2) and (Once.__eq__, Once.__hash__) == after


def test_all_classes_of_data_are_made_so() -> None:
    """Else each costs a command half a millisecond."""
    standard = re.compile(r"^from dataclasses import .*\bdataclass\b|^ *@dataclasses\.dataclass", re.MULTILINE)
    files = (p for folder in ("compiler", "backends", "netloom") for p in sorted((ROOT / folder).rglob("*.py")))
    assert [p.name for p in files if standard.search(p.read_text(encoding="utf-8"))] == []
