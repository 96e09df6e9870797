"""Hand-built programs for the tests of the CPU backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.connect.probability import fixed_probability_table
from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE
from compiler.expr.ast import Expr
from compiler.expr.parse import parse_expr
from compiler.ir.level2.program import (
    ELEMENT,
    Add,
    Array,
    ArrayFormal,
    Assign,
    At,
    ByName,
    Connect,
    Csr,
    Dim,
    Emit,
    Events,
    Formal,
    Kernel,
    Launch,
    Mode,
    Nest,
    Order,
    Phase,
    Program,
    Propagate,
    RecordEvents,
    RecordTrace,
    Rows,
    ScalarFormal,
    SizeOf,
    StreamKey,
)
from compiler.ir.space import DType, Role

I64, I32, U64, U32 = DType.I64, DType.I32, DType.U64, DType.U32
REAL_COLUMNS = ("decay_v", "from_ge", "decay_ge", "drive", "v_thresh", "v_reset")


def expr(text: str) -> Expr:
    """`text` as a tree; an error in it fails the test."""
    sink = Sink()
    tree = parse_expr(text, NOWHERE, sink, units=False, exact=False)
    sink.check()
    assert tree is not None
    return tree


def assign(target: str, text: str) -> Assign:
    return Assign(target, expr(text))


def ring(mode: Mode = Mode.WRITE) -> tuple[Formal, ...]:
    return (
        ArrayFormal("spikes", I32, mode, ByName()),
        ArrayFormal("spike_count", I32, mode, ByName()),
        ScalarFormal("slots", I64),
    )


def lif_kernel(names: Sequence[str], sizes: Sequence[int], real: DType, slots: int) -> Kernel:
    """Leaky integrate-and-fire with one exponential input, refractoriness, and a row per population."""
    n = len(names)
    formals: tuple[Formal, ...] = (
        ArrayFormal("v", real, Mode.UPDATE, ELEMENT),
        ArrayFormal("ge", real, Mode.UPDATE, ELEMENT),
        ArrayFormal("held", I32, Mode.UPDATE, ELEMENT),
        *ring(),
        ScalarFormal("n", I64),
        ScalarFormal("refractory_steps", I64),
        *(ScalarFormal(c, real) for c in REAL_COLUMNS),
    )
    body = (
        assign("v_next", "decay_v * v + from_ge * ge + drive"),
        assign("v", "v if held > 0 else v_next"),
        assign("ge", "ge * decay_ge"),
        assign("spiked", "v > v_thresh and held <= 0"),
        Emit("spikes", "spike_count", "slots", expr("spiked")),
        assign("v", "v_reset if spiked else v"),
        assign("held", "refractory_steps if spiked else (held - 1 if held > 0 else held)"),
    )
    values = {
        "decay_v": 0.995,
        "from_ge": 0.05,
        "decay_ge": 0.98,
        "drive": 0.06,
        "v_thresh": 10.0,
        "v_reset": 0.0,
    }
    scalars: dict[str, object] = {c: np.array([x * (1 + 1e-3 * i) for i in range(n)]) for c, x in values.items()}
    scalars["n"] = np.array(sizes, np.int64)
    scalars["slots"] = np.full(n, slots, np.int64)
    scalars["refractory_steps"] = np.arange(n, dtype=np.int64) % 7 + 20
    arrays = {f: tuple(f"{name}.{f}" for name in names) for f in ("v", "ge", "held", "spikes", "spike_count")}
    return Kernel(
        f"{names[0]}: neuron update",
        formals,
        Nest((Dim("i", "n"),), body),
        Rows(n, arrays, scalars, tuple(names)),  # type: ignore[arg-type]
    )


def network(
    count: int = 2,
    size: int = 50,
    real: DType = DType.F32,
    record: bool = True,
    per_synapse: bool = False,
    p: float = 0.1,
    order: Order = Order.REPRODUCIBLE,
) -> Program:
    """`count` populations in a ring of random projections; member m has a delay of m % 5 steps."""
    names = [f"pop{i}" for i in range(count)]
    sizes = [size + i % 3 for i in range(count)]
    slots = 8
    arrays: list[Array] = []
    constants: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(3)
    for name, n in zip(names, sizes, strict=True):
        arrays += [
            Array(f"{name}.v", real, (n,), Role.STATE),
            Array(f"{name}.ge", real, (n,), Role.STATE),
            Array(f"{name}.held", I32, (n,), Role.STATE),
            Array(f"{name}.spikes", I32, (slots, n), Role.EVENT),
            Array(f"{name}.spike_count", I32, (slots,), Role.EVENT),
        ]
        constants[f"{name}.v"] = rng.uniform(0, 10, n).astype(real.numpy)
    kernels = [lif_kernel(names, sizes, real, slots)]
    arrays.append(Array("table", U32, (512,), Role.CONST))
    constants["table"] = fixed_probability_table(p)
    pairs = [(i, (i + 1) % count) for i in range(count)]
    synapses = [f"{names[a]}->{names[b]}" for a, b in pairs]
    for name, (a, _) in zip(synapses, pairs, strict=True):
        arrays += [
            Array(f"{name}.row", I64, (sizes[a] + 1,), Role.CONST),
            Array(f"{name}.col", I32, (-1,), Role.SYNAPSE, size_from=f"{name}.row"),
        ]
        if per_synapse:
            arrays.append(Array(f"{name}.weight", real, (-1,), Role.SYNAPSE, size_from=f"{name}.row"))
    common: dict[str, object] = {
        "n_pre": np.array([sizes[a] for a, _ in pairs], np.int64),
        "n_post": np.array([sizes[b] for _, b in pairs], np.int64),
        "key": tuple(StreamKey(s) for s in synapses),
        "autapses": np.zeros(count, np.int64),
        "same": np.array([a == b for a, b in pairs], np.int64),
    }
    columns = tuple(ScalarFormal(c, U64 if c == "key" else I64) for c in common)
    row_names = tuple(f"{s}.row" for s in synapses)
    col_names = tuple(f"{s}.col" for s in synapses)
    table = ArrayFormal("table", U32, Mode.READ, ByName())
    row = ArrayFormal("row", I64, Mode.UPDATE, ByName())
    bound = {"row": row_names, "table": ("table",) * count}
    kernels.append(
        Kernel(
            "ring: count synapses",
            (row, table, *columns),
            Connect("fixed_probability", "count"),
            Rows(count, bound, common, tuple(synapses)),  # type: ignore[arg-type]
        )
    )
    kernels.append(
        Kernel(
            "ring: scan",
            (row, ScalarFormal("n_pre", I64)),
            Connect("any", "scan"),
            Rows(count, {"row": row_names}, {"n_pre": common["n_pre"]}),  # type: ignore[dict-item]
        )
    )
    kernels.append(
        Kernel(
            "ring: fill synapses",
            (
                ArrayFormal("row", I64, Mode.READ, ByName()),
                ArrayFormal("col", I32, Mode.WRITE, ByName()),
                table,
                *columns,
            ),
            Connect("fixed_probability", "fill"),
            Rows(count, {**bound, "col": col_names}, common),  # type: ignore[arg-type]
        )
    )
    weight: Formal = ArrayFormal("weight", real, Mode.READ, At("syn")) if per_synapse else ScalarFormal("weight", real)
    prop_arrays = {
        "spikes": tuple(f"{names[a]}.spikes" for a, _ in pairs),
        "spike_count": tuple(f"{names[a]}.spike_count" for a, _ in pairs),
        "row": row_names,
        "col": col_names,
        "ge": tuple(f"{names[b]}.ge" for _, b in pairs),
    }
    prop_scalars: dict[str, object] = {
        "slots": np.full(count, slots, np.int64),
        "delay": np.arange(count, dtype=np.int64) % 5,
        "n_pre": common["n_pre"],
    }
    if per_synapse:
        prop_arrays["weight"] = tuple(f"{s}.weight" for s in synapses)
    else:
        prop_scalars["weight"] = np.linspace(0.5, 1.5, count)
    kernels.append(
        Kernel(
            "ring: propagation into ge",
            (
                *ring(Mode.READ),
                ArrayFormal("row", I64, Mode.READ, ByName()),
                ArrayFormal("col", I32, Mode.READ, ByName()),
                ArrayFormal("ge", real, Mode.ACCUMULATE, At("post")),
                weight,
                ScalarFormal("delay", I64),
                ScalarFormal("n_pre", I64),
            ),
            Propagate(
                Events("spikes", "spike_count", "slots", "delay", "n_pre"),
                Csr("row", "col"),
                (Add("ge", expr("weight")),),
            ),
            Rows(count, prop_arrays, prop_scalars, tuple(synapses)),  # type: ignore[arg-type]
        )
    )
    init: list[Launch] = []
    if per_synapse:
        kernels.append(
            Kernel(
                "ring: draw weights",
                (
                    ArrayFormal("weight", real, Mode.WRITE, ELEMENT),
                    ScalarFormal("n", I64),
                    ScalarFormal("key", U64),
                ),
                Nest((Dim("i", "n"),), (assign("weight", "1 + 0.25 * normal(key, i, 0)"),)),
                Rows(
                    count,
                    {"weight": prop_arrays["weight"]},
                    {
                        "n": tuple(SizeOf(r) for r in row_names),
                        "key": tuple(StreamKey(f"{s}/weight") for s in synapses),
                    },
                ),
            )
        )
        init.append(Launch(len(kernels) - 1, 0, count))
    steps = [Launch(0, 0, count), Launch(4, 0, count)]
    if record:
        arrays += [
            Array("record", I32, (4096, 2), Role.RECORD),
            Array("record.used", I64, (1,), Role.RECORD),
            Array("trace", real, (100, 3), Role.RECORD),
            Array("trace.used", I64, (1,), Role.RECORD),
            Array("members", I32, (3,), Role.CONST),
        ]
        constants["members"] = np.array([0, 5, 7], np.int32)
        kernels.append(
            Kernel(
                "pop0: record spikes",
                (
                    ArrayFormal("list", I32, Mode.READ, ByName()),
                    ArrayFormal("count", I32, Mode.READ, ByName()),
                    ArrayFormal("buffer", I32, Mode.UPDATE, ByName()),
                    ArrayFormal("used", I64, Mode.UPDATE, ByName()),
                    ScalarFormal("slots", I64),
                    ScalarFormal("capacity", I64),
                    ScalarFormal("n", I64),
                ),
                RecordEvents(),
                Rows(
                    1,
                    {
                        "list": ("pop0.spikes",),
                        "count": ("pop0.spike_count",),
                        "buffer": ("record",),
                        "used": ("record.used",),
                    },
                    {
                        "slots": np.array([slots]),
                        "capacity": np.array([4096]),
                        "n": np.array([sizes[0]]),
                    },
                ),
            )
        )
        steps.append(Launch(len(kernels) - 1, 0, 1))
        kernels.append(
            Kernel(
                "pop0: record v",
                (
                    ArrayFormal("source", real, Mode.READ, ELEMENT),
                    ArrayFormal("members", I32, Mode.READ, ByName()),
                    ArrayFormal("buffer", real, Mode.UPDATE, ByName()),
                    ArrayFormal("used", I64, Mode.UPDATE, ByName()),
                    ScalarFormal("m", I64),
                    ScalarFormal("capacity", I64),
                ),
                RecordTrace(expr("source")),
                Rows(
                    1,
                    {
                        "source": ("pop0.v",),
                        "members": ("members",),
                        "buffer": ("trace",),
                        "used": ("trace.used",),
                    },
                    {"m": np.array([3]), "capacity": np.array([100])},
                ),
            )
        )
        steps.append(Launch(len(kernels) - 1, 0, 1, 10, 0))
    phases = [
        Phase("count", (Launch(1, 0, count),)),
        Phase("scan", (Launch(2, 0, count),)),
        Phase("fill", (Launch(3, 0, count),)),
    ]
    if init:
        phases.append(Phase("init", tuple(init)))
    phases.append(Phase("step", tuple(steps)))
    return Program("ring", real, order, tuple(arrays), tuple(kernels), tuple(phases), constants)
