"""Every kind of layer and loss over grids of shapes and settings, against PyTorch in float64: outputs and all gradients
within 1e-10 of the largest element in float64, and within 1e-5 in float32 (grid.py says what else there is)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.frontend.language.network import LAYER
from compiler.losses import LOSS
from tests.torch.cases import GROUPS, SLICE
from tests.torch.grid import CLOSE, compare

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("cc")]


def test_every_kind_has_cases() -> None:
    heads = [head for group in GROUPS.values() for head in group]
    used = {line.partition(":")[0] for h in heads for line in h.lines.split("\n")}
    used |= {h.loss.text.partition(":")[0] for h in heads if h.loss}
    kinds = {a.name for kind in (LAYER, LOSS) for a in kind.alternatives}
    random, containers = {"noise", "augment", "random_crop", "random_flip"}, {"block", "repeat", "sum"}
    assert kinds - used <= random | containers


def test_some_of_each(tmp_path: Path) -> None:
    """In float32; test_layers.py has one case of every kind in float64."""
    compare(SLICE, "float32", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("precision", CLOSE)
@pytest.mark.parametrize("group", GROUPS)
def test_grid(tmp_path: Path, group: str, precision: str) -> None:
    compare(GROUPS[group], precision, tmp_path)
