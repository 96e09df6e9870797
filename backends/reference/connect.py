"""Drawing relations, by the rules' data (compiler/connect/drawing.py).

Assumes: formals with the fixed names that compiler/ir/level2/program.py gives for each rule.
Guarantees: the same relation as every other backend: words of Philox with counter (index, step, draw) and integer
comparisons. Rows are ascending by target; a target may repeat only with multapses.
Does not: check p or sizes (the lowering does).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.reference import philox
from backends.reference.evaluate import Evaluator, cast
from backends.reference.row import InterpretError, Row
from compiler.connect import drawing_of
from compiler.connect.drawing import Numbered, Passing
from compiler.expr.ast import Expr
from compiler.expr.functions import CONSTANTS

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Sources and targets, one entry per synapse, in any order."""

TRIES = 64


def _without_self(row: Row) -> bool:
    return row.size("same") == 1 and row.size("autapses") == 0


def _part(word: Any, n: int) -> npt.NDArray[np.int64]:
    """The part of 0 .. n - 1 that a 32-bit word falls into."""
    return np.asarray(word.astype(np.uint64) * np.uint64(n) >> np.uint64(32), np.int64)


def _numbered(row: Row, x: Numbered) -> Pairs:
    """The connections of all owners, one after the other."""
    known: dict[str, Any] = {f: row.scalars[f] for f in row.scalars}
    known["skip"] = np.bool_("same" in known and _without_self(row))
    value = Evaluator(known.__getitem__, row.real, 0)
    each, owners = int(value(x.each)), int(value(x.owners))
    owner = np.repeat(np.arange(owners, dtype=np.int64), each)
    known[x.owner] = owner
    known["c"] = place = np.tile(np.arange(each, dtype=np.int64), owners)
    if x.pools:
        key, pools = int(row.scalars["key"]), [int(value(p)) for p in x.pools]
        if row.size("multapses"):
            if x.owner:
                columns = [philox.words(key, np.arange(owners), c, 0)[0] for c in range(each)]
                words = [np.stack(columns, axis=1).ravel() if each else place]
            else:
                words = list(philox.words(key, place, 0, 0))
            drawn = [_part(w, n) for w, n in zip(words, pools, strict=False)]
        else:
            at = philox.shuffled(key, owner, math.prod(pools), place)
            drawn = [at] if len(pools) == 1 else [*np.divmod(at, pools[1])]
        known |= dict(zip("ab", drawn, strict=False))
    source, target = (np.broadcast_to(np.asarray(value(e), np.int64), place.shape) for e in (x.source, x.target))
    return source, target


