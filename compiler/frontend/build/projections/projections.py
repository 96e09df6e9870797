"""Projections: from resolved blocks of `projections` to families with a table of members.

Assumes: populations have been built.
Guarantees: members stand in the order of sources, then targets, each in the order in which `from` and `to` name them
(`all` and classes: in the order of `populations`); members whose probability or number of connections is 0 are
omitted. Weights have the dimension of the input, delays are integer steps. The parameters and states of a synapse have
values for every member, and it is compatible with its neurons.
Does not: sample connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import compiler.frontend.build.synapses.fits as checks
import compiler.ir.level0.model as l0
from compiler.connect import Form
from compiler.connect.rule import Args
from compiler.connect.storage import Asked
from compiler.core.diagnostics import Related, Sink, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import refs
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, Dimension, describe
from compiler.frontend.build.places.names import Space, space_of
from compiler.frontend.build.places.values import Settling, reads_places, warn_of_channels
from compiler.frontend.build.projections.connect import Connectivity, connectivity
from compiler.frontend.build.projections.copies import Copies, Named, alike, copies_of
from compiler.frontend.build.projections.delays import (
    Delay,
    Given,
    delay_steps,
    longest,
    one_by_one,
    placed_steps,
)
from compiler.frontend.build.projections.given_values import GivenValues
from compiler.frontend.build.projections.kernels import settings_of_kernel
from compiler.frontend.build.projections.parts import check_parts, have_common, within_parts
from compiler.frontend.build.projections.read_values import Totals, add_up, check_circles, end_values, summed_names
from compiler.frontend.build.projections.storage import check_values
from compiler.frontend.build.projections.weights import Env, weight_of
from compiler.frontend.build.shared.initial_values import OneByOne
from compiler.frontend.build.shared.others import User, bind_others, check_one
from compiler.frontend.build.shared.phases import find_moment
from compiler.frontend.build.shared.readers import Reader, default_of, members
from compiler.frontend.build.shared.scope import TOTAL
from compiler.frontend.build.shared.values import Context, Names, entries_of, mapping, text_of
from compiler.frontend.build.spiking.family import SIZES, Family
from compiler.frontend.build.spiking.member_values import member_values
from compiler.frontend.build.spiking.populations import SPIKE, Populations
from compiler.frontend.build.spiking.select import select_parts
from compiler.frontend.build.synapses.moving import moving_params, with_moving
from compiler.frontend.build.synapses.statements import Ends
from compiler.frontend.build.synapses.synapses import BuiltSynapse, Synapses
from compiler.frontend.build.synapses.transpose import check_transposes, mirrored
from compiler.frontend.build.synapses.use import Settings, given_dimensions, read_settings
from compiler.frontend.language.spiking.connections import PROJECTIONS_MAP
from compiler.frontend.resolve.for_ import MAX_COPIES
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar


def build_projections(
    root: tree.Mapping, c: Context, populations: Populations, synapses: Synapses
) -> tuple[l0.Projection, ...]:
    """All families of the file that have no error."""
    node = root.get("projections")
    shared = c.names.scope.extended(dict.fromkeys(SIZES, DIMENSIONLESS), kind=Kind.INT)
    totals = Totals()
    among = _Among(populations, Names(shared, c.names.numbers), synapses, totals)
    entries = tuple(members(PROJECTIONS_MAP, node, c))
    built = dict[str, l0.Projection | None]()
    for group in alike(entries):
        built |= _copied(group, among) or {entry[0]: _projection(entry, among) for entry in group}
    if totals.readers:  # what they add up is known now
        totals.known = add_up((p for p in built.values() if p is not None), totals, c)
        built |= {entry[0]: _projection(entry, among) for entry in entries if entry[0] in totals.readers}
        check_circles(built, totals, {name: at for name, _, at in entries}, c)
    named = tuple(e.name for e in entries_of(node))
    out: list[l0.Projection] = []
    for name, r, _ in entries:
        if (whole := built[name]) is not None:
            mirror = r.get("mirror")
            out.append(mirrored(whole, mirror if isinstance(mirror, Scalar) else None, named, built, c))
    check_transposes(tuple(out), named, c)
    for family in out:
        warn_of_channels(family, populations.built, c)
    return tuple(out)


@dataclass(frozen=True)
class _Among:
    """What entries of `projections` are built among. `names`: with the sizes of both ends."""

    populations: Populations
    names: Names
    synapses: Synapses
    totals: Totals


@dataclass(frozen=True)
class _Draft:
    """One entry of `projections` while it is built. `sources`, `targets`, `dimension` (of the input `into`): None after
    an error; `fits`: no such error so far; `sure`: the dimensions that the synapse needs are known; `user`: a note that
    names the entry; `unmoved`: the synapse before parameters that change in time (`moving`) became expressions."""

    r: Reader
    block: tree.Mapping
    at: Span
    family: Family
    sources: tuple[str, ...] | None
    targets: tuple[str, ...] | None
    synapse: BuiltSynapse | None
    synapses: Synapses
    into: Node | None
    dimension: Dimension | None
    fits: bool
    sure: bool
    user: Related
    space: Space
    unmoved: BuiltSynapse | None
    moving: Mapping[str, Node]

    @property
    def deliver(self) -> tree.Mapping | None:
        return mapping(self.block.get("deliver"))

    @property
    def definition(self) -> l0.SynapseDef | None:
        return None if self.synapse is None else self.synapse.definition


def _found(r: Reader, synapses: Synapses) -> BuiltSynapse | None:
    reference = r.get("synapse")
    return synapses.find(reference) if isinstance(reference, Scalar) else None


def _draft(entry: Named, among: _Among, synapse: BuiltSynapse | None, copies: Copies | None = None) -> _Draft | None:
    """What stands at both ends, the synapse and the input; None where nothing else can be checked."""
    (name, r, at), populations, names, synapses = entry, among.populations, among.names, among.synapses
    c, block = r.c, r.node
    assert block is not None
    sources, parts_from = select_parts(block.get("from"), populations, names, c)
    targets, parts_to = select_parts(block.get("to"), populations, names, c)
    if copies is not None:
        sources, targets = copies.sources, copies.targets
    elif len(sources or ()) * len(targets or ()) > MAX_COPIES:
        message = f"`{name}` connects {len(sources or ()):,} x {len(targets or ()):,} populations; at most "
        c.sink.error("E0208", f"{message}{MAX_COPIES:,} pairs of them are allowed", at)
        return None
    declared = mapping(block.get("values"))
    values = {} if declared is None else member_values(declared, sources, targets, populations, c)
    deliver = mapping(block.get("deliver"))
    into = deliver.get("into") if deliver is not None else None
    own = {n: v.dimension for n, v in values.items()} | ({} if synapse is None else synapse.params)
    sums = summed_names(block, None if synapse is None else synapse.node) & own.keys()
    values |= end_values(block, sources, targets, populations, c) | ({} if copies is None else copies.values)
    values |= among.totals.values(sums, text_of(into), targets or (), own, at, c)
    scope = replace(names.scope.extended({n: v.dimension for n, v in values.items()}), totals=own)
    placed = any(reads_places(node, scope) for node in _per_synapse(block))
    parts = (parts_from, parts_to, copies is not None)
    family = Family(name, c, populations, Names(scope, names.numbers), values, placed, *parts)
    space = space_of(r, family)
    if space is None:
        return None
    if isinstance(block.get("synapse"), Scalar) and (synapse is None or synapse.definition is None):
        return None
    user, sure = Related(f"the projection `{name}` uses the synapse here", at), True
    unmoved, moving = synapse, dict[str, Node]()
    if synapse is not None:
        moving = moving_params(block, synapse, c)
        dimensions, sure = given_dimensions(block, synapse, space, family, moving)
        if sure:
            unmoved = synapse = synapses.with_dimensions(synapse, dimensions, user)
        else:  # the definition is not checked again, as one of the values has an error
            params, states = ({n: dimensions.get(n, x) for n, x in d.items()} for d in (synapse.params, synapse.states))
            unmoved = synapse = replace(synapse, params=params, states=states)
        synapse = with_moving(synapse, moving, name, synapses.moved, c)
        if synapse is None:
            return None
    dimension, fits = (None, synapse is not None) if into is None else _input(into, targets, populations, c)
    ends = (sources, targets, synapse, synapses, into, dimension)
    return _Draft(r, block, at, family, *ends, fits, sure, user, space, unmoved, moving)


def _copied(group: Sequence[Named], among: _Among) -> dict[str, l0.Projection | None] | None:
    """The projections of one block, made as one family; None where they are to be made one by one."""
    copies, (name, r, at) = copies_of(group, among.populations), group[0]
    if copies is None or summed_names(copies.block):
        return None
    r = replace(r, node=copies.block, c=replace(r.c, sink=Sink()))
    d = _draft((name, r, at), among, None, copies)
    whole = None if d is None else _whole(d, 0, among)
    if whole is None or r.c.sink.items or len(whole.members) < len(group):
        return None
    if whole.probability is not None or whole.planes:
        return None
    one_each = zip(group, whole.members, strict=True)
    return {name: replace(whole, name=name, members=(m,), span=at) for (name, _, at), m in one_each}


def _per_synapse(block: tree.Mapping) -> Iterator[Node | None]:
    """The values of a projection that may differ from synapse to synapse."""
    deliver = mapping(block.get("deliver"))
    yield None if deliver is None else deliver.get("weight")
    for delay in (block.get("delay"), block.get("back_delay")):
        yield delay
        yield None if (rounded := mapping(delay)) is None else rounded.get("value")
    for key in ("params", "init"):
        yield from (e.value for e in entries_of(block.get(key)))


def _projection(entry: Named, among: _Among) -> l0.Projection | None:
    """A family; None after an error. One that reads sums reports its mistakes when these are known."""
    (name, r, at), totals = entry, among.totals
    synapse = _found(r, among.synapses)
    if totals.known is None and summed_names(r.node, None if synapse is None else synapse.node):
        totals.readers.add(name)
        r = replace(r, c=replace(r.c, sink=Sink()))
    before = len(r.c.sink.items)
    d = _draft((name, r, at), among, synapse)
    return None if d is None else _whole(d, before, among)


def _whole(d: _Draft, before: int, among: _Among) -> l0.Projection | None:
    """The family of a draft; None after an error. `before`: how many were known before the draft."""
    c, r, at, name, populations = d.r.c, d.r, d.at, d.family.name, among.populations
    fits = d.fits
    if d.synapse is None:
        populations.never_spikes(d.sources or (), at if (ends := d.block.get("from")) is None else ends.span, SPIKE)
    elif d.sure:
        fits = _check_synapse(d, d.synapse) and fits
    connect = mapping(d.block.get("connect"))
    if connect is None or len(connect.entries) != 1 or (d.deliver is None and d.synapse is None):
        return None
    common = have_common(d.sources, d.targets, d.family)
    connection = connectivity(connect.entries[0], d.space, d.family, common)
    if connection is not None:
        connection = within_parts(connection, d.sources, d.targets, d.family, d.at)
    values = _values(d, connection)
    if not fits or connection is None or d.sources is None or d.targets is None:
        return None
    if not populations.built.keys() >= {*d.sources, *d.targets}:
        return None
    others = _others(d, populations)
    if others is None:
        return None
    members = _members(d, connection, values, others)
    among.totals.given[name] = _given(d, members)
    if d.synapse is not None and not d.sure and len(c.sink.items) == before:  # else a value has a mistake
        _check_synapse(d, d.synapse)
    if d.synapse is not None and len(c.sink.items) == before:
        written = d.synapses.written_out(d.synapse, d.unmoved or d.synapse, _pairs(d), at)
        if written is not d.synapse:
            d = replace(d, synapse=with_moving(written, d.moving, name, d.synapses.moved, c))
    _check_members(d, connection, members, connect.entries[0].value)
    clear = r.get("clear")
    cleared = find_moment(clear, c) if isinstance(clear, Scalar) else None
    if len(c.sink.items) > before:
        return None
    return l0.Projection(
        name,
        connection.rule.name,
        text_of(d.into),
        tuple(members),
        () if connection.pairs is None else (connection.pairs.pairs,),
        d.definition,
        connection.storage,
        connection.probability,
        connection.planes,
        cleared,
        span=at,
    )


def _sums_of(definition: l0.SynapseDef | None) -> list[str]:
    """The sums over projections that the statements of a synapse read."""
    read = () if definition is None else definition.expressions
    return sorted(n for n in set[str]().union(*(refs(e) for e in read)) if n.startswith(f"{TOTAL}."))


def _given(d: _Draft, built: list[l0.Member]) -> list[tuple[str, str, float | int | None]]:
    """What a family may add to sums besides parameters of its members: (target, name, value)."""
    if d.synapse is not None:
        return [(m.target, name, None) for m in built for name in d.synapse.moving]
    if not d.family.values:
        return []
    exist = {(m.source, m.target) for m in built}
    every = d.family.members(d.sources or (), d.targets or ())
    mine = [(target, env) for source, target, env in every if (source, target) in exist]
    return [(target, name, env[name]) for target, env in mine for name in d.family.values if "." not in name]


@dataclass(frozen=True)
class _Values:
    """What members have, where the values of the family are given; None after an error."""

    weight: Callable[[Env], l0.Value | None]
    settings: Callable[[Env], Settings | None]
    delay: Delay
    back_delay: Delay
    occupied: Callable[[Env], float | None]


def _values(d: _Draft, connection: Connectivity | None) -> _Values:
    """With a synapse, its statements say what is delivered: the weight is 0."""
    r, family, deliver = d.r, d.family, d.deliver if d.synapse is None else None
    count = None if connection is None else connection.count
    planes = None if connection is None else connection.planes
    given = OneByOne(connection is None or (connection.rule.arrays and planes is None), count)
    of_synapses = given if planes is None or planes.shared else OneByOne(True, None)  # of the kernel's elements
    refused = connection.rule.keys.name if connection is not None and not connection.rule.arrays else None

    def delays(key: str) -> Delay:
        unpaired = connection is None and one_by_one(r.get(key))  # the pairs that they belong to have a mistake
        return delay_steps(replace(r, node=None) if unpaired else r, d.space, family, given, key)

    return _Values(
        weight_of(deliver, d.dimension, d.space, family, refused, count)
        if deliver is not None
        else lambda env: l0.Const(0.0),
        read_settings(d.block, d.synapse, d.space, family, d.at, of_synapses)
        if d.synapse is not None
        else lambda env: ((), ()),
        delays("delay"),
        delays("back_delay"),
        _occupied(r, d.synapse, family),
    )


def _members(
    d: _Draft, connection: Connectivity, values: _Values, others: tuple[tuple[str, str], ...]
) -> list[l0.Member]:
    """The members that exist and have no mistake."""
    family, sources, targets = d.family, d.sources or (), d.targets or ()
    settling, rule = Settling(connection.probability, d.space, family), connection.rule
    given = GivenValues(rule, family)
    members: list[l0.Member] = []
    lost, told_so_far = False, family.c.sink.items
    late = Late(settling, family)
    arguments, weight, settings_of, delay = connection.arguments, values.weight, values.settings, values.delay
    back_delay, occupied, own_weight = values.back_delay, values.occupied, connection.weight
    empty = rule.empty
    listed_at = None if connection.pairs is None else 0
    sums = _sums_of(d.definition)
    for source, target, env in family.members(sources, targets):
        told = len(told_so_far)
        args = arguments(source, target, env)
        left_out = args is None and len(told_so_far) == told
        w, own, part = weight(env), settings_of(env), occupied(env)
        delays = delay(env), back_delay(env)
        if args is not None:
            given.check(w, own, delays, source, target)
        if own is not None and connection.planes is not None:
            own = settings_of_kernel(own, partial(connection.weight, source=source, target=target, family=family))
        if family.placed and args is not None:
            w, own = _settled(settling, w, own, source, target, args)
        steps, each = late.steps(delays[0], "`delay`", source, target, args)
        back, each_back = late.steps(delays[1], "`back_delay`", source, target, args)
        if args is not None and w is not None:
            w = own_weight(w, source, target, family)
        totals = tuple((name, env[name]) for name in sums)
        told_of = any(x is None for _, x in totals)
        if args is None or w is None or steps is None or own is None or back is None or part is None or told_of:
            lost = lost or not left_out  # to a mistake, or to the step's
        elif not empty(args):
            parts = (None, None) if rule.expression else family.parts(source, target)
            members.append(
                l0.Member(
                    source,
                    target,
                    args,
                    w,
                    steps,
                    listed_at,
                    each,
                    *own,
                    back,
                    None,
                    part,
                    parts,
                    others,
                    each_back,
                    totals,
                )
            )
    if rule.form is Form.DIAGONAL and not members and sources == targets and not lost:
        message = f"`{sources[0]}` connects to itself alone, and `autapses: false` leaves that out"
        family.c.sink.error("E0604", message, connection.span, "leave `autapses: false` out")
    return members


@dataclass
class Late:
    """Delays of members in steps; what follows from places is refused once, not per member."""

    settling: Settling
    family: Family
    refused: set[str] = field(default_factory=set)

    def steps(
        self, given: Given, what: str, source: str, target: str, args: Args | None
    ) -> tuple[int | None, l0.Distribution | l0.Listed | l0.Placed | None]:
        """The delay, or the longest of those that differ from synapse to synapse, and these; None after an error."""
        if isinstance(given, l0.Placed) and args is not None:
            exact = self.settling.settled(given, what, source, target, args)
            given = None if exact is None or what in self.refused else placed_steps(exact, self.family, what)
            if given is None:
                self.refused.add(what)
        if isinstance(given, l0.Distribution | l0.Listed | l0.Placed):
            return longest(given), given
        return given, None


def _settled(
    settling: Settling, weight: l0.Value | None, own: Settings | None, source: str, target: str, args: Args
) -> tuple[l0.Value | None, Settings | None]:
    """The weight, parameters and states of a member, with the bounds of those that follow from places."""

    def one(value: l0.Value | None, what: str) -> l0.Value | None:
        return settling.settled(value, what, source, target, args) if isinstance(value, l0.Placed) else value

    weight = one(weight, "`weight`")
    if own is None:
        return weight, None
    params, init = (tuple((n, one(v, f"`{n}`")) for n, v in part) for part in own)
    if any(v is None for _, v in (*params, *init)):
        return weight, None
    return weight, (cast(tuple[tuple[str, l0.Value], ...], params), cast(tuple[tuple[str, l0.Value], ...], init))


def _others(d: _Draft, populations: Populations) -> tuple[tuple[str, str], ...] | None:
    """The populations that the synapse reads; None after an error."""
    given, synapse = d.block.entry("others"), d.synapse
    if synapse is None or synapse.definition is None:
        if given is not None and d.deliver is not None and "weight" in d.deliver:  # else it lacks one or the other
            message = f"`{d.family.name}` has no `synapse` that could read other populations"
            d.family.c.sink.error("E0108", message, given.key.span, "leave `others` out, or name a `synapse`")
            return None
        return ()
    declared = synapse.definition.others
    user = User(d.family.name, d.at, d.block.get("others"), "synapse", synapse.name, synapse.span)
    bound = bind_others(user, declared, populations.built, populations.names, d.family.c)
    return bound if bound is not None and check_one(bound, declared, populations.built, d.at, d.family.c) else None


def _check_members(d: _Draft, connection: Connectivity, members: list[l0.Member], rule: Node) -> None:
    """What the synapse and the storage ask of the members."""
    c, definition, deliver = d.family.c, d.definition, d.deliver
    check_parts(connection, definition, members, d.family, d.at)
    if definition is not None:
        checks.check_delays(d.block, definition, members, d.family)
        checks.check_clear(d.block, definition, c)
        checks.check_starts(definition, members, c, d.user)
        checks.check_reads(definition, text_of(d.into), members, d.user, c)
        checks.check_counts(definition, members, d.at, c)
        checks.check_rewired(definition, connection.rule, connection.storage, connection.span, c)
        checks.check_kernel_sums(definition, connection.rule, connection.span, c)
    settings = mapping(rule)
    given = {key: d.block.get(key) for key in ("delay", "synapse", "back_delay")}
    given["storage"] = None if settings is None else settings.get("storage")
    given["weight"] = None if deliver is None else deliver.get("weight")
    check_values(connection.storage, Asked(connection.rule, synapse=definition, members=members), given, c.sink)


def _occupied(r: Reader, synapse: BuiltSynapse | None, family: Family) -> Callable[[Env], float | None]:
    entry, default = r.entry("occupied"), default_of(r.default("occupied"))
    if entry is None:
        return lambda env: default
    part = family.real(r.of("occupied"), entry.value, "`occupied`")
    if synapse is not None and synapse.definition is not None and not synapse.definition.vacancies:
        message = f"`occupied` has no effect: the synapse `{synapse.name}` never removes or forms synapses"
        related = declared_at(synapse.span, "the synapse")
        family.c.sink.error("E0108", message, entry.key.span, "leave `occupied` out", related)
    return part


def _check_synapse(d: _Draft, synapse: BuiltSynapse) -> bool:
    """Whether the synapse can stand between these neurons and has all that it needs; reports it if not."""
    family = d.family
    good = checks.check_delivery(d.block, synapse, d.at, family)
    if d.sources is None or d.targets is None or synapse.definition is None:
        return False
    checks.check_spikes(d.block, synapse.definition, d.sources, d.targets, family)
    for pair in _pairs(d):
        good = d.synapses.fits(synapse, pair, d.user) and good
    return good


def _pairs(d: _Draft) -> Iterator[Ends]:
    """The different neurons at both ends."""
    neuron_of = d.family.populations.neuron_of
    ends = [{id(n): n for p in names or () if (n := neuron_of.get(p)) is not None} for names in (d.sources, d.targets)]
    for pre in ends[0].values():
        for post in ends[1].values():
            yield Ends(pre, post, d.dimension)


def _input(
    into: Node | None, targets: tuple[str, ...] | None, populations: Populations, c: Context
) -> tuple[Dimension | None, bool]:
    """The dimension of the targeted input (None: unknown), and whether every target has it."""
    if not isinstance(into, Scalar):
        return None, False
    dimension: Dimension | None = None
    first: str | None = None
    seen: set[int] = set()
    for target in targets or ():
        neuron = populations.neuron_of.get(target)
        if neuron is None or id(neuron) in seen:
            continue
        seen.add(id(neuron))
        if into.text not in neuron.inputs:
            _no_input(into, target, populations, c)
            return None, False
        found = neuron.inputs[into.text]
        if found is None:
            return None, False
        if dimension is not None and found != dimension:
            message = f"`{into.text}` is {describe(dimension)} in `{first}`, but {describe(found)} in `{target}`"
            c.sink.error("E0401", message, into.span, "write one entry for each of them")
            return None, False
        dimension, first = found, first or target
    return dimension, True


def _no_input(into: Scalar, target: str, populations: Populations, c: Context) -> None:
    neuron = populations.neuron_of[target]
    help = did_you_mean(into.text, neuron.inputs)
    if help is None:
        if into.text in neuron.states or into.text in neuron.params:
            noun = "a state variable" if into.text in neuron.states else "a parameter"
            help = f"`{into.text}` is {noun}; spikes are delivered into `inputs`"
        elif neuron.inputs:
            help = "its inputs are " + ", ".join(f"`{n}`" for n in neuron.inputs)
        else:
            help = "it has no `inputs`"
    message = f"neuron `{neuron.name}` of `{target}` has no input `{into.text}`"
    c.sink.error("E0201", message, into.span, help, declared_at(neuron.span, "the neuron"))
