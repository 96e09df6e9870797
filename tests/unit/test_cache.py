"""The cache: a hit equals the stored value, even with damaged files."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.cache import file_digest, find_files, find_value, is_as_kept, keep_files, keep_value, note_file
from compiler.files.array_rows import converted_file


def damage(path: Path, how: str, at: float, byte: int) -> None:
    """Truncate a file, or change, add or take away a byte; `at` of its length."""
    data = bytearray(path.read_bytes())
    place = int(at * len(data))
    if how == "truncate":
        del data[place:]
    elif how == "alter":
        data[place] ^= byte
    elif how == "append":
        data.append(byte)
    elif how == "zero":
        data[place:] = bytes(len(data) - place)
        data[-1] ^= byte
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(data)


DAMAGES = st.tuples(
    st.sampled_from(["truncate", "alter", "append", "zero", "remove"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 255),
)


@settings(max_examples=60, deadline=None)
@given(DAMAGES, st.integers(0, 2))
def test_a_damaged_entry_is_never_found(how: tuple[str, float, int], which: int) -> None:
    with TemporaryDirectory() as folder:
        source = Path(folder) / "module"
        source.write_bytes(os.urandom(300))
        index = Path(folder) / "cache" / "key.json"
        placed = keep_files(index, {".so": source, ".ptx": source})
        assert find_files(index) == placed
        before = {p: p.read_bytes() for p in placed.values()}
        damage([index, *placed.values()][which], *how)
        found = find_files(index)  # a change of white space in the index is none
        assert found is None or all(p.read_bytes() == before[p] for p in found.values())
        if which:
            assert found is None
        again = keep_files(index, {".so": source, ".ptx": source})
        assert find_files(index) == again


@settings(max_examples=60, deadline=None)
@given(DAMAGES)
def test_a_damaged_value_is_never_found(how: tuple[str, float, int]) -> None:
    with TemporaryDirectory() as folder:
        path, value = Path(folder) / "value.json", {"microseconds": {"nest": 1.25, "dense": 3e-7}, "wrong": ["a"]}
        keep_value(path, value)
        assert find_value(path) == value
        damage(path, *how)
        assert find_value(path) in (None, value)


def test_large_files_are_read_only_when_they_may_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    np.save(path, np.arange(1000))
    note_file(path, file_digest(path) or "")
    assert is_as_kept(path)
    os.utime(path)  # written to or not: its contents decide
    assert is_as_kept(path)
    state = path.stat()
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert not is_as_kept(path)


def test_a_damaged_array_is_converted_again(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x,y\n" + "".join(f"{k},{2 * k}\n" for k in range(50)), encoding="utf-8")
    place = converted_file(table, "x", (), tmp_path / "cache")
    good = place.read_bytes()
    place.write_bytes(good[:-100])
    assert converted_file(table, "x", (), tmp_path / "cache").read_bytes() == good
    place.write_bytes(good[:-1] + b"\x7f")
    assert converted_file(table, "x", (), tmp_path / "cache").read_bytes() == good
