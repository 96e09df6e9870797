"""A phase as waves: barrier placement, and the work items of each block."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.launch_geometry import array_elements
from backends.cuda.kernels.launch_work import Words, Work
from backends.cuda.run import cuda_graphs as schedule
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.cuda_graphs import ExecutionMode, Plan, WaveKernels, WaveLists
from backends.cuda.run.load import APART
from backends.cuda.waves.barrier_placement import alike, meetings
from backends.cuda.waves.shared_deliveries import WORDS, shared_delivery
from backends.cuda.waves.waves import (
    WORK_ITEM,
    PhaseContext,
    Wave,
    staged,
    wave_functions,
    wave_templates,
    waves,
)
from backends.kernel_ir.descriptor import Compiled
from compiler.frontend.load import load_model
from compiler.ir.level2.dependence import Launched, Meet, beside, launched, pair, paired
from compiler.ir.level2.program import Merged, Mode, Phase, Propagate
from compiler.layout.plan_memory import place
from compiler.layout.write_tables import with_columns, write_tables
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal

SPIKING = (
    "microcircuit",
    "cuba",
    "brunel",
    "stdp",
    "izhikevich_patterns",
    "pooled_inhibition",
    "distal_reward",
    "polychronization",
    "synfire",
    "population_bursts",
    "spiking_conv",
)
LARGE = (*SPIKING, pytest.param("multi_area_structure", marks=pytest.mark.slow))
"""With a model of 64,516 projections, which takes long to lower; a part of it is in a test of its own."""
BLOCKS = 132
NEURON = """
language: 1
simulate: {dt: 1 ms, duration: 1 s}
populations:
  a: {neuron: leaky, size: 3000}
  b: {neuron: leaky, size: 500}
neurons:
  leaky:
    inputs: {i: {unit: mV}}
    state: {v: 0 mV}
    dynamics: {dv/dt: -v / (10 ms) + i / (1 ms)}
    spike: {when: v > 1 mV, reset: ["v = 0 mV"]}
projections:
  p:
    from: a
    to: b
    connect: {fixed_probability: {p: 0.1}}
    deliver: {into: i, weight: 0.1 mV}
    delay: DELAY
