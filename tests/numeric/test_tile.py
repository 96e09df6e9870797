"""Shapes of four extents, whose pools are in rows and columns, and windows of pools: against plain Python."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
HEAD = """\
language: 1
name: tiles
neurons:
  cell:
    params: {tag: 0}
    state: {x: self.px + 10 * self.py + 100 * self.pw + 1000 * self.ph + 10000 * (self.x + 10 * self.y), top: 0}
    inputs: {g: {}}
    pool: {reduce: {most: max(x)}}
    update: [top = pool.most + 0 * g]
    spike: {when: x < 0}
synapses: {fixed: {state: {w: 1}, on_pre: [deliver(w)]}}
simulate: {dt: 1 ms, duration: 2 ms}
"""


def connected(folder: Path, source: str, target: str, connect: str, weight: str = "1", on: str = "cpu") -> np.ndarray:
    """The weights of all pairs, nan where there is no connection."""
    text = f"""{HEAD}
populations: {{a: {{neuron: cell, {source}}}, b: {{neuron: cell, {target}}}}}
projections:
  p: {{from: a, to: b, connect: {{{connect}}}, synapse: fixed, init: {{w: {weight}}}, deliver: {{into: g}}}}
"""
    (folder / "m.yaml").write_text(text, encoding="utf-8")
    s = netloom.load(folder / "m.yaml").simulation(target=on)
    found = np.full((len(s["a"]), len(s["b"])), np.nan)
    p = s.projections["p"]
    assert len({*zip(p.source.tolist(), p.target.tolist(), strict=True)}) == len(p.source)
    found[p.source, p.target] = p.w
    return found


def windows(
    pre: tuple[int, ...], post: tuple[int, ...], size: tuple[int, int], step: tuple[int, int], start: tuple[int, int],
    periodic: bool,
) -> np.ndarray:  # fmt: skip
    """Whether pairs are connected, pool by pool."""
    found = np.zeros((*pre, *post), bool)
    for r, c in product(range(post[0]), range(post[1])):
        for dr, dc in product(range(size[0]), range(size[1])):
            row, column = start[0] + step[0] * r + dr, start[1] + step[1] * c + dc
            if periodic:
                row, column = row % pre[0], column % pre[1]
            if 0 <= row < pre[0] and 0 <= column < pre[1]:
                found[row, column, :, :, r, c] = True
    return found.reshape(np.prod(pre), np.prod(post))


@both
@pytest.mark.parametrize("periodic", [False, True])
def test_windows_of_pools(tmp_path: Path, target: str, periodic: bool) -> None:
    pre, post = (6, 4, 2, 3), (3, 2, 1, 2)
    expected = windows(pre, post, (4, 2), (2, 3), (-1, 1), periodic)
    flag = str(periodic).lower()
    rule = f"tile: {{size: [4, 2], step: [2, 3], start: [-1, 1], periodic: {flag}}}"
    found = connected(tmp_path, f"shape: {list(pre)}", f"shape: {list(post)}", rule, on=target)
    np.testing.assert_array_equal(np.isfinite(found), expected)
    back = rule.replace("}", ", reversed: true}")
    found = connected(tmp_path, f"shape: {list(post)}", f"shape: {list(pre)}", back, on=target)
    np.testing.assert_array_equal(np.isfinite(found), expected.T)


def test_defaults_and_itself(tmp_path: Path) -> None:
    """One number for rows and columns; a window larger than all pools; no neuron to itself."""
    shape = (2, 3, 2, 2)
    rule = "tile: {size: 2, autapses: false}"
    text = f"shape: {list(shape)}"
    expected = windows(shape, shape, (2, 2), (1, 1), (0, 0), False)
    found = connected(tmp_path, text, text, rule)
    np.testing.assert_array_equal(np.isfinite(found), expected)
    whole = connected(tmp_path, text, text, "tile: {size: 9, periodic: true}")
    assert np.isfinite(whole).all()


@both
def test_places_of_pools(tmp_path: Path, target: str) -> None:
    """In neurons, pools, parts of populations, values and rules."""
    shape = (2, 3, 2, 4)
    py, px, y, x = (a.reshape(-1) for a in np.indices(shape))
    weight = "px_i + 10 * py_i + 100 * px_j + 1000 * py_j + 10000 * pw_to + 100000 * ph_from"
    condition = 'rule: {when: "px_i == px_j and py_i < py_j + ph_to"}'
    found = connected(tmp_path, f"shape: {list(shape)}", "shape: [3, 2, 2]", condition, weight, target)
    b = np.arange(12) // 4  # channels are a row of pools
    expected = px[:, None] + 10 * py[:, None] + 100 * b + 10000 * 3 + 100000 * 2
    assert np.isfinite(found).sum() == 3 * 8 * 4
    np.testing.assert_array_equal(found, np.where((px[:, None] == b) & (py[:, None] < 1), expected, np.nan))
    text = f"""{HEAD}
populations: {{a: {{neuron: cell, shape: {list(shape)}}}, b: {{neuron: cell, size: 6}}}}
projections:
  p:
    from: "a[px == 2 and py == 1 and y == 0]"
    to: b
    connect: {{all_to_all: {{}}}}
    deliver: {{into: g}}
    synapse: fixed
"""
    (tmp_path / "n.yaml").write_text(text, encoding="utf-8")
    s = netloom.load(tmp_path / "n.yaml").simulation(target=target)
    values = px + 10 * py + 300 + 2000 + 10000 * (x + 10 * y)
    np.testing.assert_array_equal(s["a"].x, values)
    np.testing.assert_array_equal(
        np.unique(s.projections["p"].source), np.flatnonzero((px == 2) & (py == 1) & (y == 0))
    )
    s.run("2 ms")
    np.testing.assert_array_equal(s["a"].top, values.reshape(6, -1).max(1).repeat(8))  # pools of the shape


def test_drawn_as_the_condition_is(tmp_path: Path) -> None:
    """The same connections as those of the condition written out, with probabilities and weights beside them."""
    shapes = "shape: [4, 4, 2, 2]", "shape: [2, 2, 3, 1]"
    tile = connected(tmp_path, *shapes, "tile: {size: 2, step: 2}", "x_i + i * j")
    rule = connected(tmp_path, *shapes, 'rule: {when: "py_i // 2 == py_j and px_i // 2 == px_j"}', "x_i + i * j")
    np.testing.assert_array_equal(tile, rule)
