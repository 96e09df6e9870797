"""The result of a run: what was recorded and learned, as numpy, pandas and xarray, as figures and as a page.

Assumes: a run directory as the runner leaves it.
Guarantees: files are opened when they are asked for; quantities are in canonical units (times in ms, rates in Hz).
Does not: run anything.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.records import not_recorded
from compiler.runtime.artifacts.results import RunResult as Finished
from compiler.runtime.artifacts.results import package
from compiler.runtime.common.arguments import path_of
from compiler.runtime.common.options import PathArgument

if TYPE_CHECKING:
    import compiler.ir.level0.model as l0

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Synapses:
    """Recorded synapses from one population to another: `time` (samples) in ms, `values` by variable (samples,
    synapses), `units`; `source` and `target` (synapses), or (samples, synapses) of an end that rewiring moves, with -1
    for a vacant place; None where synapses are shared by positions."""

    time: Floats
    values: Mapping[str, Values]
    units: Mapping[str, str]
    source: Values | None
    target: Values | None


@dataclass(frozen=True)
class RunResult(Finished):
    """What a run left: `folder`, `status`, mean `rates` in Hz, `counts` of spikes, `metrics`, `checks`, `warnings`."""

    @classmethod
    def of(cls, result: Finished) -> RunResult:
        return cls(**{f.name: getattr(result, f.name) for f in fields(Finished)})

    @cached_property
    def model(self) -> l0.Model:
        """The model as it ran. Raises ModelError."""
        from compiler.runtime.artifacts.trained import model_of_run

        return model_of_run(self.folder)

    # ------------------------------------------------------------------------------------- arrays

    def rate(self, population: str) -> tuple[Floats, Floats]:
        """(ends of the bins in ms, Hz) of a recorded rate. Raises KeyError."""
        with self._records("rates.h5") as file:
            if population not in file:
                raise not_recorded("rate of", population, tuple(file))
            return file[population]["time"][:], file[population]["rate"][:]

    def table(self, name: str = "table") -> dict[str, Floats]:
        """The columns of a recorded table. Raises KeyError."""
        from compiler.runtime.record.tables import TABLES, table_rows

        path = self.folder / TABLES / f"{name}.csv"
        if not path.is_file():
            raise not_recorded("table", name)
        return {n: np.array(v, np.float64) for n, v in table_rows(path).items()}

    def synapses(self, projection: str) -> dict[str, Synapses]:
        """Recorded synapses by pair of populations (`exc->inh`). Raises KeyError."""
        with self._records("synapses.h5") as file:
            if projection not in file:
                raise not_recorded("synapses of", projection, tuple(file))
            return {pair: _synapses(group) for pair, group in file[projection].items()}

    def events(self, owner: str, event: str) -> dict[str, tuple[Floats, npt.NDArray[np.int64]]]:
        """(times in ms, neurons) of a recorded event with a condition: of the synapses of a projection, by pair of
        populations (`exc->inh`), or of the neurons of a population, by its name. Raises KeyError."""
        found = {}
        with self._records("events.h5") as file:
            for name, group in file["spikes"].items():
                whose, pair, happened = _event_of(name)
                if (whose, happened) == (owner, event):
                    found[pair] = group["timestamps"][:], group["node_ids"][:].astype(np.int64)
        if not found:
            raise not_recorded(f"event `{event}` of", owner)
        return found

    def _event_rows(self) -> dict[str, Values]:
        parts: list[tuple[Values, ...]] = []
        with self._records("events.h5") as file:
            for name, group in file["spikes"].items():
                owner, pair, event = _event_of(name)
                times = group["timestamps"][:]
                label = (np.full(len(times), x, object) for x in (owner, pair, event))
                parts.append((times, *label, group["node_ids"][:].astype(np.int64)))
        return _columns(("time", "projection", "pair", "event", "neuron"), parts)

    def _recorded(self, name: str) -> bool:
        return (self.folder / name).is_file()

    # -------------------------------------------------------------------------------------- tables

    def to_pandas(self, table: str | None = None) -> Any:
        """A pandas.DataFrame: "history" (a row per epoch), "spikes" (time, population, neuron), "events" (time,
        projection, pair, event, neuron), "traces" (time,
        population, variable, member, value), "rates" (time, population, rate), "synapses" (time, projection, pair,
        variable, synapse, value), a recorded table by its name, or "summary" (rates, counts and metrics); without a
        name the first of these that the run has. Raises RunError (E0912; E0939 without pandas)."""
        from compiler.runtime.record.tables import TABLES

        frame = package("pandas", "pandas").DataFrame
        tables: dict[str, tuple[Callable[[], Any], str]] = {
            "history": (self.history, "metrics.jsonl"),
            "spikes": (self._spike_rows, "spikes.h5"),
            "events": (self._event_rows, "events.h5"),
            "traces": (self._trace_rows, "traces.h5"),
            "rates": (self._rate_rows, "rates.h5"),
            "synapses": (self._synapse_rows, "synapses.h5"),
            "summary": (self._summary_rows, "run.json"),
        }
        for path in sorted((self.folder / TABLES).glob("*.csv")):
            tables.setdefault(path.stem, (partial(self.table, path.stem), f"{TABLES}/{path.name}"))
        there = [name for name, (_, file) in tables.items() if self._recorded(file)]
        wanted = there[0] if table is None and there else table
        if wanted not in there:
            raise RunError("E0912", f"this run has no table `{wanted}`", f"it has {', '.join(there)}")
        return frame(tables[wanted][0]())

    def _spike_rows(self) -> dict[str, Values]:
        with self._records("spikes.h5") as file:
            names = list(file["spikes"])
        found = {n: self.spikes(n) for n in names}
        return {
            "time": np.concatenate([t for t, _ in found.values()] or [np.zeros(0)]),
            "population": np.repeat(np.array(names, object), [len(t) for t, _ in found.values()]),
            "neuron": np.concatenate([i for _, i in found.values()] or [np.zeros(0, np.int64)]),
        }

    def _trace_rows(self) -> dict[str, Values]:
        parts: list[tuple[Values, ...]] = []
        for name, variable, time, members, values, _ in self._traces():
            count = len(time) * len(members)
            label = (np.full(count, name, object), np.full(count, variable, object))
            parts.append((np.repeat(time, len(members)), *label, np.tile(members, len(time)), values.reshape(-1)))
        return _columns(("time", "population", "variable", "member", "value"), parts)

    def _rate_rows(self) -> dict[str, Values]:
        parts: list[tuple[Values, ...]] = []
        with self._records("rates.h5") as file:
            for name, group in file.items():
                time = group["time"][:]
                parts.append((time, np.full(len(time), name, object), group["rate"][:]))
        return _columns(("time", "population", "rate"), parts)

    def _synapse_rows(self) -> dict[str, Values]:
        parts: list[tuple[Values, ...]] = []
        for name, pair, s in self._all_synapses():
            for variable, values in s.values.items():
                number = values.shape[1]
                count = len(s.time) * number
                label = (np.full(count, x, object) for x in (name, pair, variable))
                row = (np.repeat(s.time, number), *label, np.tile(np.arange(number), len(s.time)))
                parts.append((*row, values.reshape(-1)))
        return _columns(("time", "projection", "pair", "variable", "synapse", "value"), parts)

    def _all_synapses(self) -> Iterator[tuple[str, str, Synapses]]:
        """(projection, pair, synapses) of everything recorded."""
        with self._records("synapses.h5") as file:
            for name in file:
                for pair, group in file[name].items():
                    yield name, pair, _synapses(group)

    def _summary_rows(self) -> list[dict[str, Any]]:
        rows = [{"name": f"rate.{n}", "value": v, "unit": "Hz"} for n, v in self.rates.items()]
        rows += [{"name": f"spikes.{n}", "value": v, "unit": ""} for n, v in self.counts.items()]
        return rows + [{"name": n, "value": v, "unit": ""} for n, v in self.metrics.items()]

    def _traces(self) -> list[tuple[str, str, Floats, Values, Values, str]]:
        """(population, variable, times, members, values (samples, members), unit)."""
        out = []
        with self._records("traces.h5") as file:
            for name, group in file.items():
                time, members = group["time"][:], group["members"][:].astype(np.int64)
                for variable in group:
                    if variable not in ("time", "members"):
                        data = group[variable]
                        out.append((name, variable, time, members, data[:], str(data.attrs["unit"])))
        return out

    def to_xarray(self) -> Any:
        """An xarray.Dataset with what the run has: traces `exc.v` (exc.time, exc.member), rates `exc.rate` (exc.bin),
        synapses `plastic[a->b].w` (sample, synapse), metrics (epoch); units are attributes. Raises RunError (E0939
        without xarray)."""
        xarray = package("xarray", "xarray")
        data: dict[str, Any] = {}
        coordinates: dict[str, Any] = {}
        ms = {"units": "ms"}
        if self._recorded("traces.h5"):
            for name, variable, time, members, values, unit in self._traces():
                axes = (f"{name}.time", f"{name}.member")
                coordinates |= {axes[0]: (axes[0], time, ms), axes[1]: (axes[1], members)}
                data[f"{name}.{variable}"] = (axes, values, {"units": unit})
        if self._recorded("rates.h5"):
            with self._records("rates.h5") as file:
                for name, group in file.items():
                    coordinates[f"{name}.bin"] = (f"{name}.bin", group["time"][:], ms)
                    data[f"{name}.rate"] = (f"{name}.bin", group["rate"][:], {"units": "Hz"})
        if self._recorded("synapses.h5"):
            for name, pair, s in self._all_synapses():
                own = f"{name}[{pair}]"
                coordinates[f"{own}.time"] = (f"{own}.time", s.time, ms)
                for variable, values in s.values.items():
                    axes = (f"{own}.time", f"{own}.synapse")
                    data[f"{own}.{variable}"] = (axes, values, {"units": s.units[variable]})
        if self._recorded("metrics.jsonl"):
            rows = self.history()
            coordinates["epoch"] = ("epoch", [int(r["epoch"]) for r in rows])
            for key in rows[0] if rows else ():
                if key != "epoch":
                    data[key] = ("epoch", [r.get(key, np.nan) for r in rows])
        attributes = {"name": self.record.get("name"), "seed": self.record.get("seed"), "status": self.status}
        return xarray.Dataset(data, coordinates, {k: v for k, v in attributes.items() if v is not None})

    # ------------------------------------------------------------------------------- figures and pages

    def plot(self, kind: str | None = None, **settings: Any) -> Any:
        """A matplotlib Figure. `kind` and `settings` are those of `plots` in a model: plot("psth", every="100 ms");
        without `from_`, of everything that was recorded; without a kind, the model's first plot, or the raster, traces
        or curves of the training. Raises ModelError for settings that do not fit the run; RunError (E0939 without
        matplotlib, E0912 where there is nothing to draw)."""
        package("matplotlib", "plot")
        from compiler.runtime.plots.plots import figure_of, wanted_plots
        from compiler.runtime.plots.style import drawing

        model = self.model
        wanted = wanted_plots(model)
        if kind is None and wanted:
            chosen = wanted[0]
        else:
            chosen, model = self._asked(kind or self._usual(), settings)
        window = self.record.get("recorded_steps")
        with drawing(chosen.look.style):
            figure = figure_of(self.folder, model, chosen, (window[0], window[1]) if window else None)
        if figure is None:
            raise RunError("E0912", f"this run has nothing to draw as `{chosen.kind}`")
        return figure

    def _usual(self) -> str:
        found = [kind for kind, file in (("raster", "spikes.h5"), ("trace", "traces.h5")) if self._recorded(file)]
        return found[0] if found else "training"

    def _asked(self, kind: str, settings: Mapping[str, Any]) -> tuple[l0.Plot, l0.Model]:
        """The plot, checked as one of the model's: with the text of the run's model, in place of its `plots`."""
        from compiler.frontend.load import load_model
        from compiler.runtime.artifacts.trained import data_folders

        given = {k.rstrip("_"): v for k, v in settings.items()}
        given = {**self._everything(kind), **given}
        text = (self.folder / "model.yaml").read_text(encoding="utf-8")
        text = re.sub(r"^plots:.*\n(?:[ \t#-].*\n|\n)*", "", text, flags=re.MULTILINE)
        with tempfile.TemporaryDirectory(prefix="netloom-plot-") as folder:
            path = Path(folder) / "plot.yaml"
            path.write_text(f"{text}\nplots: {json.dumps([{kind: given}])}\n", encoding="utf-8")
            places = data_folders(self.folder, self.record["model"])
            unread = frozenset({"init", "data", "weights"})
            model = load_model(path, folder=places[0], shown="the plot", unread=unread)
        return model.plots[-1], model

    def _everything(self, kind: str) -> dict[str, Any]:
        """What a plot of this kind shows when nothing is said."""
        model = self.model
        if kind in ("raster", "isi", "spectrum", "correlogram", "psth"):
            return {"from": list(dict.fromkeys(n for r in model.spikes for n in r.populations))}
        if kind == "rate":
            return {"from": [r.population for r in model.rates]}
        if kind == "trace" and model.traces:
            variable = model.traces[0].variables[0]
            return {"from": [r.population for r in model.traces if variable in r.variables], "variable": variable}
        if kind in ("histogram", "matrix", "evolution") and model.synapses:
            return {"from": model.synapses[0].projection, "variable": model.synapses[0].variables[0]}
        return {}

    def report(self, path: PathArgument) -> Path:
        """Write a report as one HTML file; its path. Raises RunError (E0930)."""
        from compiler.core.disk import write_text
        from compiler.report.page import report

        where = path_of("path", path)
        write_text(where, report([self.folder]), "the report")
        return where

    def _repr_html_(self) -> str:
        from compiler.report.page import summary

        return summary(self.folder)


def _synapses(group: Any) -> Synapses:
    ends = {end: group[k][:] for end in ("source", "target") for k in (end, f"{end}s") if k in group}
    own = [k for k in group if k not in ("time", "source", "target", "sources", "targets") and "histogram" not in k]
    units = {k: str(group[k].attrs.get("unit", "1")) for k in own}
    values = {k: group[k][:] for k in own}
    return Synapses(group["time"][:], values, units, ends.get("source"), ends.get("target"))


def _event_of(name: str) -> tuple[str, str, str]:
    """Owner, pair of populations (of neurons: the population) and event of a list in events.h5: `p[a->b].release`, or
    `a.gate`."""
    owner, bracket, rest = name.partition("[")
    if bracket:
        pair, _, event = rest.rpartition("].")
        return owner, pair, event
    population, _, event = name.rpartition(".")
    return population, population, event


def _columns(names: tuple[str, ...], parts: list[tuple[Values, ...]]) -> dict[str, Values]:
    return {n: np.concatenate([p[k] for p in parts]) if parts else np.zeros(0) for k, n in enumerate(names)}
