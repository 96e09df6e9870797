"""Trials on the workers of a Dask cluster: rows as from processes; a worker that is killed takes nothing along."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import netloom
from compiler.core.diagnostics import RunError
from compiler.sweep.cluster import where

MODEL = """language: 1
name: small
params: {rate: {value: 20 Hz}, n: {value: 20, type: int}}
populations: {a: {neuron: library/neurons/poisson, size: n, params: {rate: rate}}}
simulate: {dt: 1 ms, duration: 100 ms, seed: 7}
record: [spikes: {from: a}]
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.yaml").write_text(MODEL, encoding="utf-8")
    return tmp_path / "m.yaml"


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A scheduler with three worker processes on this machine."""
    from distributed import LocalCluster

    with LocalCluster(3, threads_per_worker=1, dashboard_address=None) as made:
        yield made


@pytest.mark.slow
def test_a_killed_worker(model: Path, cluster: Any) -> None:
    """One of three workers is killed in the middle of a trial: that is run again, and the table is whole."""
    trials = model.parent / "s" / "trials"
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(list(trials.glob("[0-9a-f]*/run.json"))) < 3:
            time.sleep(0.01)
        victim = next(iter(cluster.workers.values())).process.process.pid
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    values = {"grid": {"n": list(range(1000, 1020)), "rate": ["80 Hz"]}}
    thread = Thread(target=kill)
    thread.start()
    found = netloom.sweep(model, values, out="s", scheduler=cluster.scheduler_address, workers=3, duration="20 s")
    thread.join()
    assert killed and found.column("status") == ["ok"] * 20 and found.ran == 20
    here = netloom.sweep(model, values, out="t", workers=2, duration="20 s")
    assert found.column("spikes.a") == here.column("spikes.a")
    assert netloom.sweep(model, values, out="s", workers=1, duration="20 s").ran == 0, "the folder is one for both"


@pytest.mark.slow
def test_a_search_on_workers(model: Path, cluster: Any) -> None:
    own = {
        "search": {"trials": 9, "goal": {"maximize": "rate.a"}, "values": {"n": {"integers": {"low": 2, "high": 90}}}}
    }
    found = netloom.sweep(model, own, out="s", scheduler=cluster.scheduler_address, workers=3)
    assert found.best is not None and set(found.column("status")) == {"ok"}


FAKE = """#!{python}
import subprocess, sys, os
script = [a for a in sys.argv[1:] if not a.startswith("-")][-1]
out = open(os.path.join(os.path.dirname(script), f"job.log"), "w")
out = open("job.log", "a")
subprocess.Popen(["bash", script], stdout=out, stderr=out, start_new_session=True)
print("Submitted batch job 17" if "sbatch" in sys.argv[0] else "17.pbs")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "submit", "cancel"), [("slurm", "sbatch", "scancel"), ("pbs", "qsub", "qdel")])
def test_jobs_of_a_batch_system(
    model: Path, monkeypatch: pytest.MonkeyPatch, kind: str, submit: str, cancel: str
) -> None:
    """The commands of the batch system run the jobs at once, on this machine."""
    import dask_jobqueue  # noqa: F401  (its defaults)
    from dask import config

    commands = model.parent / "commands"
    commands.mkdir()
    for name, text in ((submit, FAKE.replace("{python}", sys.executable)), (cancel, "#!/bin/sh\n")):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    job = {"cores": 1, "memory": "1GB", "processes": 1, "interface": "lo", "local-directory": str(model.parent)}
    with config.set({f"jobqueue.{kind}.{k}": v for k, v in job.items()}):
        found = netloom.sweep(model, {"n": [3, 4, 5]}, out="s", cluster=kind, workers=1)
    assert found.column("status") == ["ok"] * 3


def test_clusters_that_cannot_be_used(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.sweep.cluster.PATIENCE", 0.5)
    for given, code in (
        ({"scheduler": "tcp://127.0.0.1:9"}, "E0942"),
        ({"cluster": "slurm"}, "E0942"),
        ({"cluster": "lsf"}, "E0912"),
        ({"cluster": "ssh"}, "E0912"),
        ({"cluster": "slurm", "scheduler": "tcp://127.0.0.1:9"}, "E0912"),
        ({"scheduler": 3}, "E0912"),
    ):
        with pytest.raises(RunError) as caught:
            netloom.sweep(model, {"n": [3]}, out="s", workers=1, **given)  # type: ignore[arg-type]
        assert caught.value.code == code, given
    (model.parent / "sbatch").write_text("#!/bin/sh\n")
    (model.parent / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(model.parent))
    with pytest.raises(RunError, match=r"jobqueue\.yaml") as caught:  # no cores, no memory
        netloom.sweep(model, {"n": [3]}, out="s", workers=1, cluster="slurm")
    assert caught.value.code == "E0942"
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for given in ({"cluster": "pbs"}, {"scheduler": "tcp://127.0.0.1:9"}):
        with pytest.raises(RunError) as caught:
            netloom.sweep(model, {"n": [3]}, out="s", workers=1, **given)
        assert caught.value.code == "E0941" and "netloom[sweep]" in str(caught.value)


def test_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first host has the scheduler, all have workers."""
    import distributed

    from compiler.sweep import cluster

    given: list[Any] = []
    monkeypatch.setattr(distributed, "SSHCluster", lambda *a, **k: given.append((a, k)))
    assert where(None, "ssh:one, two", 5) is not None
    cluster._started("ssh:one, two", 5)
    assert given == [((["one", "one", "two"],), {"worker_options": {"n_workers": 3, "nthreads": 1}})]
