"""Drives on a GPU: currents, timed arrays, noise and time-dependent rates are bitwise equal to the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.numeric.simulated import simulate
from tests.unit.test_drives import MANY

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_drives_are_those_of_the_reference(tmp_path: Path, precision: str) -> None:
    text = MANY.replace("record: [", "record: [{trace: {from: all, variables: [v], members: all}}, ")
    text += f"numerics: {{precision: {precision}, order: bitwise}}\n"
    gpu, reference = (simulate(text, tmp_path, target, {"n": "3"}) for target in ("cuda", "reference"))
    for key, values in reference.traces.items():
        np.testing.assert_array_equal(gpu.traces[key], values, err_msg=str(key))
        assert np.ptp(values) > 0
