"""Gradients in mixed precision on a GPU, each beside that of float32 there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.numeric.test_mixed_gradients import MODELS, assert_alike

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", MODELS)
def test_each_gradient_is_that_of_float32(name: str, tmp_path: Path) -> None:
    assert_alike(name, "cuda", tmp_path)
