"""docs/models.md names every model, and every command that it gives fits a file and its parameters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.frontend.load import load_model


def rows(root: Path) -> dict[str, str]:
    """The command of each model file."""
    text = (root / "docs" / "models.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+\.yaml)` \| .+ \| `(netloom .+)` \|$", text, re.MULTILINE))


def test_every_model_is_listed(root: Path) -> None:
    assert sorted(rows(root)) == sorted(p.name for p in (root / "models").glob("*.yaml"))


def test_commands_fit_their_models(root: Path) -> None:
    for name, command in rows(root).items():
        words = command.split()
        assert words[1] in ("run", "test") and words[2] == f"models/{name}", command
        settings = dict(re.findall(r"--set (\w+)=(\S+)", command))
        if settings:
            known = {p.name for p in load_model(root / "models" / name, settings).params}
            assert settings.keys() <= known, command


def test_the_readme_gives_the_list(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert "docs/models.md" in readme
    for command, path in re.findall(r"netloom (\w+) (models/\w+\.yaml)", readme):
        assert (root / path).exists(), f"netloom {command} {path}"
    for path in re.findall(r"`(docs/[\w-]+\.md)`", readme):
        assert (root / path).exists(), path


@pytest.mark.parametrize("page", ["models", "synapses", "connectivity", "control", "running"])
def test_links_between_pages_lead_somewhere(root: Path, page: str) -> None:
    text = (root / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w./-]+\.md)\)", text):
        assert (root / "docs" / target).exists(), target
