"""Projections from one `for` block are built as one family, and are what they are one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import compiler.frontend.build.projections.projections as projections
from tests.unit.test_build import CELL, SIMULATE, load, mistakes

N = 5
POPULATIONS = "populations: {'p{i}': {for: {i: 0..4}, neuron: cell, size: 3 + i}}\n"
BLOCKS = (
    "connect: {fixed_probability: {p: 0.1 + i / 10}}, deliver: {into: g, weight: 1 mV + i * 1 mV}, delay: 1 ms * i",
    "connect: {fixed_probability: {p: i / 10}}, deliver: {into: g, weight: 1 mV}",  # p0 is connected to nothing
    "connect: {fixed_indegree: {number: 1 + i}}, deliver: {into: g, weight: i * 1 mV - 2 mV}, delay: 0.5 ms",
    "connect: {fixed_total: {number: 2 * n_from}}, deliver: {into: g, weight: i * 1 mV * n_to}, delay: 0.5 ms",
    "connect: {all_to_all: {autapses: false}}, deliver: {into: g, weight: {normal: {mean: i * 1 mV, std: 1 mV}}}",
    "connect: {all_to_all: {}}, deliver: {into: g, weight: from.tau * i * 0.1 mV / 1 ms}",
    "connect: {rule: {probability: 0.1}}, deliver: {into: g, weight: 1 mV}, delay: i * 0.1 ms",
    "connect: {all_to_all: {}}, deliver: {into: g, weight: 1 mV}, "
    "delay: {normal: {mean: 1 ms + i * 1 ms, std: 0.1 ms, round: nearest}}",
    "connect: {all_to_all: {}}, deliver: {into: g, weight: 1 mV}, delay: {value: 0.14 ms * i, round: nearest}",
)


def looped(block: str) -> str:
    ends = "from: 'p{i}', to: 'p{(i + 1) % 5}'"
    return f"{CELL}{POPULATIONS}projections: {{'r{{i}}': {{for: {{i: 0..{N - 1}}}, {ends}, {block}}}}}\n{SIMULATE}"


def written_out(block: str) -> str:
    def one(i: int) -> str:
        return f"r{i}: {{from: p{i}, to: p{(i + 1) % N}, {re.sub(r'(?<![a-z])i(?![a-z_])', str(i), block)}}}"

    return f"{CELL}{POPULATIONS}projections: {{{', '.join(one(i) for i in range(N))}}}\n{SIMULATE}"


@pytest.mark.parametrize("block", BLOCKS)
def test_copies_are_what_entries_are(tmp_path: Path, block: str) -> None:
    assert load(tmp_path, looped(block)).projections == load(tmp_path, written_out(block)).projections


def test_copies_are_built_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, connectivity = [], projections.connectivity
    monkeypatch.setattr(projections, "connectivity", lambda *a: calls.append(a) or connectivity(*a))
    assert len(load(tmp_path, looped(BLOCKS[0])).projections) == N
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            "connect: {all_to_all: {}}, deliver: {into: g, weight: 1 mV}, delay: 0.1 ms + i * 0.25 ms",
            "E0601 `delay` is 0.35 ms, which is not a whole number of steps of 0.1 ms (and so in 1 more copy)",
        ),
        (
            "connect: {fixed_probability: {p: 0.5 * i}}, deliver: {into: g, weight: 1 mV}",
            "E0106 `p` must be at most 1; it is 1.5 (and so in 1 more copy)",
        ),
        ("connect: {all_to_all: {}}, deliver: {into: g, weight: i * 1 ms}", "E0401 `weight` is a voltage"),
    ],
)
def test_mistakes_of_copies(tmp_path: Path, block: str, said: str) -> None:
    (found,) = mistakes(tmp_path, looped(block))
    assert found.startswith(said), found
