"""The command line: exit codes, output streams, and startup cost. Models run on the reference backend."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import jsonschema
import numpy as np
import pytest
import yaml

from compiler.cli import app as cli_app
from compiler.cli.actions.init import model_text, starter
from compiler.core.disk import scratch_folder
from compiler.core.version import VERSION
from compiler.runtime.artifacts.checkpoint import write_tensors

TINY = """\
language: 1
name: tiny
params:
  n: {value: 3, type: int, min: 1, max: 50, description: Neurons}
neurons:
  clock: {params: {step: 1}, state: {x: 0}, update: [x = x + step], spike: {when: x > 3.5, reset: [x = 0]}}
populations: {p: {neuron: clock, size: n}}
simulate: {dt: 1 ms, duration: 20 ms, seed: 0}
record: [{spikes: {from: p}}]
expect:
  - spikes: {of: p, count: 15}
  - rate: {of: p, between: [240 Hz, 260 Hz]}
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def netloom(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs a command in this process, in an empty folder that holds tiny.yaml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")

    def call(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["netloom", *words])
        code = cli_app.run_app()
        shown = capsys.readouterr()
        return Done(code, shown.out, shown.err)

    return call


# ----------------------------------------------------------------------------------------- starting


def test_the_version_imports_nothing_heavy(root: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); sys.argv = ['netloom', '--version'];"
        "from compiler.cli.__main__ import main; main(); print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == f"netloom {VERSION}"
    assert json.loads(second.replace("'", '"')) == [
        "__future__",
        "compiler",
        "compiler.cli",
        "compiler.cli.__main__",
        "compiler.core",
        "compiler.core.version",
    ]


def test_a_build_imports_what_it_needs(root: Path, tmp_path: Path) -> None:
    """SciPy takes 0.17 CPU s, a sixth of the whole build."""
    code = (
        f"import sys; sys.argv = ['netloom', 'build', {str(root / 'models/cuba.yaml')!r}, '--target', 'cpu', '-q'];"
        "from compiler.cli.app import run_app; code = run_app();"
        "print(code, *sorted(n for n in sys.modules if '.' not in n))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    code, *modules = done.stdout.split()
    heavy = {"dask", "h5py", "jsonschema", "matplotlib", "onnx", "optuna", "pandas", "pint", "pygls", "rich", "scipy"}
    assert code == "0" and "numpy" in modules and not heavy & set(modules)


def test_importing_the_package_is_cheap(root: Path) -> None:
    code = "import sys, compiler; print('numpy' in sys.modules, 'compiler.runtime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_the_module_runs(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "compiler.cli", "targets"], cwd=root, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["cpu", "reference", "cuda", "opencl"]


def test_the_module_runs_with_closed_streams(root: Path) -> None:
    code = 'exec "$0" -m compiler.cli targets <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", code, sys.executable], cwd=root, check=False).returncode == 0


def test_the_version_is_that_of_the_project(root: Path) -> None:
    assert f'version = "{VERSION}"' in (root / "pyproject.toml").read_text(encoding="utf-8")


def test_help_and_usage(netloom) -> None:
    assert netloom("--help").code == 0
    assert netloom("--version").out == f"netloom {VERSION}\n"
    for words in (("frobnicate",), ("run",), ("run", "tiny.yaml", "--bogus"), ("show", "tiny.yaml", "--stage", "x")):
        done = netloom(*words)
        assert done.code == 2, words
        assert "Usage: netloom" in done.err


# ------------------------------------------------------------------------------------------ commands


def test_check(netloom, tmp_path: Path) -> None:
    done = netloom("check", "tiny.yaml")
    assert (done.code, done.out) == (0, "tiny.yaml: ok (tiny)\n")
    (tmp_path / "bad.yaml").write_text(TINY.replace("size: n", "sise: n"), encoding="utf-8")
    done = netloom("check", "tiny.yaml", "bad.yaml")
    assert done.code == 1
    assert "error[E0101]" in done.out
    assert "bad.yaml:7:34" in done.out
    short = netloom("check", "bad.yaml", "--format", "short")
    assert short.out.startswith("bad.yaml:7:34: error[E0101]")
    found = [json.loads(line) for line in netloom("check", "bad.yaml", "--format", "json").out.splitlines()]
    assert found[0]["code"] == "E0101"
    assert netloom("check", "tiny.yaml", "--set", "n=51").code == 1
    assert netloom("check", "tiny.yaml", "--set", "n").code == 2
    assert netloom("check", "tiny.yaml", "--verify", "--target", "reference").code == 0


def test_expectations_about_what_is_not_recorded(netloom, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(TINY.replace("record: [{spikes: {from: p}}]\n", ""), encoding="utf-8")
    done = netloom("check", "bad.yaml")
    assert done.code == 1
    assert "record" in done.out


def test_run(netloom, tmp_path: Path) -> None:
    done = netloom("run", "tiny.yaml", "--target", "reference")
    assert done.code == 0, done.err
    assert "250.00 Hz" in done.out
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"results: runs/{folder.name}" in done.out
    quiet = netloom("run", "tiny.yaml", "--target", "reference", "--quiet", "--out", "here")
    assert (quiet.code, quiet.out, quiet.err) == (0, "here\n", "")
    record = json.loads(
        netloom("run", "tiny.yaml", "--target", "reference", "--format", "json", "--set", "n=2", "--out", "two").out
    )
    assert record["folder"] == "two"
    assert record["summary"]["spikes"] == {"p": 10}
    assert record["settings"] == {"n": "2"}


def test_a_run_that_misses_its_expectations_only_says_so(netloom) -> None:
    done = netloom("run", "tiny.yaml", "--target", "reference", "--set", "n=2")
    assert done.code == 0
    assert "NOT MET" in done.out


def test_test(netloom, tmp_path: Path) -> None:
    done = netloom("test", "tiny.yaml", "--target", "reference")
    assert done.code == 0
    assert [line.split()[-1] for line in done.out.splitlines()[2:]] == ["met", "met"]
    done = netloom("test", "tiny.yaml", "--target", "reference", "--set", "n=2")
    assert done.code == 6
    assert "spikes of p" in done.out
    (tmp_path / "none.yaml").write_text(TINY.partition("expect:")[0], encoding="utf-8")
    assert netloom("test", "none.yaml", "--target", "reference").code == 1


def test_build_makes_nothing_twice(netloom, tmp_path: Path) -> None:
    done = netloom("build", "tiny.yaml", "--target", "reference")
    assert done.code == 0
    stamp = tmp_path / "build" / "tiny" / ".netloom-build.json"
    before = stamp.stat().st_mtime_ns
    assert netloom("build", "tiny.yaml", "--target", "reference").code == 0
    assert stamp.stat().st_mtime_ns == before
    assert netloom("build", "tiny.yaml", "--target", "reference", "--set", "n=4").code == 0
    assert stamp.stat().st_mtime_ns > before
    assert [p.name for p in (tmp_path / "build").iterdir()] == ["tiny"]


def test_timings_of_parts_and_passes(netloom) -> None:
    """Every part with its steps; what these leave of a part makes the parts add up to the total."""
    done = netloom("build", "tiny.yaml", "-t", "reference", "--timings", "--format", "json")
    shown = json.loads(done.out)
    steps = {(s["part"], s["step"]) for s in shown["steps"]}
    assert {("load", "parse"), ("load", "resolve"), ("lower", "lower_populations"), ("lower", "merge")} <= steps
    lines = netloom("build", "tiny.yaml", "-t", "reference", "--timings").out.splitlines()[2:]
    *parts, total = [float(line.split()[-1]) for line in lines]
    assert sum(parts) == pytest.approx(total, abs=0.05 * len(parts) + 0.01)
    assert "steps" not in json.loads(netloom("build", "tiny.yaml", "-t", "reference", "--format", "json").out)


def test_a_folder_of_the_user_is_not_replaced(netloom, tmp_path: Path) -> None:
    mine = tmp_path / "build" / "tiny" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    done = netloom("build", "tiny.yaml", "--target", "reference")
    assert done.code == 2
    assert "in the way" in done.err
    assert netloom("clean").code == 0
    assert mine.read_text() == "years of work"


def test_clean(netloom, tmp_path: Path) -> None:
    netloom("run", "tiny.yaml", "--target", "reference")
    said = netloom("clean").out
    assert re.fullmatch(r"removed build/\w+ \(build folder, .*\)\n1 thing removed, .*\n", said)
    assert not (tmp_path / "build").exists()
    assert (tmp_path / "runs").exists()


def test_clean_removes_what_dead_runs_left(netloom, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    live = scratch_folder(runs / "live", "a run")
    dead, useful = runs / ".dead.0123456789abcdef.part", runs / ".tiny.fedcba9876543210.part"
    dead.mkdir()
    (dead / "spikes.h5").write_bytes(b"x" * 1200)
    (useful / "checkpoints").mkdir(parents=True)
    position = {"kind": "spiking", "step": "1", "seed": "0", "model": "m", "epoch": "0", "batch": "0"}
    write_tensors(
        useful / "checkpoints" / "step-1.safetensors",
        {"v": np.zeros(3)},
        {"format": "netloom checkpoint 1", **position},
    )
    (dead / "checkpoints").mkdir()  # nothing can go on from what is no checkpoint
    (dead / "checkpoints" / "step-1.safetensors").touch()
    said = netloom("clean", "--dry-run").out
    assert f"would remove {dead.relative_to(tmp_path)} (left behind, 1.2 kB)" in said
    assert f"kept {useful.relative_to(tmp_path)}" in said and "--resume" in said and "1 thing to remove" in said
    assert dead.exists()
    assert "1 thing removed, 1.2 kB" in netloom("clean").out
    assert not dead.exists() and useful.exists()
    assert netloom("clean", "--dead-runs").code == 0
    assert not useful.exists()
    assert live.path.exists()
    live.remove()
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "populations\n"),
        (("--expanded",), "neurons:\n"),
        (("--stage", "model"), "Population("),
        (("--stage", "graph"), "Cell("),
        (("--stage", "program"), "Template("),
        (("--code", "--target", "reference"), "Template("),
    ],
)
def test_show(netloom, words: tuple[str, ...], expected: str) -> None:
    done = netloom("show", "tiny.yaml", *words)
    assert done.code == 0, done.err
    assert expected in done.out


def test_show_as_json(netloom) -> None:
    shown = json.loads(netloom("show", "tiny.yaml", "--format", "json", "--set", "n=7").out)
    assert shown["populations"] == {"p": {"neuron": "clock", "size": 7}}


def test_show_layers(netloom, root: Path) -> None:
    lines = netloom("show", str(root / "models" / "lenet_digits.yaml")).out.splitlines()
    (conv,) = [line.split() for line in lines if line.startswith("  conv1")]
    assert conv == ["conv1", "conv2d,", "relu", "16x8x8", str(16 * 9 + 16)]


def test_explain(netloom) -> None:
    assert netloom("explain", "e0204").out.startswith("E0204: ")
    assert netloom("explain", "E9998").code == 2
    assert netloom("explain", "E0204", "--details", "all").code == 2
    done = netloom("explain", "tiny.yaml")
    assert done.code == 0
    assert "simulates 3 neurons and 0 synapses for 20 ms in 20 steps of 1 ms" in done.out
    lines = [line.split() for line in done.out.splitlines()]
    assert ["neurons", "of", "p", "3e+03", "100", "%"] in lines  # 3 neurons, one state, 1,000 steps
    assert "more: netloom explain tiny.yaml --details lower_cells, or all" in done.out
    details = netloom("explain", "tiny.yaml", "--details", "lower_cells").out
    assert details == netloom("explain", "tiny.yaml", "--details", "all").out
    title, topic, first, *_ = details.splitlines()
    assert (topic, first[:8]) == ("lower_cells", "  tiny: ")
    assert re.match(r"tiny on cpu: .+ GHz; float\d\d, order reproducible$", title) and done.out.startswith(title)
    wrong = netloom("explain", "tiny.yaml", "--details", "lower_cell")
    assert wrong.code == 2 and "did you mean `lower_cells`?" in wrong.err
    assert "--target cpu is many times as fast" in netloom("explain", "tiny.yaml", "-t", "reference").out


def test_schema(netloom, root: Path) -> None:
    assert json.loads(netloom("schema").out) == json.loads((root / "schemas" / "model.schema.json").read_text())


def test_doctor(netloom, monkeypatch: pytest.MonkeyPatch) -> None:
    done = netloom("doctor")
    assert "numpy" in done.out
    assert done.code in (0, 3)
    monkeypatch.setenv("CC", "no-such-compiler-here")
    done = netloom("doctor")
    assert done.code == 3
    assert "no-such-compiler-here" in done.out


# ------------------------------------------------------------------------------------------- failures


def test_a_missing_file(netloom) -> None:
    done = netloom("run", "nowhere.yaml")
    assert done.code == 1
    assert "error[E0002]: there is no file `nowhere.yaml`" in done.err


def test_a_missing_target(netloom) -> None:
    done = netloom("run", "tiny.yaml", "--target", "referense")
    assert done.code == 2
    assert "did you mean `reference`?" in done.err


def test_options_that_a_target_has_no_use_for(netloom) -> None:
    for words in (("--arch", "sm_90"), ("--device", "1"), ("--portable", "--target", "reference")):
        done = netloom("build", "tiny.yaml", *words)
        assert done.code == 2, words
        assert "error[E0912]" in done.err


def test_a_missing_compiler(netloom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler-here")
    done = netloom("build", "tiny.yaml")
    assert done.code == 3
    assert "error[E0901]" in done.err


def test_a_compiler_that_fails(netloom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "fake-cc"
    fake.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo "fake 1.0"; exit 0; fi\necho "boom" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    done = netloom("build", "tiny.yaml")
    assert done.code == 4
    assert "error[E0902]" in done.err
    assert "boom" in done.err
    assert not (tmp_path / "build" / "tiny").exists()


def test_a_run_that_fails_numerically(netloom, tmp_path: Path) -> None:
    text = TINY.replace("update: [x = x + step]", "update: [x = x * 1e30 + step]")
    text = text.replace("x > 3.5", "x < 0").partition("expect:")[0]
    (tmp_path / "inf.yaml").write_text(text, encoding="utf-8")
    done = netloom("run", "inf.yaml", "--target", "reference")
    assert done.code == 5
    assert "`p.x[0]` is inf" in done.err


def test_a_file_that_only_defines_things(netloom, tmp_path: Path) -> None:
    text = "\n".join(TINY.splitlines()[:6]) + "\n"
    (tmp_path / "part.yaml").write_text(text, encoding="utf-8")
    assert netloom("run", "part.yaml").code == 1


def test_an_internal_error(netloom, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("compiler.runtime.build.build_into", broken)
    done = netloom("build", "tiny.yaml")
    assert done.code == 70
    assert "internal error: ZeroDivisionError: oh" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("NETLOOM_DEBUG", "1")
    assert "Traceback" in netloom("build", "tiny.yaml").err


def test_ctrl_c_ends_a_command(root: Path, tmp_path: Path) -> None:
    """A real signal to a real process: exit 130, and the run directory says so."""
    import signal
    import time

    endless = TINY.replace("duration: 20 ms", "duration: 1000000 s").partition("expect:")[0]
    (tmp_path / "tiny.yaml").write_text(endless, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "compiler.cli", "run", "tiny.yaml", "--target", "reference"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
    )
    for _ in range(600):
        if list(tmp_path.glob("runs/.tiny*/spikes.h5")):
            break
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"


# ---------------------------------------------------------------------------------------------- init


def test_init_never_writes_over_a_file(netloom, tmp_path: Path) -> None:
    assert netloom("init", "tiny.yaml").code == 2
    assert (tmp_path / "tiny.yaml").read_text() == TINY
    assert netloom("init", "new.yaml", "--kind", "hybrid").code == 2


def test_starter_models_run(netloom, tmp_path: Path) -> None:
    """Both as they are, with nothing else beside them."""
    assert netloom("init", "my-first").code == 0
    assert (tmp_path / "my-first.yaml").read_text() == model_text(starter("spiking"), "my_first")
    words = ("--target", "reference", "--set", "n=20")
    assert netloom("test", "my-first.yaml", *words).code == 0
    assert netloom("init", "new/net.yaml", "--kind", "network").code == 0
    done = netloom("test", "new/net.yaml", "--quiet")
    assert done.code == 0, done.out
    for name in ("null", "9", "é", "true"):
        assert netloom("init", f"{name}.yaml").code == 0
        assert netloom("check", f"{name}.yaml").code == 0


def test_the_spiking_starter_does_what_it_says(cc, netloom, tmp_path: Path) -> None:
    """Noise drives the neurons to fire irregularly, and they inhibit each other."""
    from netloom import run

    assert netloom("init", "m.yaml").code == 0
    of = {name: run("m.yaml", set=values, duration="2 s") for name, values in (
        ("as it is", {}), ("no noise", {"noise": "0 Hz"}), ("no inhibition", {"strength": "0 mV"})
    )}  # fmt: skip
    rates = {name: result.rates["cells"] for name, result in of.items()}
    assert rates["no noise"] == 0
    assert 2 < rates["as it is"] < 0.75 * rates["no inhibition"]
    times, neurons = of["as it is"].spikes("cells")
    intervals = [np.diff(times[neurons == n]) for n in range(200)]
    variation = [i.std() / i.mean() for i in intervals if len(i) >= 5]
    assert len(variation) > 50 and 0.6 < np.mean(variation) < 1.2


def test_starter_models_name_the_schema(netloom, tmp_path: Path) -> None:
    """The first line is the one that editors read; what it names is there and takes the model."""
    for kind in ("spiking", "network"):
        assert netloom("init", f"{kind}.yaml", "--kind", kind).code == 0
        text = (tmp_path / f"{kind}.yaml").read_text()
        found = re.match(r"# yaml-language-server: \$schema=(file:\S+)\n", text)
        assert found is not None
        schema = Path(url2pathname(urlparse(found[1]).path))
        jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(yaml.safe_load(text))


def test_init_writes_a_yaml_file(netloom, tmp_path: Path) -> None:
    done = netloom("init", "model.txt")
    assert done.code == 2 and "`model.txt` does not end in .yaml" in done.err
    assert "write `netloom init model.txt.yaml`" in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tiny.yaml"]
    assert netloom("init", "plain").code == 0 and netloom("init", "other.yml").code == 0
    assert (tmp_path / "plain.yaml").is_file() and (tmp_path / "other.yml").is_file()


def test_init_leaves_what_is_there(netloom, tmp_path: Path) -> None:
    assert netloom("init", "a.yaml").out.startswith("a.yaml written (beside it .gitignore); run it with")
    assert (tmp_path / ".gitignore").read_text() == "build/\nruns/\n"
    (tmp_path / ".gitignore").write_text("mine\n")
    assert netloom("init", "b.yaml", "--kind", "network").code == 0
    assert netloom("init", "c.yaml", "--kind", "network").out.startswith("c.yaml written; run")
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    (tmp_path / "digits.npz").write_bytes(b"mine")
    done = netloom("init", "d.yaml", "--kind", "network")
    assert done.code == 2 and "`digits.npz` exists and holds other data" in done.err
    assert (tmp_path / "digits.npz").read_bytes() == b"mine" and not (tmp_path / "d.yaml").exists()
