"""Every relation on a GPU: deliveries agree with the CPU, bit for bit under `order: bitwise`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.ir.level0.model import Const, Planes
from tests.cpu.relation_models import delivered, model, population
from tests.cpu.test_relations import DRAWN, drawn_model, models_by_relation, stored_as

pytestmark = pytest.mark.gpu

BITWISE = [name for name in models_by_relation() if name.endswith("bitwise")]


@pytest.mark.parametrize("name", BITWISE)
def test_a_relation_delivers_what_it_does_on_the_cpu(tmp_path: Path, name: str) -> None:
    m = models_by_relation()[name]
    there, here = delivered(m, tmp_path, "cpu"), delivered(m, tmp_path, "cuda")
    np.testing.assert_array_equal(here[1], there[1])
    np.testing.assert_array_equal(here[0], there[0])
    assert here[0].any()


def test_a_convolution_of_many_channels(tmp_path: Path) -> None:
    """More elements of a source than threads of a block."""
    shape, planes = (3, 20, 20), Planes((5, 5), (1, 1), (2, 2))
    a, b = population("a", 1200, 0.3, shape), population("b", 64 * 400, 0.1, (64, 20, 20))
    m = model(a, b, "conv2d", Const(0.125), planes=planes)
    there, here = delivered(m, tmp_path, "cpu"), delivered(m, tmp_path, "cuda")
    np.testing.assert_array_equal(here[0], there[0])


@pytest.mark.parametrize("storage", ["sparse", "bitmask", "procedural"])
def test_every_storage_on_the_gpu(tmp_path: Path, storage: str) -> None:
    weight = DRAWN if storage == "procedural" else Const(0.25)
    m = drawn_model("fixed_probability", weight, order="bitwise")
    there, here = delivered(m, tmp_path, "cpu"), delivered(stored_as(m, storage), tmp_path / storage, "cuda")
    np.testing.assert_array_equal(here[0], there[0])
