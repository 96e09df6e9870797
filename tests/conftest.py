"""What every test shares: skips by marker, a C compiler, golden files, a cache of its own.

Assumes: run from a checkout, in an environment with the `dev` extra.
Guarantees: no test touches the user's cache; a test that needs what is not there is skipped with
a reason.
Does not: import `compiler` or `backends` (a broken import fails only the tests that use it).
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files again instead of comparing with them",
    )


@cache
def missing_gpu() -> str | None:
    """Why there is no GPU to test on, or None when there is one."""
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed (extra `cuda`)"
    try:
        import pycuda.driver as driver

        driver.init()
        return None if driver.Device.count() else "no CUDA device"
    except Exception as error:  # any failure of the driver means that there is nothing to test on
        return f"the CUDA driver does not start: {error}"


@cache
def missing_torch() -> str | None:
    return None if importlib.util.find_spec("torch") else "PyTorch is not installed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons = {"gpu": missing_gpu, "torch": missing_torch}
    for item in items:
        for marker, missing in reasons.items():
            if item.get_closest_marker(marker) and (reason := missing()):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of compiled artifacts and measured strategies: an empty one for each test run."""
    folder = tmp_path_factory.mktemp("netloom-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETLOOM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def cc() -> list[str]:
    """The C compiler as a command; a test that asks for it is skipped where there is none."""
    for candidate in (os.environ.get("CC"), "cc", "gcc", "clang"):
        command = shlex.split(candidate or "")
        if command and (path := shutil.which(command[0])):
            return [path, *command[1:]]
    pytest.skip("no C compiler ($CC, cc, gcc, clang)")


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
