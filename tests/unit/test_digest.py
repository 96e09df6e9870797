"""A flipped bit anywhere in a file written by a run is detected; foreign files are accepted unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.checkpoint import latest_checkpoint, write_tensors
from compiler.runtime.artifacts.digest import check_digest
from compiler.runtime.artifacts.safetensors import read_weights

ARRAYS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.float64(3).reshape(()),
    "c": np.zeros((0, 2)),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("digest") / "weights.safetensors"
    write_tensors(path, ARRAYS, {"epoch": "3"})
    return path.with_name("changed.safetensors"), path.read_bytes()


def test_whole_files(written: tuple[Path, bytes]) -> None:
    path, data = written
    path.write_bytes(data)
    for found in (load_file(path), read_weights(path)):
        assert {n: v.tobytes() for n, v in found.items()} == {n: v.tobytes() for n, v in ARRAYS.items()}
    check_digest(path)


def test_a_bit_of_every_byte(written: tuple[Path, bytes]) -> None:
    """One of each byte of the length, the header with both marks, and the numbers."""
    path, data = written
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << (at * 5 % 8))]) + data[at + 1 :])
        with pytest.raises(RunError) as error:
            read_weights(path)
        assert error.value.code == "E0927" or (error.value.code == "E0916" and at < 8), at


@settings(max_examples=100, deadline=None, database=None)
@given(data=st.data())
def test_other_damage(written: tuple[Path, bytes], data: st.DataObject) -> None:
    """A part that was lost, repeated or written over."""
    path, whole = written
    first = data.draw(st.integers(8, len(whole) - 1))
    last = data.draw(st.integers(first + 1, len(whole)))
    part = data.draw(st.binary(max_size=12))
    changed = whole[:first] + part + whole[last:]
    if changed == whole:
        return
    path.write_bytes(changed)
    with pytest.raises(RunError) as error:
        read_weights(path)
    assert error.value.code in ("E0927", "E0916")


def test_checkpoints(written: tuple[Path, bytes]) -> None:
    path, data = written
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(RunError, match="is damaged") as error:
        latest_checkpoint(path)
    assert (error.value.code, error.value.exit_code) == ("E0927", 2)


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    for metadata in (None, {"format": "pt"}, {"format": "netloom checkpoint 1", "step": "4"}):
        save_file({"a": np.ones(3, np.float32)}, path, metadata)
        assert read_weights(path)["a"].tolist() == [1, 1, 1]
