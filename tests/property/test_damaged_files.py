"""Truncated or corrupted files of data, weights and checkpoints: a specific error, nothing else."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import typer

from compiler.cli.errors import guarded
from compiler.core.diagnostics import RunError
from compiler.files.array_files import headers, read_array
from compiler.files.array_rows import array_parts, open_rows
from compiler.runtime.artifacts.checkpoint import (
    FORMAT,
    best_of_checkpoint,
    latest_checkpoint,
    read_position,
    write_tensors,
)
from compiler.runtime.artifacts.safetensors import read_weights

DATA = {"x": np.linspace(0, 1, 600, dtype=np.float32).reshape(100, 6), "y": np.arange(100)}


def _idx(path: Path) -> None:
    path.write_bytes(gzip.compress(b"\0\0\x08\x02" + np.array([100, 6], ">u4").tobytes() + bytes(range(200)) * 3))


def _hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=DATA["x"], compression="gzip", chunks=(20, 6))
        file["y"] = DATA["y"]


def _parquet(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"x": DATA["x"][:, 0], "y": DATA["y"], "z": list(DATA["x"])})
    pytest.importorskip("pyarrow.parquet").write_table(table, path, compression="gzip")


WRITERS: dict[str, tuple[str | None, Callable[[Path], Any]]] = {
    "a.npz": ("x", lambda p: np.savez_compressed(p, **DATA)),
    "b.npz": ("x", lambda p: np.savez(p, **DATA)),
    "c.npy": (None, lambda p: np.save(p, DATA["x"])),
    "train-images-idx2-ubyte.gz": (None, _idx),
    "e.h5": ("x", _hdf5),
    "f.parquet": ("x", _parquet),
    "g.csv": ("x", lambda p: p.write_text("x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(50)))),
}


def damaged(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(out))
        match rng.randrange(4):
            case 0:
                del out[at:]
            case 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at : at + 8] = rng.randbytes(8)
            case _:
                del out[at : at + 3]
        if not out:
            break
    return bytes(out)


@pytest.mark.parametrize("file", WRITERS)
def test_data(file: str, tmp_path: Path) -> None:
    name, write = WRITERS[file]
    whole = tmp_path / file
    write(whole)
    data, rng = whole.read_bytes(), random.Random(file)
    assert headers(whole) and read_array(whole, name).size
    readers: tuple[Callable[[], object], ...] = (
        lambda: headers(whole),
        lambda: read_array(whole, name),
        lambda: list(array_parts(whole, name)),
        lambda: open_rows(whole, name, (), tmp_path / "cache").take(np.arange(3)),
    )
    failed = 0
    for _ in range(60):
        whole.write_bytes(damaged(data, rng))
        for read in readers:
            try:
                read()
            except (OSError, ValueError) as error:
                assert not isinstance(error, OSError) or error.filename is not None
                assert str(error) and "\n" not in str(error)
                failed += 1
            except IndexError:
                assert read is readers[-1]  # fewer than three rows are left
    assert failed > 10


def test_weights_and_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    position = {"kind": "training", "step": "3", "seed": "1", "model": "m", "epoch": "1", "batch": "2"}
    write_tensors(path, {"dense.weight": DATA["x"], "best/dense.weight": DATA["x"]}, {"format": FORMAT, **position})
    assert read_position(path).step == 3 and best_of_checkpoint(path)
    data, rng = path.read_bytes(), random.Random(7)
    for _ in range(400):
        path.write_bytes(damaged(data[: 400 if rng.random() < 0.5 else None], rng) + data[400:])
        for read in (read_position, read_weights, best_of_checkpoint, latest_checkpoint):
            try:
                read(path)
            except RunError as error:
                assert error.code in ("E0909", "E0916", "E0927")


@pytest.mark.parametrize(
    "metadata",
    [
        {"format": FORMAT},
        {"format": FORMAT, "kind": "training", "step": "x", "seed": "1", "model": "m", "epoch": "1", "batch": "2"},
        {"format": FORMAT, "kind": "training", "step": "-1", "seed": "1", "model": "m", "epoch": "1", "batch": "2"},
        {"format": FORMAT, "kind": "other", "step": "1", "seed": "1", "model": "m", "epoch": "1", "batch": "2"},
        {"format": FORMAT, "kind": "training", "step": "1" * 30, "seed": "1", "model": "m", "epoch": "1", "batch": "2"},
        {"format": "another"},
        {},
    ],
)
def test_metadata_of_checkpoints(metadata: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": DATA["x"]}, metadata)
    with pytest.raises(RunError, match=r"a\.safetensors") as caught:
        read_position(path)
    assert caught.value.code == "E0909" and caught.value.exit_code == 2


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "BOOL"])
def test_types_that_checkpoints_do_not_have(kind: str, known: bool, tmp_path: Path) -> None:
    if known:
        pytest.importorskip("ml_dtypes")  # with which numpy has bfloat16; onnx imports it
    size = 2 if kind == "BF16" else 1
    header = json.dumps({"w": {"dtype": kind, "shape": [4], "data_offsets": [0, 4 * size]}}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4 * size))
    if kind != "BOOL":  # which numpy has: restore_checkpoint compares types
        with pytest.raises(RunError, match="type"):
            best_of_checkpoint(path)
    if kind == "BF16":
        assert read_weights(path)["w"].dtype == np.float32
    else:
        with pytest.raises(RunError, match=kind):
            read_weights(path)


@pytest.mark.parametrize("megabytes", [60, 200, 380])
def test_little_address_space_is_told_at_once(megabytes: int) -> None:
    """Libraries that are loaded with less end the process in ways of their own, or never."""
    root = Path(__file__).parents[2]
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, 2 * (int(sys.argv.pop(1)) << 20,)); "
    code += "from compiler.cli.__main__ import main; main()"
    command = [sys.executable, "-c", code, str(megabytes), "run", str(root / "models" / "cuba.yaml")]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 5 and ran.stdout == ""
    assert ran.stderr.startswith(f"error[E0905]: the address space is limited to {megabytes} MB")


def test_a_library_without_room_is_out_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, guarded():
        raise ImportError("h5t.so: failed to map segment from shared object")
    assert caught.value.exit_code == 5 and "E0905" in capsys.readouterr().err
