"""For arbitrary input, `netloom check` ends with a model or with diagnostics, within 5 s of CPU time and 1 GB.

NETLOOM_FUZZ sets the number of cases of the slow tests, NETLOOM_FUZZ_SEED another seed. A case is looked at by itself
with `python -m tests.property.check_worker SEED N N+1 FOLDER`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.property.mutations import ROOT, case, seeds

CASES = int(os.environ.get("NETLOOM_FUZZ", "100000"))
SEED = os.environ.get("NETLOOM_FUZZ_SEED", "")
CHUNK = 500
PARTS = 25
"""Slow tests that the cases are divided among."""
FIRST = 75
"""Cases that every run of the tests tries; the slow ones try the others."""


def faults(first: int, last: int, folder: Path, *options: str) -> list[dict[str, Any]]:
    """The faults of cases first .. last-1, in processes of CHUNK cases; one that dies has its last case to blame."""
    found: list[dict[str, Any]] = []
    while first < last:
        end = min(first + CHUNK, last)
        command = [sys.executable, "-m", "tests.property.check_worker", SEED, str(first), str(end), str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        ran = subprocess.run(
            [*command, *options], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        found += [line for line in lines if "fault" in line]
        begun = [line["begin"] for line in lines if "begin" in line]
        if lines and "done" in lines[-1]:
            first = end
            continue
        assert begun, ran.stderr
        made = case(begun[-1], SEED)
        found.append({"case": begun[-1], "seed": made.seed.name, "fault": f"died: {ran.stderr[-2000:]}"})
        first = begun[-1] + 1
    return found


def test_changed_files(tmp_path: Path) -> None:
    assert len(seeds()) > 500
    assert faults(0, FIRST, tmp_path) == []
    assert not [*ROOT.glob("models/**/changed_model.yaml"), *ROOT.glob("tests/**/changed_model.yaml")]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_changed_files(part: int, tmp_path: Path) -> None:
    first, last = (FIRST + CASES * k // PARTS for k in (part, part + 1))
    assert faults(first, last, tmp_path) == []
