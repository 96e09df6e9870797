"""Figures and summary: the rate in a figure equals that of the summary, independent of what was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import ModelError, RunError
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model, Plot, RecordSpikes
from compiler.runtime.common.rates import Activity, Window, mean_rates
from compiler.runtime.plots.activity import binned, correlation, intervals, psth, raster, variation
from compiler.runtime.plots.plots import draw_plots
from compiler.runtime.plots.synapses import evolution, histogram

pytest.importorskip("matplotlib")

MODEL = """\
language: 1
name: figures
neurons: {cell: {state: {v: 0}, update: [v = v + 0.1], spike: {when: v > 1, reset: [v = 0]}}}
populations: {a: {neuron: cell, size: 3}, b: {neuron: cell, size: 3}}
simulate: {dt: 0.5 ms, duration: 20 ms}
record: [{spikes: {from: [a, b]}}]
plots: [{raster: {from: [a, b]}}]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("figures") / "m.yaml"
    path.write_text(MODEL)
    return load_model(path)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[tuple[int, list[int], Window | None, int]], int, Window]:
    """Two populations as (size, recorded members, recorded steps, seed), the steps of the model, and those that ran."""
    steps = draw(st.integers(1, 500))
    first = draw(st.integers(0, steps - 1))
    window = (first, draw(st.integers(first + 1, steps)))
    parts = []
    for _ in range(2):
        size = draw(st.integers(1, 20_000))
        members = draw(st.lists(st.integers(0, size - 1), unique=True, max_size=40))
        low = draw(st.integers(0, steps - 1))
        between = draw(st.none() | st.integers(low + 1, steps).map(lambda high, low=low: (low, high)))
        parts.append((size, members, between, draw(st.integers(0, 1 << 30))))
    return parts, steps, window


