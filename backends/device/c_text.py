"""The functions of elementary.py and precisions.py as text in C, which is CUDA C++ and OpenCL C as well.

Assumes: the form that elementary.py describes; before the text stand the types nl_u32, nl_i32 and nl_u64, NL_FN (what
makes a function local and inline) and, for both precisions, `nl__bits_`, `nl__from_`, `nl_sqrt_`, `nl_floor_`.
Guarantees: the operations of the Python text in its order, a constant with the bits of its precision, selects as
conditional expressions of which both arms are without effect; a function of several results writes them through
pointers to its callers' variables (private memory in OpenCL). Each function stands after those that it calls.
No C11, C++ or vector type: declarations, arithmetic, casts. Hexadecimal literals have the suffix `u` alone, which takes
the type that the number needs.
Does not: accept other Python: it raises TypeError.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import backends.kernel_ir.tree as tree
from backends.device import elementary, precisions
from backends.device.elementary import Elementary, Primitives
from backends.device.precisions import PRECISIONS
from backends.kernel_ir.expr import ZERO, call, cast
from compiler.core.diagnostics import RunError
from compiler.core.disk import write_text

_C_TYPES = {"f32": "float", "f64": "double", "u32": "nl_u32", "u64": "nl_u64", "truth": "int"}
_OPERATORS: dict[type[ast.AST], str] = {
    **{ast.BitOr: "|", ast.BitAnd: "&", ast.LShift: "<<", ast.RShift: ">>"},
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"},
}


@dataclass(frozen=True)
class _Value:
    """An expression of a type in _C_TYPES, or a constant, which takes the type of what stands beside it."""

    code: tree.Code
    type: str
    constant: int | float | None = None

    @property
    def text(self) -> str:
        return self.code.text


def _constant(x: int | float) -> _Value:
    return _Value(ZERO, "", x)


def _as(v: _Value, type: str) -> _Value:
    """`v` with its literal, if it is a constant, in `type`."""
    if v.constant is None:
        return v
    x = v.constant
    if type[0] == "u":
        return _Value(tree.Number(f"{x:#x}u" if x > 9999 else f"{x}u"), type)
    if not math.isfinite(x):
        bits = np.array(x, np.float32).view(np.uint32) if type == "f32" else np.array(x, np.float64).view(np.uint64)
        return _Value(call(f"nl__from_{type}", tree.Number(f"{int(bits):#x}u")), type)
    text = repr(float(x)) if type == "f64" else f"{np.float32(x)!s}f"
    return _Value(tree.Number(text), type)


@cache
def _classes() -> dict[str, dict[str, ast.FunctionDef]]:
    definitions = (c for m in (elementary, precisions) for c in ast.parse(inspect.getsource(m)).body)
    classes = (c for c in definitions if isinstance(c, ast.ClassDef))
    return {c.name: {f.name: f for f in c.body if isinstance(f, ast.FunctionDef)} for c in classes}


def _method(of: Elementary, name: str) -> ast.FunctionDef:
    """The definition that `of` has of `name`."""
    return next(_classes()[c.__name__][name] for c in type(of).__mro__ if name in _classes().get(c.__name__, {}))


def _suffix(of: Elementary) -> str:
    return "f64" if of.real is np.float64 else "f32"


def _type(annotation: ast.expr | None, of: Elementary) -> str:
    name = annotation.id if isinstance(annotation, ast.Name) else ""
    return "u32" if name == "Word32" else {"Real": "f", "Word": "u"}[name] + _suffix(of)[1:]


def _result_types(of: Elementary, name: str) -> list[str]:
    returned = _method(of, name).returns
    if isinstance(returned, ast.Subscript) and isinstance(returned.slice, ast.Tuple):
        return [_type(x, of) for x in returned.slice.elts]
    return [_type(returned, of)]


class _Function:
    """Prints one function of one precision; `calls` are those that it needs."""

    def __init__(self, of: Elementary, name: str) -> None:
        self.of, self.name, self.definition = of, name, _method(of, name)
        self.formals = {a.arg: _type(a.annotation, of) for a in self.definition.args.args[1:]}
        self.types = dict(self.formals)
        self.constants: dict[str, _Value] = {}
        self.calls: dict[str, tuple[Elementary, str]] = {}

    def text(self) -> str:
        """The definition. The functions that it calls are known after it."""
        body = self.definition.body[self.words() != "" :]
        lines = [line for s in body for line in self.statement(s)]
        results = _result_types(self.of, self.name)
        formals = [f"{_C_TYPES[t]} {n}" for n, t in self.formals.items()]
        result = _C_TYPES[results[0]] if len(results) == 1 else "void"
        if len(results) > 1:
            formals += [f"{_C_TYPES[t]} *{n}_out" for t, n in zip(results, self.returned(body[-1]), strict=True)]
        head = f"NL_FN {result} nl_{self.name}_{_suffix(self.of)}({', '.join(formals)}) {{"
        short = len(lines) == 1 and len(head) + len(lines[0]) < 118
        return f"{head} {lines[0]} }}" if short else "\n".join([head, *(f"    {x}" for x in lines), "}"])

    def words(self) -> str:
        return ast.get_docstring(self.definition) or ""

    def returned(self, s: ast.stmt) -> list[str]:
        """The names that a function of several results returns."""
        if isinstance(s, ast.Return) and isinstance(s.value, ast.Tuple):
            return [self.target(x) for x in s.value.elts]
        raise TypeError(ast.unparse(s))

    def target(self, e: ast.expr) -> str:
        if not isinstance(e, ast.Name):
            raise TypeError(ast.unparse(e))
        return e.id

    def statement(self, s: ast.stmt) -> list[str]:
        match s:
            case ast.Return(ast.Tuple()):
                return [f"*{n}_out = {n};" for n in self.returned(s)]
            case ast.Return(ast.expr() as e):
                return [f"return {self.typed(e, _result_types(self.of, self.name)[0]).text};"]
            case ast.Assign([ast.Tuple(targets)], ast.Call(ast.Attribute(of, name)) as call):
                return self.several([self.target(x) for x in targets], self.precision(of), name, call)
            case ast.Assign([ast.Name(target)], ast.Call(ast.Attribute(_, "polynomial"), [terms, at])):
                first, *rest = self.fold(terms)
                z = self.value(at)
                steps = [f"{target} = {target} * {z.text} + {_as(_constant(c), z.type).text};" for c in rest]
                return [self.assign(target, _as(_constant(first), z.type)), *steps]
            case ast.Assign([ast.Name(target)], e):
                value = self.value(e)
                if value.constant is not None:
                    self.constants[target] = value
                    return []
                return [self.assign(target, value)]
        raise TypeError(ast.unparse(s))

    def assign(self, target: str, v: _Value) -> str:
        known = target in self.types
        self.types[target] = v.type
        return f"{target} = {v.text};" if known else f"{_C_TYPES[v.type]} {target} = {v.text};"

    def several(self, targets: list[str], of: Elementary, name: str, made: ast.Call) -> list[str]:
        """A call of a function of several results; `_` is one that nobody needs."""
        names = ["unused" if t == "_" else t for t in targets]
        fresh: dict[str, list[str]] = {}
        for n, t in zip(names, _result_types(of, name), strict=True):
            if n not in self.types:
                fresh.setdefault(_C_TYPES[t], []).append(n)
                self.types[n] = t
        lines = [f"{t} {', '.join(x)};" for t, x in fresh.items()]
        arguments = [*self.arguments(of, name, made.args), *(tree.Unary("&", tree.Variable(n)) for n in names)]
        return [*lines, f"{call(self.called(of, name), *arguments)};"]

    def called(self, of: Elementary, name: str) -> str:
        text = f"nl_{name}_{_suffix(of)}"
        self.calls[text] = (of, name)
        return text

    def arguments(self, of: Elementary, name: str, args: list[ast.expr]) -> list[tree.Code]:
        formals = [_type(a.annotation, of) for a in _method(of, name).args.args[1:]]
        return [self.typed(x, t).code for x, t in zip(args, formals, strict=True)]

    def precision(self, e: ast.expr) -> Elementary:
        match e:
            case ast.Name("self"):
                return self.of
            case ast.Attribute(ast.Name("self"), "double"):
                return PRECISIONS[1]
        raise TypeError(ast.unparse(e))

    def fold(self, e: ast.expr) -> tuple[float, ...]:
        """The coefficients of a polynomial."""
        found = getattr(self.of, e.attr) if isinstance(e, ast.Attribute) else ()
        return tuple(found)

    def typed(self, e: ast.expr, type: str) -> _Value:
        return _as(self.value(e), type)

    def value(self, e: ast.expr) -> _Value:
        match e:
            case ast.Constant(int() | float() as x):
                return _constant(x)
            case ast.Name(name):
                return self.constants.get(name) or _Value(tree.Variable(name), self.types[name])
            case ast.Attribute(ast.Name("self"), name):
                return _constant(getattr(self.of, name))
            case ast.Subscript(ast.Attribute(ast.Name("self"), name), ast.Constant(int() as at)):
                return _constant(getattr(self.of, name)[at])
            case ast.UnaryOp(op, x):
                return self.unary(op, self.value(x))
            case ast.BinOp(left, op, right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.Compare(left, [op], [right]):
                return self.binary(op, self.value(left), self.value(right))
            case ast.Call(ast.Attribute(of, name), args):
                return self.call(self.precision(of), name, args)
        raise TypeError(ast.unparse(e))

    def unary(self, op: ast.unaryop, x: _Value) -> _Value:
        if x.constant is not None:
            return _constant(-x.constant)
        sign = "!" if isinstance(op, ast.Invert) else "-"
        return _Value(tree.Unary(sign, x.code), x.type)

    def binary(self, op: ast.operator | ast.cmpop, a: _Value, b: _Value) -> _Value:
        if a.constant is not None and b.constant is not None:
            return _constant(_folded(op, a.constant, b.constant))
        sign, type_ = _OPERATORS[type(op)], a.type or b.type
        level = tree.LEVELS[sign]
        a, b = _as(a, type_), _as(b, "u32" if level == tree.SHIFT else type_)
        if a.type != b.type and level != tree.SHIFT:
            raise TypeError(f"{a.text} {sign} {b.text}: {a.type} and {b.type}")
        result = "truth" if level == tree.COMPARE else type_
        if level >= tree.SUM or level == tree.COMPARE:
            return _Value(tree.Binary(sign, a.code, b.code), result)
        if sign == "&" and isinstance(a.code, tree.Every):
            return _Value(tree.Every((*a.code.tests, b.code)), result)
        if sign == "&":
            return _Value(tree.Every((a.code, b.code)), result)
        return _Value(tree.Binary(sign, a.code, b.code), result)

    def call(self, of: Elementary, name: str, args: list[ast.expr]) -> _Value:
        suffix = _suffix(of)
        match name, args:
            case "where", [test, a, b]:
                return self.select(self.value(test), self.typed(a, suffix), self.typed(b, suffix))
            case (("word" | "real"), [x]):
                return self.typed(x, suffix if name == "real" else f"u{suffix[1:]}")
            case "of_integer", [x]:
                return _Value(cast(_C_TYPES[suffix], cast("nl_i32", self.value(x).code)), suffix)
            case (("_wide" | "_narrow"), [x]):
                to = "f64" if name == "_wide" else "f32"
                return _Value(cast(_C_TYPES[to], self.value(x).code), to)
        arguments = self.arguments(of, name, args)
        if hasattr(Primitives, name):
            short = {"bits": "_bits", "from_bits": "_from"}.get(name, name)
            return _Value(call(f"nl_{short}_{suffix}", *arguments), _result_types(of, name)[0])
        return _Value(call(self.called(of, name), *arguments), _result_types(of, name)[0])

    def select(self, test: _Value, a: _Value, b: _Value) -> _Value:
        return _Value(tree.Select(test.code, a.code, b.code), a.type)


def _folded(op: ast.operator | ast.cmpop, a: float, b: float) -> int | float:
    """A constant of constants, as Python computes it."""
    table: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.LShift: operator.lshift,
        ast.Pow: operator.pow,
    }
    found: int | float = table[type(op)](a, b)
    return found


def _public() -> Iterator[tuple[Elementary, str]]:
    """Each function in both precisions, in the order of the text."""
    for name in dict.fromkeys(n for c in ("Elementary", "Double") for n in _classes()[c]):
        if not name.startswith("_") and not isinstance(getattr(Elementary, name, None), property):
            yield from ((of, name) for of in PRECISIONS)


@cache
def c_functions() -> str:
    """All functions, those first that others call. They are printed once and kept beside the package's own bytecode,
    where that can be written."""
    sources = (Path(x) for x in (elementary.__file__, precisions.__file__, tree.__file__, __file__))
    digest = sha256(b"".join(x.read_bytes() for x in sources)).hexdigest()
    kept = Path(__file__).parent / "__pycache__" / "c_functions.txt"
    try:
        known, _, text = kept.read_text(encoding="utf-8").partition("\n")
    except OSError:
        known, text = "", ""
    if known != digest:
        text = printed()
        with suppress(RunError):
            write_text(kept, f"{digest}\n{text}", "printed functions")
    return text


def printed() -> str:
    """The text. A docstring stands once, not in each precision."""
    texts: dict[str, str] = {}
    seen: set[int] = set()

    def add(of: Elementary, name: str) -> None:
        if (c_name := f"nl_{name}_{_suffix(of)}") in texts:
            return
        function = _Function(of, name)
        text = function.text()
        for callee in function.calls.values():
            add(*callee)
        if (words := function.words()) and id(function.definition) not in seen:
            text = "/* " + "\n   ".join(textwrap.wrap(" ".join(words.split()), 112)) + f" */\n{text}"
        seen.add(id(function.definition))
        texts[c_name] = text

    for of, name in _public():
        add(of, name)
    return "\n".join(texts.values()) + "\n"
