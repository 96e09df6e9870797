"""Loops over points are lanes where points share nothing that they change."""

from __future__ import annotations

import pytest

from backends.cpu.kernels.lanes import in_lanes
from backends.kernel_ir.expr import name
from backends.kernel_ir.stmt import For, If, Kind, Let, Set, Stmt, lines_of

i, j, x_, v = (name(word) for word in ("i", "j", "x_", "v"))
SUM = Set(x_[j], v, "+=")


def points(*body: Stmt, kind: Kind = Kind.POINTS) -> For:
    return For(i, 0, 8, body, kind=kind)


@pytest.mark.parametrize(
    ("loop", "kind"),
    [
        (points(Set(x_[i], v)), Kind.LANES),
        (points(Set(name("sums")[i], v, "+=")), Kind.LANES),
        (points(SUM), Kind.SERIAL),
        (points(If(v, [SUM])), Kind.SERIAL),
        (points(For(j, 0, 3, [Set(v, x_[j], "+=")])), Kind.SERIAL),
        (points(Set(x_[i], v), kind=Kind.LANE), Kind.KEPT_LANES),
        (points(SUM, kind=Kind.LANE), Kind.KEPT),
        (points(Set(x_[i], v), kind=Kind.SERIAL), Kind.SERIAL),
    ],
)
def test_a_loop_has_lanes_where_points_share_nothing(loop: For, kind: Kind) -> None:
    (found,) = in_lanes([loop], {"x_"})
    assert isinstance(found, For) and found.kind is kind and found.body == loop.body


def test_inner_loops_are_lanes_and_a_loop_without_a_choice_is_not_printed() -> None:
    nest = points(For(j, 0, 8, [Let("real", v, x_[j])], kind=Kind.POINTS))
    assert [x.text for x in lines_of(in_lanes([nest], set()))][:2] == [
        "for (nl_i64 i = 0; i < 8; i++) {",
        "NL_IVDEP for (nl_i64 j = 0; j < 8; j++) {",
    ]
    with pytest.raises(KeyError):
        lines_of([nest])
