"""stopwatch: timing of the steps of a loaded program, the name and limits of the machine, and of what compiles on it.

Assumes: nothing.
Guarantees: CPU seconds for code that runs on the host, seconds between events for an instance with its own clock
(`timed`).
Does not: repeat, warm up or judge.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from backends.protocol import Backend, Instance
    from compiler.ir.level2.target import Target


def seconds(instance: Instance, phase: str, steps: int) -> float:
    """Seconds that `steps` steps of a phase take."""
    timed = getattr(instance, "timed", None)
    if timed is not None:
        return cast(float, timed(phase, 1, steps))
    start = time.process_time()
    instance.run(phase, 1, steps)
    return time.process_time() - start


def machine(backend: Backend) -> str:
    """The processor, the GPU or the OpenCL device that a backend runs on."""
    return machine_of(backend.capabilities.name, getattr(backend, "device", 0))


def machine_of(target: str, device: int = 0) -> str:
    """What `machine` says of a target, without its backend. Raises BackendError where there is no such device."""
    if target == "opencl":
        from backends.opencl.device import device_of
        from backends.opencl.library import name_of

        return name_of(device_of(device))
    if target == "cuda":
        from backends.cuda.device.library import Library

        return Library().description(device)
    from backends.processor import processor

    return processor().name


def limits(backend: Backend) -> Target:
    """The device with what its arithmetic and its memory reach at most: of a core as measured, of others as stated."""
    device = backend.capabilities.device
    if backend.capabilities.name != "cpu":
        return device
    from backends.cpu.run.limits import limits as measured

    return measured(device, made_with(backend))


def made_with(backend: Backend) -> str:
    """The compiler that a backend uses here, and the driver of its device. Raises BackendError where there is none."""
    if backend.capabilities.name == "cpu":
        from backends.cpu.emit.build import find_compiler
        from backends.cpu.run.libraries import found

        return find_compiler().version + (f"; oneDNN {library[1]}" if (library := found()) is not None else "")
    if backend.capabilities.name == "cuda":
        from backends.cuda.device.library import Library
        from backends.cuda.emit.compile import find_compiler as find_cuda_compiler
        from backends.cuda.run import cublaslt, cudnn

        compiler = find_cuda_compiler()
        own = [f"{'NVRTC' if compiler.library else 'nvcc'} {compiler.version}, driver {Library().version()}"]
        libraries = ("cuBLASLt", cublaslt.LIBRARY.found()), ("cuDNN", cudnn.LIBRARY.found())
        return "; ".join(own + [f"{name} {known[1]}" for name, known in libraries if known is not None])
    return ""


def toolchain(backend: Backend, options: Mapping[str, str]) -> str:
    """All of it that may change the code of a text: as `made_with`, with the options of a build."""
    return "; ".join((made_with(backend), *(f"{name}={value}" for name, value in sorted(options.items()))))
