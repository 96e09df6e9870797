"""Choosing by measured times, lock files and pins: no clock, no compiler."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import LANES, CpuBackend
from backends.cuda.kernels.contract import strategies as cuda_strategies
from compiler.core.diagnostics import RunError
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.space import DType, Role, along
from compiler.layout.assign_layouts import array_of
from compiler.report.tuning import page
from compiler.runtime.common.amounts import bytes_of, seconds_of
from compiler.strategies import choose
from compiler.strategies import measured as measured_strategies
from compiler.strategies.choice import Choice
from compiler.strategies.cost.devices import H200
from compiler.strategies.pins import (
    Pin,
    Refused,
    path_of,
    pinned,
    problem_digest,
    structure_digest,
)
from compiler.strategies.variants import MOST, TUNED, identity, text_of, ways
from compiler.tune.accuracy import logical
from compiler.tune.choosing import Tuned, choose_all, factors
from compiler.tune.lock import compared, lock_path, read_lock, section_name, stale, write_lock
from compiler.tune.measure import Measured
from compiler.tune.only import selected
from compiler.tune.report import rows
from compiler.tune.result import Step
from compiler.tune.sites import Site, workspace_of
from compiler.tune.whole import known, settled
from compiler.tune.wishes import EVERYTHING, parsed
from tests.cpu.contractions import Conv, conv, dense, gradient

CPU = CpuBackend().capabilities.strategies


def site(path: str, batch: int = 64, features: int = 32, units: int = 16) -> Site:
    node, tensors = dense(batch, features, units)
    digests = (f(node, tensors, LANES, 4, "reproducible") for f in (problem_digest, structure_digest))
    return Site(path, node, tensors, LANES, *digests, ways(node, tensors, LANES, 4, CPU))


def measured(where: Site, times: Mapping[str, float], other: float = 100.0, wrong: tuple[str, ...] = ()) -> Measured:
    return Measured(where, {identity(w): times.get(identity(w), other) for w in where.ways}, wrong)


def chosen(*found: Measured) -> list[str]:
    return [identity(c) for c in choose_all(found).values()]


# ------------------------------------------------------------------------------------------ choosing


def way(number: int) -> str:
    return f"lanes_dense vector=0 s_tile={number}"


def test_the_fastest_way_is_taken() -> None:
    here = site("train/a")
    assert chosen(measured(here, {way(3): 10.0, way(1): 20.0, "nest": 30.0})) == [way(3)]


def test_the_choice_of_the_rules_stays_within_five_percent() -> None:
    here = site("train/a")
    rules = identity(here.ways[0])
    other = next(w for w in (way(1), way(3)) if w != rules)
    assert chosen(measured(here, {rules: 10.4, other: 10.0})) == [rules]
    assert chosen(measured(here, {rules: 10.6, other: 10.0})) == [other]


def test_contractions_of_one_structure_share_a_text_within_five_percent() -> None:
    """The nest is 4 % faster for one of three: it takes the strategy of the others; at 6 % it does not."""
    sites = [site("train/a"), site("train/b", features=64), site("train/c", units=8)]
    assert len({s.structure for s in sites}) == 1
    assert len({s.problem for s in sites}) == 3
    fast = {way(2): 10.0}
    many = [measured(sites[0], fast), measured(sites[1], fast)]
    assert chosen(*many, measured(sites[2], {way(2): 10.4, "nest": 10.0})) == [way(2)] * 3
    assert chosen(*many, measured(sites[2], {way(2): 10.6, "nest": 10.0})) == [way(2), way(2), "nest"]


def test_a_way_with_a_wrong_result_is_not_taken() -> None:
    here = site("train/a")
    assert chosen(measured(here, {way(3): 1.0, way(1): 20.0}, wrong=(way(3),))) == [way(1)]


# ---------------------------------------------------------------------------------------------- ways


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_variants_differ_in_data_alone(target: str) -> None:
    available, lanes = (CPU, LANES) if target == "cpu" else (cuda_strategies(), 0)
    layers = (dense(64, 40, 24), dense(512, 784, 512), conv(Conv(16, 3, 8, 9, 9, pad=1)), conv(Conv(8, 4, 6, 9, 9)))
    for forward in layers:
        for node, tensors in (forward, gradient(*forward, 0), gradient(*forward, 1)):
            found = ways(node, tensors, lanes, 4, available)
            assert found[0] == choose(node, tensors, lanes, 4, available)[0]
            assert found[-1] is None
            assert 2 < len(found) <= MOST + len(measured_strategies())
            assert len({identity(w) for w in found}) == len(found)
            by_text: dict[str, list[Choice]] = {}
            for w in found:
                if w is not None:
                    by_text.setdefault(text_of(w), []).append(w)
            for group in by_text.values():
                rest = {tuple((n, v) for n, v in w.columns if n not in TUNED) for w in group}
                assert len(rest) == 1
                assert len({w.joined for w in group}) == 1


def test_what_no_strategy_takes_has_one_way() -> None:
    node, tensors = dense(16, 4, 4)
    assert ways(replace(node, combine="max"), tensors, LANES, 4, CPU) == (None,)


# ---------------------------------------------------------------------------------------------- pins


def test_digests_leave_out_names_and_see_sizes() -> None:
    node, tensors = dense(64, 32, 16)
    other = Contract(
        replace(node.out, name="z"),
        (("b", 64), ("u", 16), ("f", 32)),
        (along("b"), along("u")),
        ("p", "q"),
        ((along("b"), along("f")), (along("u"), along("f"))),
        node.body,
    )
    renamed = {"p": Tensor("p", (64, 32), "real", True), "q": Tensor("q", (16, 32))}
    same = problem_digest(node, tensors, LANES, 4, "fast")
    assert problem_digest(other, renamed, LANES, 4, "fast") == same
    assert problem_digest(node, tensors, LANES, 4, "reproducible") != same
    assert problem_digest(node, tensors, 8, 8, "fast") != same
    larger = dense(64, 33, 16)
    assert problem_digest(*larger, LANES, 4, "fast") != same
    assert structure_digest(*larger, LANES, 4, "fast") == structure_digest(node, tensors, LANES, 4, "fast")


def test_what_is_computed_again_has_the_path_of_its_original() -> None:
    assert path_of("train", Tensor("l.cell.again", (4, 2))) == "train/l.cell"


def test_a_pin_holds_for_its_problem_alone() -> None:
    node, tensors = dense(64, 32, 16)
    here = site("train/a")

    def ask(pin: Pin) -> Choice | Refused | None:
        return pinned(pin, node, tensors, LANES, 4, "reproducible", CPU)

    found = ask(Pin(here.problem, way(5), "m.lock", 1.0))
    assert isinstance(found, Choice)
    assert dict(found.columns)["s_tile"] == 5
    assert ask(Pin(here.problem, "nest", "m.lock", 1.0)) is None
    other = ask(Pin("0" * 16, way(5), "m.lock", 1.0))
    assert isinstance(other, Refused)
    assert "another shape" in other.reason
    gone = ask(Pin(here.problem, "lanes_dense vector=0 s_tile=99", "m.lock", 1.0))
    assert isinstance(gone, Refused)
    assert "no way" in gone.reason


# ---------------------------------------------------------------------------------------- lock files

BACKEND = CpuBackend()
HERE = BACKEND.capabilities.device


def entry(here: Site, choice: Choice | None, time: float = 7.5, other: float = 100.0) -> Tuned:
    return Tuned(here.path, measured(here, {identity(choice): time}, other), choice)


def written(
    path: Path, *entries: Tuned, by: str = "a compiler", others: tuple[str, ...] = (), **estimates: float
) -> str:
    write_lock(path, "m", BACKEND, by, entries, estimates, others)
    return path.read_text()


def test_a_lock_file_gives_its_pins_back(tmp_path: Path) -> None:
    path = lock_path(tmp_path / "m.yaml")
    assert path == tmp_path / "m.lock"
    assert read_lock(path, "cpu", HERE).pins == {}
    a, b = site("train/a"), site("train/b", units=8)
    tile = next(w for w in a.ways if identity(w) == way(4))
    text = written(path, entry(b, None), entry(a, tile), lanes_conv=1.5)
    section = read_lock(path, "cpu", HERE)
    assert section.own
    assert (section.made_with, section.estimates) == ("a compiler", {"lanes_conv": 1.5})
    assert section.pins == {
        "train/a": Pin(a.problem, way(4), "m.lock", 7.5),
        "train/b": Pin(b.problem, "nest", "m.lock", 7.5),
    }
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_measuring_again_within_noise_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path, here = tmp_path / "m.lock", site("train/a")
    tile = next(w for w in here.ways if identity(w) == way(4))
    first = written(path, entry(here, tile), lanes_conv=1.5)
    os.utime(path, (1, 1))
    assert written(path, entry(here, tile, 9.0, 140.0), lanes_conv=1.4) == first
    assert path.stat().st_mtime == 1  # it is not even written
    assert written(path, entry(here, tile, 40.0, 140.0), lanes_conv=1.5) != first
    first = written(path, entry(here, tile), lanes_conv=2.5)
    assert json.loads(first)["devices"][section_name("cpu", HERE)]["estimates"] == {"lanes_conv": 2.5}
    assert written(path, entry(here, None), lanes_conv=2.5) != first
    first = written(path, entry(here, tile), lanes_conv=2.5)
    assert written(path, entry(here, tile, 9.0), by="another compiler", lanes_conv=2.5) != first


def test_what_is_not_measured_stays_where_it_is_asked_for(tmp_path: Path) -> None:
    path, a, b = tmp_path / "m.lock", site("train/a"), site("train/b")
    written(path, entry(a, None), entry(b, None))
    written(path, entry(a, None), others=("train/b", "train/none"))
    assert list(read_lock(path, "cpu", HERE).pins) == ["train/a", "train/b"]
    written(path, entry(a, None))
    assert list(read_lock(path, "cpu", HERE).pins) == ["train/a"]


def test_devices_keep_their_sections_and_take_one_of_another_where_they_have_none(tmp_path: Path) -> None:
    path, here = tmp_path / "m.lock", site("train/a")
    written(path, entry(here, None))
    whole = json.loads(path.read_text())
    (section,) = whole["devices"].values()
    other = replace(HERE, name="another", architecture="aarch64")
    whole["devices"][section_name("cpu", other)] = {**section, "architecture": "aarch64"}
    whole["devices"][section_name("cuda", H200)] = {**section, "target": "cuda"}
    path.write_text(json.dumps(whole))
    written(path)
    assert read_lock(path, "cpu", HERE).pins == {}
    assert read_lock(path, "cpu", other).own
    for device in (replace(other, clock=9000), replace(other, name="a third")):
        found = read_lock(path, "cpu", device)
        assert (found.own, list(found.pins)) == (False, ["train/a"])
        assert "measured on another device (cpu: another" in found.pins["train/a"].source
    assert list(read_lock(path, "cuda", H200).pins) == ["train/a"]
    assert read_lock(path, "reference", HERE).pins == {}


def section(text: str) -> str:
    return '{"format": 2, "devices": {"cpu: x": TEXT}}'.replace("TEXT", text)


BROKEN = [
    ("{", "it is not JSON"),
    ("[]", "it has no `devices`"),
    ('{"devices": {}}', "its format is None, not 2"),
    ('{"format": 1, "targets": {}}', "its format is 1, not 2"),
    (section("3"), "its section `cpu: x` has no `contractions`"),
    (section('{"target": "cpu", "contractions": {"train/a": {}}}'), "its entry `train/a` is not complete"),
    (section('{"target": "cpu", "contractions": {"train/a": []}}'), "its entry `train/a` is not complete"),
    (section('{"target": "cpu", "contractions": {}, "estimates": {"a": "b"}}'), "its `estimates` are no numbers"),
    (section('{"target": "cpu", "contractions": {}, "estimates": {"a": -1}}'), "its `estimates` are not above 0"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_what_is_not_a_lock_file_is_an_error(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "m.lock"
    path.write_text(text)
    with pytest.raises(RunError) as caught:
        read_lock(path, "cpu", HERE)
    assert caught.value.code == "E0925"
    assert why in caught.value.message


def test_stale_entries_are_named() -> None:
    here = site("train/a")
    good = Pin(here.problem, way(2), "m.lock", 1.0)
    assert stale({"train/a": good}, [here], "m.lock", None) == ()
    (other,) = stale({"train/a": replace(good, problem="x")}, [here], "m.lock", None)
    assert other.code == "W0004"
    assert other.message == "`m.lock` has 1 entry measured for another shape, precision or order: `train/a`"
    (unknown,) = stale({"train/a": replace(good, way="magic")}, [here], "m.lock", None)
    assert unknown.message.endswith("whose strategy is not one of theirs any more: `train/a`")
    (gone,) = stale({f"train/x{k}": good for k in range(6)}, [here], "m.lock", None)
    assert gone.message == (
        "`m.lock` has 6 entries for what the model does not have any more: "
        "`train/x0`, `train/x1`, `train/x2`, `train/x3` and 2 more"
    )
    assert compared({"train/a": good}, [here, site("train/b"), site("train/b")]).missing == ("train/b",)


# ------------------------------------------------------------------------------------ what is measured


@pytest.mark.parametrize(
    ("text", "places", "strategies"),
    [
        ("conv*:winograd,fft", ("conv*",), ("winograd", "fft")),
        ("train/a", ("train/a",), ()),
        (":nest", (), ("nest",)),
        (" a , b : lanes_* ", ("a", "b"), ("lanes_*",)),
    ],
)
def test_only_says_which_contractions_and_strategies(text: str, places: object, strategies: object) -> None:
    found = parsed(text)
    assert (found.places, found.strategies) == (places, strategies)


@pytest.mark.parametrize("text", ["", ":", "a:b:c", " , "])
def test_only_says_something(text: str) -> None:
    with pytest.raises(RunError, match="CONTRACTIONS:STRATEGIES"):
        parsed(text)


def test_candidates_that_are_asked_for_are_measured_beside_that_of_the_rules() -> None:
    sites = [site("train/conv1.sum"), site("train/dense1.weight.grad"), site("eval/conv1.sum")]
    assert [s.path for s in selected(parsed("conv*"), sites)] == ["train/conv1.sum", "eval/conv1.sum"]
    assert [s.path for s in selected(parsed("dense1.weight.grad"), sites)] == ["train/dense1.weight.grad"]
    assert [s.path for s in selected(parsed("train/*"), sites)] == ["train/conv1.sum", "train/dense1.weight.grad"]
    (only,) = selected(parsed("train/conv1.sum:nest"), sites)
    assert [identity(w) for w in only.ways] == [identity(sites[0].ways[0]), "nest"]
    assert selected(parsed(":dense"), sites)[0].ways == sites[0].ways  # the nest, too: it is the definition
    assert len(selected(parsed(":lanes_*"), sites)) == 3


def test_what_fits_nothing_is_refused_by_name() -> None:
    sites = [site("train/conv1.sum")]
    for text, part in (("pool*", "`pool*`"), ("conv1:magic", "`magic`"), ("conv1,b", "`b`"), (":dens", "`dens`")):
        with pytest.raises(RunError) as caught:
            selected(parsed(text), sites)
        assert part in caught.value.message
    (known,) = selected(parsed("conv1:winograd,fft"), sites)  # which have no candidate here
    assert len(known.ways) == 2


def test_workspace_bounds_what_is_measured_and_what_the_rules_take() -> None:
    here = site("train/a")
    least = min(workspace_of(w) for w in here.ways if w is not None)
    assert least > 0
    assert selected(EVERYTHING, [here], least - 1) == ()
    (found,) = selected(EVERYTHING, [here], least)
    assert all(workspace_of(w) <= least for w in found.ways)
    node, tensors = dense(64, 32, 16)
    choice, why = choose(node, tensors, LANES, 4, CPU, replace(HERE, workspace=0))
    assert choice is None
    assert "bytes beside the arrays" in why
    assert choose(node, tensors, LANES, 4, CPU, replace(HERE, workspace=1 << 20))[0] is not None


def test_estimates_are_corrected_by_what_was_measured() -> None:
    """Winograd is chosen by its estimate; where transforms were measured to take four times as long, it is not."""
    node, tensors = conv(Conv(16, 64, 64, 28, 28, (3, 3), pad=1))
    plain, _ = choose(node, tensors, LANES, 4, CPU)
    measured_so = (("winograd_conv", 4.0), ("fourier_conv", 4.0))
    slow, _ = choose(node, tensors, LANES, 4, CPU, replace(HERE, estimates=measured_so))
    assert plain is not None
    assert slow is not None
    assert (plain.strategy, slow.strategy) == ("winograd_conv", "lanes_conv")


def test_a_factor_is_the_middle_of_three_problems_or_more() -> None:
    found = []
    for channels, factor in ((8, 2.0), (16, 3.0), (24, 30.0)):
        node, tensors = conv(Conv(16, channels, 8, 12, 12, pad=1))
        possible = ways(node, tensors, LANES, 4, CPU)
        digests = (f(node, tensors, LANES, 4, "reproducible") for f in (problem_digest, structure_digest))
        here = Site(f"train/{channels}", node, tensors, LANES, *digests, possible)
        times = {identity(w): factor * w.microseconds for w in possible if w is not None}
        found.append(measured(here, times))
    assert factors(found[:2]) == {}
    assert factors(found)["lanes_conv"] == 3.0


# ---------------------------------------------------------------------------------------- again, whole


def test_what_was_chosen_before_stays_within_noise() -> None:
    here = site("train/a")
    times = measured(here, {way(3): 10.0, way(1): 10.8, "nest": 30.0})
    assert [identity(c) for c in choose_all([times], {"train/a": way(1)}).values()] == [way(1)]
    assert [identity(c) for c in choose_all([times], {"train/a": "nest"}).values()] == [way(3)]
    wrong = measured(here, {way(3): 10.0, way(1): 10.8}, wrong=(way(1),))
    assert [identity(c) for c in choose_all([wrong], {"train/a": way(1)}).values()] == [way(3)]


def tuned_by(gains: Mapping[str, float]) -> tuple[Tuned, ...]:
    found = []
    for path, gain in gains.items():
        here = site(path)
        found.append(Tuned(path, measured(here, {identity(here.ways[0]): 100.0, "nest": 100.0 - gain}), None))
    return tuple(found)


def test_steps_have_the_last_word() -> None:
    """The choice for `b`, which gains least by itself, makes the step slower."""
    tuned = tuned_by({"train/a": 50.0, "train/b": 10.0, "eval/c": 5.0})
    asked: list[list[str]] = []

    def race(choices: Sequence[Tuned]) -> tuple[float, float]:
        asked.append([t.path for t in choices if t.choice is None])
        return 1e-3, 2e-3 if "train/b" in asked[-1] else 0.9e-3

    found, step = settled("train", tuned, race)
    assert asked == [["train/a", "train/b"], ["train/a"]]
    assert [identity(t.choice) for t in found] == ["nest", identity(tuned[1].measured.site.ways[0]), "nest"]
    assert step == Step("train", 1000.0, 900.0, ("train/b",))
    slow, step = settled("train", tuned, lambda choices: (1e-3, 1.1e-3))
    assert [t.choice is None for t in slow] == [False, False, True]
    assert step is not None
    assert step.back == ("train/b", "train/a")
    assert settled("predict@4", tuned, race) == (tuned, None)


def test_what_went_back_to_the_rules_stays_there(tmp_path: Path) -> None:
    """Its entry names what was faster alone; another choice is measured again."""
    here = site("train/a")
    times = Measured(here, {identity(w): 10.0 + (w is not None) for w in here.ways})
    (back,), _ = settled("train", [Tuned("train/a", times, None)], lambda choices: (1e-3, 2e-3))
    assert (identity(back.choice), back.instead) == (identity(here.ways[0]), "nest")
    written(tmp_path / "m.lock", back)
    assert read_lock(tmp_path / "m.lock", "cpu", HERE).pins["train/a"].instead == "nest"
    chosen = Tuned("train/a", times, None)
    assert known(chosen, "nest") == back
    assert known(chosen, "another") == known(chosen, "") == chosen


# ------------------------------------------------------------------------------------------- the report


def test_a_report_has_every_candidate_by_time() -> None:
    here = site("train/a", 64, 1000, 10)
    times = Measured(here, {identity(w): 10.0 + k for k, w in enumerate(here.ways)}, (way(6),), {way(6): 0.5})
    device = replace(HERE, lanes=32, clock=2000, bandwidth=0.0)
    found = list(rows([Tuned("train/a", times, None)], device, 4))
    assert [r.microseconds for r in found] == sorted(r.microseconds for r in found)
    assert len(found) == len(here.ways)
    assert found[0].share == pytest.approx(2 * 64 * 1000 * 10 / 128e3 / 10.0)
    assert found[0].mark == "rule"
    assert found[-1].mark == "chosen"
    bad = next(r for r in found if r.way == way(6))
    assert (bad.mark.split(", ")[-1], bad.error) == ("wrong", 0.5)
    assert found[0].workspace == 8 * 1000
    html = page("<m>", "a machine", found, [Step("train", 2.0, 1.0)], {"elementwise": 3})
    assert "elementwise" in html
    assert "&lt;m&gt;" in html
    assert html.count("lanes_dense vector=0") == len(here.ways) - 1
    moving = list(rows([Tuned("train/a", times, None)], replace(device, bandwidth=0.1, caches=()), 4))
    assert moving[0].share == pytest.approx(4 * (64 * 1000 + 10 * 1000 + 64 * 10) / 100 / 10.0)
    cached = list(rows([Tuned("train/a", times, None)], replace(device, bandwidth=0.1, caches=(1 << 20,)), 4))
    assert cached[0].share == found[0].share, "what a core has in its caches is not read from memory"
    near = replace(device, bandwidth=0.1, caches=(1 << 20,), warp=32)
    assert next(rows([Tuned("train/a", times, None)], near, 4)).share == moving[0].share


@pytest.mark.parametrize(
    ("text", "bytes_"), [("1GB", 10**9), ("0 b", 0), ("1.5 MiB", 3 << 19), (" 2 kb ", 2000), (None, None)]
)
def test_sizes(text: str | None, bytes_: int | None) -> None:
    assert bytes_of("--workspace", text) == bytes_


@pytest.mark.parametrize("text", ["", "GB", "1 XB", "-1 GB", "1e3 GB", "1", "9" * 30 + "GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(RunError, match="a size such as '1 GB'"):
        bytes_of("--workspace", text)


def test_times() -> None:
    assert [seconds_of("--budget", t) for t in ("60s", "2 min", "500 ms", None)] == [60.0, 120.0, 0.5, None]
    with pytest.raises(RunError, match="`--budget` is a time such as '60 s'"):
        seconds_of("--budget", "soon")


def test_rows_with_space_between_them_are_read_without_it() -> None:
    """A padded tensor in memory, and its elements in order."""
    tensor = Tensor("x", (2, 3), pitch=4)
    assert array_of(tensor, "x", DType.F32, 0, Role.WORK).physical_size == 8
    assert logical(np.arange(8, dtype=np.float32), tensor, 0).tolist() == [0, 1, 2, 4, 5, 6]
