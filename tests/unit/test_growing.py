"""Files of records: complete under their names, whenever the writer is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

from compiler.runtime.record.growing import close_file, growing, open_file, publish

KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from compiler.runtime.record.growing import growing, open_file, publish
file = open_file(Path(sys.argv[1]))
data = growing(file.require_group("p"), "time", "float64", (), 16, {"units": "ms"})
if sys.argv[2] == "published":
    publish(file)
    data.append(np.arange(5.0))
    data.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, when: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), when], check=False)
    assert done.returncode == -9


def test_a_file_that_is_being_made_has_not_its_name(tmp_path: Path) -> None:
    path = tmp_path / "traces.h5"
    killed(path, "made")
    assert not path.exists()
    file = open_file(path)  # what was left is written over
    data = growing(file.require_group("p"), "time", "float64", (), 16, {})
    publish(file)
    assert [p.name for p in tmp_path.iterdir()] == ["traces.h5"]
    data.append(np.arange(3.0))
    close_file(file, [data])
    with h5py.File(path) as read:
        assert read["p/time"][...].tolist() == [0, 1, 2]


def test_a_published_file_can_be_read_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "traces.h5"
    killed(path, "published")
    with h5py.File(path, "r", swmr=True) as read:
        assert read["p/time"][...].tolist() == [0, 1, 2, 3, 4]


def test_a_file_that_is_there_is_continued_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "traces.h5"
    for rows in (2, 3):
        file = open_file(path)
        data = growing(file.require_group("p"), "time", "float64", (), 16, {})
        publish(file)
        data.append(np.zeros(rows))
        close_file(file, [data])
    with h5py.File(path) as read:
        assert len(read["p/time"]) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["traces.h5"]
