"""Pools of a neuron definition: shared reductions, states and equations.

Assumes: the block has been validated; the neuron's params, states and inputs are declared.
Guarantees: every expression is typed and dimension-checked; the scope of a reduction is what the neuron has computed
at the position of the pools (states, inputs, named expressions, locals assigned before) and the preceding reductions.
Names are `pool.x` and `population.x`.
Does not: depend on the number of pools of a population, or split the step
(passes/model/split_cells.py does so at the same position).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink, declared_at
from compiler.core.source import Span
from compiler.expr.ast import Call, Ref, refs
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension
from compiler.frontend.build.instances.pool_sums import assigned_in_pool, with_scopes
from compiler.frontend.build.shared.definition_builder import Draft, constant_or_formula, unit_name
from compiler.frontend.build.shared.phases import build_actions, build_handlers, counters
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.scope import Scope, Wanted, check_tree, read_expression
from compiler.frontend.build.shared.values import entries_of, listed, mapping
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.ir.level0.pool_sums import OPERATIONS, SCOPES

_TARGET: Final = re.compile(r"\s*([A-Za-z]\w*)\s*[-+*/]?=")
_UNKNOWN: Final = re.compile(r"unknown name `([\w.]+)`")
_READS: Final = re.compile(r"(?<![\w.])(?:pool|population)\s*\.")


@dataclass
class Pools:
    """The pools of one definition, built at the first statement that reads them. `inner`: what statements of each
    scope read, assign to, and are called in the model."""

    d: Draft
    defs: list[l0.PoolDef] = field(default_factory=list)
    dimensions: dict[str, Dimension | None] = field(default_factory=dict)
    inner: dict[str, tuple[Scope, Mapping[str, Dimension | None], Mapping[str, str]]] = field(default_factory=dict)
    done: bool = False

    @property
    def present(self) -> bool:
        return any(self.d.node.get(scope) is not None for scope in SCOPES)

    def read_by(self, nodes: Iterable[Node]) -> bool:
        """Whether one of the expressions or statements reads a variable of a pool."""
        return any(isinstance(n, Scalar) and _READS.search(n.text) is not None for n in nodes)

    def built(self, scope: Scope) -> Scope:
        """`scope` with the variables of all pools, which are built on first use."""
        if not self.done:
            self.done = True
            for name in SCOPES:
                block = mapping(self.d.node.get(name))
                entry = self.d.node.entry(name)
                if block is not None and entry is not None:
                    scope = self._pool(name, block, entry.key.span, scope)
        return self.extended(scope)

    def extended(self, scope: Scope) -> Scope:
        return scope.extended(self.dimensions)

    # ------------------------------------------------------------------------------------- one scope

    def _pool(self, scope_name: str, block: tree.Mapping, at: Span, scope: Scope) -> Scope:
        c = self.d.c
        own: dict[str, Dimension | None] = {}
        places: dict[str, Span] = {}
        states = self._states(scope_name, block, own, places)
        scope = self.extended(scope)
        reductions: list[l0.Reduction] = []
        for entry in entries_of(block.get("reduce")):
            name = entry.name
            if not self._free(name, entry.key.span, places, scope_name):
                continue
            places[name] = entry.key.span
            made, dimension = self._reduction(name, entry.value, scope, entry.key.span)
            own[name] = self.dimensions[f"{scope_name}.{name}"] = dimension
            scope = self.extended(scope)
            if made is not None:
                reductions.append(made)
        known: dict[str, Dimension | None] = {
            **{n: dim for n, dim in self.d.params.items() if n not in own},
            "t": TIME,
            "dt": TIME,
            **counters(c),
            **self.d.others,
            **{n: dim for n, dim in self.dimensions.items() if not n.startswith(f"{scope_name}.")},
            **own,
        }
        inner = c.names.scope.extended(known, {**self.d.places, **places})
        dotted = {n: f"{scope_name}.{n}" for n in own}
        targets = {s.name: own[s.name] for s in states}
        before = len(c.sink.items)
        update = build_actions(self.d, listed(block.get("update")), inner, targets, dotted)
        reduce = "it differs from neuron to neuron; reduce it: `reduce: {{{0}_mean: mean({0})}}`"
        helps = {n: reduce.format(n) for n in (*self.d.states, *self.d.inputs, *_assigned(self.d.node))}
        explain(c.sink, before, {**helps, "self.n": "count the neurons: `reduce: {n: sum(1)}`"})
        self.defs.append(l0.PoolDef(scope_name, tuple(reductions), states, update, (), at))
        self.inner[scope_name] = (inner, targets, dotted)
        return scope

    def with_handlers(self, scope: Scope, on: tuple[l0.Handler, ...], at: Span) -> tuple[l0.PoolDef, ...]:
        """All pools, with what they do at events. `scope`: that of the neuron's own statements there, `on`, which may
        reduce over scopes without a block."""
        sink, out = self.d.c.sink, list[l0.PoolDef]()
        for pool in self.defs:
            block = mapping(self.d.node.get(pool.scope))
            inner, targets, dotted = self.inner[pool.scope]
            before, given = len(sink.items), None if block is None else block.get("on")
            assigner = partial(assigned_in_pool, pool.scope, scope)
            out.append(replace(pool, on=build_handlers(self.d, given, inner, targets, dotted, assigner)))
            reduce = "it differs from neuron to neuron; reduce it: `mean({0})`"
            explain(sink, before, {n: reduce.format(n) for n in (*self.d.states, *self.d.inputs)})
        return with_scopes(out, (*on, *(h for pool in out for h in pool.on)), at)

    def _free(self, name: str, at: Span, places: dict[str, Span], scope_name: str) -> bool:
        c = self.d.c
        if name in self.d.params or name in ("t", "dt"):
            message = f"`{name}` has a meaning in the equations of the {scope_name} already"
            c.sink.error("E0212", message, at, "choose another name", declared_at(self.d.places.get(name)))
            return False
        if name in places:
            related = declared_at(places[name])
            c.sink.error("E0212", f"`{scope_name}.{name}` is declared already", at, "choose another name", related)
            return False
        return True

    def _states(
        self, scope_name: str, block: tree.Mapping, own: dict[str, Dimension | None], places: dict[str, Span]
    ) -> tuple[l0.StateDecl, ...]:
        out: list[l0.StateDecl] = []
        for entry in entries_of(block.get("state")):
            name = entry.name
            if not self._free(name, entry.key.span, places, scope_name):
                continue
            places[name] = entry.key.span
            what = f"the initial value of `{scope_name}.{name}`"
            found = self.d.check(entry.value, self.d.scope(self.d.params), Wanted(what))
            dimension = None if found is None else found.dimension or DIMENSIONLESS
            own[name] = self.dimensions[f"{scope_name}.{name}"] = dimension
            value = None if found is None else constant_or_formula(found.expr, entry.value, self.d)
            if value is not None:
                out.append(l0.StateDecl(name, unit_name(dimension), value, entry.key.span))
        return tuple(out)

    def _reduction(self, name: str, node: Node, scope: Scope, at: Span) -> tuple[l0.Reduction | None, Dimension | None]:
        c = self.d.c
        if not isinstance(node, Scalar):
            c.sink.error("E0102", f"`{name}` must be a reduction such as `mean(v)`", node.span)
            return None, None
        whole = read_expression(node, scope, c.sink)
        if whole is None:
            return None, None
        if not isinstance(whole, Call) or whole.func not in OPERATIONS or len(whole.args) != 1:
            message = f"`{name}` must be one reduction over the neurons such as `mean(v)`"
            help = "`sum`, `mean`, `min` and `max` take one expression, `argmax` one variable; combine them in `update`"
            c.sink.error("E0311", message, node.span, help)
            return None, None
        value = whole.args[0]
        unknown = isinstance(value, Ref) and value.name not in scope.kinds
        variable = isinstance(value, Ref) and value.name in {*self.d.states, *self.d.inputs, *self.d.locals}
        if whole.func == "argmax" and not unknown and not variable:
            message = "`argmax` takes a state, an input or a name that `update` has assigned before"
            c.sink.error("E0311", message, value.span, "assign the expression to a name of its own in `update`")
            return None, None
        wanted = Wanted(f"`{name}`", random="random numbers are drawn in `update`, before a reduction reads them")
        before = len(c.sink.items)
        found = check_tree(value, node.span, scope, wanted, c.sink)
        later = "pools are computed before the first statement of `update` that reads them; assign `{}` before that one"
        explain(c.sink, before, {n: later.format(n) for n in _assigned(self.d.node)})
        if found is None:
            return None, None
        self.d.read |= refs(found.expr)
        dimension = DIMENSIONLESS if whole.func == "argmax" else found.dimension or DIMENSIONLESS
        return l0.Reduction(name, whole.func, found.expr, unit_name(dimension), at), dimension


def _assigned(block: tree.Mapping) -> list[str]:
    """Names assigned in the `update` of a block."""
    texts = [n.text for n in listed(block.get("update")) if isinstance(n, Scalar)]
    return [m[1] for t in texts if (m := _TARGET.match(t)) is not None]


def explain(sink: Sink, start: int, helps: Mapping[str, str]) -> None:
    """Adds specific help to unknown names reported from item `start` on."""
    for i in range(start, len(sink.items)):
        found = _UNKNOWN.match(sink.items[i].message)
        if found is not None and found[1] in helps:
            sink.items[i] = replace(sink.items[i], help=helps[found[1]])


def explain_absent(d: Draft, start: int) -> None:
    """Explains how variables of pools are declared, where the definition has no pool, or they are locals there."""
    helps = {}
    for item in d.c.sink.items[start:]:
        found = _UNKNOWN.match(item.message)
        scope, dot, name = found[1].partition(".") if found is not None else ("", "", "")
        if scope not in SCOPES or not dot:
            continue
        block = mapping(d.node.get(scope))
        if d.node.get(scope) is None:
            helps[f"{scope}.{name}"] = f"declare it: `{scope}: {{reduce: {{{name}: mean(...)}}}}`"
        elif block is not None and name in _assigned(block):
            helps[f"{scope}.{name}"] = (
                f"a local of its `update`; declare it as a state: `{scope}: {{state: {{{name}: 0}}}}`"
            )
    explain(d.c.sink, start, helps)


def count_pools(name: str, r: Reader, size: int, shape: tuple[int, ...], definition: l0.NeuronDef) -> int:
    """The number of pools of a population, which divides its size: that of its `shape`, where this has four extents."""
    c, node, count = r.c, r.get("pools"), r.integer("pools", what=f"`pools` of `{name}`")
    of_shape = shape[0] * shape[1] if len(shape) == 4 else None
    if node is None or count is None:
        pooled = any(p.scope == "pool" for p in definition.pools)
        return of_shape if of_shape is not None and pooled else count or 1
    if of_shape not in (None, count):
        message = f"`{name}` has {of_shape} pools by its `shape`: {shape[0]} rows of {shape[1]}"
        c.sink.error("E0106", message, node.span, "leave `pools` out")
    elif not any(p.scope == "pool" for p in definition.pools):
        message = f"`{name}` has `pools`, but its neuron `{definition.name}` has no `pool`"
        related = declared_at(definition.span, "the neuron") if definition.span.via is None else ()
        help = "what pools compute stands in the neuron: `pool: {reduce: {v_mean: mean(v)}}`"
        c.sink.error("E0108", message, node.span, help, related)
    elif size % count:
        message = f"{size:,} neurons cannot be divided into {count:,} equal pools"
        c.sink.error("E0106", message, node.span, f"`pools` divides the size of `{name}`")
    return count
