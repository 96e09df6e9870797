"""models/library/axon.yaml on a GPU: the numbers of Axon's unit tests, and the bits of the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.numeric.axon import ACTIVITY, INHIBITED, check_activity, check_learning, testnet, trace

pytestmark = pytest.mark.gpu


def test_net_act(root: Path) -> None:
    """TestNetActShort, TestNetAct."""
    check_activity(testnet(root, "cuda", "400 ms"), ACTIVITY, 400)


def test_inhib_act(root: Path) -> None:
    check_activity(testnet(root, "cuda", "200 ms", inhibition=1), INHIBITED, 200)


@pytest.mark.parametrize("rl_rate_on", [0, 1])
def test_net_learn(root: Path, rl_rate_on: int) -> None:
    """TestNetLearn, TestNetRLRate."""
    check_learning(testnet(root, "cuda", "800 ms", learning_rate=0.04, rl_rate_on=rl_rate_on), rl_rate_on)


def test_bits_of_the_cpu(root: Path) -> None:
    settings = {"learning_rate": 0.04, "batch": 4}
    cpu, cuda = (testnet(root, target, "400 ms", "bitwise", **settings) for target in ("cpu", "cuda"))
    for k in range(4):
        for variable in ("act", "g_e", "g_i", "learn_ca_d"):
            a, b = (trace(r, f"hidden_{k}", variable) for r in (cpu, cuda))
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["rl_rw", "rl_td"])
def test_bits_of_dopamine(root: Path, name: str) -> None:
    model = netloom.load(root / "models" / "axon" / f"{name}.yaml")
    cpu, cuda = (model.run(target, duration="4 s", order="bitwise").table("trials") for target in ("cpu", "cuda"))
    for column in ("prediction", "dopamine"):
        np.testing.assert_array_equal(cpu[column], cuda[column])


@pytest.mark.parametrize(
    ("name", "table", "duration"),
    [
        ("deep_fsa", "learning", "5.2 s"),
        ("hip", "recall", "12 s"),
        ("bg_gate", "decisions", "3 s"),
        ("pfc_maint", "trials", "4 s"),
        ("inhib", "activity", "1 s"),
    ],
)
def test_bits_of_networks(root: Path, name: str, table: str, duration: str) -> None:
    model = netloom.load(root / "models" / "axon" / f"{name}.yaml")
    cpu, cuda = (model.run(target, duration=duration, order="bitwise").table(table) for target in ("cpu", "cuda"))
    for column in set(cpu) - {"time", "trial"}:
        np.testing.assert_array_equal(cpu[column], cuda[column])