def spikes_of(size: int, members: list[int], steps: Window, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Some spikes of the recorded neurons in the recorded steps: (steps, ids)."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 300)) if steps[1] > steps[0] else 0
    ids = rng.choice(np.array(members), count) if members else rng.integers(0, size, count)
    return np.sort(rng.integers(steps[0] + 1, max(steps[1], steps[0] + 1) + 1, count)), ids


def rates_shown(figure: Any) -> dict[str, str]:
    legend = figure.axes[1].get_legend()
    texts = [] if legend is None else [t.get_text() for t in legend.get_texts()]
    return dict(t.split(": ") for t in texts)


@settings(max_examples=25, deadline=None)
@given(case=recordings())
def test_the_raster_shows_the_rates_of_the_summary(
    tmp_path_factory: pytest.TempPathFactory, model: Model, case: Any
) -> None:
    parts, steps, window = case
    folder = tmp_path_factory.mktemp("run")
    assert model.simulate is not None
    counts: dict[str, int] = {}
    records, lengths, rows = [], {}, 0
    with h5py.File(folder / "spikes.h5", "w") as file:
        for name, (size, members, between, seed) in zip("ab", parts, strict=True):
            kept = window if between is None else (max(window[0], between[0]), min(window[1], between[1]))
            at, ids = spikes_of(size, members, kept, seed)
            file[f"spikes/{name}/timestamps"], file[f"spikes/{name}/node_ids"] = at * 0.5, ids.astype(np.uint64)
            counts[name], lengths[name] = len(at), max(kept[1] - kept[0], 0) * 0.5
            records.append(RecordSpikes((name,), tuple(members), between))
            rows += len(members) or size
    changed = replace(
        model,
        simulate=replace(model.simulate, steps=steps),
        spikes=tuple(records),
        populations=tuple(replace(p, size=part[0]) for p, part in zip(model.populations, parts, strict=True)),
    )
    summary = mean_rates(changed, counts, window)
    neurons = {name: len(part[1]) or part[0] for name, part in zip("ab", parts, strict=True)}
    assert summary == {n: pytest.approx(1000 * counts[n] / (neurons[n] * lengths[n])) for n in "ab" if lengths[n] > 0}
    figure = raster(folder, changed, Plot("raster", (("from", ("a", "b")),)), window)
    assert rates_shown(figure) == {n: f"{rate:.3g} Hz" for n, rate in summary.items()}
    dots, rates = figure.axes
    assert dots.get_ylim() == (-0.5, rows - 0.5)
    low, high = dots.get_xlim()
    for band in dots.collections:
        places = np.asarray(band.get_offsets())
        assert np.all((places[:, 1] >= 0) & (places[:, 1] < rows))
        assert np.all((places[:, 0] > low - 1e-9) & (places[:, 0] <= high + 1e-9))
    assert sum(len(band.get_offsets()) for band in dots.collections) == sum(counts.values())
    for stairs, (name, rate) in zip(rates.patches, summary.items(), strict=True):
        values, edges, _ = stairs.get_data()
        assert np.dot(values, np.diff(edges)) / (edges[-1] - edges[0]) == pytest.approx(rate), name
        assert edges[-1] - edges[0] == pytest.approx(lengths[name])


def test_few_neurons_of_many_are_seen(tmp_path: Path, model: Model) -> None:
    """Five recorded neurons of 100,000 have a row each, and dots of a size that is seen."""
    with h5py.File(tmp_path / "spikes.h5", "w") as file:
        file["spikes/a/timestamps"], file["spikes/a/node_ids"] = np.array([1.0, 2.0]), np.array([7, 90_000], np.uint64)
    changed = replace(
        model,
        spikes=(RecordSpikes(("a",), (7, 8, 9, 500, 90_000)),),
        populations=(replace(model.populations[0], size=100_000),),
    )
    figure = raster(tmp_path, changed, Plot("raster", (("from", ("a",)),)), None)
    dots = figure.axes[0]
    assert dots.get_ylim() == (-0.5, 4.5)
    assert np.asarray(dots.collections[0].get_offsets())[:, 1].tolist() == [0, 4]
    assert dots.collections[0].get_sizes()[0] >= 10
    assert [t.get_text() for t in dots.get_yticklabels()] == ["a\n(5 of 100,000)"]


def test_vacant_places_are_not_drawn(tmp_path: Path, model: Model) -> None:
    with h5py.File(tmp_path / "synapses.h5", "w") as file:
        group = file.create_group("p/a->b")
        group["w"] = np.array([[1.0, 3.0, 50.0], [2.0, 4.0, 50.0]])
        group["w"].attrs["unit"] = "1"
        group["source"], group["time"] = np.array([0, 1, 2]), np.array([0.0, 10.0])
        group["targets"] = np.array([[0, 1, -1], [0, 1, -1]])
    plot = Plot("histogram", (("from", "p"), ("variable", "w"), ("bins", 4)))
    assert histogram(tmp_path, model, plot, None).axes[0].get_xlim()[1] < 10
    (mean,) = (x for x in evolution(tmp_path, model, plot, None).axes[0].lines if x.get_label() == "a->b: mean")
    assert mean.get_ydata().tolist() == [2.0, 3.0]


# ------------------------------------------------------------------------------------ statistics of spikes


def test_intervals_and_their_variation() -> None:
    """Neuron 0 fires every 10 ms; neuron 2 at 1, 2 and 5 ms; neuron 1 once."""
    times = np.array([1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0])
    ids = np.array([2, 2, 1, 2, 0, 0, 0])
    gaps, of = intervals(times, ids)
    assert gaps.tolist() == [10, 10, 1, 3] and of.tolist() == [0, 0, 2, 2]
    np.testing.assert_allclose(variation(gaps, of), [0, np.sqrt(2) / 2])


def test_rates_in_bins_are_counts() -> None:
    activity = Activity(4, None, 10, 31, 0.5)  # steps 11 .. 31; with bins of 5 the last one is not full
    steps = np.array([11, 15, 16, 20, 25, 30, 31])
    rates = binned(activity, steps * 0.5, 5)
    assert rates.tolist() == [n * 1000 / (4 * 2.5) for n in (2, 2, 1, 1)]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), count=st.integers(4, 60), most=st.integers(1, 3))
def test_correlations_are_those_of_the_definition(seed: int, count: int, most: int) -> None:
    x, y = np.random.default_rng(seed).poisson(3, (2, count)).astype(float)
    found = correlation(x, y, most)
    if x.std() == 0 or y.std() == 0:
        assert np.isnan(found).all()
        return
    a, b = x - x.mean(), y - y.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    wanted = [sum(a[t] * b[t + k] for t in range(count) if 0 <= t + k < count) / scale for k in range(-most, most + 1)]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def spiking(folder: Path, steps: list[int], ids: list[int]) -> None:
    with h5py.File(folder / "spikes.h5", "w") as file:
        for name in "ab":
            file[f"spikes/{name}/timestamps"] = np.array(steps) * 0.5
            file[f"spikes/{name}/node_ids"] = np.array(ids, np.uint64)


