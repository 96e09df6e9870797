"""The CPU backend as backends/protocol.py describes one.

Assumes: merged programs whose tensors have the Lanes layout of `capabilities`.
Guarantees: one C file per program, compiled by the machine's C compiler, run in one thread.
Does not: decide anything about the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import compiler.ir.level2.program as l2
from backends.c_family.source_map import fixed_order
from backends.cpu.emit.build import compile_text
from backends.cpu.emit.emit import Emitted, emit
from backends.cpu.export.export_folder import write_folder
from backends.cpu.kernels.kernel import SKELETONS
from backends.cpu.run import libraries
from backends.cpu.run.load import CpuInstance
from backends.processor import processor
from backends.protocol import Artifact, Capabilities
from compiler.ir.level2.target import Target

LANES = 16


@cache
def core() -> Target:
    """The core that code runs on."""
    return processor()


class CpuBackend:
    """backends.protocol.Backend. Options of `build`: `portable` = "1" leaves out -march=native; `seed` is that of the
    exported tables (default 1; `load` has its own)."""

    @property
    def capabilities(self) -> Capabilities:
        names = SKELETONS.statements().list_templates()
        strategies = (n.removeprefix("strategy_").removesuffix(".c.j2") for n in names if n.startswith("strategy_"))
        here = frozenset(strategies) - (libraries.STRATEGIES if libraries.found() is None else frozenset())
        return Capabilities("cpu", LANES, True, here, device=core())

    def emit(self, program: l2.Merged) -> str:
        return emit(program).text

    def compile(self, program: l2.Merged, options: Mapping[str, str]) -> Artifact:
        return _compiled(program, emit(program), options)

    def build(self, program: l2.Merged, folder: Path, options: Mapping[str, str]) -> Artifact:
        """Compile (or find in the cache) and write the folder that export/export_folder.py describes."""
        emitted = emit(program)
        artifact = _compiled(program, emitted, options)
        write_folder(folder, program, emitted, artifact, int(options.get("seed", "1")))
        return artifact

    def load(self, artifact: Artifact, program: l2.Merged, seed: int) -> CpuInstance:
        libraries.load_for(program)
        return CpuInstance(artifact, program, seed)


def _compiled(program: l2.Merged, emitted: Emitted, options: Mapping[str, str]) -> Artifact:
    return compile_text(emitted, program.name, fixed_order(program), options.get("portable", "") not in ("", "0"))
