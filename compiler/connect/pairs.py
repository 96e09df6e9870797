"""Explicit pairs, from the file itself or from another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.connect.keys import rule
from compiler.connect.rule import ConnectRule, Ends, Form, Rows
from compiler.expr.keys.kinds import Field, ListOf, Text
from compiler.expr.keys.values import COUNT, FILE

_PAIR = ListOf(COUNT, low=2, high=2, example="[0, 3]")


def pairs_of(projection: l0.Projection, member: l0.Member) -> npt.NDArray[np.int64]:
    """The explicit pairs of a member, (n, 2), as the user gave them."""
    return np.array(projection.pair_lists[member.pairs or 0], np.int64).reshape(-1, 2)


def pair_order(pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Explicit pairs (n, 2) in storage order: stored synapse k is pair `order[k]` of the user's. Where the user's order
    differs, it is kept as the array `<projection>[a->b].order`: values stored per synapse are written back in the
    user's order by `values[order] = stored`."""
    return np.lexsort((pairs[:, 1], pairs[:, 0]))


def _rows(e: Ends) -> Rows:
    pairs = pairs_of(e.projection, e.member)
    order = pair_order(pairs)
    row = np.zeros(e.pre.size + 1, np.int64)
    np.add.at(row, pairs[:, 0] + 1, 1)
    return Rows(np.cumsum(row), pairs[order, 1].astype(np.int32), len(pairs), order)


def _bits(e: Ends) -> npt.NDArray[np.bool_]:
    bits, pairs = np.zeros((e.pre.size, e.post.size), np.bool_), pairs_of(e.projection, e.member)
    bits[pairs[:, 0], pairs[:, 1]] = True
    return bits


PAIRS = ConnectRule(
    rule(
        "pairs",
        "Given pairs, inline or from a file.",
        Field(
            "list",
            ListOf(_PAIR, low=1, example="[[0, 1], [0, 2]]"),
            "The connections as [source, target], counted from 0. Their order is kept.",
        ),
        Field(
            "file",
            FILE,
            "The file that holds the connections: an `.npz`, a `.csv` with one named column each, or a SONATA `.h5`.",
            example="file: data/edges.npz",
        ),
        Field(
            "sources",
            Text("the name of an array", "sources"),
            "The array of source indices in `file`; without it, `sources` (SONATA: `source_node_id`).",
            example="sources: pre",
        ),
        Field(
            "targets",
            Text("the name of an array", "targets"),
            "The array of target indices in `file`; without it, `targets` (SONATA: `target_node_id`).",
            example="targets: post",
        ),
        Field(
            "population",
            Text("the name of a population of edges", "exc_to_inh"),
            "The population of edges in a SONATA file; needed when it has several.",
        ),
        one_of=(("list", "file"),),
        needs=(("sources", ("file",)), ("targets", ("file",)), ("population", ("file",))),
        elsewhere={},
        example="{list: [[0, 1], [0, 2]]}",
    ),
    Form.GIVEN,
    lambda e: len(e.projection.pair_lists[e.member.pairs or 0]),
    rows=_rows,
    bits=_bits,
    held="given pairs have to be held",
    synonyms={"list": "`pairs: {list: [...]}`", "sonata": "`pairs: {file: edges.h5}`"},
)
