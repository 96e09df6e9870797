"""Workers of a cluster that run trials, through dask.distributed.

Assumes: netloom on every worker; a file system where all see the model and the sweep's folder under the same paths.
Guarantees: one trial is one task; a task whose worker dies runs again on another (Dask gives up after a few), and a
trial that is there is not run again. Workers of a cluster that was started here end with the sweep.
Does not: end trials that run on workers of a scheduler that was there before.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from compiler.core.diagnostics import RunError
from compiler.sweep.pool import DIED, Pool
from compiler.sweep.prune import Watch
from compiler.sweep.trial import Job, Row, Trial, row_of, run_trial

KINDS: Final = ("slurm", "pbs", "ssh")
PATIENCE: Final = 30.0
"""Seconds in which a scheduler must answer."""
_SUBMIT: Final = {"slurm": "sbatch", "pbs": "qsub"}
_EXTRA: Final = "pip install 'netloom[sweep]'"


@dataclass(frozen=True)
class Where:
    """`scheduler`: the address of one that runs; or `cluster`: slurm, pbs, or ssh:host,host; `workers`: how many are
    asked for, and how many trials run at once."""

    scheduler: str | None
    cluster: str | None
    workers: int

    def start(self, job: Job, ahead: bool) -> Pool:
        """Raises RunError (E0941, E0942, exit 3)."""
        if self.scheduler is not None:
            return Workers(job, _client(self.scheduler), None, self.workers, ahead)
        cluster = _started(self.cluster or "", self.workers)
        return Workers(job, _client(cluster), cluster, self.workers, ahead)


def where(scheduler: str | None, cluster: str | None, workers: int) -> Where | None:
    """Where trials run beside this machine; None: here. Raises RunError (E0912, exit 2)."""
    if scheduler is not None and cluster is not None:
        raise RunError("E0912", "`scheduler` and `cluster` exclude each other")
    if cluster is not None:
        kind, _, hosts = cluster.partition(":")
        if kind not in KINDS or (kind == "ssh") is not bool(hosts.strip(", ")):
            raise RunError("E0912", f"there is no cluster `{cluster}`", "write `slurm`, `pbs` or `ssh:host1,host2`")
    return None if scheduler is None and cluster is None else Where(scheduler, cluster, workers)


class Workers:
    """`ahead`: trials may wait for a worker, so that no worker waits for a trial."""

    warm = True

    def __init__(self, job: Job, client: Any, cluster: Any, workers: int, ahead: bool) -> None:
        self._job, self._client, self._cluster = _everywhere(job), client, cluster
        self._most = workers * (2 if ahead else 1)
        self._running: dict[Any, Trial] = {}

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def room(self) -> int:
        return self._most - len(self._running)

    def submit(self, trial: Trial, watch: Watch | None) -> None:
        key = f"{trial.key}-{time.time_ns()}"
        future = self._client.submit(run_trial, self._job, trial, watch, pure=False, key=key)
        self._running[future] = trial

    def wait(self, seconds: float | None) -> list[tuple[Trial, Row]]:
        from distributed import wait

        with self._client.as_current(), suppress(TimeoutError):
            wait(list(self._running), timeout=seconds, return_when="FIRST_COMPLETED")
        done = [f for f in self._running if f.done()]
        return [(trial, _row(f, trial)) for f in done for trial in (self._running.pop(f),)]

    def close(self, kill: bool) -> None:
        if kill and self._running:
            with suppress(Exception):
                self._client.cancel(list(self._running), force=True)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _row(future: Any, trial: Trial) -> Row:
    """The row of a task that has ended."""
    from distributed import KilledWorker

    try:
        row: Row = future.result()
        return row
    except KilledWorker:
        return row_of(trial, "failed", 0.0, DIED)
    except Exception as error:  # of the worker: another version of netloom, a folder that it does not see
        return row_of(trial, "failed", 0.0, f"{type(error).__name__}: {error}"[:300])


def _everywhere(job: Job) -> Job:
    """`job` with absolute paths."""
    o = job.options
    data, weights = (None if path is None else path.resolve() for path in (o.data, o.weights))
    options = replace(o, data=data, weights=weights)
    return replace(job, path=job.path.resolve(), folder=job.folder.resolve(), options=options)


def _client(address: Any) -> Any:
    """Raises RunError (E0941, E0942, exit 3)."""
    distributed = _package("distributed")
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        help = "start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`"
        raise RunError("E0942", f"no scheduler answers at `{address}`: {error}", help) from None


def _started(kind: str, workers: int) -> Any:
    """A cluster with so many workers. Raises RunError (E0941, E0942, exit 3)."""
    name, _, listed = kind.partition(":")
    hosts = [h.strip() for h in listed.split(",") if h.strip()]
    start: Callable[[], Any]
    if name == "ssh":
        distributed = _package("distributed")
        _package("asyncssh")
        each = {"n_workers": -(-workers // len(hosts)), "nthreads": 1}
        start = lambda: distributed.SSHCluster([hosts[0], *hosts], worker_options=each)  # noqa: E731
    else:
        jobqueue = _package("dask_jobqueue")
        if shutil.which(_SUBMIT[name]) is None:  # or the trials would wait for workers that never come
            message = f"the cluster `{name}` cannot be used: there is no command `{_SUBMIT[name]}` here"
            raise RunError("E0942", message, "start the sweep where jobs are submitted")
        made = {"slurm": jobqueue.SLURMCluster, "pbs": jobqueue.PBSCluster}[name]
        start = made
    try:
        cluster = start()
        if name != "ssh":
            cluster.scale(jobs=workers)
        return cluster
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        help = "cores, memory and queue of a job stand in `~/.config/dask/jobqueue.yaml`" if name != "ssh" else None
        raise RunError("E0942", f"the cluster `{name}` cannot be used: {text}", help) from None


def _package(name: str) -> Any:
    """Raises RunError (E0941, exit 3) where it is not installed."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        shown = name.replace("_", "-")
        message = f"trials on a cluster need the package `{shown}`, which is not installed"
        raise RunError("E0941", message, _EXTRA) from None
