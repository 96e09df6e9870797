"""`netloom init`: every kind of starter runs in an empty folder and meets what it expects; models fit given data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from compiler.cli.actions.init import KINDS, starter, write_model
from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from netloom import check, run

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(  # the other two: tests/unit/test_cli.py
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k == "text")) for k in KINDS if k not in ("spiking", "mlp")]
)
def test_starters_run(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(Path(f"new/{kind}.yaml"), kind)
    assert f"run it with: netloom run new/{kind}.yaml" in capsys.readouterr().out
    result = run(f"new/{kind}.yaml", **({"duration": "2 s"} if kind == "stdp" else {}))  # type: ignore[arg-type]
    assert result.status == "ok"
    assert kind == "stdp" or [c for c in result.checks if not c.met] == []


def test_the_list_is_the_folder(root: Path) -> None:
    assert sorted(p.stem for p in (root / "models" / "starters").iterdir()) == sorted(KINDS)
    assert starter("network") == starter("mlp")
    for kind in KINDS:
        assert re.search(r"^# yaml-language-server: .+\nlanguage: 1\nname: \w+\ndescription: .+\n", starter(kind))


def classes(count: int, shape: tuple[int, ...], kind: str = "f") -> tuple[Any, Any]:
    """Samples whose class can be seen."""
    rng = np.random.default_rng(1)
    y = rng.permutation(np.arange(count) % 3)
    x = rng.random((count, *shape)) + y.reshape(-1, *[1] * len(shape))
    return (x * 60).astype(np.uint8) if kind == "u" else x.astype(np.float32), y


def fitted(source: str, **options: Any) -> Any:
    write_model(Path("m.yaml"), "spiking", Path(source))
    assert check("m.yaml") == []
    result = run("m.yaml", **options)
    assert result.status == "ok"
    return result


@pytest.mark.parametrize(
    ("shape", "kind", "layer"),
    [((5,), "f", "batch_norm"), ((1, 8, 8), "u", "conv2d"), ((8, 9, 3), "u", "permute"), ((4, 6), "f", "flatten")],
)
def test_classes_of_arrays(here: Path, shape: tuple[int, ...], kind: str, layer: str) -> None:
    x, y = classes(300, shape, kind)
    np.savez("d.npz", x=x, y=y, other=np.zeros(3))
    result = fitted("d.npz")
    assert [c for c in result.checks if not c.met] == []
    model = load_model(here / "m.yaml", {})
    assert model.network is not None and model.network.layers[0].kind == layer
    assert model.network.layers[-1].shape == (3,)
    assert "# not used: other" in (here / "m.yaml").read_text()


def test_a_table(here: Path) -> None:
    x, y = classes(200, (2,))
    rows = "".join(f"{a},{b},{c}\n" for (a, b), c in zip(x.tolist(), y, strict=True))
    (here / "t.csv").write_text('width,"petal length",kind\n' + rows)
    result = fitted("t.csv", epochs=5)
    assert 'columns: ["width", "petal length"]' in (here / "m.yaml").read_text()
    assert result.metrics["validation_accuracy"] > 0.5


@pytest.mark.parametrize("shape", [(), (2,)])
def test_quantities(here: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=(400, 4))
    np.savez("q.npz", data=x, target=100 * x.sum(axis=1) if shape == () else 100 * x[:, :2])
    result = fitted("q.npz")
    assert "mean_squared_error" in (here / "m.yaml").read_text()
    assert result.metrics["validation_r2"] > 0


def test_a_folder_of_images(here: Path) -> None:
    x, y = classes(60, (8, 8), "u")
    for k, (pixels, label) in enumerate(zip(x, y, strict=True)):
        file = here / "data" / "pets" / f"class{label}" / f"{k}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    write_model(Path("deep/m.yaml"), "spiking", Path("data/pets"))
    assert 'folder: "../data/pets"' in (here / "deep" / "m.yaml").read_text()
    assert run("deep/m.yaml", epochs=2).status == "ok"


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": np.zeros((3, 2)), "b": np.zeros((3, 2))}, "not clear which array"),
        ({"x": np.full((4, 2), np.nan), "y": np.arange(4.0)}, "holds NaN"),
        ({"x": np.zeros((4, 2)), "y": np.array(["a", "b", "a", "b"])}, "not numbers"),
        ({"x": np.zeros((5, 2)), "y": np.zeros(4)}, "no samples for the target"),
    ],
)
def test_what_cannot_be_learned_is_refused(here: Path, arrays: dict[str, Any], said: str) -> None:
    np.savez("d.npz", **arrays)
    with pytest.raises(RunError) as caught:
        write_model(Path("m.yaml"), "spiking", Path("d.npz"))
    assert (caught.value.code, caught.value.exit_code) == ("E0917", 2)
    assert said in str(caught.value)
    assert sorted(p.name for p in here.iterdir()) == ["d.npz"]


@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        ("d.npz", "no archive", "not a zip file"),
        ("none.csv", None, "no data file"),
        ("other.yaml", "language: 1", "known formats are .npz"),
        ("german.csv", "a;b;y\n1,5;2,5;0\n", "columns stand apart by commas"),
    ],
)
def test_files_that_hold_no_arrays_are_refused(here: Path, source: str, text: str | None, said: str) -> None:
    if text is not None:
        (here / source).write_text(text)
    with pytest.raises(RunError) as caught:
        write_model(Path("m.yaml"), "spiking", Path(source))
    assert caught.value.code == "E0917" and said in str(caught.value)
