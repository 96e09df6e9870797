"""The executable pipeline: execution, observation, and optional passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from backends.cpu.backend import CpuBackend
from compiler.cli.app import app
from compiler.frontend.load import load_model
from compiler.passes import passes_for
from compiler.passes.pipeline.lower import lower
from compiler.passes.pipeline.manager import Ran

MODELS = Path(__file__).parents[2] / "models"


def ran(name: str, only: frozenset[str] | None = None) -> list[str]:
    seen: list[Ran] = []
    lower(load_model(MODELS / f"{name}.yaml"), CpuBackend().capabilities, observe=seen.append, only=only)
    assert all(r.seconds >= 0 for r in seen)
    return [r.name for r in seen]


def test_passes_run_in_the_order_of_the_pipeline() -> None:
    order = [p.name for p in passes_for()]
    for name in ("cuba", "mlp"):
        left = iter(order)
        assert all(any(n == other for other in left) for n in ran(name))
    assert "lower_populations" in ran("cuba") and "lower_network" not in ran("cuba")
    assert "lower_network" in ran("mlp") and "lower_populations" not in ran("mlp")


def test_optional_passes_are_left_out() -> None:
    optional = {p.name for p in passes_for() if p.optional}
    assert {"fuse_maps", "hoist_factors", "compose_moves", "early_factors"} <= optional
    assert not set(ran("mlp", frozenset())) & optional
    assert set(ran("mlp", frozenset({"hoist_factors"}))) & optional == {"hoist_factors"}


@pytest.mark.parametrize(
    ("name", "stage", "shown"),
    [("cuba", "freeze_learning", "Model("), ("cuba", "integrate_odes", "Cell("), ("mlp", "fuse_maps", "TensorGraph("),
     ("mlp", "lower_tensors", "Program("), ("mlp", "merge", "Merged(")],
)  # fmt: skip
def test_show_after_a_pass(name: str, stage: str, shown: str) -> None:
    done = CliRunner().invoke(app, ["show", str(MODELS / f"{name}.yaml"), "--stage", f"after:{stage}"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(shown)


@pytest.mark.parametrize(
    "words", [["--stage", "after:nothing"], ["--stage", "after:fuse_maps"], ["--passes", "fuse_maps"],
              ["--stage", "after:merge", "--passes", "merge"]],
)  # fmt: skip
def test_what_is_no_pass_here_is_refused(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["show", str(MODELS / "cuba.yaml"), *words]).exit_code == 2
