"""Products on matrix units (tensor_products): every kind, tile and split, by force, over transposes, batches and sizes
that fill no tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compiler.expr.ast import Binary, Ref
from compiler.ir.level1.graph import Contract, Map, Tensor
from compiler.ir.space import along
from compiler.strategies.choice import Choice, product
from compiler.strategies.cuda import stored_products, tensor_products
from compiler.strategies.cuda.split import split_products
from tests.cpu.contractions import Case, dense
from tests.cpu.test_strategies import with_epilogue
from tests.gpu.products import Problem

SIZES = ((128, 128, 64), (129, 131, 133), (32, 260, 1000), (150, 36, 1060), (513, 257, 37))
BATCHED = ((2, 3, 128, 64, 128), (1, 2, 37, 45, 51), (3, 2, 130, 132, 36))


def transposed(m: int, n: int, k: int, rows: bool, columns: bool) -> Problem:
    """y[i, j] = sum over k of x[i, k] w[j, k], or of x[k, i] (`rows`), w[k, j] (`columns`)."""
    i, j, d = along("i"), along("j"), along("k")
    tensors = {
        "x": Tensor("x", (k, m) if rows else (m, k)),
        "w": Tensor("w", (k, n) if columns else (n, k)),
        "y": Tensor("y", (m, n)),
    }
    maps = ((d, i) if rows else (i, d), (d, j) if columns else (j, d))
    dims = (("i", m), ("j", n), ("k", k))
    return Contract(tensors["y"], dims, (i, j), ("x", "w"), maps, Binary("*", Ref("x0"), Ref("x1"))), tensors


def heads(b: int, h: int, i: int, j: int, k: int, turned: bool) -> Problem:
    """y[b, i, h, j] = sum over k of x[b, i, h, k] w[b, j, h, k] (or w[b, k, h, j]): heads lie side by side."""
    at = {d: along(d) for d in "bhijk"}
    tensors = {
        "x": Tensor("x", (b, i, h, k), "real", True),
        "w": Tensor("w", (b, k, h, j) if turned else (b, j, h, k), "real", True),
        "y": Tensor("y", (b, i, h, j), "real", True),
    }
    maps = (tuple(at[d] for d in "bihk"), tuple(at[d] for d in ("bkhj" if turned else "bjhk")))
    dims = tuple(zip("bihjk", (b, i, h, j, k), strict=True))
    out = tuple(at[d] for d in "bihj")
    return Contract(tensors["y"], dims, out, ("x", "w"), maps, Binary("*", Ref("x0"), Ref("x1"))), tensors


def joined_heads(b: int, h: int, i: int, j: int, k: int) -> Problem:
    """y[j, b, i] = sum over h and k of x[b, i, h, k] w[j, h, k]: two dims are summed over; y lies along the rows."""
    at = {d: along(d) for d in "bhijk"}
    tensors = {
        "x": Tensor("x", (b, i, h, k), "real", True),
        "w": Tensor("w", (j, h, k)),
        "y": Tensor("y", (j, b, i)),
    }
    maps = (tuple(at[d] for d in "bihk"), tuple(at[d] for d in "jhk"))
    dims = tuple(zip("jbihk", (j, b, i, h, k), strict=True))
    return Contract(
        tensors["y"], dims, tuple(at[d] for d in "jbi"), ("x", "w"), maps, Binary("*", Ref("x0"), Ref("x1"))
    ), tensors


def by_force(problem: Problem, kind: str, after: Map | None = None) -> Iterator[Case]:
    """The problem by the fastest tilings of a kind with and without splits, whatever the rules say."""
    found = product(*problem, 0, 4)
    own = kind == split_products.NAME
    every = split_products.variants(found) if own else tensor_products.variants(found, kind)
    for split in (False, True):
        for choice in [c for c in every if (dict(c.columns)["s_splits"] > 1) == split][:1]:
            yield Case(*problem, choice, after)


STORED = ((128, 128, 64), (136, 120, 200), (32, 256, 504), (152, 40, 1064), (264, 264, 40))
"""Multiples of 8, as the copy engine needs them; most fill no tile."""
STORED_HEADS = ((2, 3, 128, 64, 128), (1, 2, 40, 48, 56), (3, 2, 136, 128, 40))


def in_bf16(problem: Problem, results: bool = False) -> Problem:
    """The problem with operands that are bf16 in memory (`results`: and the result)."""
    node, tensors = problem
    found = {n: replace(t, dtype="bf16") if n != "y" or results else t for n, t in tensors.items()}
    return replace(node, out=found["y"]), found


def stored_by_force(problem: Problem, after: Map | None = None, kind: str = stored_products.NAME) -> Iterator[Case]:
    """The problem by a kind of stored_products: by each shape of tiles with and without splits, whatever the rules
    say."""
    found = product(*problem, 0, 4)
    every = stored_products.variants(found, kind, len(stored_products.COLUMNS) * 10)
    assert every, problem
    yield from by_shapes(problem, every, after)


def by_shapes(problem: Problem, choices: Sequence[Choice], after: Map | None) -> Iterator[Case]:
    """The first of the choices for each shape of tiles, with and without splits."""
    taken = set()
    for choice in choices:
        columns = dict(choice.columns)
        way = columns["s_tile"], columns["s_splits"] > 1
        if way not in taken:
            taken.add(way)
            yield Case(*problem, choice, after)


def stored_tf32_cases() -> list[Case]:
    problems = [transposed(*s, r, c) for s in STORED for r in (False, True) for c in (False, True)]
    problems += [heads(*s, t) for s in STORED_HEADS for t in (False, True)] + [joined_heads(2, 3, 72, 144, 40)]
    problem, after = with_epilogue(dense(200, 104, 144), "relu(x0 + x1)", ("b", (1,)))
    cases = [case for p in problems for case in stored_by_force(p, None, stored_products.TF32)]
    return [*cases, *stored_by_force(problem, after, stored_products.TF32)]


LONG = tuple(s for s in STORED if s[2] >= split_products.LEAST_TERMS)
"""Of STORED, those that split_products takes."""


def split_cases() -> list[Case]:
    problems = [transposed(*s, r, c) for s in (*LONG, (600, 520, 260)) for r in (False, True) for c in (False, True)]
    problems += [heads(2, 3, 128, 64, 264, t) for t in (False, True)] + [joined_heads(2, 3, 72, 144, 88)]
    cases = [case for p in problems for case in by_force(p, split_products.NAME)]
    for problem, after in (
        with_epilogue(dense(200, 264, 144), "relu(x0 + x1)", ("b", (1,))),
        with_epilogue(dense(136, 520, 264), "tanh(x0) * x1 + x0", ("q", (0, 1))),
    ):
        cases += by_force(problem, split_products.NAME, after)
    return cases


def stored_cases() -> list[Case]:
    problems = [in_bf16(transposed(*s, r, c)) for s in STORED for r in (False, True) for c in (False, True)]
    problems += [in_bf16(heads(*s, t)) for s in STORED_HEADS for t in (False, True)]
    problems += [in_bf16(joined_heads(2, 3, 72, 144, 40)), in_bf16(transposed(160, 136, 264, False, True), True)]
    cases = [case for p in problems for case in stored_by_force(p)]
    for problem, after in (
        with_epilogue(dense(200, 104, 144), "relu(x0 + x1)", ("b", (1,))),
        with_epilogue(dense(136, 520, 264), "tanh(x0) * x1 + x0", ("q", (0, 1))),
    ):
        cases += stored_by_force(in_bf16(problem), after)
    return cases


def tensor_cases(kind: str) -> list[Case]:
    problems = [transposed(*s, r, c) for s in SIZES for r in (False, True) for c in (False, True)]
    problems += [heads(*s, t) for s in BATCHED for t in (False, True)]
    problems += [joined_heads(2, 3, 70, 140, 36), joined_heads(1, 2, 33, 129, 35)]
    cases = [case for p in problems for case in by_force(p, kind)]
    bias = ("b", (1,))
    for problem, after in (
        with_epilogue(dense(200, 99, 140), "relu(x0 + x1)", bias),
        with_epilogue(dense(130, 2048, 260), "tanh(x0) * x1 + x0", ("q", (0, 1))),
    ):
        cases += by_force(problem, kind, after)
    return cases