def _passing(row: Row, x: Passing, e: Expr | None) -> Pairs:
    """Places of all sources side by side, turn by turn; all places at once where none is left out."""
    known: dict[str, Any] = {**CONSTANTS, **row.scalars, "skip": np.bool_(_without_self(row))}
    value, key = Evaluator(known.__getitem__, row.real, 0), int(row.scalars["key"])
    pool, n_pre, found = int(value(x.pool)), row.size("n_pre"), list[Pairs]()

    def connected(source: npt.NDArray[np.int64], place: npt.NDArray[np.int64]) -> None:
        target = np.broadcast_to(value(x.target), place.shape)
        hit = np.broadcast_to(value(x.hit), place.shape) & (place < pool)
        if x.hole is not None:
            hit = hit & ~(known["skip"] & (place == value(x.hole)))
        found.append((np.broadcast_to(source, place.shape)[hit], target[hit]))

    if x.each:
        assert e is not None
        known["c"] = c = np.arange(pool, dtype=np.int64)[None, :]
        chunk = max(1, (1 << 22) // max(pool, 1))
        for first in range(0, n_pre, chunk):
            known["i"] = i = np.arange(first, min(first + chunk, n_pre), dtype=np.int64)[:, None]
            known["j"] = value(x.target)
            for end, side in (("i", "from"), ("j", "to")):
                w, h, at = row.size(f"w_{side}"), row.size(f"h_{side}"), known[end]
                known |= {f"x_{end}": at % w, f"y_{end}": at // w % h, f"c_{end}": at // (w * h)}
            with np.errstate(all="ignore"):
                known["holds"] = p = np.asarray(value.typed(e))
            if p.dtype != np.bool_:
                word = philox.words(key, value(x.index), value(x.at), 0)[0]
                known["holds"] = word.astype(np.float64) < cast(p, row.real).astype(np.float64) * 4294967296.0
            connected(i, np.broadcast_to(c, (len(i), pool)))
        return _joined(found)
    low, high = np.split(row.arrays["table"].astype(np.int64), 2)
    known |= {"i": np.arange(n_pre, dtype=np.int64), "c": np.full(n_pre, -1, np.int64), "n": 0}
    while len(known["i"]):
        words = philox.words(key, value(x.index), value(x.at), 0).astype(np.int64)
        known |= {"a": np.searchsorted(high, words[0]), "b": np.searchsorted(low[:-1], words[1])}
        known["c"] = c = known["c"] + value(x.step)
        connected(known["i"], c)
        going = c < pool
        known |= {"i": known["i"][going], "c": c[going], "n": known["n"] + 1}
    return _joined(found)


def _joined(parts: list[Pairs]) -> Pairs:
    empty = np.zeros(0, np.int64)
    sources, targets = zip(*parts, strict=True) if parts else ((empty,), (empty,))
    return np.concatenate(sources), np.concatenate(targets)


def _pairs(row: Row, body: l2.Connect) -> Pairs:
    rule = body.rule
    match drawing_of(rule):
        case Numbered() as x:
            return _numbered(row, x)
        case Passing() as x:
            return _passing(row, x, body.probability)
    raise InterpretError(f"{row.label}: no connect rule `{rule}`")


def _transpose(row: Row, stage: str) -> None:
    """The transposed relation."""
    pointers, target = row.arrays["row"], row.arrays["col"]
    if stage == "count":
        row.arrays["to_row"][0] = 0
        row.arrays["to_row"][1:] = np.bincount(target, minlength=row.size("n_post"))
        return
    order = np.argsort(target, kind="stable")
    row.arrays["to_index"][:] = order
    row.arrays["to_col"][:] = np.repeat(np.arange(row.size("n_pre")), np.diff(pointers))[order]


def _mask(row: Row, body: l2.Connect) -> None:
    """A bit per pair: words of 32 targets."""
    n_pre, n_post = row.size("n_pre"), row.size("n_post")
    bits = np.zeros((n_pre, -(-n_post // 32) * 32), np.bool_)
    bits[_pairs(row, body)] = True
    row.arrays["words"][:] = np.packbits(bits, axis=1, bitorder="little").view("<u4").reshape(-1)


def drawn_again(row: Row, rule: str, probability: Expr | None) -> Pairs:
    """(sources, targets) of all rows of a Procedural relation, sources ascending, targets ascending in each."""
    scalars = {**row.scalars, "key": row.scalars["connect_key"]}  # statements may have a separate stream
    source, target = _pairs(replace(row, scalars=scalars), l2.Connect(rule, "fill", probability))
    order = np.lexsort((target, source))
    return source[order], target[order]


def _rewire(row: Row, step: int) -> None:
    """New targets for the synapses marked in `gone`; see Connect."""
    pointers, col = row.arrays["row"], row.arrays["col"]
    gone: Any = row.arrays["gone"]
    skip = _without_self(row)
    pool, key = row.size("n_post") - skip, int(row.scalars["key"])
    for i in range(row.size("n_pre")):
        mine = slice(int(pointers[i]), int(pointers[i + 1]))
        for s in range(mine.start, mine.stop):
            if not gone[s] & 1:
                continue
            found = False
            drawn = _part(philox.words(key, np.full(TRIES, s), step, np.arange(TRIES, dtype=np.uint64))[0], pool)
            for at in (*drawn, *((drawn[-1] + 1 + np.arange(pool)) % pool)):
                target = at + (skip and at >= i)
                if row.size("multapses") or target not in col[mine][gone[mine] < 2]:
                    col[s], found = target, True
                    break
            if gone[s] == 3:
                gone[s] = 1 if found else 2


def run_connect(row: Row, body: l2.Connect, step: int = 0) -> None:
    """Run one stage of connecting for one relation."""
    if body.rule == "rewire":
        _rewire(row, step)
        return
    if body.rule == "transpose":
        _transpose(row, body.stage)
        return
    if body.stage == "mask":
        _mask(row, body)
        return
    pointers: Any = row.arrays["row"]
    match body.stage:
        case "count":
            source, _ = _pairs(row, body)
            pointers[0] = 0
            pointers[1:] = np.bincount(source, minlength=row.size("n_pre"))
        case "scan":
            np.cumsum(pointers, out=pointers)
        case "fill":
            source, target = _pairs(row, body)
            row.arrays["col"][:] = target[np.lexsort((target, source))]
        case _:
            raise InterpretError(f"{row.label}: no stage `{body.stage}` of connecting")