"""


@dataclass(frozen=True)
class Step:
    program: Merged
    phase: Phase
    tables: tuple[Words, ...]
    sizes: dict[str, int]

    @cached_property
    def compiled(self) -> Compiled:
        return emit(self.program).kernels

    @cached_property
    def launches(self) -> list[Launched]:
        return [launched(self.program, x) for x in self.phase.launches]

    @cached_property
    def meetings(self) -> frozenset[int]:
        return meetings(paired(self.launches))

    @cached_property
    def ground(self) -> PhaseContext:
        elements = array_elements(self.sizes, {a.name: a.physical_size for a in self.program.arrays})
        bases = [1 << 32 + n for n in range(len(self.tables))]
        known, pairs, rows = self.launches, paired(self.launches), self.tables
        return PhaseContext(
            self.program, self.compiled, self.phase, rows, rows, bases, elements, lambda x: 7, known, pairs
        )


@cache
def step_of(path: Path, settings: tuple[tuple[str, str], ...] = ()) -> Step:
    program = lower(load_model(path, dict(settings)), CudaBackend().capabilities).merged
    sizes = {a.name: 1000 for a in program.arrays if a.size_from}
    tables = write_tables(program, place(program, sizes, APART), 1, sizes)
    return Step(program, next(p for p in program.phases if p.name == "step"), tables, sizes)


def test_neurons_inputs_and_deliveries_of_the_step_before_need_one_meeting(root: Path) -> None:
    """Of the microcircuit: all of its delays are at least a step."""
    step = step_of(root / "models" / "microcircuit.yaml")
    names = [step.program.templates[x.template].name for x in step.phase.launches]
    (before,) = step.meetings
    assert "neuron update" in names[0] and "record spikes" in names[1] and before == 1


@pytest.mark.parametrize(("delay", "count"), [("1 ms", 2), ("{uniform: {low: 1 ms, high: 5 ms, round: nearest}}", 1)])
def test_rings_of_deliveries_save_a_meeting(tmp_path: Path, delay: str, count: int) -> None:
    (tmp_path / "m.yaml").write_text(NEURON.replace("DELAY", delay), encoding="utf-8")
    step = step_of(tmp_path / "m.yaml")
    assert len(step.meetings) == count


def test_what_may_arrive_at_once_must_be_waited_for(tmp_path: Path) -> None:
    """Drawn delays may be 0: neurons wait for the deliveries of the step before."""
    delay = "{uniform: {low: 0 ms, high: 5 ms, round: nearest}}"
    (tmp_path / "m.yaml").write_text(NEURON.replace("DELAY", delay), encoding="utf-8")
    assert len(step_of(tmp_path / "m.yaml").meetings) == 2


def test_deliveries_to_other_slots_run_beside_the_neurons_of_the_next_step(root: Path) -> None:
    """Of a graph of the microcircuit: neurons of step k wait for deliveries of step k - 2, not of k - 1."""
    step = step_of(root / "models" / "microcircuit.yaml")
    update, propagation = 0, 2
    free = beside(paired(step.launches), 4)
    assert (propagation, 1) in free[update] and (propagation, 2) not in free[update]
    assert (update, 0) not in free[propagation]


@pytest.mark.parametrize("name", LARGE)
def test_what_depends_on_each_other_is_kept_apart(root: Path, name: str) -> None:
    """Between two launches that must wait for each other all meet, in every step; rows that share elements have one
    group."""
    kept_apart(step_of(root / "models" / f"{name}.yaml"))


def test_in_a_part_of_the_multi_area_model(root: Path, tmp_path: Path) -> None:
    """Six of its 32 areas: 46 populations, 2,116 projections."""
    text = (root / "models" / "multi_area_structure.yaml").read_text(encoding="utf-8")
    text, changed = re.subn(r"area: \[[^]]+\]", "area: [V1, V2, VP, V4, V3]", text)
    assert changed == 1
    (tmp_path / "data").mkdir()
    with np.load(root / "models" / "data" / "multi_area.npz") as file:
        np.savez(tmp_path / "data" / "multi_area.npz", **{n: file[n][:46, :46] for n in file.files})
    (tmp_path / "part.yaml").write_text(text, encoding="utf-8")
    kept_apart(step_of(tmp_path / "part.yaml"))


def kept_apart(step: Step) -> None:
    launches, found = step.launches, step.meetings
    steady = range(len(launches))
    assert found
    for at, a in enumerate(steady):
        for later, b in [(0, b) for b in steady[at + 1 :]] + [(1, b) for b in steady[: at + 1]]:
            between = range(a + 1, b + 1) if not later else (*range(a + 1, len(launches)), *range(b + 1))
            if not found.isdisjoint(between):
                continue
            said = pair(launches[a], launches[b]).after(later)
            assert said is not Meet.WAIT, (a, b, later)
            if said is Meet.ALIKE:
                groups = alike(launches, steady)
                shared = 0
                for x in launches[a].uses:
                    for y in launches[b].uses:
                        for row, name_ in enumerate(x.names):
                            for other in np.flatnonzero(np.array(y.names) == name_).tolist():
                                if x.own and y.own and not x.mode is y.mode is Mode.READ:
                                    shared += 1
                                    assert groups[a, row] == groups[b, other]
                assert shared


def launches_of(step: Step, wave: Wave) -> list[tuple[int, int, int]]:
    """(launch, for which step, block) of each work item of a wave."""
    found = []
    for block in range(len(wave.first) - 1):
        for e in wave.work_items[wave.first[block] : wave.first[block + 1]]:
            template = int(e["self"]).bit_length() - 33
            row = (int(e["self"]) - (1 << 32 + template)) // step.ground.kernels[template].row_bytes
            (launch,) = (n for n, x in enumerate(step.phase.launches) if x.template == template and x.lo <= row < x.hi)
            found.append((launch, int(e["later"]), block))
    return found


@pytest.mark.parametrize(("name", "blocks"), diagonal(LARGE, [8, 396]))
def test_waves_run_what_need_not_wait_side_by_side(root: Path, name: str, blocks: int) -> None:
    """Each part of each launch is in one wave; launches that have to wait for each other are in different ones, in
    their order in the phase and in the steps."""
    step = step_of(root / "models" / f"{name}.yaml")
    if any(x.every != 1 for x in step.phase.launches):
        assert not any(k.wave for k in step.compiled) and "nl_wave" not in emit(step.program).text
        return
    found = waves(step.ground, blocks)
    assert len(found) == len(step.meetings) and {x.kernel for x in found} == {"nl_wave"}
    in_order(step, found)


@pytest.mark.parametrize("name", ["stdp", "brunel", "microcircuit"])
@pytest.mark.parametrize("most", [1, 150])
def test_waves_of_several_kernels_keep_the_order(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """A kernel has the functions of its waves and no others, each function is in one."""
    monkeypatch.setattr("backends.cuda.waves.waves.MOST_WORK", most)
    step = replace(step_of(root / "models" / f"{name}.yaml"))
    found = waves(step.ground, 8)
    in_order(step, found)
    assert len(found) > len(step.meetings)
    emitted = emit(step.program)
    kernels = re.split(r"(?m)^(?=nl_wave\w*\()", emitted.text)[1:]
    cases = {x.split("(")[0]: set(map(int, re.findall(r"case (\d+):", x))) for x in kernels}
    assert sorted(n for x in cases.values() for n in x) == list(range(len(wave_functions(step.compiled))))
    assert len(cases) == len({x.kernel for x in found}) > 1
    for wave in found:
        assert set(wave.work_items["function"].tolist()) <= cases[wave.kernel]
    assert [x.text.count("\nnl_wave") for x in emitted.parts if x.name.startswith("waves")] == [1] * len(cases)


def in_order(step: Step, found: Sequence[Wave]) -> None:
    """Each part of each launch is in one wave; launches that have to wait for each other are in different ones."""
    known = step.launches
    when: dict[int, int] = {}
    for number, wave in enumerate(found):
        work = [(e["self"], e["function"], e["part"], e["row"]) for e in wave.work_items]
        assert len({tuple(map(int, x)) for x in work}) == len(work)
        for launch, later, _ in launches_of(step, wave):
            assert when.setdefault(launch, number - later * len(found)) == number - later * len(found)
    for a, first in when.items():
        for b, second in when.items():
            for steps in range(0 if a < b else 1, 4):
                said = pair(known[a], known[b]).after(steps)
                if said is Meet.WAIT:
                    assert first < second + steps * len(found), (a, b, steps)
                elif said is Meet.ALIKE:
                    assert first <= second + steps * len(found)


def test_the_last_wave_of_the_microcircuit_goes_on_in_the_next_step(root: Path) -> None:
    """Deliveries and inputs of a step run beside the neurons of the next one: one kernel for a step."""
    step = step_of(root / "models" / "microcircuit.yaml")
    (wave,) = waves(step.ground, 396)
    names = [step.program.templates[x.template].name for x in step.phase.launches]
    later = {names[launch]: at for launch, at, _ in launches_of(step, wave)}
    assert {at for name, at in later.items() if "neuron update" in name} == {0}
    assert {at for name, at in later.items() if "neuron update" not in name} == {-1}
    order: dict[int, list[str]] = {}
    for launch, _, block in launches_of(step, wave):
        order.setdefault(block, []).append(names[launch])
    assert all("neuron update" in x[-1] for x in order.values() if any("Poisson" in y for y in x))


def test_spikes_are_recorded_by_blocks_that_deliver_none(root: Path) -> None:
    """A block that records and then delivers ends late, and the wave with it."""
    step = step_of(root / "models" / "microcircuit.yaml")
    (wave,) = waves(step.ground, 396)
    names = [step.program.templates[x.template].name for x in step.phase.launches]
    by_block: dict[int, list[str]] = {}
    for launch, _, block in launches_of(step, wave):
        by_block.setdefault(block, []).append(names[launch])
    recording = [x for x in by_block.values() if any("record" in name for name in x)]
    assert len(recording) == 8 and all(len(x) == 1 for x in recording)
    assert not any("neuron update" in n for x in by_block.values() if any("propagation" in y for y in x) for n in x)


def test_all_blocks_without_neurons_share_the_rows_of_a_delivery(root: Path) -> None:
    """By the events of each step: with parts of each row, the rows with many events would be the last to end."""
    step = step_of(root / "models" / "microcircuit.yaml", (("scale_n", "1"), ("scale_k", "0.1")))
    (wave,) = waves(step.ground, 396)
    functions = wave_functions(step.compiled)
    shared = [[e for e in x if functions[e["function"]].event] for x in blocks_of(wave)]
    others = [[functions[e["function"]].name for e in x if not functions[e["function"]].event] for x in blocks_of(wave)]
    assert {len(x) for x in shared} == {0, 1} and not any("propagation" in name for x in others for name in x)
    assert all(bool(s) != bool(o) for s, o in zip(shared, others, strict=True))
    parts = [(int(e["part"]), int(e["parts"])) for x in shared for e in x]
    assert parts == [(n, len(parts)) for n in range(len(parts))] and len(parts) > 200


def test_the_data_of_a_shared_delivery_name_each_row_once(root: Path) -> None:
    """Sources with their lists and their rows, one after the other, and the units of work of an event."""
    step = step_of(root / "models" / "microcircuit.yaml", (("scale_n", "1"), ("scale_k", "0.1")))
    (launch,) = (x for x in step.phase.launches if isinstance(step.program.templates[x.template].body, Propagate))
    kernel, template = step.compiled[launch.template], step.program.templates[launch.template]
    table, arrays = step.tables[launch.template][launch.lo : launch.hi], step.program.tables[launch.template]
    sizes = {n: 100_000 * (1 + k % 7) for k, n in enumerate(arrays.arrays["col"])}
    work = Work(template, kernel, arrays, step.tables[launch.template], launch, lambda name: sizes[name], 240)
    found = shared_delivery(work, table)
    assert found is not None and found.sources == 8 and found.rows == len(table) == 55
    width, names = kernel.row_bytes // 8, [f.name for f in template.formals]
    begins = found.words[9 * found.sources :][: found.rows].view(np.uint16).reshape(-1, 4)
    rows = found.words[9 * found.sources + found.rows :].reshape(found.rows, width)
    whole = with_columns(table, kernel.columns)
    assert sorted(map(bytes, rows)) == sorted(map(bytes, whole))
    at = 0
    for source in found.words[: 9 * found.sources].reshape(-1, 9):
        first, many, synapses, _ = source[5:7].view(np.uint32).tolist()
        assert first == at
        at += many
        total = 0.0
        for n in range(first, at):
            (which,) = np.flatnonzero((whole == rows[n]).all(axis=1))
            row = table[which]
            keys = ("spike_count", "spikes", "room", "slots", "delay")
            assert [row[names.index(x)] for x in keys] == source[:5].tolist()
            mean = sizes[arrays.arrays["col"][launch.lo + which]] / int(source[2])
            total += mean
            after = begins[n + 1] if n + 1 < at else source[7:9].view(np.uint32)
            units = [max(1, math.ceil(mean / fine)) for fine in (32, 64, 128, 256)]
            assert (after.astype(int) - begins[n]).tolist() == units
        assert not begins[first].any() and synapses == math.ceil(total)
    assert at == found.rows
    assert shared_delivery(work, table[:1]) is None


@pytest.mark.parametrize("name", ["microcircuit", "brunel"])
def test_the_deliveries_of_a_wave_lie_together(root: Path, name: str) -> None:
    """What blocks without neurons bring before the preceding wave ends; a work item names the first word of its own."""
    step = step_of(root / "models" / f"{name}.yaml")
    functions = wave_functions(step.compiled)
    made = waves(step.ground, 396)
    assert any(len(x.words) for x in made)
    for wave in made:
        blocks = [[e for e in x if functions[e["function"]].event] for x in blocks_of(wave)]
        assert wave.delivering == next((n for n, x in enumerate(blocks) if x), 396)
        by_word, at = {int(e["memory"]): e for x in blocks for e in x}, 0
        for word, item in sorted(by_word.items()):
            assert word == at
            sources, rows = int(item["row"]), int(item["group"])
            width = step.compiled[int(item["self"]).bit_length() - 33].row_bytes // 8
            at += sources * 9 + rows * (1 + width)
            at += at % 2
        assert len(wave.words) == at <= WORDS


def test_a_delivery_for_which_no_words_are_left_has_parts_of_its_own(root: Path) -> None:
    step = step_of(root / "models" / "microcircuit.yaml", (("scale_n", "1"), ("scale_k", "0.1")))
    (launch,) = (x for x in step.phase.launches if isinstance(step.program.templates[x.template].body, Propagate))
    t = launch.template
    work = Work(
        step.program.templates[t], step.compiled[t], step.program.tables[t], step.tables[t], launch, lambda _: 100, 240
    )
    table = step.tables[t][launch.lo : launch.hi]
    found = shared_delivery(work, table)
    assert found is not None
    assert shared_delivery(work, table, len(found.words)) is not None
    assert shared_delivery(work, table, len(found.words) - 2) is None


def test_inputs_of_many_events_are_drawn_one_at_a_time(root: Path) -> None:
    """poisson() takes most of the registers of a wave; other inputs are drawn for two neurons at a time."""
    text = emit(step_of(root / "models" / "microcircuit.yaml").program).parts[-1].text
    bodies = [x for x in re.split(r"(?m)^/\* ---- ", text) if "poisson_input" in x]
    assert len(bodies) == 3
    assert ["nl_poisson_f32(" in x.split("/* ====")[0] for x in bodies] == ["u >= nl_many" not in x for x in bodies]
    assert sum("u >= nl_many" in x for x in bodies) == 2


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("name", ["brunel", "microcircuit", "stdp"])
def test_waves_keep_nothing_in_local_memory(root: Path, name: str) -> None:
    """With as many registers as three blocks of a multiprocessor have."""
    (part,) = (x for x in emit(step_of(root / "models" / f"{name}.yaml").program).parts if x.name == "waves")
    code = compile_text(part, name, False, "sm_90").binary.read_bytes()
    assert stack_frames(code)["nl_wave"] == 0


def stack_frames(cubin: bytes) -> dict[str, int]:
    """Bytes of the stack frame of each function of a cubin, an ELF file: entries of its section .nv.info."""
    (sections,), (size, count, strings) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + n * size) for n in range(count)]

    def text(table: int, at: int) -> str:
        return cubin[table + at : cubin.index(0, table + at)].decode()

    places = {text(headers[strings][4], x[0]): (x[4], x[4] + x[5]) for x in headers}
    (first, last), (names, _) = places[".symtab"], places[".strtab"]
    symbols = [text(names, struct.unpack_from("<I", cubin, at)[0]) for at in range(first, last, 24)]
    found, (at, end) = dict[str, int](), places[".nv.info"]
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        if (form, attribute) == (4, 0x11):
            symbol, frame = struct.unpack_from("<II", cubin, at + 4)
            found[symbols[symbol]] = frame
        at += 4 + (length if form == 4 else 0)
    return found


@pytest.mark.parametrize("name", ["microcircuit", "stdp"])
@pytest.mark.parametrize("blocks", [8, 396])
def test_a_block_finds_its_work_items_and_their_rows(root: Path, name: str, blocks: int) -> None:
    """The first ones by its own number, the others one after the other; each with its row behind it."""
    step = step_of(root / "models" / f"{name}.yaml")
    functions = wave_functions(step.compiled)
    for wave in waves(step.ground, blocks):
        lines, early = staged(step.ground, wave)
        heads = lines[:, : WORK_ITEM.itemsize].copy().view(WORK_ITEM)[:, 0]
        for block, mine in enumerate(blocks_of(wave)):
            for at in range(block * early + len(mine), (block + 1) * early):
                assert heads[at]["function"] >= len(functions) and not heads[at]["more"]
            at = block * early
            for n, item in enumerate(mine):
                assert heads[at]["more"] == len(mine) - 1 - n
                assert heads[at]["place"] == (n + 1) % early * (lines.shape[1] // 16)
                kept = ("self", "memory", "chunk", "group", "row", "part", "parts", "function", "later")
                assert all(heads[at][x] == item[x] for x in kept)
                if not functions[item["function"]].event:
                    template = int(item["self"]).bit_length() - 33
                    kernel = step.compiled[template]
                    row = (int(item["self"]) - (1 << 32 + template)) // kernel.row_bytes
                    own = with_columns(step.tables[template][row : row + 1], kernel.columns).view(np.uint8)[0]
                    assert lines[at, WORK_ITEM.itemsize :][: len(own)].tolist() == own.tolist()
                at = int(heads[at]["next"])


def blocks_of(wave: Wave) -> list[list[np.void]]:
    """The work items of each block."""
    return [list(wave.work_items[a:b]) for a, b in pairwise(wave.first.tolist())]


def test_a_neuron_and_its_input_are_of_one_thread(root: Path) -> None:
    """Work items of aligned rows: same block, same part, same chunk."""
    step = step_of(root / "models" / "microcircuit.yaml", (("scale_n", "0.3"), ("scale_k", "0.1")))
    (found,) = waves(step.ground, BLOCKS)
    functions = [f.name for f in wave_functions(step.compiled)]
    update = next(n for n, f in enumerate(functions) if "neuron_update" in f)
    inputs = {n for n, f in enumerate(functions) if "poisson" in f}
    for block in range(BLOCKS):
        mine = found.work_items[found.first[block] : found.first[block + 1]]
        updated = sorted((int(e["part"]), int(e["parts"]), int(e["chunk"])) for e in mine if e["function"] == update)
        drawn = sorted((int(e["part"]), int(e["parts"]), int(e["chunk"])) for e in mine if int(e["function"]) in inputs)
        assert updated == drawn


def test_trainings_are_no_waves(root: Path) -> None:
    program = lower(load_model(root / "models" / "lenet_digits.yaml", {}), CudaBackend().capabilities).merged
    assert wave_templates(program) == ()


def test_the_text_does_not_depend_on_sizes(root: Path) -> None:
    path = root / "models" / "ring_10k.yaml"
    texts = {
        CudaBackend().emit(lower(load_model(path, {"n": n}), CudaBackend().capabilities).merged) for n in ("30", "60")
    }
    assert len(texts) == 1 and "nl_wave" in texts.pop()


@dataclass
class Clock:
    """A device of which only the clock matters; `now` in ms."""

    now: float = 0.0

    def mark(self, timing: bool = False) -> Event:
        assert timing
        return Event(self.now)


@dataclass(frozen=True)
class Event:
    at: float

    def synchronize(self) -> None:
        pass

    def time_since(self, other: Event) -> float:
        return self.at - other.at


@pytest.mark.parametrize("chunk", [8, 30, 20_000])
@pytest.mark.parametrize("fastest", list(ExecutionMode))
def test_the_fastest_way_is_found_in_pieces_of_any_size(
    monkeypatch: pytest.MonkeyPatch, chunk: int, fastest: ExecutionMode
) -> None:
    """Every step is run once and in order, whatever the runs are; the first time of each way takes long."""
    clock, done, ways = Clock(), 1, list[ExecutionMode]()
    plan = Plan((), WaveKernels(1, (), 0))

    def ran(way: ExecutionMode, count: int) -> None:
        nonlocal done
        if count == 0:
            return
        clock.now += count * (0.5 if way is fastest else 1.0) + (1000.0 if ways.count(way) == 0 else 0.0)
        done += count
        ways.append(way)

    def walk(device: object, plan: object, step: int, count: int) -> None:
        assert step == done
        ran(ExecutionMode.GRAPHS, count)

    monkeypatch.setattr(schedule, "_wave", lambda device, plan, waves, count: ran(ExecutionMode.WAVES, count))
    monkeypatch.setattr(schedule, "_walk", walk)
    runs = 0
    while plan.way is None:
        schedule.run_steps(clock, plan, 1 + runs * chunk, chunk)  # type: ignore[arg-type]
        runs += 1
        assert done == 1 + runs * chunk
    assert plan.way is fastest
    assert ways[: 2 * schedule.TRIALS] == list(ExecutionMode) * schedule.TRIALS
    schedule.run_steps(clock, plan, done, 3)  # type: ignore[arg-type]
    assert ways[-1] is fastest


def test_few_steps_at_a_time_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, ways = Plan((), WaveKernels(1, (), 0)), list[int]()
    monkeypatch.setattr(schedule, "_walk", lambda device, plan, step, count: ways.append(count))
    for step in range(1, 50):
        schedule.run_steps(Clock(), plan, step, 1)  # type: ignore[arg-type]
    assert plan.way is None and ways == [1] * 49


@dataclass
class Recorder:
    """A device that notes what is launched: (work items, ahead), where these name the kernel."""

    calls: list[tuple[int, int]] = field(default_factory=list)

    @property
    def driver(self) -> Recorder:
        return self

    @property
    def stream(self) -> Recorder:
        return self

    handle = begins_early = 0

    def begin_capture(self, stream: int) -> None:
        self.calls = []

    def end_capture(self, stream: int, early: bool) -> int:
        return 1

    def call(self, name: str, types: str, grid: int, block: int, *arguments: int) -> None:
        if name == f"nl_wave_{arguments[0]}":
            self.calls.append((arguments[0], arguments[3]))
        else:
            assert (name, arguments) == ("nl_advance", (3,))


@pytest.mark.parametrize("around", [0, 1, 2])
def test_what_a_graph_of_waves_leaves_of_its_last_step_ends_it(around: int) -> None:
    device = Recorder()
    lists = tuple(WaveLists(f"nl_wave_{n}", n, 70, 1, 0, 0, 5) for n in (7, 8, 9))
    schedule.record_waves(device, WaveKernels(5, lists, around), 3)  # type: ignore[arg-type]
    ending = [(n, 3) for n in (7, 8, 9)[:around]]
    assert device.calls == [*((n, ahead) for ahead in range(3) for n in (7, 8, 9)), *ending]
