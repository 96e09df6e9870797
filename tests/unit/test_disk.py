"""Writing: complete or absent files, one error, unique temporary names, and leftovers of dead processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import RunError
from compiler.core.disk import (
    UNWRITABLE,
    append_text,
    copy_file,
    leftovers,
    new_file,
    remove_leftover,
    scratch_folder,
    write_bytes,
    write_text,
)
from tests.file_limits import limited


def test_what_does_not_fit_leaves_what_was_there(tmp_path: Path) -> None:
    path, large = tmp_path / "a" / "file", b"x" * 10_000
    with limited(4096):
        with pytest.raises(RunError) as caught:
            write_bytes(path, large, "a checkpoint")
        assert (caught.value.code, caught.value.exit_code) == ("E0930", 5)
        assert f"a checkpoint cannot be written to `{path}`: File too large (10.0 kB needed, " in caught.value.message
        assert " free)" in caught.value.message
        assert list(path.parent.iterdir()) == []
        write_text(path, "old", "a checkpoint")
        with pytest.raises(RunError, match="File too large"):
            write_bytes(path, large, "a checkpoint")
        with pytest.raises(RunError, match="File too large"):
            append_text(path, "x" * 10_000, "the metrics")
    assert [p.name for p in path.parent.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_copy_that_does_not_fit(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 5000)
    with limited(4096), pytest.raises(RunError, match="cannot be written"):
        copy_file(source, tmp_path / "copy", "compiled code")
    assert [p.name for p in tmp_path.iterdir()] == ["source"]
    with pytest.raises(FileNotFoundError):
        copy_file(tmp_path / "nothing", tmp_path / "copy", "compiled code")


def test_folders_that_cannot_be_made_and_full_devices(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "b", Path("/proc/netloom/b")):
        with pytest.raises(RunError) as caught:
            write_text(path, "x", "the lock file")
        assert caught.value.code == "E0930"
        with pytest.raises(RunError, match="cannot be written"):
            scratch_folder(path, "the run directory")
    with pytest.raises(RunError, match="No space left on device") as caught:
        append_text(Path("/dev/full"), "x", "the metrics")
    assert caught.value.help is not None


def test_other_errors_are_not_of_writing(tmp_path: Path) -> None:
    for error in (FileNotFoundError(errno.ENOENT, "no", "data.csv"), ValueError("no")):
        with pytest.raises(type(error)), new_file(tmp_path / "a", "x") as stream:
            stream.write(b"1")
            raise error
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=3000), max_size=4), st.integers(0, 8000))
def test_a_file_is_whole_or_as_it_was(parts: list[bytes], limit: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(b"before")
        whole = b"".join(parts)
        try:
            with limited(limit), new_file(path, "it") as stream:
                for part in parts:
                    stream.write(part)
        except RunError:
            assert len(whole) > limit
            assert path.read_bytes() == b"before"
        else:
            assert len(whole) <= limit
            assert path.read_bytes() == whole
        assert os.listdir(folder) == ["file"]


def test_names_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in threads, nor with one process number, nor when the same random digits come twice."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: scratch_folder(tmp_path / "run", "a run"), range(40)))
        assert len({s.path for s in made}) == 40
        for _ in threads.map(lambda k: write_text(tmp_path / "file", f"{k}" * 1000, "it"), range(40)):
            pass
    assert len(set((tmp_path / "file").read_text())) <= 2
    assert leftovers(tmp_path) == []
    for s in made:
        s.remove()
    assert os.listdir(tmp_path) == ["file"]
    digits = iter([b"\1" * 8, b"\1" * 8, b"\1" * 8, b"\2" * 8])
    monkeypatch.setattr(os, "urandom", lambda n: next(digits))
    first, second = scratch_folder(tmp_path / "run", "a run"), scratch_folder(tmp_path / "run", "a run")
    assert first.path != second.path


HOLD = """
import sys, time
from pathlib import Path
from compiler.core.disk import new_file, scratch_folder
place = Path(sys.argv[1])
folder = scratch_folder(place / "run", "a run")
(folder.path / "data").write_text("x")
with new_file(place / "file", "it") as stream:
    stream.write(b"x")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_only_what_is_dead_is_removed(tmp_path: Path, root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    hidden = sorted(tmp_path.iterdir())
    assert len(hidden) == 3
    assert leftovers(tmp_path) == []
    assert not any(remove_leftover(p) for p in hidden)
    assert sorted(tmp_path.iterdir()) == hidden
    process.kill()
    process.wait(10)
    for name in (".git", ".hidden.part", ".a.0123456789abcdef.parts", "a.0123456789abcdef.part"):
        (tmp_path / name).write_text("not ours")
    found = leftovers(tmp_path)
    assert len(found) == 2
    assert all(remove_leftover(p) for p in found)
    assert len(list(tmp_path.iterdir())) == 4
    (tmp_path / ".run.0123456789abcdef.lock").touch()  # its folder is gone
    assert [remove_leftover(p) for p in leftovers(tmp_path)] == [True]


def test_the_collector_pauses_for_all_threads() -> None:
    import gc

    from compiler.core.gc_pause import no_garbage_collection

    started, go = threading.Event(), threading.Event()

    def other() -> None:
        with no_garbage_collection():
            started.set()
            go.wait(10)

    assert gc.isenabled()
    thread = threading.Thread(target=other)
    with no_garbage_collection():
        thread.start()
        started.wait(10)
    assert not gc.isenabled()  # the other one is in it still
    with no_garbage_collection():
        go.set()
        thread.join()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("number", sorted(UNWRITABLE))
def test_every_reason_that_a_disk_has(tmp_path: Path, number: int) -> None:
    """Full, over the quota, read-only, larger than a file may be, broken: one error with the reason, and no file."""
    with pytest.raises(RunError) as caught, new_file(tmp_path / "a" / "x.bin", "the outputs", 4000) as file:
        file.write(b"begun")
        raise OSError(number, os.strerror(number))
    error = caught.value
    assert (error.code, error.exit_code) == ("E0930", 5)
    assert error.message.startswith(f"the outputs cannot be written to `{tmp_path / 'a' / 'x.bin'}`: ")
    assert os.strerror(number) in error.message and "4.0 kB needed" in error.message
    assert list((tmp_path / "a").iterdir()) == []


def test_folders_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, why in ((tmp_path / "pipe", "it is no regular file"), (Path("/"), "it is a folder")):
        with pytest.raises(RunError, match=f"the text cannot be written to `{path}`: {why}"):
            write_text(path, "", "the text")
    assert (tmp_path / "pipe").is_fifo()
