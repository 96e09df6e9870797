"""Corrupt entries of the cache and of build folders are rebuilt, and never loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compiler.runtime.artifacts.build_folder import STAMP
from netloom import build, run
from tests.cpu.models_for_runs import NOISY, write

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized")
SMALL = NOISY.replace("duration: 60 ms", "duration: 2 ms").partition("expect:")[0]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("NETLOOM_CACHE", str(folder))
    return folder


def one(folder: Path, pattern: str) -> Path:
    (found,) = folder.rglob(pattern)
    return found


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x55
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def test_a_damaged_object_is_compiled_again(here: Path, cache: Path) -> None:
    path = write(here, SMALL)
    build(path)
    for harm in (cut, alter, empty):
        harm(one(cache, "*.so"))
        assert build(path).compiled
        assert not build(path).compiled
    shutil.rmtree(here / "build")
    alter(one(cache / "cpu", "*.json"))
    assert build(path).compiled
    cut(one(cache, "*.so"))  # noticed by a run, too
    assert run(path).status == "ok"


def test_a_damaged_build_folder_is_made_again(here: Path) -> None:
    path = write(here, SMALL)
    folder = build(path).folder
    good = {p.name: p.read_bytes() for p in folder.iterdir()}
    for name in ("libnoisy.so", "noisy.c", "noisy.bin", "manifest.json", STAMP):
        for harm in (cut, empty, Path.unlink):
            if (name, harm) == (STAMP, Path.unlink):
                continue  # then it is not a folder of ours
            harm(folder / name)
            assert not build(path).compiled
            assert {p.name: p.read_bytes() for p in folder.iterdir()} == good
    (folder / STAMP).write_text('{"digest": 3, "value": []}', encoding="utf-8")
    build(path)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == good


def test_what_a_user_adds_stays(here: Path) -> None:
    path = write(here, SMALL)
    folder = build(path).folder
    (folder / "noisy").write_bytes(b"made by `make`")
    build(path)
    assert (folder / "noisy").exists()
