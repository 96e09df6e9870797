"""compile: OpenCL C text, accepted by the compiler of a device, through a cache.

Assumes: a device (device.py).
Guarantees: equal text (comments aside), device, driver and options compile once; concurrent builds may use the cache. A
program stays text: drivers, or PyOpenCL, keep what they make of it. A failure names the model line of the line of the
text. Denormals are flushed as on the CPU; under a fixed order nothing is contracted, and division and roots are rounded
correctly.
Does not: specialise kernels: PoCL does so when they first run, and keeps the results (library.py).
"""

from __future__ import annotations

import time
from typing import Any, Final

from backends.c_family.source_map import refused
from backends.cache import place_of, without_comments
from backends.opencl.device import check
from backends.opencl.emit import Emitted
from backends.opencl.library import OPTIONS, built, compiler_of, context_of, library, name_of
from backends.protocol import Artifact, BackendError
from compiler.core.cache import find_files, keep_files
from compiler.core.disk import scratch_folder, write_text

_ROUNDED: Final = "-cl-fp32-correctly-rounded-divide-sqrt"
_ERROR: Final = r"(?m)(?:^error: .*:(?=\d+:\d+: )|:(?=\d+:\d+: (?:fatal )?error))(\d+)"
"""`<kernel>:7:1: error: ...`, or, as PoCL has it, `error: file.cl:7:1: ...`."""


def compile_text(emitted: Emitted, device: Any) -> Artifact:
    """The program of a text, from the cache if present. Raises BackendError: E0948 for a device that lacks something,
    E0902 when its compiler refuses."""
    check(device, emitted.needs)
    cl = library()
    rounded = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    options = (*OPTIONS, _ROUNDED) if rounded else OPTIONS
    compiler = compiler_of(device)
    key, index = place_of("opencl", without_comments(emitted.text), compiler, " ".join(options))
    if (placed := find_files(index)) is not None:
        return Artifact(emitted.text, placed[".cl"], key, False, compiler, options, 0.0, kernels=emitted.kernels)
    begin = time.process_time()
    try:
        built(cl.Program(context_of(device), emitted.text), options)
    except cl.Error as e:
        raise refused(f"the compiler of {name_of(device)}", str(e), _ERROR, emitted.spans) from None
    seconds = time.process_time() - begin
    with scratch_folder(index, "compiled code") as scratch:
        made = scratch.path / "module.cl"
        write_text(made, emitted.text, "generated code")
        placed = keep_files(index, {".cl": made})
    return Artifact(emitted.text, placed[".cl"], key, True, compiler, options, seconds, kernels=emitted.kernels)


def loaded(artifact: Artifact, context: Any) -> Any:
    """The program of an artifact in a context of the device that it was compiled for. Raises BackendError (E0904)."""
    cl = library()
    try:
        return built(cl.Program(context, artifact.binary.read_text(encoding="utf-8")), artifact.flags)
    except (cl.Error, OSError) as e:
        raise BackendError(
            "E0904", f"the compiled program cannot be loaded: {e}", "`netloom clean --cache`, then build again"
        ) from None
