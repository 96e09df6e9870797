"""`tile`: windows of pools that move on over the source, one for each pool of the target.

Guarantees: every neuron of a pool is connected to every one of the pools in its window. In the IR this is the rule of
an expression over channels (probability.py), so that it is drawn on the device like any other.
Source: emer/emergent, `paths.PoolTile`.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.connect.keys import AUTAPSES, FLAGS, rule, two
from compiler.connect.rule import Args, ConnectRule, Expressed, Form, Misfit, Place, Setting, pair
from compiler.expr.ast import Expr, Ref
from compiler.expr.keys.kinds import Value, switch
from compiler.expr.keys.values import POSITIVE

_WHOLE = Value("a whole number", "-1", integer=True)


def pool_place(index: str, end: str) -> tuple[Expr, Expr]:
    """Row and column of the pool of a neuron: `index` "i" of the end "from", "j" of the end "to"."""
    channel, columns = Ref(f"c_{index}"), Ref(f"pw_{end}")
    return channel // columns, channel % columns


def _tiled(settings: Mapping[str, Setting]) -> Expressed:
    """The condition, and its numbers for two populations. Windows are of the source's pools, or `reversed` of the
    target's."""
    back, periodic = bool(settings["reversed"]), bool(settings["periodic"])
    (seen, over), (one, other) = (("j", "to"), ("i", "from"))[:: 1 if back else -1]
    window, moves = pool_place(seen, over), pool_place(one, other)
    condition: Expr | None = None
    for axis, extent, at, pool in zip("yx", ("ph", "pw"), window, moves, strict=True):
        inside: Expr = at + Ref(f"tile_shift_{axis}") - Ref(f"tile_step_{axis}") * pool
        size = Ref(f"tile_size_{axis}")
        test: Expr = (inside % Ref(f"{extent}_{over}")) < size if periodic else (inside >= 0) & (inside < size)
        condition = test if condition is None else condition & test
    assert condition is not None

    def arguments(place: Place) -> Args:
        shapes = []
        for p in (place.source, place.target):
            if len(p.shape) != 4:
                message = f"`tile` needs pools in rows and columns; the shape of `{p.name}` is {list(p.shape)}"
                message = message if p.shape else f"`tile` needs pools in rows and columns; `{p.name}` has none"
                help = "give it a `shape` of four numbers: rows and columns of pools, height and width of each"
                raise Misfit("E0604", message, help, None, (p,))
            shapes.append(p.shape[:2])
        seen, moving = shapes[::-1] if back else shapes
        out: list[tuple[str, float | int]] = []
        for k, axis in enumerate("yx"):
            size, step, start = (pair(settings, key)[k] for key in ("size", "step", "start"))
            far = step * (moving[k] - 1) + max(start, 0)  # keeps what is divided above 0
            turns = -(-far // seen[k]) * seen[k] if periodic else 0
            out += [(f"tile_{n}_{axis}", v) for n, v in (("size", size), ("step", step), ("shift", turns - start))]
        return tuple(out)

    return Expressed(condition, arguments)


TILE = ConnectRule(
    rule(
        "tile",
        "Each pool of the target from a window of the source's pools: that of pool (row, column) begins at `start` + "
        "`step` (row, column). All neurons of the one are connected to all of the others. Both populations have a "
        "`shape` of four numbers.",
        two("size", POSITIVE, "Rows and columns of pools in a window.", None, "size: [4, 4]", "[4, 4]"),
        two(
            "step", POSITIVE, "By how many pools a window moves on, down and to the right.", 1, "step: [2, 2]", "[2, 2]"
        ),
        two(
            "start",
            _WHOLE,
            "Row and column of the pool where the first window begins.",
            0,
            "start: [-1, -1]",
            "[-1, -1]",
        ),
        switch("periodic", "Whether windows go on at the opposite border; without it, what is outside is left out."),
        switch(
            "reversed",
            "The same connections the other way, for feedback: each pool of the source to a window of the target's "
            "pools.",
        ),
        AUTAPSES,
        elsewhere=FLAGS
        | {"skip": "`step`", "stride": "`step`", "wrap": "`periodic`", "recip": "`reversed`", "kernel": "`size`"},
        example="{size: [4, 4], step: [2, 2], start: [-1, -1], periodic: true}",
    ),
    Form.DRAWN,
    lambda e: float(e.pairs),
    expressed=_tiled,
    synonyms={"pool_tile": "`tile: {size: ..., step: ...}`", "windows": "`tile: {size: ..., step: ...}`"},
)
