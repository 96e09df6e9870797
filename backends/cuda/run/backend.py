"""The CUDA backend as backends/protocol.py describes one.

Assumes: merged programs whose tensors are row-major.
Guarantees: one .cu text per program, compiled without a GPU, run on one.
Does not: decide anything about the model; import PyCUDA before something is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import compiler.ir.level2.program as l2
from backends.c_family.source_map import fixed_order
from backends.cuda.device.driver import Driver
from backends.cuda.emit.compile import CUBIN, PTX, compile_text, default_arch
from backends.cuda.emit.emit import Emitted, emit
from backends.cuda.kernels.contract import strategies
from backends.cuda.run import cublaslt, cudnn
from backends.cuda.run.cuda_graphs import ExecutionMode
from backends.cuda.run.load import APART, RECORDED_STEPS, CudaInstance
from backends.manifest import manifest
from backends.protocol import Artifact, BackendError, Capabilities
from compiler.core.disk import copy_file, write_text
from compiler.ir.level2.target import Target
from compiler.layout.plan_memory import place
from compiler.strategies.cost.devices import H200, gpu


@cache
def device_of(ordinal: int, arch: str | None) -> Target:
    """The device in numbers: as its driver states them, where it has that architecture; else those of a device of the
    architecture, or the default."""
    try:
        found = Driver().target(ordinal)
    except BackendError:
        return gpu(arch) if arch else H200
    return found if arch is None or arch.rstrip("af") == found.architecture else gpu(arch)


@dataclass(frozen=True)
class CudaBackend:
    """backends.protocol.Backend. `device`: the number of the GPU; `check`: synchronise after every kernel, to name one
    that fails; `chains`: whether recurrent layers run as chains (compiler/passes/program/persistent_rnn.py); `way`:
    execution mode of simulations (cuda_graphs.py; None: the fastest as measured); `arch`: of code that runs elsewhere
    (None: that of the device). Options of `build`: `arch` ("sm_90") and `portable`, with either of which devices of
    later architectures can load the code, too; `seed` is noted in the manifest."""

    device: int = 0
    check: bool = False
    chains: bool = True
    way: ExecutionMode | None = None
    arch: str | None = None

    @property
    def capabilities(self) -> Capabilities:
        device = device_of(self.device, self.arch)
        here = strategies()
        for library in (cublaslt, cudnn):
            here -= library.STRATEGIES if library.LIBRARY.found() is None else frozenset()
        return Capabilities("cuda", 0, False, here, APART, self.chains, device, True, RECORDED_STEPS, True)

    def emit(self, program: l2.Merged) -> str:
        return emit(program).text

    def compile(self, program: l2.Merged, options: Mapping[str, str]) -> Artifact:
        return self._compiled(program, emit(program), options)

    def build(self, program: l2.Merged, folder: Path, options: Mapping[str, str]) -> Artifact:
        """Compile (or find in the cache) and write <name>.cu, .cubin (of parts: <name>_<part>.cubin), .ptx where there
        is one, and manifest.json."""
        emitted = emit(program)
        artifact = self._compiled(program, emitted, options)
        write_text(folder / f"{program.name}.cu", emitted.text, "generated code")
        names = [f"{program.name}_{part.name}" for part in emitted.parts] or [program.name]
        for name, binary in zip(names, (artifact.binary, *artifact.beside), strict=True):
            for suffix in (CUBIN, PTX) if _runs_elsewhere(options) else (CUBIN,):
                copy_file(binary.with_suffix(suffix), folder / f"{name}{suffix}", "compiled code")
        seed = int(options.get("seed", "1"))
        text = manifest(program, place(program, {}, APART), artifact, seed, "cuda")
        write_text(folder / "manifest.json", text, "the manifest of a build")
        return artifact

    def load(self, artifact: Artifact, program: l2.Merged, seed: int) -> CudaInstance:
        return CudaInstance(artifact, program, seed, self.device, self.check, self.way)

    def _compiled(self, program: l2.Merged, emitted: Emitted, options: Mapping[str, str]) -> Artifact:
        arch = options.get("arch") or self.arch or default_arch(self.device)
        return compile_text(emitted, program.name, fixed_order(program), arch, _runs_elsewhere(options))


def _runs_elsewhere(options: Mapping[str, str]) -> bool:
    """Whether devices of later architectures are to load the code."""
    return bool(options.get("arch") or options.get("portable"))
