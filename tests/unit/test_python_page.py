"""The Python blocks of docs/python.md and of the README run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = [
    pytest.param(text, id=f"{page}-{k}")
    for page in ("README.md", "docs/python.md", "docs/sweep.md")
    for k, text in enumerate(re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S))
]


@pytest.mark.parametrize("text", BLOCKS)
def test_block(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    exec(compile(text, "block", "exec"), {"__name__": "block"})
