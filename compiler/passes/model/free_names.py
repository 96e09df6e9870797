"""free_names: names of the user that collide with the compiler's get a trailing underscore.

Assumes: a neuron definition whose names are distinct.
Guarantees: no name of the definition is reserved by level 2 (`n`, `i`, `step`, `spikes`, ...) or one that
integrate_odes or lower_cells derive from another (`v_next`, `decay_ge`, `P_v_ge`, ...). Nothing else changes, so
usually the emitted text has exactly the names of the model. Arrays always keep the user's names.
Does not: avoid keywords of C (backends/c_family/cprint.py, Namer, does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.expr.ast import Expr, Ref, substitute
from compiler.ir.level0.controls import rewritten_handler, rewritten_pool
from compiler.passes.program.clock import WARMUP

RESERVED: Final = frozenset(
    {"i", "n", "key", "step", WARMUP, "slot", "slots", "spikes", "spike_count", "ring_slots"}
    | {"held", "spiked", "refractory_left", "refractory_steps"}
    | {"k", "members", "acc", "largest", "pool_index", "pool_of", "out"}
    | {"driven", "undriven", "driven_first", "event_weight", "step_length", "event_mean"}
)
"""Formals, dims and locals of neuron kernels."""

PROPAGATION: Final = frozenset(
    {
        "spikes",
        "spike_count",
        "row",
        "col",
        "n_pre",
        "room",
        "slots",
        "delay",
        "weight",
        "delays",
        "back_delays",
        "late",
    }
    | {"cleared_at", "cleared_every"}
    | {"ring_slots", "n_post", "counts", "step", "index", "words", *l2.PLANES}
    | {"connect_key", "table", "autapses", "same", "number", "multapses", "w_from", "h_from", "w_to", "h_to"}
)
"""Formals of propagation kernels, beside the input that they add to."""

_BEFORE: Final = ("decay_", "decay_half_", "k1_", "k2_", "k3_", "k4_", "s2_", "s3_", "s4_")
_DRIVES: Final = ("_start", "_timed", "_timed_every", "_timed_last", "_timed_row", "_timed_ahead", "_timed_row_ahead")
_AFTER: Final = ("_next", "_now", "_2", "_3", "_4", "_delivered", "_quantum", "_kept", "_every", *_DRIVES)


def _made_from(name: str, others: frozenset[str]) -> bool:
    """Whether passes may derive `name` from some of `others`."""
    if any(name.startswith(p) and name.removeprefix(p) in others for p in _BEFORE):
        return True
    if any(name.endswith(s) and name.removesuffix(s) in others for s in _AFTER):
        return True
    ends = [name.removeprefix(p) for p in ("P_", "Ph_") if name.startswith(p)]
    return any(e.removeprefix(f"{o}_") in {*others, "1"} for e in ends for o in others if e.startswith(f"{o}_"))


def renamed(names: Iterable[str], reserved: frozenset[str] = RESERVED) -> Mapping[str, str]:
    """New names for those of a definition's names that need one; `reserved`: names with a meaning at level 2."""
    own = frozenset(names)
    found: dict[str, str] = {}
    for name in sorted(own):
        new = name[1:].replace(".", "_") if name.startswith("_") else name  # hidden names of level 0
        others = own - {name}
        while new in reserved or new in found.values() or (new != name and new in own) or _made_from(new, others):
            new += "_"
        if new != name:
            found[name] = new
    return found


def names_of(neuron: l0.NeuronDef) -> tuple[str, ...]:
    """Every name that the user chose in a definition, locals of statements included."""
    reset = neuron.spike.reset if neuron.spike is not None else ()
    params, inputs = [p.name for p in neuron.params], [i.name for i in neuron.inputs]
    events = (s for h in neuron.on for s in h.actions)
    statements = (*neuron.lets, *neuron.update, *reset, *neuron.after, *events)
    return (*neuron.model_params, *params, *(s.name for s in neuron.state), *inputs, *(s.target for s in statements))


def free_names(neuron: l0.NeuronDef) -> tuple[l0.NeuronDef, Mapping[str, str]]:
    """The definition with free names, and old name -> new name of what was renamed."""
    new = renamed(names_of(neuron))
    if not new:
        return neuron, new
    bindings: dict[str, Expr] = {old: Ref(name) for old, name in new.items()}

    def name(old: str) -> str:
        return new.get(old, old)

    def expr(e: Expr) -> Expr:
        return substitute(e, bindings)

    def sets(items: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
        return tuple(l0.Set(name(s.target), expr(s.value), s.span) for s in items)

    spike = neuron.spike
    if spike is not None:
        spike = replace(
            spike,
            when=expr(spike.when),
            reset=sets(spike.reset),
            refractory=None if spike.refractory is None else expr(spike.refractory),
            hold=tuple(map(name, spike.hold)),
        )
    free = replace(
        neuron,
        params=tuple(replace(p, name=name(p.name)) for p in neuron.params),
        state=tuple(replace(s, name=name(s.name)) for s in neuron.state),
        inputs=tuple(
            replace(x, name=name(x.name), decay=None if x.decay is None else expr(x.decay)) for x in neuron.inputs
        ),
        lets=sets(neuron.lets),
        dynamics=tuple(l0.Ode(name(o.state), expr(o.rhs), o.span) for o in neuron.dynamics),
        update=sets(neuron.update),
        spike=spike,
        model_params=tuple(map(name, neuron.model_params)),
        pools=tuple(rewritten_pool(p, expr) for p in neuron.pools),
        on=tuple(rewritten_handler(h, expr, name) for h in neuron.on),
        after=sets(neuron.after),
    )
    return free, new
