"""A run with a skipped test fails, unless the reason is one of those in tests/conftest.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("reason", "code"), [("onnx is not installed", 1), ("no GPU: no CUDA device", 0)])
def test_a_skip_fails_the_run(tmp_path: Path, reason: str, code: int) -> None:
    text = f"import pytest\n\n\ndef test_it():\n    pytest.skip({reason!r})\n\n\ndef test_other():\n    pass\n"
    (tmp_path / "test_skipping.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    command += ["-c", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout
    assert f"skipped: 1, of which {code} may not be" in done.stdout
