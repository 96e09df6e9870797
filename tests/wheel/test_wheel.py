"""The wheel works outside the checkout: built, installed elsewhere, run on copied models.

Assumes: a C compiler, and a package index to install the dependencies from.
Does not: test the models' results (tests/cpu and tests/numeric do).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest

pytestmark = pytest.mark.wheel

LIBRARY_MODEL = """\
language: 1
name: from_library

populations:
  drive: {neuron: library/neurons/poisson, size: 20, params: {rate: 200 Hz}}

simulate: {dt: 0.1 ms, duration: 100 ms, seed: 1}

record:
  - spikes: {from: drive}
"""


@dataclass(frozen=True)
class Installed:
    """An environment that has only the wheel and its dependencies."""

    bin: Path
    home: Path

    def command(self, *words: str, cwd: Path) -> str:
        """Run a program of this environment, which must exit 0; its standard output."""
        # PYTHONPATH would let the checkout in, and HOME holds the default cache.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NETLOOM_"))}
        env |= {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / "cache")}
        done = subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), "."],
        cwd=root,
        check=True,
    )
    (path,) = folder.glob("netloom-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    result = Installed(folder / "venv" / "bin", folder)
    pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    result.command(*pip, str(wheel), cwd=folder)
    return result


def run_folder(cwd: Path) -> Path:
    """The one run directory under `cwd`, finished."""
    (folder,) = (cwd / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["status"] == "ok"
    return folder


def test_wheel_holds_what_the_packages_read(wheel: Path, root: Path) -> None:
    """Every template, header, schema and library model of the checkout travels in the wheel."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(root))
        for pattern in ("*.j2", "*.h", "*.py", "py.typed")
        for package in ("netloom", "compiler", "backends")
        for path in (root / package).rglob(pattern)
        if "__pycache__" not in path.parts
    }
    for source, target in (("models/library", "library"), ("schemas", "schemas")):
        files = [p for p in (root / source).rglob("*") if p.is_file()]
        assert files, source
        wanted |= {f"compiler/data/{target}/{p.relative_to(root / source)}" for p in files}
    wanted.add("compiler/data/digits.npz")
    assert not wanted - names
    assert not {n for n in names if n.startswith(("tests/", "benchmarks/"))}


def test_packages_come_from_the_wheel(installed: Installed, root: Path, tmp_path: Path) -> None:
    code = "import backends, compiler; print(compiler.__file__); print(backends.__file__)"
    for path in installed.command("python", "-c", code, cwd=tmp_path).split():
        assert Path(path).is_relative_to(installed.home)
        assert not Path(path).is_relative_to(root)


def test_version(installed: Installed, wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.split("-")[1] in installed.command("netloom", "--version", cwd=tmp_path)


def test_copied_model_runs(installed: Installed, root: Path, tmp_path: Path) -> None:
    """The model asks for plots, the extra `plot` is not installed: it runs all the same."""
    shutil.copy(root / "models" / "cuba.yaml", tmp_path)
    sizes = ("--set", "n_exc=320", "--set", "n_inh=80", "--set", "p=0.2")
    installed.command("netloom", "run", "cuba.yaml", "--quiet", *sizes, cwd=tmp_path)
    assert (run_folder(tmp_path) / "spikes.h5").stat().st_size > 0


def test_library_model_runs(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(LIBRARY_MODEL, encoding="utf-8")
    installed.command("netloom", "run", "model.yaml", "--quiet", cwd=tmp_path)
    counted = (
        "import glob, h5py; f = h5py.File(glob.glob('runs/*/spikes.h5')[0]);print(len(f['spikes/drive/timestamps']))"
    )
    # 20 trains of 200 Hz for 0.1 s: 400 spikes expected, standard deviation 20.
    assert 300 < int(installed.command("python", "-c", counted, cwd=tmp_path)) < 500


def test_starter_models_run(installed: Installed, root: Path, tmp_path: Path) -> None:
    """All, with data and a schema that came with the wheel; the run is used from another folder."""
    for kind in ("spiking", "e_i", "stdp", "network", "cnn", "text", "autoencoder"):
        installed.command("netloom", "init", f"{kind}/model", "--kind", kind, cwd=tmp_path)
        first = (tmp_path / kind / "model.yaml").read_text().splitlines()[0]
        schema = Path(url2pathname(urlparse(first.partition("$schema=")[2]).path))
        assert schema.is_relative_to(installed.home) and schema.is_file()
        assert (tmp_path / kind / ".gitignore").read_text() == "build/\nruns/\n"
        installed.command("netloom", "test", "model.yaml", "--quiet", cwd=tmp_path / kind)
    folder = run_folder(tmp_path / "network")
    out = installed.command("netloom", "evaluate", str(folder), "--format", "json", cwd=tmp_path / "spiking")
    assert json.loads(out)["metrics"]["accuracy"] > 0.9
