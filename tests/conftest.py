"""Shared fixtures: skips by marker, a C compiler, golden files, a separate cache.

Assumes: run from a checkout, in an environment with the `dev` extra.
Guarantees: no test touches the user's cache. Tests are skipped only for a missing GPU, where no OpenCL compiler works,
or on a machine that a test does not apply to (the reasons in SKIPS); a skip for any other reason fails the run, and so
does a missing package.
Does not: import `compiler` or `backends` (a broken import fails only the tests that use it).
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SKIPS = ("no GPU: ", "no OpenCL device: ", "only on x86-64", "only with GCC")
"""Prefixes of the permitted reasons of skips."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files again instead of comparing with them",
    )


@cache
def missing_gpu() -> str | None:
    """The reason why no GPU is available, or None when there is one."""
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed (extra `cuda`)"
    try:
        import pycuda.driver as driver

        driver.init()
        return None if driver.Device.count() else "no CUDA device"
    except Exception as error:  # any failure of the driver means that no GPU is available
        return f"the CUDA driver does not start: {error}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and (reason := missing_gpu()):
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))
        if item.get_closest_marker("nvrtc"):
            item.add_marker(pytest.mark.usefixtures("nvrtc"))


def skipped(reporter: Any) -> tuple[list[str], list[str]]:
    """The reasons of skipped tests: permitted ones, and others."""
    reasons = [str(r.longrepr[-1] if isinstance(r.longrepr, tuple) else r.longrepr).removeprefix("Skipped: ")
               for r in reporter.stats.get("skipped", [])]  # fmt: skip
    return [r for r in reasons if r.startswith(SKIPS)], [r for r in reasons if not r.startswith(SKIPS)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    may, may_not = skipped(terminalreporter)
    terminalreporter.write_line(f"skipped: {len(may) + len(may_not)}, of which {len(may_not)} may not be")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run with a skip that is not permitted."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and skipped(reporter)[1] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of compiled artifacts and measured strategies: an empty one per test run, shared by its workers."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = tmp_path_factory.getbasetemp().parent / "netloom-cache"
        folder.mkdir(exist_ok=True)
    else:
        folder = tmp_path_factory.mktemp("netloom-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETLOOM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def usual_signals() -> Iterator[None]:
    """The tests' processes end by signals in the background, too, where shells and nohup let these be ignored."""
    ignored = [s for s in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(s) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def cc() -> list[str]:
    """The C compiler as a command; a test that asks for it fails where there is none."""
    for candidate in (os.environ.get("CC"), "cc", "gcc", "clang"):
        command = shlex.split(candidate or "")
        if command and (path := shutil.which(command[0])):
            return [path, *command[1:]]
    pytest.fail("no C compiler ($CC, cc, gcc, clang)", pytrace=False)


@contextmanager
def compiled_with(request: pytest.FixtureRequest, quick: str, slow: str) -> Iterator[None]:
    """The level of optimization of C: `slow` where slow tests run too."""
    from backends.cpu.emit import build

    level = quick if "not slow" in request.config.getoption("markexpr") else slow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "FLAGS", (level, *(f for f in build.FLAGS if f != "-O3")))
        yield


@pytest.fixture(scope="module")
def not_optimized(request: pytest.FixtureRequest) -> Iterator[None]:
    """C is compiled without optimization, which costs a tenth of the time. For tests that do not concern the code
    itself."""
    with compiled_with(request, "-O0", "-O1"):
        yield


@pytest.fixture(scope="module")
def little_optimized(request: pytest.FixtureRequest) -> Iterator[None]:
    """C is compiled with little optimization, which costs a third of the time; as for a user where slow tests run too.
    For tests of long texts, or that compute for long."""
    with compiled_with(request, "-O1", "-O3"):
        yield


@pytest.fixture(scope="module")
def without_plots() -> Iterator[None]:
    """Runs in the tests' process draw nothing, which takes longer than a short training."""
    from compiler.runtime.plots import plots

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw_plots", lambda *_, **__: plots.Plotted((), None))
        yield


@pytest.fixture(scope="session")
def nvrtc() -> None:
    """A compiler for CUDA texts (the extra `dev` brings NVRTC); a test that asks for it fails where there is none."""
    from backends.cuda.emit.compile import find_compiler

    find_compiler()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(path, text)`: `text` is what the file says; --update-golden writes the file."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: Path, text: str) -> None:
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; write it with --update-golden and review it")
        expected = path.read_bytes().decode("utf-8")
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "this run", lineterm="")
            pytest.fail("\n".join([*lines, "", "to accept: --update-golden, then review"]), pytrace=False)

    return compare
