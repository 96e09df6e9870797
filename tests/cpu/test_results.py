"""Results from Python: arrays, tables, figures and pages; what else the commands do, as functions."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom
from tests.cpu.test_model import NETWORK, samples
from tests.cpu.test_simulation import PLAIN, STDP

pytestmark = pytest.mark.usefixtures("not_optimized", "without_plots")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def spiking() -> Any:
    return netloom.load(PLAIN.replace("from: [a, b]}", "from: [a, b]}", 1)).run()


@pytest.fixture(scope="module")
def fitted() -> Any:
    return netloom.load(NETWORK).fit(samples(), validation=0.25)


def test_what_runs_return_is_one_class(spiking: Any, fitted: Any, tmp_path: Path) -> None:
    shutil.copytree(spiking.folder, tmp_path / "kept")
    opened = netloom.open(tmp_path / "kept")
    assert {type(spiking), type(fitted), type(opened)} == {netloom.RunResult}
    assert opened.rates == spiking.rates and opened.status == "ok" and opened.model.name == "small_cuba"


def test_spikes_traces_and_rates_as_tables(spiking: Any) -> None:
    frame = spiking.to_pandas()
    assert list(frame.columns) == ["time", "population", "neuron"]
    times, ids = spiking.spikes("a")
    of_a = frame[frame.population == "a"]
    np.testing.assert_array_equal(of_a.time, times)
    np.testing.assert_array_equal(of_a.neuron, ids)
    traces = spiking.to_pandas("traces")
    time, values = spiking.traces("a", "v")
    third = traces[(traces.population == "a") & (traces.variable == "v") & (traces.member == 3)]
    np.testing.assert_array_equal(third.time, time)
    np.testing.assert_array_equal(third.value, values[:, 1])
    time, rate = spiking.rate("b")
    np.testing.assert_array_equal(spiking.to_pandas("rates").rate, rate)
    summary = spiking.to_pandas("summary").set_index("name").value
    assert summary["rate.a"] == spiking.rates["a"] and summary["spikes.b"] == spiking.counts["b"]
    synapses = spiking.to_pandas("synapses")
    assert synapses[synapses.time == 200].value.tolist() == spiking.synapses("ba")["b->a"].values["weight"][-1].tolist()
    with pytest.raises(netloom.RunError, match="no table `history`"):
        spiking.to_pandas("history")


def test_a_training_as_tables(fitted: Any) -> None:
    frame = fitted.to_pandas()
    assert frame.epoch.tolist() == [1, 2, 3, 4]
    assert frame.validation_accuracy.tolist() == [r["validation_accuracy"] for r in fitted.history()]
    data = fitted.to_xarray()
    assert data.epoch.values.tolist() == [1, 2, 3, 4] and data.loss.values.tolist() == frame.loss.tolist()


def test_everything_as_one_dataset(spiking: Any) -> None:
    data = spiking.to_xarray()
    time, values = spiking.traces("a", "v")
    assert data["a.v"].dims == ("a.time", "a.member") and data["a.v"].attrs == {"units": "mV"}
    np.testing.assert_array_equal(data["a.v"], values)
    np.testing.assert_array_equal(data["a.time"], time)
    assert data["a.member"].values.tolist() == [0, 3] and data["b.rate"].attrs == {"units": "Hz"}
    assert data["ba[b->a].weight"].shape == (5, 3) and data.attrs["seed"] == 7


def test_recorded_synapses() -> None:
    found = netloom.load(STDP).run().synapses("p")["input->output"]
    assert found.time.tolist() == [0, 300] and found.values["w"].shape == (2, 60) and found.units == {"w": "1"}
    assert found.source is not None and found.source[:3].tolist() == [0, 0, 1]


def test_what_was_not_recorded_is_a_key_error(spiking: Any, fitted: Any) -> None:
    """E0952 says what there is."""
    for act, said in (
        (lambda: fitted.rate("a"), "no rates"),
        (lambda: fitted.synapses("p"), "no synapses"),
        (lambda: fitted.spikes("a"), "no spikes"),
        (lambda: spiking.rate("a"), "no rate of `a`"),
        (lambda: spiking.spikes("q"), "no spikes of `q`"),
        (lambda: spiking.traces("q", "v"), "no traces of `q`"),
        (lambda: spiking.traces("a", "w"), "no trace of `a`: `w`"),
        (lambda: spiking.table("rows"), "no table `rows`"),
        (lambda: spiking.events("a", "gate"), "no events"),
        (lambda: spiking.weights(), "no weights"),
    ):
        with pytest.raises(KeyError) as caught:
            act()
        assert isinstance(caught.value, netloom.RunError) and caught.value.code == "E0952"
        assert said in str(caught.value)


def test_figures(spiking: Any, fitted: Any) -> None:
    assert len(spiking.plot().axes) == 2  # the raster and the rates
    assert len(fitted.plot().axes) == 2  # loss and accuracy
    figure = spiking.plot("psth", every="20 ms", from_="a")
    assert figure.axes[0].get_xlabel() == "time since the stimulus (ms)"
    trace = spiking.plot("trace", time=["10 ms", "30 ms"], title="Voltages")
    assert trace.axes[0].get_title() == "Voltages" and trace.axes[0].get_xlim() == (10, 30)
    assert [t.get_text() for t in trace.axes[0].get_yticklabels()] == ["a 0", "a 3"]
    with pytest.raises(netloom.ModelError, match="did you mean `psth`"):
        spiking.plot("pst")
    with pytest.raises(netloom.ModelError, match="lacks `every`"):
        spiking.plot("psth")


def test_pages(spiking: Any, fitted: Any, tmp_path: Path) -> None:
    path = spiking.report(tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "decisions of the compiler" in text and len(text) < 500_000
    for result in (spiking, fitted):
        part = result._repr_html_()
        assert part.startswith("<style>.netloom{") and "<svg" in part and "doctype" not in part
        assert not [
            rule for rule in part.partition("</style>")[0][7:].split("}") if rule.strip() and ".netloom" not in rule
        ]


@pytest.mark.parametrize(("act", "package"), [("to_pandas", "pandas"), ("to_xarray", "xarray"), ("plot", "plot")])
def test_a_missing_package_is_named(spiking: Any, monkeypatch: pytest.MonkeyPatch, act: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, {"plot": "matplotlib"}.get(package, package), None)
    with pytest.raises(netloom.RunError) as raised:
        getattr(spiking, act)()
    assert raised.value.code == "E0939" and f"netloom[{package}]" in str(raised.value)


def test_export_and_import(fitted: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    path = netloom.export(fitted.folder, tmp_path / "classes.onnx")
    assert path == tmp_path / "classes.onnx"
    m = netloom.import_onnx(path, tmp_path / "again.yaml")
    x = samples()["x"]
    before = netloom.predict(fitted.folder, x)["y"]
    (after,) = m.predict({next(iter(before_inputs(m))): x}).values()
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def before_inputs(m: netloom.Model) -> list[str]:
    from compiler.frontend.load import load_model

    network = load_model(m.path, unread=frozenset({"weights"})).network
    assert network is not None
    return [i.name for i in network.inputs]


def test_tune(tmp_path: Path) -> None:
    shutil.copy(ROOT / "models/lenet_digits.yaml", tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "models/data")
    found = netloom.tune(tmp_path / "lenet_digits.yaml", rounds=1)
    assert found.file == tmp_path / "lenet_digits.lock" and found.file.is_file() and found.summary()
