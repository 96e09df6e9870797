"""Tensor files are byte by byte equal to those of the safetensors library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save

from backends.protocol import AnyArray
from compiler.runtime.artifacts.checkpoint import write_tensors


@pytest.mark.parametrize("metadata", [None, {"format": "netloom"}])
def test_the_same_bytes_as_the_library(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    random = np.random.default_rng(0)
    arrays: dict[str, AnyArray] = {
        "weight": random.normal(size=(3, 4)).astype(np.float32),
        "across": random.normal(size=(4, 3)).astype(np.float32).T,
        "double": random.normal(size=5),
        "größe": np.arange(3, dtype=np.int32),
        "bytes": np.arange(7, dtype=np.uint8),
        "none": np.zeros((0, 2), np.float32),
        "one": np.float32(3.0) * np.ones(()),
        "keys": np.arange(4, dtype=np.uint64),
        "long": np.arange(4, dtype=np.int64),
        "words": np.arange(4, dtype=np.uint32),
    }
    path = tmp_path / "arrays.safetensors"
    write_tensors(path, arrays, metadata)
    with safe_open(path, "np") as file:
        marked = file.metadata()
    assert marked == {**(metadata or {}), "writer": "netloom", "digest": marked["digest"]}
    ours, theirs = path.read_bytes(), save({n: np.ascontiguousarray(a) for n, a in arrays.items()}, marked)
    size = 8 + int.from_bytes(theirs[:8], "little")  # the library writes metadata in any order
    assert json.loads(ours[8:size]) == json.loads(theirs[8:size])
    assert (ours[:8], ours[size:]) == (theirs[:8], theirs[size:])
    stored = load_file(path)
    assert all(np.array_equal(stored[n].reshape(a.shape), a) for n, a in arrays.items())
    assert [p.name for p in tmp_path.iterdir()] == ["arrays.safetensors"]
