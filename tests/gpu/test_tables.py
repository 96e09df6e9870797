"""Tables and criteria on a GPU: the rows of the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.test_tables import model

pytestmark = pytest.mark.gpu


def test_rows_are_those_of_the_reference() -> None:
    tables = [model().run(target=t, order="bitwise").table("learning") for t in ("cuda", "reference")]
    for name in tables[0]:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


def test_a_criterion_ends_a_run() -> None:
    done = model(", stop: {when: mean(a.wrong) < low, at: trial.end}").run(target="cuda")
    assert done.record["summary"]["ended_ms"] == 30
