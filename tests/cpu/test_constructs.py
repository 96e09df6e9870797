"""Every construct of the spiking language: cpu gives the bits of the reference, and none is missing in the list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler import run
from tests.constructs import CONSTRUCTS, compare, construct, results, write_construct

pytestmark = pytest.mark.usefixtures("cc")


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", list(CONSTRUCTS))
def test_cpu_gives_the_bits_of_the_reference(tmp_path: Path, name: str, precision: str) -> None:
    model = construct(name, tmp_path, precision)
    compare(name, results(model, tmp_path, "cpu"), results(model, tmp_path, "reference"))
