"""dataclass: the decorator of the standard library, of which each class takes a fifth of the time to make.

That one compiles the text of up to seven methods for every class: 0.5 ms of Python 3.11 for a frozen one, a quarter of
the time of a command, as most classes are never printed, compared or hashed. This one compiles `__init__` at once, what
compares and hashes when it is first called, and what prints or refuses to change is one function for all classes.

Assumes: as the standard one. A class is made by one of the two decorators, and so are those above and below it.
Guarantees: fields, `replace`, `asdict` and patterns are the standard ones, as it collects the fields; equality, hashes,
texts and errors are as its methods give them (tests/unit/test_dataclass.py).
Does not: make `order`, `kw_only`, or frozen classes with slots: the standard decorator does.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        others = options.keys() - {"frozen", "eq", "repr", "slots", "unsafe_hash"}
        if others or (options.get("frozen") and options.get("slots")):
            return dataclasses.dataclass(cls, **options)
        return _made(cls, **options)


Namespace = dict[str, Any]
Field = dataclasses.Field[Any]

SET: Final = object.__setattr__
NOTHING: Final = object()


def _made(
    cls: type, frozen: bool = False, eq: bool = True, repr: bool = True, slots: bool = False, unsafe_hash: bool = False
) -> type:
    if not cls.__doc__:
        cls.__doc__ = f"{cls.__name__}({', '.join(inspect.get_annotations(cls))})"  # else it takes long
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields, own = dataclasses.fields(cls), set(cls.__dict__)
    if eq and cls.__dict__.get("__hash__", NOTHING) is None and "__eq__" in own:
        own.remove("__hash__")  # Python's, for a class that has only `__eq__`
    _add(cls, "__init__", *_init(cls, fields, frozen, slots))
    if frozen:
        _freeze(cls, frozenset(f.name for f in fields))
    if repr and "__repr__" not in own:
        shown = tuple(f.name for f in fields if f.repr)
        _set(cls, "__repr__", recursive_repr()(lambda self: _text(self, shown)))
    if eq and "__eq__" not in own:
        _add_later(cls, "__eq__", lambda: _eq(f.name for f in fields if f.compare))
    if unsafe_hash or (eq and frozen and "__hash__" not in own):
        if "__hash__" in own:
            raise TypeError(f"Cannot overwrite attribute __hash__ in class {cls.__name__}")
        hashed = tuple(f.name for f in fields if (f.compare if f.hash is None else f.hash))
        _add_later(cls, "__hash__", lambda: f"def __hash__(self):\n return hash({_tuple('self', hashed)})")
    elif eq and "__hash__" not in own:
        _set(cls, "__hash__", None)
    return cls


def _init(cls: type, fields: Iterable[Field], frozen: bool, slots: bool) -> tuple[str, Namespace]:
    """The text of `__init__`, and the defaults and factories that it names."""
    names: Namespace = {"SET": SET, "NOTHING": NOTHING}
    first, keywords, body = ["self"], list[str](), list[str]()
    for f in fields:
        value = f.name if f.init else None
        default = f"default_{f.name}"
        if f.default_factory is not dataclasses.MISSING:
            names[default] = f.default_factory
            value = f"{default}() if {f.name} is NOTHING else {f.name}" if f.init else f"{default}()"
            default = "NOTHING"
        elif f.default is not dataclasses.MISSING:
            names[default] = f.default
            value = default if slots and not f.init else value  # without slots it is an attribute of the class
        if f.init:
            (keywords if f.kw_only else first).append(f"{f.name}={default}" if default in names else f.name)
        if value is not None:
            body.append(f" SET(self, {f.name!r}, {value})" if frozen else f" self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join((*first, *(("*",) if keywords else ()), *keywords))
    return "\n".join((f"def __init__({parameters}):", *(body or [" pass"]))), names


def _eq(compared: Iterable[str]) -> str:
    names = tuple(compared)
    equal = f"{_tuple('self', names)} == {_tuple('other', names)}"
    return f"def __eq__(self, other):\n return {equal} if other.__class__ is self.__class__ else NotImplemented"


def _tuple(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{n}, ' for n in names)})"


def _text(self: Any, shown: tuple[str, ...]) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _freeze(cls: Any, names: frozenset[str]) -> None:
    def set_(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    for name, method in (("__setattr__", set_), ("__delattr__", delete)):
        if name in cls.__dict__:
            raise TypeError(f"{cls.__name__} is frozen and has {name}")
        _set(cls, name, method)


def _set(cls: type, name: str, value: object) -> None:
    setattr(cls, name, value)


def _add(cls: type, name: str, text: str, names: Namespace) -> None:
    """Make a method from its text."""
    exec(text, names)
    method = names.pop(name)
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    _set(cls, name, method)


def _add_later(cls: type, name: str, text: Callable[[], str]) -> None:
    """Make a method when it is first called, which takes its own place."""

    def method(*given: Any) -> Any:
        _add(cls, name, text(), {})
        return cls.__dict__[name](*given)

    _set(cls, name, method)
