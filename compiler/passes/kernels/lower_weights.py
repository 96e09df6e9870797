"""lower_weights: trained values, variables, their stores and their updates.

Assumes: weights and variables of all phases are the same arrays by name.
Guarantees: initial values are rows of the init phase; all updates of one optimizer are rows of one kernel.
Does not: decide when a Map may write its variable in place (lower_tensors does).
"""

from __future__ import annotations

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.symbols import model_name
from compiler.expr.ast import refs
from compiler.ir.space import Role
from compiler.layers.shared.initial_weights import computed
from compiler.layout.assign_layouts import array_of
from compiler.passes.kernels.nest_builder import Walk
from compiler.passes.kernels.tensor_phase import Phase, axes_of, emit_copy, emit_row
from compiler.passes.program.init_values import initialise, read_shaped


def lower_update(p: Phase, node: l1.Update) -> None:
    """The optimizer's statements over one weight, flat."""
    weight = p.tensors[node.weight]
    size = p.builder.arrays[weight.name].physical_size
    real = p.builder.precision
    written = {s.target for s in node.statements}
    used = set().union(*(refs(s.value) for s in node.statements))
    bound = {"param": weight.name, "gradient": p.arrays[node.gradient]}
    formals = [l2.ArrayFormal("param", real, l2.Mode.UPDATE, l2.ELEMENT)]
    if "gradient" in used:
        formals.append(l2.ArrayFormal("gradient", real, l2.Mode.READ, l2.ELEMENT))
    for name, start in node.state:
        array = f"{weight.name}.{model_name(name)}"
        if array not in p.builder.arrays:
            p.builder.array(l2.Array(array, real, weight.shape, Role.STATE, span=node.span))
            if start != 0:
                initialise(p.builder, array, l0.Const(start), None, Role.STATE, "1", size, node.span)
        bound[name] = array
        mode = l2.Mode.UPDATE if name in written else l2.Mode.READ
        formals.append(l2.ArrayFormal(name, real, mode, l2.ELEMENT))
    for name, tensor in node.reads:
        bound[name] = p.arrays[tensor]
        formals.append(l2.ArrayFormal(name, real, l2.Mode.READ, l2.SCALAR))
    scalars = tuple((n, v) for n, v in node.params if n in used)
    statements = tuple(l2.Assign(s.target, s.value, s.span) for s in node.statements)
    nest = l2.Nest((l2.Dim("i", "n"),), statements)
    label, due = "optimizer update", (node.every, node.offset)
    emit_row(p, weight, label, formals, bound, {"n": size}, scalars, nest, node.span, due=due)


def lower_weight(p: Phase, node: l1.Weight) -> None:
    p.arrays[node.out.name] = node.out.name
    if node.out.name in p.builder.arrays:
        return
    array = array_of(node.out, node.out.name, p.builder.precision, 0, Role.WEIGHT, span=node.span)
    p.builder.array(array)
    size = array.physical_size
    if node.init in ("truncated_normal", "orthogonal"):
        values = computed(array.name, node.out.shape, node.init, node.init_args)
        p.builder.constants[array.name] = values.ravel().astype(p.builder.precision.numpy)
        return
    if node.file is not None:
        p.builder.constants[array.name] = read_shaped(node.file, array.name, node.out.shape, array.dtype)
        return
    if node.init != "zeros":
        value = _initial(node.init, node.init_args)
        initialise(p.builder, array.name, value, None, Role.WEIGHT, "1", size, node.span)


def _initial(init: str, args: tuple[float, ...]) -> l0.Const | l0.Distribution:
    match init:
        case "uniform":
            return l0.Distribution("uniform", (("low", -args[0]), ("high", args[0])))
        case "normal":
            return l0.Distribution("normal", (("mean", 0.0), ("std", args[0])))
    return l0.Const(args[0] if init == "constant" else 1.0)


def lower_variable(p: Phase, node: l1.Variable) -> None:
    p.arrays[node.out.name] = node.out.name
    if node.out.name in p.builder.arrays:
        return
    array = array_of(node.out, node.out.name, p.builder.precision, 0, Role.STATE, node.wide, node.span)
    p.builder.array(array)
    if node.init != 0:
        assert not node.wide, "wide variables start at zero"
        initialise(p.builder, array.name, l0.Const(node.init), None, Role.STATE, "1", array.physical_size, node.span)


def lower_constant(p: Phase, node: l1.Constant) -> None:
    """An array whose contents are part of the program."""
    p.arrays[node.out.name] = node.out.name
    if node.out.name not in p.builder.arrays:
        array = array_of(node.out, node.out.name, p.builder.precision, 0, Role.CONST, span=node.span)
        p.builder.array(array, np.array(node.values).astype(p.builder.precision.numpy))


def lower_store(p: Phase, node: l1.Store) -> None:
    """Copies a value into its variable."""
    target, value = p.tensors[node.target], p.tensors[node.value]
    emit_copy(p, target, "store", Walk("y", target, axes_of(target)), Walk("x0", value, axes_of(value)), node.span)
