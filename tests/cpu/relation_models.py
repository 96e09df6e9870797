"""Level-0 models of one projection, for tests of synapse storage.

Sources spike at random (counter-based); targets hold the deliveries of the last step, so that a trace of their input
is the delivered sum per step.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.protocol import Instance
from backends.registry import backend
from compiler.expr.ast import Binary, Call, Expr, Num, Ref
from compiler.ir.level0.model import (
    Const,
    InputDecl,
    Member,
    Method,
    Model,
    NeuronDef,
    Numerics,
    Planes,
    Population,
    Projection,
    RecordSpikes,
    RecordTraces,
    Set,
    Simulate,
    Spike,
    StateDecl,
    Value,
)
from compiler.passes.pipeline.lower import Lowered, lower

Array = npt.NDArray[Any]
STEPS = 40


def _neuron(name: str, when: Expr, state: tuple[StateDecl, ...], inputs: tuple[str, ...], update: Any) -> NeuronDef:
    return NeuronDef(
        name=name,
        params=(),
        state=state,
        inputs=tuple(InputDecl(i, "1", None) for i in inputs),
        lets=(),
        dynamics=(),
        update=update,
        spike=Spike(when, (), None, ()),
        method=Method.AUTO,
    )


def neuron(rate: float) -> NeuronDef:
    """Spikes in each step with probability `rate`; `v` is the sum of all deliveries."""
    v = StateDecl("v", "1", Const(0.0))
    return _neuron(
        f"chance{rate}",
        Binary("<", Call("random", ()), Num(rate)),
        (v,),
        ("g",),
        (Set("v", Binary("+", Ref("v"), Ref("g"))),),
    )


def population(name: str, size: int, rate: float = 0.25, shape: tuple[int, ...] = ()) -> Population:
    return Population(name, neuron(rate), size, (), (("v", Const(0.0)),), shape=shape)


def model(
    source: Population,
    target: Population,
    rule: str,
    weight: Value,
    *,
    storage: str = "auto",
    args: tuple[tuple[str, float | int], ...] = (),
    delay: int = 2,
    precision: str = "float32",
    order: str = "reproducible",
    planes: Planes | None = None,
    pairs: tuple[tuple[int, int], ...] | None = None,
    **more: Any,
) -> Model:
    """One projection `p`; source and target may be one population."""
    member = Member(source.name, target.name, args, weight, delay, None if pairs is None else 0, **more)
    lists = () if pairs is None else (pairs,)
    projection = Projection("p", rule, "g", (member,), lists, storage=storage, planes=planes)
    populations = (source,) if source is target else (source, target)
    return Model(
        name="relation",
        description="",
        params=(),
        functions=(),
        populations=populations,
        projections=(projection,),
        simulate=Simulate(0.1, STEPS, 0, 5),
        spikes=(RecordSpikes((source.name,)),),
        traces=(RecordTraces(target.name, ("g",), tuple(range(target.size)), 1),),
        network=None,
        train=None,
        plots=(),
        expect=(),
        numerics=Numerics(precision, order),
    )


def lowered(m: Model, target: str = "cpu") -> Lowered:
    return lower(m, backend(target).capabilities, verify=True)


def instance(m: Model, folder: Path, target: str = "cpu") -> Instance:
    chosen = backend(target)
    merged = lowered(m, target).merged
    return chosen.load(chosen.build(merged, folder / target, {}), merged, 5)


def delivered(m: Model, folder: Path, target: str = "cpu") -> tuple[Array, Array]:
    """((steps, targets) what arrived, (k, 2) step and source of each spike)."""
    run = instance(m, folder, target)
    name, source = m.traces[0].population, m.spikes[0].populations[0]
    width = {f"{name}.g'record.0": len(m.traces[0].members), f"{source}'spikes'record": 2}
    found: dict[str, list[Array]] = {buffer: [] for buffer in width}
    done = 0
    while done < STEPS:
        ran = run.run("step", done + 1, STEPS - done)
        assert ran > 0
        done += ran
        for buffer, n in width.items():
            used = int(run.read(f"{buffer}'used")[0])
            found[buffer].append(run.read(buffer)[: used * n].reshape(used, n))
            run.write(f"{buffer}'used", np.zeros(1, np.int64))
    traces, pairs = (np.concatenate(blocks) for blocks in found.values())
    assert len(pairs) > 0
    return traces, pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def expected(matrix: Array, spikes: Array, delay: int, steps: int = STEPS) -> Array:
    """What a (sources, targets) matrix delivers: float64."""
    out = np.zeros((steps, matrix.shape[1]))
    for step, i in spikes:
        if step + delay <= steps:
            out[step + delay - 1] += matrix[i]
    return out


def stored_as(m: Model, storage: str) -> Model:
    """The same model with another storage."""
    return replace(m, projections=tuple(replace(p, storage=storage) for p in m.projections))
