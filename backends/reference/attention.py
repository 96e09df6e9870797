"""Attention without scores in memory, as one kernel computes it.

Assumes: a row whose body is an l2.Attention.
Guarantees: the results of compiler/ir/level1/graph.py's Attention in float32; where factors of products are numbers of
bf16, they are rounded to them.
Does not: round factors of fp16 and sums of two of them; follow the order in which a target adds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import compiler.ir.level2.program as l2
from backends.reference.evaluate import rounded
from backends.reference.row import Row
from compiler.ir.space import DType
from compiler.layers.shared.context import HIDDEN


def run_attention(row: Row, body: l2.Attention) -> None:
    """Compute the results that the row has arrays for."""
    x = _Attending(row, body)
    if "context" in body.of or "norms" in body.of:
        x.forward()
    else:
        x.backward()


class _Attending:
    """Operands are (batch, heads, lines, features)."""

    def __init__(self, row: Row, body: l2.Attention) -> None:
        self.row, self.body = row, body
        self.batch, self.heads, self.steps, self.keys, self.d, self.e = (
            row.size(n) for n in ("batch", "heads", "steps", "keys", "d", "e")
        )
        self.query = self.lines("query", self.steps, self.d)
        self.key, self.value = self.lines("key", self.keys, self.d), self.lines("value", self.keys, self.e)

    def factor(self, x: Any) -> Any:
        return rounded(x) if self.body.factors == 1 else x

    def lines(self, name: str, lines: int, size: int) -> Any:
        """An operand, between whose lines others may have elements."""
        apart = self.row.size(f"{name}_by_step")
        at = np.arange(self.batch * lines)[:, None] * apart + np.arange(self.heads * size)
        found = self.row.arrays[name][self.row.checked(name, at)]
        return self.factor(found.reshape(self.batch, lines, self.heads, size).swapaxes(1, 2))

    def of_steps(self, name: str, size: int) -> Any:
        return self.row.arrays[name].reshape(self.batch, self.steps, self.heads, size).swapaxes(1, 2)

    def beside(self, name: str) -> Any:
        """An offset or a mask: (batch, heads, steps, keys)."""
        at: Any = np.arange(self.keys)
        for extent, of in ((self.steps, "step"), (self.heads, "head"), (self.batch, "sample")):
            at = np.arange(extent).reshape(-1, *(1,) * at.ndim) * self.row.size(f"{name}_by_{of}") + at
        return self.row.arrays[name][self.row.checked(name, at)]

    def store(self, name: str, values: Any) -> None:
        stored = values.swapaxes(1, 2).reshape(-1)
        narrow = self.row.array_formals[name].dtype is DType.BF16
        self.row.arrays[name][:] = rounded(stored) if narrow else stored

    def scores(self) -> tuple[Any, Any]:
        """Scores, and which of them count."""
        scores = (self.query @ self.key.swapaxes(2, 3)) * self.row.scalars["scale"]
        if "offset" in self.body.beside:
            scores = scores + self.beside("offset")
        hidden = np.zeros(scores.shape, np.bool_)
        if "mask" in self.body.beside:
            hidden = self.beside("mask") == 0
        if self.body.causal:
            hidden = hidden | (np.arange(self.keys) > np.arange(self.steps)[:, None])
        scores = np.where(hidden, np.float32(HIDDEN), scores)
        some_hidden = self.body.causal or self.body.beside
        return scores, scores > HIDDEN / 2 if some_hidden else np.ones(scores.shape, np.bool_)

    def forward(self) -> None:
        scores, seen = self.scores()
        largest = scores.max(axis=3, keepdims=True)
        shares = np.where(seen, np.exp(scores - largest), np.float32(0))
        total = shares.sum(axis=3, keepdims=True)
        inverse = np.where(total == 0, np.float32(0), 1 / total)
        self.store("context", (self.factor(shares) @ self.value) * inverse)
        if "norms" in self.body.of:
            self.store("norms", np.concatenate([largest, inverse], axis=3))

    def backward(self) -> None:
        scores, seen = self.scores()
        norms, given = self.of_steps("norms", 2), self.of_steps("context_grad", self.e)
        shares = np.where(seen, np.exp(scores - norms[..., :1]), np.float32(0)) * norms[..., 1:]
        product = (given * self.of_steps("context", self.e)).sum(axis=3, keepdims=True)
        gradient = self.factor(shares * (self.factor(given) @ self.value.swapaxes(2, 3) - product))
        scale = self.row.scalars["scale"]
        if "query" in self.body.of:
            self.store("query_grad", (gradient @ self.key) * scale)
        if "key" in self.body.of:
            self.store("key_grad", (gradient.swapaxes(2, 3) @ self.query) * scale)
        if "value" in self.body.of:
            self.store("value_grad", self.factor(shares).swapaxes(2, 3) @ self.factor(given))
