"""The passes of the compiler, in the order in which they run: `PIPELINE`.

The work of a pass stands in the file that its class names, with a header that says what it assumes, guarantees and does
not do; compiler/passes/pipeline/manager.py runs them, and nothing else does. Passes that apply only to some phases of a
network declare them (`phases`); passes of the half that a model lacks are skipped.
"""

from __future__ import annotations

from typing import Final

from compiler.passes.pipeline import programs, spiking, tensors
from compiler.passes.pipeline.manager import Pass

PIPELINE: Final[tuple[Pass, ...]] = (
    # Populations: level 0, level 1 (cells of neurons and of synapses), level 2 (kernels).
    spiking.FreezeLearning(),
    spiking.LowerModel(),
    spiking.ScheduleSynapses(),
    spiking.InsertDelays(),
    spiking.IntegrateOdes(),
    spiking.SplitCells(),
    spiking.OrderPopulations(),
    spiking.TakeSums(),
    spiking.AdvanceStates(),
    spiking.KeepTraces(),
    spiking.TransposeSynapses(),
    spiking.LowerPopulations(),
    # Layers: level 0, level 1 (a graph for each phase), level 2 (kernels).
    tensors.LoadData(),
    tensors.LowerNetwork(),
    tensors.AddLoss(),
    tensors.Differentiate(),
    tensors.MarkOutputs(),
    tensors.FinishGraph(),
    tensors.Decompose(),
    tensors.PickInRows(),
    tensors.SimplifyGraph(),
    tensors.NameOutputs(),
    tensors.SimplifyGraph(phases=tensors.GIVING),
    tensors.Changing(tensors.TRAINING, first=tensors.ComposeMoves(), then=(tensors.SimplifyGraph(),)),
    tensors.FuseMaps(),
    tensors.Changing(
        tensors.TRAINING, first=tensors.HoistFactors(), then=(tensors.SimplifyGraph(), tensors.FuseMaps())
    ),
    tensors.WindowChoices(),
    tensors.EarlyFactors(),
    tensors.Recompute(),
    tensors.MixedPrecision(),
    tensors.ChannelsLast(),
    tensors.PackWindows(),
    tensors.ShiftVariances(),
    tensors.PrepareWeights(),
    tensors.LowerTensors(),
    tensors.RequireFusion(),
    # Both halves: level 2.
    programs.JoinHalves(),
    programs.Merge(),
    programs.PersistentRnn(),
    programs.KeepSteps(),
    programs.BatchLaunches(),
)