def test_rates_since_a_stimulus(tmp_path: Path, model: Model) -> None:
    """Four trials of 10 steps: step 1 of each is its first one."""
    spiking(tmp_path, [1, 11, 12, 31, 40], [0, 0, 1, 2, 2])
    plot = Plot("psth", (("from", ("a",)), ("bin", 1), ("every", 10)))
    (stairs,) = psth(tmp_path, model, plot, None).axes[0].patches
    values, edges, _ = stairs.get_data()
    assert edges.tolist() == [k * 0.5 for k in range(11)]
    assert values.tolist() == [n * 1000 / (3 * 4 * 0.5) for n in (3, 1, 0, 0, 0, 0, 0, 0, 0, 1)]
    assert psth(tmp_path, model, plot, (0, 9)) is None  # not one whole trial


def drawn(tmp_path: Path, plots: str) -> Model:
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.partition("record:")[0] + f"record: [{{spikes: {{from: [a, b]}}}}]\nplots: {plots}\n")
    return load_model(path)


def test_every_kind_is_drawn_as_asked(tmp_path: Path) -> None:
    spiking(tmp_path, list(range(1, 40)), [k % 3 for k in range(39)])
    kinds = [
        "{raster: {from: a, time: [5 ms, 15 ms], title: Some}}",
        "{isi: {from: [a, b]}}",
        "{spectrum: {from: a, bin: 0.5 ms, images: [pdf]}}",
        "{correlogram: {from: [a, b], lag: 5 ms, style: paper}}",
        "{psth: {from: a, every: 5 ms}}",
        "{connectivity: {size: [8 cm, 6 cm], images: [svg]}}",
        "{raster: {from: b, style: ggplot, images: [png]}}",
    ]
    model = drawn(tmp_path, f"[{', '.join(kinds)}]")
    plotted = draw_plots(tmp_path, model)
    assert plotted.warning is None
    both = [f"plots/{n}.{s}" for n in ("raster", "isi") for s in ("png", "svg")]
    rest = [f"plots/{n}.{s}" for n in ("correlogram", "psth") for s in ("png", "svg")]
    assert list(plotted.files) == [*both, "plots/spectrum.pdf", *rest, "plots/connectivity.svg", "plots/raster_2.png"]
    svg = (tmp_path / "plots/connectivity.svg").read_text()
    assert 'width="226.' in svg and 'height="170.' in svg  # 8 cm and 6 cm in points
    figure = raster(tmp_path, model, model.plots[0], None)
    assert figure.axes[1].get_xlim() == (5, 15)
    offsets = np.asarray(figure.axes[0].collections[0].get_offsets())
    assert offsets[:, 0].min() == 5 and offsets[:, 0].max() == 15
    again = draw_plots(tmp_path, model, only=("psth",), images=("pdf",), out=tmp_path / "there", style="paper")
    assert again.files == ("plots/psth.pdf",) and [p.name for p in (tmp_path / "there").iterdir()] == ["psth.pdf"]


def test_a_style_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    spiking(tmp_path, [1], [0])
    with pytest.raises(RunError, match="there is no plot style `papr`"):
        draw_plots(tmp_path, drawn(tmp_path, "[{raster: {from: a, style: papr}}]"))


@pytest.mark.parametrize(
    ("plot", "code"),
    [
        ("{raster: {from: a, time: [5 ms, 1 ms]}}", "E0106"),
        ("{raster: {from: a, time: [5 mV, 6 mV]}}", "E0401"),
        ("{raster: {from: a, size: [5 cm]}}", "E0106"),
        ("{raster: {from: a, images: [gif]}}", "E0105"),
        ("{raster: {from: a, limits: [0, 1]}}", "E0101"),
        ("{spectrum: {from: a, bin: 0.7 ms}}", "E0601"),
        ("{psth: {from: a}}", "E0103"),
    ],
)
def test_mistakes_in_plots_are_found(tmp_path: Path, plot: str, code: str) -> None:
    with pytest.raises(ModelError) as raised:
        drawn(tmp_path, f"[{plot}]")
    assert {d.code for d in raised.value.diagnostics} == {code}
