"""The passes of the compiler, in the order in which they run.

The work of a pass stands in a file of its own, with a header that says what it assumes, guarantees and does not do. The
lists in compiler/passes/pipeline say in which order they come and to what each applies;
compiler/passes/pipeline/manager.py runs them, and nothing else does.
"""

from __future__ import annotations

from compiler.passes.pipeline.manager import Pass
from compiler.passes.pipeline.programs import PROGRAMS


def passes_for(populations: bool = True, network: bool = True) -> tuple[Pass, ...]:
    """All passes, in order; those of a half that a model lacks are not imported, which would take a tenth of a
    second."""
    spiking: tuple[Pass, ...] = ()
    tensors: tuple[Pass, ...] = ()
    if populations:
        from compiler.passes.pipeline.spiking import SPIKING as spiking
    if network:
        from compiler.passes.pipeline.tensors import TENSORS as tensors
    return (*spiking, *tensors, *PROGRAMS)
