"""The OpenCL backend as backends/protocol.py describes one.

Assumes: merged programs whose tensors are row-major.
Guarantees: one .cl text per program, compiled for one device and run on it.
Does not: decide anything about the model; import PyOpenCL before something is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import compiler.ir.level2.program as l2
from backends.manifest import manifest
from backends.opencl.compile import compile_text
from backends.opencl.device import device_of
from backends.opencl.emit import emit
from backends.opencl.library import compiler_of
from backends.opencl.load import OpenclInstance
from backends.protocol import Artifact, Capabilities
from compiler.core.disk import write_text
from compiler.layout.plan_memory import place


@dataclass(frozen=True)
class OpenclBackend:
    """backends.protocol.Backend. `device`: the number of the device (device.py); `check`: wait for every kernel, to
    name one that fails. Options of `build`: `seed` is noted in the manifest."""

    device: int = 0
    check: bool = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("opencl", 0, False, frozenset())

    def emit(self, program: l2.Merged) -> str:
        return emit(program).text

    def compile(self, program: l2.Merged, options: Mapping[str, str]) -> Artifact:
        return compile_text(emit(program), device_of(self.device))

    def build(self, program: l2.Merged, folder: Path, options: Mapping[str, str]) -> Artifact:
        """Compile (or find in the cache) and write <name>.cl and manifest.json."""
        artifact = self.compile(program, options)
        write_text(folder / f"{program.name}.cl", artifact.text, "generated code")
        text = manifest(program, place(program, {}), artifact, int(options.get("seed", "1")), "opencl")
        write_text(folder / "manifest.json", text, "the manifest of a build")
        return artifact

    def load(self, artifact: Artifact, program: l2.Merged, seed: int) -> OpenclInstance:
        """A build for another device or driver is compiled again."""
        if artifact.compiler != compiler_of(device_of(self.device)):
            artifact = self.compile(program, {})
        return OpenclInstance(artifact, program, seed, self.device, self.check)
