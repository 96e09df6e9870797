"""The driver's answers, without a device: which of them are faults of an earlier kernel."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from backends.cuda.device.driver import Driver
from backends.cuda.device.library import CHECK
from backends.protocol import BackendError


def answering(status: int) -> Driver:
    """A driver whose every call returns `status`."""
    driver = Driver.__new__(Driver)
    library = SimpleNamespace(cuGraphLaunch=lambda *_: status, cuDriverGetVersion=lambda *_: status)
    library.cuGetErrorString = lambda *_: 0
    driver._lib = library  # type: ignore[assignment]
    return driver


@pytest.mark.parametrize("status", [700, 717, 719])
def test_a_fault_of_a_kernel_says_how_to_find_it_wherever_it_shows(status: int) -> None:
    driver = answering(status)
    calls: list[Callable[[], object]] = [driver.version, lambda: driver.launch(1, 2)]
    for call in calls:
        with pytest.raises(BackendError) as raised:
            call()
        assert (raised.value.code, raised.value.help) == ("E0924", CHECK)
        assert "the GPU failed" in raised.value.message


def test_another_failure_names_the_call() -> None:
    with pytest.raises(BackendError, match="cuDriverGetVersion failed") as raised:
        answering(201).version()
    assert raised.value.help is None
