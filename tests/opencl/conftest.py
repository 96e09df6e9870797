"""A device for the tests of this folder: PoCL's, which the extra `dev` brings, or that of Intel's runtime, which `make`
adds where PoCL does not know the processor. Where no compiler works, tests that ask for it are skipped."""

from __future__ import annotations

from typing import Any

import pytest

from backends.opencl.device import device_of
from backends.protocol import BackendError


@pytest.fixture(scope="session")
def device() -> Any:
    try:
        return device_of(0)
    except BackendError as error:
        if error.code != "E0950":
            raise
        pytest.skip(f"no OpenCL device: {error.message}")
